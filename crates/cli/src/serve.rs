//! `firn serve`: a database behind the Redis protocol.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn::Settings;
use firn_bench::args::{parse_bytes, parse_durability};
use firn_engine::Durability;
use firn_server::{Network, Password, ServeSettings, Server, raise_descriptor_limit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::database::{Access, check_directory, read_settings};
use crate::ending::{Ending, Failure, Result};
use crate::progress;

/// Files that a large database has open beside its clients' connections.
const DESCRIPTORS_OF_A_DATABASE: u64 = 2_000;

/// Serve a database to Redis clients. Needs no option; ends with SIGTERM or Ctrl-C, after closing the database.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The database's directory; made if it is not there.
    #[arg(long, value_name = "D", default_value = "firn-data")]
    dir: PathBuf,
    /// Port to listen on; 0 takes one that is free and says which.
    #[arg(long, value_name = "P", default_value_t = ServeSettings::default().port)]
    port: u16,
    /// Address to listen on. Other machines are let in only with a password, or without protected mode.
    #[arg(long, value_name = "A", default_value_t = ServeSettings::default().bind)]
    bind: IpAddr,
    /// A file whose first line is the password that clients must give (AUTH). Without it: the environment's
    /// FIRN_PASSWORD; without that none, until a user of the database has one.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Port for HTTP: metrics for Prometheus (/metrics), health (/healthz, /readyz) and a page for people (/); 0 takes one that
    /// is free and says which. Without it there is no HTTP.
    #[arg(long, value_name = "P")]
    http_port: Option<u16>,
    /// Address to listen on for HTTP. Who reaches it sees counters and names of commands, but no keys and no values.
    #[arg(long, value_name = "A", default_value_t = ServeSettings::default().bind)]
    http_bind: IpAddr,
    /// Whether connections from other machines are refused while no password is asked for.
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = parse_yes)]
    protected_mode: bool,
    /// Threads that serve connections; default one for each processor.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// How the kernel is asked for what clients send and get: `epoll`, `ring` (io_uring: fewer system calls; needs Linux 6.0,
    /// and containers often forbid it), or `auto` (what measured best so far, which is epoll).
    #[arg(long, value_name = "WORD", value_parser = parse_network, default_value = "auto")]
    network: Network,
    /// Memory for buffers and caches: 512M, 4G.
    #[arg(long, value_name = "B", value_parser = parse_bytes)]
    memory_bytes: Option<u64>,
    /// What an acknowledged write survives: `process` (kill -9) or `disk` (loss of power). Default: the settings
    /// file's word, or `process`.
    #[arg(long, value_name = "WORD", value_parser = parse_durability)]
    durability: Option<Durability>,
    /// A settings file (see `firn config`); options override it.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let failed = |what: String| Failure::new(Ending::Failed, what);
    // Before there is anything to lose, so that no signal comes too early.
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| failed(format!("cannot await signals: {error}")))?;
    let password = read_password(arguments.password_file.as_deref())?;
    let mut settings = match (&arguments.settings, arguments.memory_bytes) {
        (Some(file), memory_bytes) => {
            let settings = read_settings(file)?;
            Settings { memory_bytes: memory_bytes.unwrap_or(settings.memory_bytes), ..settings }
        }
        (None, Some(memory_bytes)) => Settings::for_memory(memory_bytes),
        (None, None) => Settings::default(),
    };
    settings.durability = arguments.durability.unwrap_or(settings.durability);
    let dir = &arguments.dir;
    check_directory(dir, Access::Create)?;
    let db = Arc::new(progress::during(&format!("opening {}", dir.display()), |_| {
        let builder = firn::Db::builder(dir).settings(settings);
        builder.open().map_err(|error| Failure::database(dir, &error))
    })?);
    let serve = ServeSettings {
        is_protected: arguments.protected_mode,
        password,
        bind: arguments.bind,
        port: arguments.port,
        threads: arguments.threads.unwrap_or_else(processors),
        network: arguments.network,
        http: arguments.http_port.map(|port| SocketAddr::new(arguments.http_bind, port)),
        dir: std::path::absolute(dir).unwrap_or_else(|_| dir.clone()),
        ..ServeSettings::default()
    };
    raise_descriptor_limit(serve.clients_max as u64 + DESCRIPTORS_OF_A_DATABASE);
    let (bind, port) = (serve.bind, serve.port);
    let with_http = serve.http.map_or(String::new(), |at| format!(", and HTTP on {at}"));
    let server = Server::start(Arc::clone(&db), serve)
        .map_err(|error| failed(format!("cannot serve on {bind}, port {port}{with_http}: {error}")))?;
    let (address, network) = (server.address(), server.network());
    let http = server.http_address().map_or(String::new(), |at| format!("; http://{at}"));
    println!("serving {} on {address}; sockets by {network}{http}; SIGTERM or Ctrl-C ends it", dir.display());
    // Whoever started us may read this through a pipe.
    let _ = std::io::stdout().flush();
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
    println!("closed {}", dir.display());
    Ok(Ending::Done)
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

fn parse_yes(word: &str) -> std::result::Result<bool, String> {
    match word {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("say yes or no".to_owned()),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn parse_network(word: &str) -> std::result::Result<Network, String> {
    match word {
        "auto" => Ok(Network::Auto),
        "ring" => Ok(Network::Ring),
        "epoll" => Ok(Network::Epoll),
        other => Err(format!("`{other}` is none of auto, ring, epoll")),
    }
}
