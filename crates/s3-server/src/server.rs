//! Listening, and passing requests on.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::sync::{Mutex, oneshot};

use crate::faults::{Counts, Fate, Faults, Plan};
use crate::grants::{Deed, Leave, User};
use crate::upload_route::UploadRoute;
use crate::uploads::{Step, Upload, id_of};

/// Where a server listens, and which keys it knows.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen.
    pub address: IpAddr,
    /// `None`: any port that is free.
    pub port: Option<u16>,
    /// What clients sign with.
    pub access_key: String,
    /// The secret of that key.
    pub secret_key: String,
    /// Other users, and what each may do; a key that is here too is held to that.
    pub users: Vec<User>,
    /// Chooses the requests that fail.
    pub seed: u64,
    /// How many uploads are told by one answer.
    pub uploads_page_max: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: None,
            access_key: "firn".to_owned(),
            secret_key: "firn-secret".to_owned(),
            users: Vec::new(),
            seed: 1,
            uploads_page_max: 1000,
        }
    }
}

/// A server, on the loopback interface if nothing else is said, on a thread of its own; it ends
/// when this is dropped. The objects stay in their directory, for the next one.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    options: ServerOptions,
    plan: Arc<Plan>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl S3Server {
    /// Serves the objects in `directory`; each directory in there is a bucket.
    ///
    /// # Errors
    /// What the system says: no such directory, or the port is taken.
    pub fn start(directory: &Path, options: ServerOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((options.address, options.port.unwrap_or(0)))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let plan = Arc::new(Plan::new(options.seed));
        let backend = Backend {
            service: service(directory, &options, &plan)?,
            directory: directory.to_owned(),
            plan: Arc::clone(&plan),
            users: options.users.clone().into(),
            writing: Arc::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("s3-server".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::spawn(accept(listener, backend));
                // Nothing is sent: it ends when the other half is dropped.
                let _dropped = ended.await;
            });
            // Ends connections too.
            runtime.shutdown_timeout(END_MAX);
        })?;
        Ok(Self { address, options, plan, end: Some(end), thread: Some(thread) })
    }

    /// Makes the bucket `name` in `directory`, which is made too.
    ///
    /// # Errors
    /// What the system says.
    pub fn make_bucket(directory: &Path, name: &str) -> io::Result<PathBuf> {
        let path = directory.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// The port, for a server that takes this one's place.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What clients have to be told, by the names of S3's own tools.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", self.options.access_key.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.options.secret_key.clone()),
        ]
    }

    /// As [`settings`](Self::settings), for one of the [users](ServerOptions::users).
    pub fn settings_of(&self, user: &User) -> [(&'static str, String); 4] {
        self.settings().map(|(name, value)| match name {
            "AWS_ACCESS_KEY_ID" => (name, user.access_key.clone()),
            "AWS_SECRET_ACCESS_KEY" => (name, user.secret_key.clone()),
            _ => (name, value),
        })
    }

    /// Requests that users had no grant for, each as `KEY ACTION RESOURCE PREFIX`. A request for
    /// what is not there, by a user that may not know that, is not among them.
    pub fn denied(&self) -> Vec<String> {
        self.plan.denied()
    }

    /// Uploads in parts that have not ended, as far as this server has seen them begin, or a part
    /// of them.
    pub fn unfinished_uploads(&self) -> Vec<Upload> {
        self.plan.unfinished_uploads()
    }

    /// Objects that were made of parts, as `BUCKET/KEY`, whether they are there still or not.
    pub fn completed_uploads(&self) -> BTreeSet<String> {
        self.plan.completed_uploads()
    }

    /// Treats requests so from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.plan.set(faults);
    }

    /// What was asked so far.
    pub fn counts(&self) -> Counts {
        self.plan.counts()
    }
}

/// Threads of files have so long to end. Each is joined: of a thread that ends detached the C
/// library (glibc 2.36) reads freed memory, which was seen to end a process.
const END_MAX: Duration = Duration::from_secs(5);

impl Drop for S3Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has failed requests, which the test has seen.
            let _ended = thread.join();
        }
    }
}

fn service(directory: &Path, options: &ServerOptions, plan: &Arc<Plan>) -> io::Result<S3Service> {
    let files = s3s_fs::FileSystem::new(directory)
        .map_err(|error| io::Error::other(format!("{}: {error:?}", directory.display())))?;
    let mut builder = S3ServiceBuilder::new(files);
    let mut keys = SimpleAuth::from_single(options.access_key.clone(), options.secret_key.clone());
    for user in &options.users {
        keys.register(user.access_key.clone(), user.secret_key.clone().into());
    }
    builder.set_auth(keys);
    builder.set_route(UploadRoute {
        plan: Arc::clone(plan),
        directory: directory.to_owned(),
        page_max: options.uploads_page_max,
    });
    Ok(builder.build())
}

/// What answers requests.
#[derive(Clone)]
struct Backend {
    service: S3Service,
    directory: PathBuf,
    plan: Arc<Plan>,
    users: Arc<[User]>,
    /// Held by the request that changes something.
    writing: Arc<Mutex<()>>,
}

async fn accept(listener: tokio::net::TcpListener, backend: Backend) {
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        // Small answers would wait for the client's acknowledgement of the one before.
        let _set = socket.set_nodelay(true);
        let backend = backend.clone();
        let answer = service_fn(move |request| answer(backend.clone(), request));
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), answer);
        tokio::spawn(async move {
            // Clients go as they like, and lost answers end here.
            let _ended = connection.await;
        });
    }
}

/// Answers one request. An error closes the connection.
async fn answer(
    Backend { service, directory, plan, users, writing }: Backend,
    request: Request<Incoming>,
) -> io::Result<Response<s3s::Body>> {
    let method = request.method().as_str().to_owned();
    let deed = Deed::of(request.method(), request.uri(), request.headers());
    let step = Step::of(request.method(), request.uri());
    let key = request.uri().path().trim_matches('/').to_owned();
    let (fate, delay) = plan.next(&method, &deed, step.as_ref());
    let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let (leave, user) = Leave::of(&users, authorization.unwrap_or_default(), &deed);
    if !leave.is_granted {
        plan.deny(format!("{user} {}", deed.shown()));
    }
    let bucket = request.uri().path().split('/').nth(1).unwrap_or_default().to_owned();
    let refusal = match fate {
        // The crate would make it.
        _ if fate == Fate::NoBucket || !directory.join(bucket).is_dir() => {
            Some((404, "NoSuchBucket", "The specified bucket does not exist"))
        }
        Fate::SlowDown => Some((503, "SlowDown", "Please reduce your request rate.")),
        Fate::Answered | Fate::Lost if !leave.is_granted => Some((403, "AccessDenied", "Access Denied")),
        Fate::Denied => Some((403, "AccessDenied", "Access Denied")),
        Fate::Full => {
            Some((507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold."))
        }
        Fate::Answered | Fate::Lost | Fate::NoBucket => None,
    };
    let answered = match refusal {
        Some((status, code, message)) => {
            // A client that is refused after sending half of it would see a broken connection
            // instead.
            let _body = request.into_body().collect().await;
            refused(status, code, message)
        }
        None => {
            // The crate checks a condition first and writes then: one at a time.
            let _alone =
                if method == "GET" || method == "HEAD" { None } else { Some(writing.lock_owned().await) };
            let mut answered = service.call(request.map(s3s::Body::from)).await;
            if let Some(step) = &step
                && answered.as_ref().is_ok_and(|answered| answered.status().is_success())
            {
                plan.note(&key, step, fate);
                if *step == Step::Begin
                    && let Ok(answer) = &mut answered
                {
                    let said = std::mem::take(answer.body_mut()).collect().await;
                    let said = said.map_err(|error| io::Error::other(error.to_string()))?.to_bytes();
                    id_of(&said).into_iter().for_each(|id| plan.begin(&key, &id));
                    *answer.body_mut() = s3s::Body::from(said);
                }
            }
            match answered.map_err(|error| io::Error::other(format!("{error:?}"))) {
                Ok(answer) if answer.status() == 404 && !leave.may_know => {
                    refused(403, "AccessDenied", "Access Denied")
                }
                answered => answered,
            }
        }
    };
    tokio::time::sleep(delay).await;
    match fate {
        Fate::Lost => Err(io::Error::other("this answer is lost")),
        _ => answered,
    }
}

/// An answer that says no.
fn refused(status: u16, code: &str, message: &str) -> io::Result<Response<s3s::Body>> {
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    Response::builder().status(status).body(s3s::Body::from(xml)).map_err(io::Error::other)
}
