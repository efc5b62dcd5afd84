//! `firn serve`: a database behind the Redis protocol.

mod options;
mod layers;
mod together;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn::{HashSettings, PointDb, Settings};
use firn_server::{DescriptorShares, Password, Ports, ServeSettings, Server, raise_descriptor_limit};
use firn_storage::{SystemClock, ThreadSpawn};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::access::Access;
use crate::build_info::BUILD;
use crate::database::{check_directory, check_division, warn_of_unseen};
use crate::ending::{Ending, Failure, Result};
use crate::http_port::{self, HttpPort};
use crate::output::announce;
use crate::progress;
use crate::secrets;
use crate::service::{Reach, WEIGHT, remote};
use crate::shared_storage::{RangeCache, SharedName, SharedStorage};
use crate::signals;
use crate::tls::ClientFiles;
pub(crate) use layers::{Effective, checked};
pub(crate) use options::Options;
use options::SHARED_CACHE_BYTES;

/// Connections by HTTP at a time, for which the server has descriptors of their own.
pub(crate) const HTTP_CONNECTIONS: usize = 64;

/// Serve a database to Redis clients. Needs no option; ends with SIGTERM or Ctrl-C, after closing
/// the database; said twice, at once.
///
/// Each option but --config and --take-over can be given in the environment as well (`--http-port`
/// as FIRN_SERVE_HTTP_PORT), or in a file's table [serve] (`http_port`). The command line goes over
/// the environment, which goes over the file; `firn config --serve` shows what comes of it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file with settings of the engine, as `firn config` prints them, and a table [serve].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Open a database on shared storage although its log lies in another directory. What was
    /// written there and is neither in a table nor acknowledged as `shared` is given up. A process
    /// that has it open there writes nothing any more. For this start alone: neither file nor
    /// environment can say it.
    #[arg(long)]
    take_over: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let failed = |what: String| Failure::new(Ending::Failed, what);
    // Before there is anything to lose, so that no signal comes too early.
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| failed(format!("cannot await signals: {error}")))?;
    // A script, or a device, may keep the server from ending: a second signal ends it at once.
    signals::twice_ends_at_once().map_err(|error| failed(format!("cannot await signals: {error}")))?;
    signals::hang_ups_end_nothing(&ThreadSpawn::new())?;
    let effective =
        Effective::new(arguments.options.clone(), std::env::vars_os(), arguments.config.as_deref())?;
    let takes_any = !effective.is_said("http_port");
    let (options, mut settings) = (effective.options, effective.settings);
    warn_of_open_secrets(&options);
    let password = read_password(options.password_file.as_deref())?;
    let (dir, mut serve) = serve_settings(&options, password);
    serve.http_takes_any = takes_any;
    let dir = &dir;
    check_directory(dir, Access::Create)?;
    check_division(dir, options.shared.as_deref())?;
    together::check(&options, arguments.take_over)?;
    let shared = shared_storage(&options, arguments.take_over);
    // As many as it may, shared out before the database is opened.
    let limit = raise_descriptor_limit(u64::MAX);
    let http = if serve.http.is_some() { HTTP_CONNECTIONS } else { 0 };
    let shares = DescriptorShares::of(limit, serve.threads, http, settings.open_files_max, serve.clients_max);
    (settings.open_files_max, serve.clients_room) = (shares.files, shares.clients);
    let wanted_http = serve.http;
    // Before the directory is made: a start that finds a port in use leaves nothing behind.
    let ports = Ports::take(&serve).map_err(|error| cannot_serve(&error))?;
    let db = open(dir, &options, (settings, effective.hash), &shared)?;
    warn_of_unseen(&db, dir)?;
    let server = Server::start_on(ports, &db, serve, Arc::new(SystemClock::new()));
    let server = server.map_err(|error| cannot_serve(&error))?;
    let (address, network) = (server.address(), server.network());
    let http = http_port::shown(wanted_http, server.http_address());
    announce(format_args!(
        "serving {} on {address}; sockets by {network}{http}; SIGTERM or Ctrl-C ends it",
        dir.display()
    ));
    let handle = signals.handle();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Nothing comes any more once the handle is closed.
            if signals.forever().next().is_some() {
                server.end();
            }
        });
        // A client may say SHUTDOWN as well.
        let ended = server.wait();
        handle.close();
        ended
    });
    ended.map_err(|error| failed(format!("a worker failed: {error}")))?;
    db.close().map_err(|error| Failure::database(dir, &error))?;
    announce(format_args!("closed {}", dir.display()));
    Ok(Ending::Done)
}

/// Opens the database, of the engine that is said or that it has.
fn open(
    dir: &Path,
    options: &Options,
    (settings, hash): (Settings, Option<HashSettings>),
    shared: &SharedStorage,
) -> Result<PointDb> {
    let failed = |what: String| Failure::new(Ending::Failed, what);
    progress::during(&format!("opening {}", dir.display()), |_| {
        let mut builder = shared.set(PointDb::builder(dir).settings(settings), Access::Create)?;
        if let Some(engine) = options.engine {
            builder = builder.engine(engine);
        }
        if let Some(hash) = hash {
            builder = builder.hash_settings(hash);
        }
        if let Some(socket) = &options.worker {
            let spawn = Arc::new(ThreadSpawn::new());
            let worker = firn::jobs::socket::Socket::new(socket, dir, spawn);
            let worker = worker.map_err(|error| failed(format!("cannot use a worker: {error}")))?;
            builder = builder.executor(Arc::new(worker));
        }
        if let Some(control_planes) = &options.control_plane {
            let location = options.shared.clone().unwrap_or_else(|| dir.display().to_string());
            builder = builder.executor(Arc::new(remote(&location, &reach(options, control_planes))?));
        }
        builder.open_points().map_err(|error| Failure::database(dir, &error))
    })
}

/// Why nothing is served, and what to do where that is clear.
fn cannot_serve(error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; end the process that has it, or name another port (--port, --http-port): 0 takes a free one"
        }
        io::ErrorKind::AddrNotAvailable => "; name an address of this machine (--bind, --http-bind)",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need privileges: name another (--port, --http-port)"
        }
        _ => "",
    };
    Failure::new(Ending::Failed, format!("cannot serve: {error}{remedy}"))
}

/// Warns of files with secrets that every user of this machine can read. Those of control planes
/// warn where they are read.
fn warn_of_open_secrets(options: &Options) {
    secrets::warn_if_open(options.password_file.as_deref(), "the password");
    secrets::warn_if_open(options.control_plane_key.as_deref(), "the key");
}

/// How the control planes are reached.
fn reach<'o>(options: &'o Options, control_planes: &'o str) -> Reach<'o> {
    let ca = options.control_plane_ca.clone();
    let (cert, key) = (options.control_plane_cert.clone(), options.control_plane_key.clone());
    Reach {
        control_planes,
        token_file: options.control_plane_token_file.as_deref(),
        tls: ClientFiles { ca, cert, key },
        zone: options.zone.as_deref(),
        tenant: options.tenant.as_deref(),
        weight: options.weight.unwrap_or(WEIGHT),
    }
}

fn shared_storage(options: &Options, take_over: bool) -> SharedStorage {
    let bytes = options.shared_cache_bytes.unwrap_or(SHARED_CACHE_BYTES);
    let cache = options.shared_cache.clone().map(|dir| RangeCache { dir, bytes });
    let name = SharedName { shared: options.shared.clone(), store_rates: options.store_rates };
    SharedStorage { name, take_over, cache }
}

/// The database's directory, and what the server is told.
fn serve_settings(options: &Options, password: Option<Password>) -> (PathBuf, ServeSettings) {
    let defaults = ServeSettings::default();
    let options = options.clone().over(Options::defaults());
    let dir = options.dir.unwrap_or_default();
    let http_bind = options.http_bind.unwrap_or(defaults.bind);
    let bytes = |said: Option<u64>, default: usize| {
        said.map_or(default, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    };
    let serve = ServeSettings {
        is_protected: options.protected_mode.unwrap_or(defaults.is_protected),
        password,
        bind: options.bind.unwrap_or(defaults.bind),
        port: options.port.unwrap_or(defaults.port),
        clients_max: options.clients_max.unwrap_or(defaults.clients_max),
        clients_room: defaults.clients_room,
        request_bytes_max: bytes(options.request_bytes_max, defaults.request_bytes_max),
        argument_bytes_max: bytes(options.argument_bytes_max, defaults.argument_bytes_max),
        unread_bytes_max: bytes(options.unread_bytes_max, defaults.unread_bytes_max),
        output_bytes_max: bytes(options.output_bytes_max, defaults.output_bytes_max),
        idle_s_max: options.idle_s_max.unwrap_or(defaults.idle_s_max),
        keepalive_s: options.keepalive_s.unwrap_or(defaults.keepalive_s),
        script_in_place_ms_max: options.script_in_place_ms_max.unwrap_or(defaults.script_in_place_ms_max),
        turn_us: defaults.turn_us,
        threads: options.threads.unwrap_or(defaults.threads),
        pins_threads: options.pin_threads.unwrap_or(defaults.pins_threads),
        network: options.network.unwrap_or(defaults.network),
        http: options.http_port.unwrap_or(HttpPort::None).at(http_bind),
        http_takes_any: defaults.http_takes_any,
        backup_dir: options.backup_dir.map(|dir| std::path::absolute(&dir).unwrap_or(dir)),
        build: BUILD,
        log_format: options.log_format.unwrap_or(defaults.log_format),
        log_level: options.log_level.unwrap_or(defaults.log_level),
        dir: std::path::absolute(&dir).unwrap_or_else(|_| dir.clone()),
    };
    (dir, serve)
}

/// The password that clients must give: of the file, else of the environment.
fn read_password(file: Option<&Path>) -> Result<Option<Password>> {
    let invalid = |what: String| Failure::new(Ending::Usage, what);
    let Some(file) = file else {
        return match std::env::var_os("FIRN_PASSWORD") {
            None => Ok(None),
            Some(text) => Password::new(text.into_encoded_bytes())
                .map(Some)
                .ok_or_else(|| invalid("FIRN_PASSWORD is empty: unset it, or put the password there".into())),
        };
    };
    let shown = file.display();
    let bytes = std::fs::read(file).map_err(|error| invalid(format!("cannot read {shown}: {error}")))?;
    let line = bytes.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    Password::new(line)
        .map(Some)
        .ok_or_else(|| invalid(format!("the first line of {shown} is empty: it is the password")))
}
