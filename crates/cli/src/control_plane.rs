//! `firn control-plane`: which job goes to which worker.

mod attend; // what is done while it runs
mod metrics; // what it counts
mod page; // what it shows to people

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use firn_job_service::control::Scheduler;
use firn_job_service::control::pool::Limits;
use firn_job_service::{ControlPlane, ControlPlaneOptions};
use firn_server::http::HttpServer;
use firn_server::{connections_within, raise_descriptor_limit};
use firn_storage::{Clock, SystemClock, ThreadSpawn};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ending::{Ending, Failure, Result};
use crate::http_port::{self, HttpPort, parse_port};
use crate::output::{announce, report};
use crate::secrets;
use crate::serve::HTTP_CONNECTIONS;
use crate::service::{draw, read_token};
use crate::service_http::{self, Said};
use crate::signals;
use crate::tls::ServerFiles;

/// Hand the jobs of databases to workers. Runs until it is ended.
///
/// Databases (`firn serve --control-plane`) hand in compactions and GCs, workers
/// (`firn worker --control-plane`) take them. It keeps nothing on disk: killed and started again,
/// it is told everything by both sides. Several may run, each of which is named to all databases
/// and workers. `firn jobs` shows what it knows.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Port to listen on; 0 takes a free one and says which.
    #[arg(long, value_name = "PORT", value_parser = parse_port, default_value_t = 7380)]
    port: u16,
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// A file whose first line databases and workers must show. Without it every client that
    /// reaches the port may ask.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: ServerFiles,
    /// Connections at a time; those beyond are closed as they come. Each database, worker and
    /// `firn jobs` has one. The system must let it have as many descriptors (`ulimit -Hn`) and some
    /// more.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections_max: u32,
    /// Port for HTTP: a page with queue, leases and workers (/), the same as JSON (/jobs), metrics
    /// for Prometheus (/metrics) and health (/health); 0 takes a free one and says which, `none`
    /// turns HTTP off. Default 9380; if that is taken, a free one.
    #[arg(long, value_name = "PORT")]
    http_port: Option<HttpPort>,
    /// Address to listen on for HTTP: what reaches it sees counters, jobs, names of tenants, of
    /// workers and of locations.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    http_bind: IpAddr,
    /// Which job goes to which worker: urgency (what stalls soonest for its length, where it is
    /// done first). To compare with: least-loaded, fifo or random.
    #[arg(long, value_name = "NAME", value_parser = parse_scheduler, default_value = "urgency")]
    scheduler: Scheduler,
}

impl Arguments {
    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind, self.port)
    }

    fn http(&self) -> Option<SocketAddr> {
        self.http_port.unwrap_or(HttpPort::CONTROL_PLANE).at(self.http_bind)
    }
}

/// What a control plane may have open beside connections of databases and workers, if the system
/// lets it. That is connections by HTTP, and files as they are read.
const DESCRIPTORS_BESIDE: u64 = 1000;

fn parse_scheduler(name: &str) -> std::result::Result<Scheduler, String> {
    let names = || Scheduler::ALL.map(Scheduler::name).join(", ");
    Scheduler::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let failed = |what: String| Failure::new(Ending::Failed, what);
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| failed(format!("cannot await signals: {error}")))?;
    signals::hang_ups_end_nothing(&ThreadSpawn::new())?;
    secrets::warn_if_open(arguments.tls.key(), "the key");
    let token = read_token(arguments.token_file.as_deref())?;
    let tls = arguments.tls.read()?;
    check_reach(arguments, tls.is_some())?;
    // The half that is cut off is as random as the other.
    let seed = draw() as u64;
    let limits = Limits { scheduler: arguments.scheduler, ..Limits::default() };
    let options = ControlPlaneOptions {
        address: arguments.address(),
        token,
        tls,
        connections_max: connections(arguments),
        limits,
        seed,
    };
    let clock = Arc::new(SystemClock::new());
    let plane = ControlPlane::start(&options, Arc::clone(&clock) as Arc<dyn Clock>, &ThreadSpawn::new())
        .map_err(|error| failed(error.to_string()))?;
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let watch = plane.watch();
    let look =
        move || Said { metrics: metrics::of(&watch.figures(), watch.connections()), is_draining: false };
    let watch = plane.watch();
    let pages = move |path: &str| page::answer(&watch, path);
    let (wanted, takes_any) = (arguments.http(), arguments.http_port.is_none());
    let http = service_http::start(wanted, takes_any, look, page::PATHS, pages)?;
    let shown = http_port::shown(wanted, http.as_ref().map(HttpServer::address));
    announce(format_args!(
        "control plane at {scheme}://{}{shown}; SIGTERM or Ctrl-C ends it",
        plane.address()
    ));
    attend::until_signal(&plane, &arguments.tls, options.tls, &*clock, &mut signals);
    // Nothing is to be saved: both sides know what it knows.
    Ok(Ending::Done)
}

/// So many connections are let in: as many as were asked for, if the system lets this process have
/// as many descriptors. If not, that is told.
fn connections(arguments: &Arguments) -> usize {
    let limit = raise_descriptor_limit(u64::from(arguments.connections_max) + DESCRIPTORS_BESIDE);
    let http = if arguments.http().is_some() { HTTP_CONNECTIONS } else { 0 };
    let (wanted, room) = (arguments.connections_max as usize, connections_within(limit, http));
    if wanted > room {
        report(format_args!(
            "firn: --connections-max is {room} and not {wanted}: the process may have {limit} descriptors, raise ulimit -Hn"
        ));
    }
    wanted.min(room)
}

/// Refuses options that let in every client, and warns of what others can read.
fn check_reach(arguments: &Arguments, is_encrypted: bool) -> Result<()> {
    let listen = arguments.address();
    if listen.ip().is_loopback() {
        return Ok(());
    }
    if arguments.token_file.is_none() && !arguments.tls.asks_for_certificates() {
        let what = format!(
            "other machines can reach {listen}: give a token with --token-file, or ask for certificates with --tls-client-ca"
        );
        return Err(Failure::new(Ending::Usage, what));
    }
    if !is_encrypted {
        report(format_args!(
            "firn: other machines can reach {listen}, and the token goes there unencrypted: give a certificate with --tls-cert and --tls-key"
        ));
    }
    Ok(())
}
