//! Ways to control planes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_storage::{Error, ErrorKind, Result};
use tonic::Status;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::runtime::Runtime;
use crate::tls::ClientTls;
use crate::token::{Attach, SharedToken};
use crate::trouble::{Asked, causes, explain};
use crate::wire::MESSAGE_BYTES_MAX;
use crate::wire::proto::jobs_client::JobsClient;
use crate::wire::proto::workers_client::WorkersClient;

type Way = InterceptedService<Channel, Attach>;

struct Plane {
    name: String,
    token: SharedToken,
    current: Mutex<Current>,
    has_answered: AtomicBool,
}

/// How a control plane is talked with now.
struct Current {
    way: Way,
    /// What is believed and shown there.
    tls: ClientTls,
    /// Why nothing newer is.
    wrong: Option<String>,
}

/// Control planes by the names that people give them.
#[derive(Clone)]
pub(crate) struct Planes {
    planes: Arc<[Plane]>,
}

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(2);

impl Planes {
    /// Those at `names`, talked with on the thread of `runtime`; connects when they are asked
    /// first.
    ///
    /// # Errors
    /// A name is none, there are none, or one says `http://` where certificates are given.
    pub(crate) fn new(
        names: &[String],
        token: &SharedToken,
        tls: &ClientTls,
        runtime: &Runtime,
    ) -> Result<Self> {
        let _inside = runtime.enter();
        if names.is_empty() {
            return Err(no_name(""));
        }
        let plane = |name: &String| {
            let current = Current { way: way(name, token, tls)?, tls: tls.clone(), wrong: None };
            Ok(Plane {
                name: name.clone(),
                token: token.clone(),
                current: Mutex::new(current),
                has_answered: AtomicBool::new(false),
            })
        };
        Ok(Self { planes: names.iter().map(plane).collect::<Result<_>>()? })
    }

    /// How many there are; at least one.
    pub(crate) fn count(&self) -> usize {
        self.planes.len()
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        self.planes.get(index).map_or("", |plane| &plane.name)
    }

    /// It has answered.
    pub(crate) fn heard(&self, index: usize) {
        if let Some(plane) = self.planes.get(index) {
            plane.has_answered.store(true, Ordering::Relaxed);
        }
    }

    /// It has not answered: the next question goes with the certificates that there are by then.
    /// MUST be called within the runtime.
    pub(crate) fn renew(&self, index: usize) {
        if let Some(plane) = self.planes.get(index) {
            plane.renew();
        }
    }

    /// What went wrong with it, and what can be done.
    pub(crate) fn explain(&self, index: usize, status: &Status) -> String {
        let Some(plane) = self.planes.get(index) else { return String::new() };
        let current = plane.lock();
        let asked = Asked {
            is_encrypted: plane.name.starts_with("https:"),
            has_identity: current.tls.identity.is_some(),
            has_answered: plane.has_answered.load(Ordering::Relaxed),
        };
        let why = explain(asked, status);
        match &current.wrong {
            Some(wrong) => format!("{why}; what was renewed is not used: {wrong}"),
            None => why,
        }
    }

    fn way(&self, index: usize) -> Option<Way> {
        self.planes.get(index).map(|plane| plane.lock().way.clone())
    }

    /// As a database. To be asked for before each question or some: a renewed certificate is shown
    /// by the next one.
    pub(crate) fn jobs(&self, index: usize) -> Option<JobsClient<Way>> {
        self.way(index).map(|way| JobsClient::new(way).max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// As a worker.
    pub(crate) fn workers(&self, index: usize) -> Option<WorkersClient<Way>> {
        self.way(index).map(|way| WorkersClient::new(way).max_decoding_message_size(MESSAGE_BYTES_MAX))
    }
}

impl Plane {
    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether there is something else to believe or to show. What is wrong with that changes
    /// nothing, but is told with what goes wrong.
    fn renew(&self) {
        let mut current = self.lock();
        let Some(source) = current.tls.source.clone() else { return };
        let fresh = source.look().and_then(|tls| match tls.is_same(&current.tls) {
            true => Ok(None),
            false => Ok(Some((way(&self.name, &self.token, &tls)?, tls))),
        });
        match fresh {
            Ok(None) => current.wrong = None,
            Ok(Some((way, tls))) => {
                *current = Current { way, tls: ClientTls { source: Some(source), ..tls }, wrong: None };
            }
            Err(error) => current.wrong = Some(error.to_string()),
        }
    }
}

/// A way to the control plane called `name`, not yet connected.
fn way(name: &str, token: &SharedToken, tls: &ClientTls) -> Result<Way> {
    Ok(InterceptedService::new(endpoint(name, tls)?.connect_lazy(), token.attach()))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, "", message)
}

fn no_name(name: &str) -> Error {
    invalid(format!("expected http://HOST:PORT or https://HOST:PORT of a control plane, found {name:?}"))
}

/// How the control plane called `name` is talked with.
fn endpoint(name: &str, tls: &ClientTls) -> Result<Endpoint> {
    let endpoint = Endpoint::from_shared(name.to_owned()).map_err(|_| no_name(name))?;
    let endpoint = match endpoint.uri().scheme_str() {
        Some("http") if tls.is_said() => {
            let what = format!("{name} is talked with unencrypted, and certificates are given: say https://");
            return Err(invalid(what));
        }
        Some("http") => endpoint,
        Some("https") => endpoint.tls_config(tls.config()).map_err(|error| {
            let why = causes(&error);
            // What was given has been looked at: it is the system that has none.
            invalid(format!("cannot use {name}: {why}: name the control plane's CA with --control-plane-ca"))
        })?,
        // Without a scheme the connection would fail, and not say why.
        _ => return Err(no_name(name)),
    };
    Ok(endpoint
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(false))
}

/// Whether the control plane has answered, and will answer the same again.
pub(crate) fn is_answer(status: &Status) -> bool {
    use tonic::Code;
    matches!(
        status.code(),
        Code::Unauthenticated
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::InvalidArgument
            | Code::ResourceExhausted
            | Code::OutOfRange
            | Code::Unimplemented
    )
}
