//! `firn worker`: jobs of databases, in a process of its own.

mod metrics; // what it counts

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firn::jobs::socket::{Report, serve};
use firn_engine::Semantics;
use firn_job_service::{Worker, WorkerOptions};
use firn_server::http::HttpServer;
use firn_server::raise_descriptor_limit;
use firn_storage::{Clock, Spawn, SystemClock, ThreadSpawn};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::build_info;
use crate::ending::{Ending, Failure, Result};
use crate::http_port::{self, HttpPort};
use crate::output::{announce, report};
use crate::secrets;
use crate::service::{Allowed, draw, read_token, urls, warn_of_plain_token};
use crate::service_http::{self, Said};
use crate::signals;
use crate::store_rates::StoreRates;
use crate::tls::ClientFiles;

/// Work for databases: compact their tables and collect their blob segments in this process. Runs
/// until it is ended.
///
/// With --control-plane it takes the jobs of any number of databases whose files it reaches, on any
/// machine. It reads the files that a job names and creates others beside them; it removes and
/// changes nothing. SIGTERM or Ctrl-C: it takes no more jobs and ends with the last one it has;
/// said twice, it ends at once. It may be killed at any time.
///
/// With --socket it works for databases on this machine that were started with the socket
/// (`firn serve --worker`), and do themselves what this process does not. It reads and writes their
/// directories as they say; the socket is for the user that started it alone.
///
/// Give it processors of its own (`taskset`) or a lower priority (`nice`) to keep that work away
/// from a database's clients.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("for").required(true))]
pub(crate) struct Arguments {
    /// http://HOST:PORT or https://HOST:PORT of a `firn control-plane`; of several, with commas
    /// between them.
    #[arg(long, value_name = "URL,...", group = "for", requires = "within")]
    control_plane: Option<String>,
    /// A location that it may touch, and what lies in it: a directory, s3://BUCKET/PREFIX, ... May
    /// be said several times.
    #[arg(long, value_name = "LOCATION")]
    within: Vec<String>,
    /// How much the object stores among them are asked in a second, at most, all jobs together: any
    /// of reads=N, writes=N, lists=N, removals=N (requests), read-bytes=B and write-bytes=B, with
    /// commas between them: reads=500,write-bytes=20M. Of requests 1 to 1M, of bytes 1M to 1T;
    /// after a rest a second's worth goes at once, and what is more waits. Default: no limits.
    #[arg(long, value_name = "RATES", requires = "control_plane")]
    store_rates: Option<StoreRates>,
    /// The file with the control planes' token.
    #[arg(long, value_name = "FILE", requires = "control_plane")]
    control_plane_token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: ClientFiles,
    /// What people call it. Default: the process's number.
    #[arg(long, value_name = "NAME", requires = "control_plane")]
    name: Option<String>,
    /// Where it is: jobs at locations of the same zone are near, and so are those whose databases
    /// say none. Default: near to all.
    #[arg(long, value_name = "NAME", requires = "control_plane")]
    zone: Option<String>,
    /// Port for HTTP: metrics for Prometheus (/metrics) and health (/health: ready or draining); 0
    /// takes a free one and says which. Without it there is no HTTP.
    #[arg(long, value_name = "PORT", requires = "control_plane")]
    http_port: Option<HttpPort>,
    /// Address to listen on for HTTP.
    #[arg(long, value_name = "ADDRESS", requires = "http_port", default_value = "127.0.0.1")]
    http_bind: IpAddr,
    /// The socket to listen on; made if it is missing, taken over if no process listens.
    #[arg(long, value_name = "FILE", group = "for")]
    socket: Option<PathBuf>,
    /// Jobs at a time; with a socket, for each database.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
}

/// Files and connections that a worker may have open, if the system lets it: each job has all of
/// its inputs open.
const DESCRIPTORS: u64 = 65_536;

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    raise_descriptor_limit(DESCRIPTORS);
    signals::hang_ups_end_nothing(&ThreadSpawn::new())?;
    secrets::warn_if_open(arguments.tls.key.as_deref(), "the key");
    match (&arguments.control_plane, &arguments.socket) {
        (Some(urls), _) => pull(arguments, urls),
        (None, Some(_)) if arguments.tls.is_said() => {
            let what = "a socket of this machine needs no certificates: they go with --control-plane";
            Err(Failure::new(Ending::Usage, what))
        }
        (None, Some(path)) => listen_at(path, arguments.threads),
        // The command line asks for one of them.
        (None, None) => Err(Failure::new(Ending::Usage, "expected --control-plane or --socket")),
    }
}

/// How often signals and troubles are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Takes jobs of control planes.
fn pull(arguments: &Arguments, control_planes: &str) -> Result<Ending> {
    let failed = |what: String| Failure::new(Ending::Failed, what);
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| failed(format!("cannot await signals: {error}")))?;
    let name = arguments.name.clone().unwrap_or_else(|| format!("worker-{}", std::process::id()));
    let mut options = WorkerOptions::new(urls(control_planes), &name, draw());
    options.token = read_token(arguments.control_plane_token_file.as_deref())?;
    options.tls = arguments.tls.read()?;
    if arguments.control_plane_token_file.is_some() {
        warn_of_plain_token(control_planes);
    }
    options.zone = arguments.zone.clone().unwrap_or_default();
    options.slots = u32::from(arguments.threads);
    options.build = build_info::name();
    let rates = arguments.store_rates.unwrap_or_default();
    rates.check_jobs(arguments.threads).map_err(|why| Failure::new(Ending::Usage, why))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let backends = Arc::new(Allowed::new(&arguments.within, arguments.store_rates)?);
    // Operators, filters and extractors are code of programs that own databases: what needs them
    // goes to others.
    let semantics = Arc::new(Semantics::new());
    let worker = Worker::start(options, backends, semantics, Arc::clone(&clock), &ThreadSpawn::new())
        .map_err(|error| Failure::new(Ending::Usage, error.to_string()))?;
    let watch = worker.watch();
    let look = move || {
        let figures = watch.figures().unwrap_or_default();
        Said { metrics: metrics::of(&figures), is_draining: figures.is_draining }
    };
    let wanted = arguments.http_port.unwrap_or(HttpPort::None).at(arguments.http_bind);
    let http = service_http::start(wanted, false, look, "", |_| None)?;
    let shown = http_port::shown(wanted, http.as_ref().map(HttpServer::address));
    announce(format_args!(
        "{name} works for {control_planes}{shown}; SIGTERM or Ctrl-C ends it once its jobs are done"
    ));
    Ok(attend(&worker, &name, &*clock, &mut signals))
}

/// Reports what goes wrong, until the worker has ended as signals say.
fn attend(worker: &Worker, name: &str, clock: &dyn Clock, signals: &mut Signals) -> Ending {
    let (mut reported, mut is_draining) = (BTreeMap::new(), false);
    loop {
        clock.sleep(LOOK);
        let troubles = worker.troubles();
        for (plane, trouble) in
            troubles.iter().filter(|(plane, trouble)| reported.get(*plane) != Some(*trouble))
        {
            report(format_args!("firn: {plane}: {trouble}"));
        }
        reported = troubles;
        for line in worker.take_log() {
            report(format_args!("firn: {line}"));
        }
        for _signal in signals.pending() {
            if is_draining {
                return Ending::Done;
            }
            is_draining = true;
            worker.drain();
            report(format_args!(
                "firn: {name} takes no more jobs and ends with the last of {}",
                worker.job_count()
            ));
        }
        if is_draining && worker.is_drained() {
            return Ending::Done;
        }
    }
}

/// Works for databases of this machine.
fn listen_at(path: &Path, threads: u16) -> Result<Ending> {
    let listener = listen(path)?;
    announce(format_args!(
        "working for each database that connects to {}; SIGTERM or Ctrl-C ends it",
        path.display()
    ));
    let spawn: Arc<dyn Spawn> = Arc::new(ThreadSpawn::new());
    // Operators, filters and extractors are code of programs that own databases: what needs them is
    // refused.
    let semantics = Arc::new(Semantics::new());
    let report: Report = Arc::new(|what: &str| report(format_args!("firn: {what}")));
    serve(&listener, &semantics, usize::from(threads), &spawn, &SystemClock::new(), &report)
}

/// Listens at `path`, where no other process listens.
fn listen(path: &Path) -> Result<UnixListener> {
    let failed = |error: std::io::Error| Failure::file("listen on", path, &error);
    let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
    if is_socket {
        if UnixStream::connect(path).is_ok() {
            let what =
                format!("another process listens on {}: end it, or name another socket", path.display());
            return Err(Failure::new(Ending::InUse, what));
        }
        // A worker that was killed has left it.
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // It writes wherever it is told to.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}
