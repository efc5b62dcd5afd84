//! What a server is started with.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::bounds::TURN_US;
use crate::log::{LogFormat, LogLevel};

/// Settings of a server, apart from its database's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeSettings {
    /// Address to listen on. Default 127.0.0.1.
    pub bind: IpAddr,
    /// Port to listen on; 0 = one that is free. Default 6379.
    pub port: u16,
    /// The database's directory, as clients that ask for it are told. Default: none.
    pub dir: PathBuf,
    /// Server threads, each with its own connections. Default 1; at least 1.
    pub threads: usize,
    /// Whether each server thread stays on a processor of its own, where there are as many as
    /// processors (and more than one). Default yes.
    pub pins_threads: bool,
    /// How the kernel is asked for what connections send and get. Default [`Network::Auto`].
    pub network: Network,
    /// Connections at a time; more are told so and closed. Default 10 000.
    pub clients_max: usize,
    /// Connections that the process has descriptors for
    /// ([`DescriptorShares`](crate::DescriptorShares)); `clients_max` is lowered to it, which the
    /// log, `INFO` and metrics tell. Default: no limit is known.
    pub clients_room: usize,
    /// Bytes of one request, of what is queued behind `MULTI`, and of the replies of `EXEC`. Also
    /// of the names that a client watches, waits for and is subscribed to. A connection with more
    /// is told so and closed; an `EXEC` with more is refused. Default 1 GiB.
    pub request_bytes_max: usize,
    /// Bytes of replies that were not read by their client, above which none of its requests are
    /// executed. Default 1 MiB.
    pub unread_bytes_max: usize,
    /// Bytes of one argument; a connection that sends a longer one is told so and closed. Default
    /// 512 MiB.
    pub argument_bytes_max: usize,
    /// Bytes of replies and messages that were not read by their client, above which a message
    /// closes the connection. Default 32 MiB.
    pub output_bytes_max: usize,
    /// Seconds after which a connection that says nothing, and waits for nothing, is closed; 0 =
    /// never. Default 0.
    pub idle_s_max: u64,
    /// Milliseconds for which a script may run without a break where it cannot be suspended; then
    /// it ends with an error. Such places are one call of a metamethod, or of what `for` calls. Its
    /// server thread serves nothing else meanwhile. Default 5000.
    pub script_in_place_ms_max: u64,
    /// Microseconds of one command's work after which others of its server thread have a turn. With
    /// 0, as tests want it, they have one each time that the clock is looked at, about 32 KiB of
    /// work apart. Default 2000.
    pub turn_us: u64,
    /// Seconds after which the system asks a silent connection's other side whether it is there; 0
    /// = never. Default 300.
    pub keepalive_s: u32,
    /// Whether connections from other machines are refused while the default user has no password.
    /// Default yes.
    pub is_protected: bool,
    /// Where metrics, health and a page for people are served by HTTP; port 0 = one that is free.
    /// Default: nowhere.
    pub http: Option<SocketAddr>,
    /// Whether a free port is taken for HTTP where another process has that of `http`. Default no.
    pub http_takes_any: bool,
    /// The folder that backups are made in when that is asked for by HTTP, an absolute path on the
    /// database's file system. Default: none, and no backups.
    pub backup_dir: Option<PathBuf>,
    /// Which program serves, as INFO, metrics and the page tell it. Default unknown.
    pub build: Build,
    /// Format of the log, which goes to standard error. Default text.
    pub log_format: LogFormat,
    /// What is logged. Default: nothing.
    pub log_level: LogLevel,
    /// The password of the default user. `None`: what the database's users say, at first that none
    /// is needed.
    pub password: Option<Password>,
}

/// Which build of which release a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The release.
    pub version: &'static str,
    /// A short hash of the commit it is built of, with `-dirty` where files differed from it; or
    /// `unknown`.
    pub commit: &'static str,
}

impl Build {
    /// Of a program that does not say.
    pub const UNKNOWN: Self = Self { version: "0.0.0", commit: "unknown" };

    const DIRTY: &'static str = "-dirty";

    /// The first eight digits of the commit, as Redis tells them; zeros if it is unknown.
    pub(crate) fn sha1(&self) -> &'static str {
        let digits =
            self.commit.get(..8).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        digits.unwrap_or("00000000")
    }

    /// Whether files differed from the commit.
    pub(crate) fn is_dirty(&self) -> bool {
        self.commit.ends_with(Self::DIRTY)
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.commit)
    }
}

/// A password. It does not show what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Vec<u8>);

impl Password {
    /// The password `text`, which is not empty.
    pub fn new(text: impl Into<Vec<u8>>) -> Option<Self> {
        let text = text.into();
        (!text.is_empty()).then_some(Self(text))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 6379,
            dir: PathBuf::new(),
            threads: 1,
            pins_threads: true,
            network: Network::Auto,
            clients_max: 10_000,
            clients_room: usize::MAX,
            request_bytes_max: 1 << 30,
            unread_bytes_max: 1 << 20,
            argument_bytes_max: 512 << 20,
            output_bytes_max: 32 << 20,
            idle_s_max: 0,
            script_in_place_ms_max: 5000,
            turn_us: TURN_US,
            keepalive_s: 300,
            is_protected: true,
            http: None,
            http_takes_any: false,
            backup_dir: None,
            build: Build::UNKNOWN,
            log_format: LogFormat::Text,
            log_level: LogLevel::Off,
            password: None,
        }
    }
}

/// Interfaces of the kernel to sockets. Clients see no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// The one that is to be preferred by what was measured: epoll, as long as a ring saves nothing
    /// that shows.
    #[default]
    Auto,
    /// io_uring: one system call for all that is received, sent and waited for in a round. Needs
    /// Linux 6.0, and containers often forbid it.
    Ring,
    /// epoll: a system call for each thing received or sent.
    Epoll,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Ring => "io_uring",
            Self::Epoll => "epoll",
        })
    }
}
