//! What `firn serve` can be told, each thing in three ways: in a file, in the environment, on the
//! command line.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use firn::EngineKind;
use firn_bench::args::parse_durability;
use firn_engine::Durability;
use firn_engine::settings::parse_bytes;
use firn_server::{LogFormat, LogLevel, Network, ServeSettings};

use crate::database::DIR;
use crate::http_port::{HttpPort, parse_port};
use crate::service::{WEIGHT, parse_tenant, parse_weight};
use crate::store_rates::StoreRates;

/// What a cache of shared storage may take if no size is given.
pub(super) const SHARED_CACHE_BYTES: u64 = 4 << 30;

/// More the system does not take.
const KEEPALIVE_S_MAX: i64 = 32_767;

/// Declares the options once: for the command line, for laying one over another, and for showing
/// them.
macro_rules! options {
    ($( $(#[$attribute:meta])* $name:ident: $type:ty; )+) => {
        /// What was said of each option; `None` = nothing.
        #[derive(clap::Args, Clone, Debug, Default, PartialEq)]
        pub(crate) struct Options { $( $(#[$attribute])* pub(super) $name: Option<$type>, )+ }

        impl Options {
            /// The names of all, as files write them.
            pub(super) const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// What is said here, and for the rest what `below` says.
            pub(super) fn over(self, below: Self) -> Self {
                Self { $($name: self.$name.or(below.$name)),+ }
            }

            /// What is said of each, as a file has it.
            pub(super) fn values(&self) -> Vec<(&'static str, Option<toml::Value>)> {
                vec![$((stringify!($name), self.$name.as_ref().map(Shown::shown))),+]
            }
        }
    };
}

options! {
    /// The database's directory; made if it is not there. Default firn-data.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf;
    /// The engine of a new database: `tree` keeps keys in order and serves every type; `hashlog`
    /// serves strings, counters and bits, with less processor time, and refuses what needs order:
    /// hashes, lists, sets, sorted sets. Of a database that is there: must be its own. Default: its
    /// own, and tree for a new one.
    #[arg(long, value_name = "NAME", value_parser = parse_engine)]
    engine: EngineKind;
    /// Where tables, sealed blob segments and the manifest lie, if that is not the directory too:
    /// a directory that several machines mount, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or
    /// az://CONTAINER/PREFIX. The directory keeps the log. Endpoint, region and credentials are the
    /// environment's, by the names that the stores' own tools use (AWS_ENDPOINT, AWS_REGION,
    /// AWS_ACCESS_KEY_ID, ...).
    #[arg(long, value_name = "LOCATION")]
    shared: String;
    /// A directory of this machine for parts of what lies there, so that what is read again is not
    /// asked for again; it begins empty. Of files that are mapped nothing is kept. Without it none
    /// is.
    #[arg(long, value_name = "DIR")]
    shared_cache: PathBuf;
    /// Bytes that it may take: 512M, 40G. Default 4 GiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    shared_cache_bytes: u64;
    /// How much an object store is asked in a second, at most: any of reads=N, writes=N, lists=N,
    /// removals=N (requests), read-bytes=B and write-bytes=B, with commas between them:
    /// reads=500,write-bytes=20M. Of requests 1 to 1M, of bytes 1M to 1T; after a rest a second's
    /// worth goes at once, and what is more waits. Default: no limits. For --shared in an object
    /// store only.
    #[arg(long, value_name = "RATES")]
    store_rates: StoreRates;
    /// Port to listen on; 0 takes a free one and says which. Default 6379.
    #[arg(long, value_name = "PORT", value_parser = parse_port)]
    port: u16;
    /// Address to listen on; other machines are let in only with a password, or without protected
    /// mode. Default 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    bind: IpAddr;
    /// A file whose first line is the password that clients must give (AUTH). Without it: the
    /// environment's FIRN_PASSWORD; without that none, until a user of the database has one.
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf;
    /// Port for HTTP: metrics for Prometheus (/metrics), health (/healthz, /readyz) and a page for
    /// people (/); 0 takes a free one and says which, `none` turns HTTP off. Default 9379; if that
    /// is taken, a free one.
    #[arg(long, value_name = "PORT")]
    http_port: HttpPort;
    /// Address to listen on for HTTP: what reaches it sees counters and names of commands, but no
    /// keys and no values. Default 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    http_bind: IpAddr;
    /// The socket of a `firn worker` on this machine, which then compacts tables and collects blob
    /// segments. What it does not do, or while it is not there, is done here. Without it all is.
    #[arg(long, value_name = "FILE")]
    worker: PathBuf;
    /// http://HOST:PORT or https://HOST:PORT of a `firn control-plane`, of several with commas
    /// between them: its workers compact tables and collect blob segments. What they do not do is
    /// done here. They must reach the files: those of `--shared`, or else the directory. Without it
    /// all is done here.
    #[arg(long, value_name = "URL,...")]
    control_plane: String;
    /// The file with the control planes' token.
    #[arg(long, value_name = "FILE")]
    control_plane_token_file: PathBuf;
    /// For https://: the certificate, in PEM, of the CA that has signed the control planes'; of
    /// several, one behind the other in the file. The system's are not believed then. Without it
    /// they are.
    #[arg(long, value_name = "FILE")]
    control_plane_ca: PathBuf;
    /// The certificate, in PEM, to show to control planes that ask for one; then those that lead
    /// from it to its CA. Goes with --control-plane-key.
    #[arg(long, value_name = "FILE")]
    control_plane_cert: PathBuf;
    /// Its key, in PEM.
    #[arg(long, value_name = "FILE")]
    control_plane_key: PathBuf;
    /// Where those files are near to: workers of the same zone are preferred as far as they are
    /// faster. Default: near to all.
    #[arg(long, value_name = "NAME")]
    zone: String;
    /// Whose share of the workers its jobs count to, where databases of several wait; 1 to 256
    /// bytes. Those of one name have one share together. Default: the location of its files, so
    /// that each database has its own.
    #[arg(long, value_name = "NAME", value_parser = parse_tenant)]
    tenant: String;
    /// How much that share weighs, 0.001 to 1000: of two that wait, twice the weight is twice the
    /// share. Of databases of one tenant the last that said it counts. Default 1.
    #[arg(long, value_name = "N", value_parser = parse_weight)]
    weight: f64;
    /// A folder for backups that `firn backup --server` asks for, on the database's file system.
    /// Without it none are made.
    #[arg(long, value_name = "DIR")]
    backup_dir: PathBuf;
    /// Whether connections from other machines are refused while no password is asked for. Default
    /// yes.
    #[arg(long, value_name = "yes|no", value_parser = parse_yes)]
    protected_mode: bool;
    /// Connections at a time; more are told so and closed. Default 10000.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    clients_max: usize;
    /// Bytes of one request, of what waits behind MULTI, and of the names a client watches, waits
    /// for and is subscribed to. A connection with more is told so and closed. Of the replies of
    /// EXEC too, which is refused with more. Default 1 GiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    request_bytes_max: u64;
    /// Bytes of one argument; a connection that sends more is told so and closed. Default 512 MiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    argument_bytes_max: u64;
    /// Bytes of replies that a client has not read, above which none of its requests are executed.
    /// Default 1 MiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    unread_bytes_max: u64;
    /// Bytes of replies and messages that a client has not read, above which the next message
    /// closes its connection. Default 32 MiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_limit)]
    output_bytes_max: u64;
    /// Seconds after which a connection that says nothing is closed; 0 = never. Default 0.
    #[arg(long, value_name = "SECONDS")]
    idle_s_max: u64;
    /// Seconds after which the system asks a silent connection's other side whether it is there, at
    /// most 32767; 0 = never. Default 300.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(..=KEEPALIVE_S_MAX))]
    keepalive_s: u32;
    /// Milliseconds after which a script ends that runs for so long without a break where it cannot
    /// be suspended, as in one call of a metamethod. Default 5000.
    #[arg(long, value_name = "MS")]
    script_in_place_ms_max: u64;
    /// Threads that serve connections, at least 1. Default one for each processor.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    threads: usize;
    /// Whether each of them stays on a processor of its own, where there are as many as processors.
    /// Default yes.
    #[arg(long, value_name = "yes|no", value_parser = parse_yes)]
    pin_threads: bool;
    /// How the kernel is asked for what clients send and get: `epoll`, `ring` (io_uring: fewer
    /// system calls; needs Linux 6.0, and containers often forbid it), or `auto` (what measured
    /// best so far, which is epoll). Default auto.
    #[arg(long, value_name = "NAME", value_parser = parse_network)]
    network: Network;
    /// Memory for buffers and caches: 512M, 4G. Default: the engine's.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_bytes: u64;
    /// What an acknowledged write survives: `process` (kill -9), `disk` (loss of power) or `shared`
    /// (loss of the machine; with --shared). Default: the engine's.
    #[arg(long, value_name = "NAME", value_parser = parse_durability)]
    durability: Durability;
    /// How lines of the log on standard error look: `text` or `json`. Default text.
    #[arg(long, value_name = "NAME", value_parser = parse_log_format)]
    log_format: LogFormat;
    /// What is logged: `off`, `error`, `warn` (refused connections, slow commands, stalls as well)
    /// or `info` (beginning and end as well). Default info.
    #[arg(long, value_name = "NAME", value_parser = parse_log_level)]
    log_level: LogLevel;
}

impl Options {
    /// What holds where nothing is said. The engine's own settings have their own defaults.
    pub(super) fn defaults() -> Self {
        let defaults = ServeSettings::default();
        Self {
            dir: Some(DIR.into()),
            shared: None,
            shared_cache: None,
            shared_cache_bytes: Some(SHARED_CACHE_BYTES),
            port: Some(defaults.port),
            bind: Some(defaults.bind),
            http_bind: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            protected_mode: Some(defaults.is_protected),
            clients_max: Some(defaults.clients_max),
            request_bytes_max: Some(defaults.request_bytes_max as u64),
            argument_bytes_max: Some(defaults.argument_bytes_max as u64),
            unread_bytes_max: Some(defaults.unread_bytes_max as u64),
            output_bytes_max: Some(defaults.output_bytes_max as u64),
            idle_s_max: Some(defaults.idle_s_max),
            keepalive_s: Some(defaults.keepalive_s),
            script_in_place_ms_max: Some(defaults.script_in_place_ms_max),
            pin_threads: Some(defaults.pins_threads),
            threads: Some(std::thread::available_parallelism().map_or(1, usize::from)),
            network: Some(defaults.network),
            log_format: Some(LogFormat::Text),
            log_level: Some(LogLevel::Info),
            engine: None,
            password_file: None,
            http_port: Some(HttpPort::SERVE),
            backup_dir: None,
            worker: None,
            control_plane: None,
            control_plane_token_file: None,
            control_plane_ca: None,
            control_plane_cert: None,
            control_plane_key: None,
            zone: None,
            tenant: None,
            weight: Some(WEIGHT),
            store_rates: None,
            memory_bytes: None,
            durability: None,
        }
    }
}

/// A value as a file has it.
trait Shown {
    fn shown(&self) -> toml::Value;
}

macro_rules! shown {
    ($($type:ty: |$value:ident| $shown:expr;)+) => {
        $(impl Shown for $type {
            fn shown(&self) -> toml::Value {
                let $value = self;
                toml::Value::from($shown)
            }
        })+
    };
}

shown! {
    PathBuf: |it| it.display().to_string();
    String: |it| it.as_str();
    IpAddr: |it| it.to_string();
    u16: |it| i64::from(*it);
    u32: |it| i64::from(*it);
    usize: |it| i64::try_from(*it).unwrap_or(i64::MAX);
    f64: |it| *it;
    StoreRates: |it| it.to_string();
    HttpPort: |it| match it { HttpPort::None => toml::Value::from("none"), HttpPort::At(port) => i64::from(*port).into() };
    u64: |it| i64::try_from(*it).unwrap_or(i64::MAX);
    bool: |it| if *it { "yes" } else { "no" };
    Network: |it| match it { Network::Auto => "auto", Network::Ring => "ring", Network::Epoll => "epoll" };
    EngineKind: |it| it.name();
    Durability: |it| it.name();
    LogFormat: |it| match it { LogFormat::Text => "text", LogFormat::Json => "json" };
    LogLevel: |it| match it {
        LogLevel::Off => "off", LogLevel::Error => "error", LogLevel::Warn => "warn", LogLevel::Info => "info",
    };
}

/// Bytes that something may have at most. There is no word for "no limit": that would be as many as
/// there can be.
fn parse_limit(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|error| error.to_string())? {
        0 => Err("a limit of 0 bytes lets nothing through; leave the option out for its default".to_owned()),
        bytes => Ok(bytes),
    }
}

fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_yes(word: &str) -> Result<bool, String> {
    one_of(word, &[("yes", true), ("no", false)])
}

fn parse_engine(word: &str) -> Result<EngineKind, String> {
    one_of(word, &EngineKind::ALL.map(|engine| (engine.name(), engine)))
}

fn parse_network(word: &str) -> Result<Network, String> {
    one_of(word, &[("auto", Network::Auto), ("ring", Network::Ring), ("epoll", Network::Epoll)])
}

fn parse_log_format(word: &str) -> Result<LogFormat, String> {
    one_of(word, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
}

fn parse_log_level(word: &str) -> Result<LogLevel, String> {
    let (off, error) = (("off", LogLevel::Off), ("error", LogLevel::Error));
    one_of(word, &[off, error, ("warn", LogLevel::Warn), ("info", LogLevel::Info)])
}

fn one_of<T: Copy>(word: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("`{word}` is none of {}", names.join(", "))
    })
}
