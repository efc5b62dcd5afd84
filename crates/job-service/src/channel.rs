//! Ways to control planes.

use std::error::Error as _;
use std::time::Duration;

use firn_storage::{Error, ErrorKind, Result};
use tonic::Status;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::runtime::Runtime;
use crate::token::{Attach, SharedToken};
use crate::wire::MESSAGE_BYTES_MAX;
use crate::wire::proto::jobs_client::JobsClient;
use crate::wire::proto::workers_client::WorkersClient;

type Way = InterceptedService<Channel, Attach>;

/// Control planes by the names that people give them.
#[derive(Clone)]
pub(crate) struct Planes {
    ways: Vec<(String, Way)>,
}

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(2);

impl Planes {
    /// Those at `names`, talked with on the thread of `runtime`; connects when they are asked first.
    ///
    /// # Errors
    /// A name is none, or there are none.
    pub(crate) fn new(names: &[String], token: &SharedToken, runtime: &Runtime) -> Result<Self> {
        let _inside = runtime.enter();
        let wrong = |name: &str| {
            let message = format!("expected http://HOST:PORT of a control plane, found {name:?}");
            Error::new(ErrorKind::Invalid, "", message)
        };
        if names.is_empty() {
            return Err(wrong(""));
        }
        let way = |name: &String| {
            let endpoint = Endpoint::from_shared(name.clone()).ok();
            // Without a scheme the connection would fail, and not say why.
            let endpoint =
                endpoint.filter(|one| one.uri().scheme_str() == Some("http")).ok_or_else(|| wrong(name))?;
            let endpoint = endpoint
                .connect_timeout(CONNECT_MAX)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(5))
                .keep_alive_while_idle(false);
            Ok((name.clone(), InterceptedService::new(endpoint.connect_lazy(), token.attach())))
        };
        Ok(Self { ways: names.iter().map(way).collect::<Result<_>>()? })
    }

    /// How many there are; at least one.
    pub(crate) fn count(&self) -> usize {
        self.ways.len()
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        self.ways.get(index).map_or("", |(name, _)| name)
    }

    fn way(&self, index: usize) -> Option<Way> {
        self.ways.get(index).map(|(_, way)| way.clone())
    }

    /// As a database.
    pub(crate) fn jobs(&self, index: usize) -> Option<JobsClient<Way>> {
        self.way(index).map(|way| JobsClient::new(way).max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// As a worker.
    pub(crate) fn workers(&self, index: usize) -> Option<WorkersClient<Way>> {
        self.way(index).map(|way| WorkersClient::new(way).max_decoding_message_size(MESSAGE_BYTES_MAX))
    }
}

/// What went wrong, with its causes.
pub(crate) fn explain(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
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
