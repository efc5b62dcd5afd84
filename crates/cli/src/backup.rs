//! `firn backup`: a copy of a database as of one moment.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use firn::PointDb;

use crate::access::Access;
use crate::config_file::Config;
use crate::database::{DIR, check_directory, check_division};
use crate::ending::{Ending, Failure, Result};
use crate::output::announce;
use crate::progress;
use crate::shared_storage::{SharedName, SharedStorage};

/// How long a server may take for a backup: it waits for a sync, links files, and copies what lies
/// on shared storage.
const ANSWER: Duration = Duration::from_secs(6 * 3600);

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Make a backup: a database of its own that holds all that was acknowledged by then.
///
/// Files that never change are linked, not copied, where the backup lies on the database's file
/// system: it takes moments and little space. On another file system all files are copied. Of a
/// database on shared storage the log is linked, and everything that lies there (tables, blob
/// segments) is copied. The backup is whole where it is written and needs that backend no more. A
/// copy takes as much space and time as reading all of it.
///
/// It appears under its name once it is whole. Copy it elsewhere to survive the loss of the disk;
/// `firn restore` checks it and makes a database of it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of a database that no process has open.
    #[arg(long, value_name = "DIR", default_value = DIR)]
    dir: PathBuf,
    /// The HTTP address of a `firn serve` on this machine that has the database open, in place of
    /// --dir; it needs --backup-dir.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["dir", "config", "shared"])]
    server: Option<String>,
    /// What the backup is called: a path that does not exist. With --server, a name in the server's
    /// --backup-dir.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    config: Config,
    #[command(flatten)]
    shared: SharedName,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    match &arguments.server {
        Some(server) => {
            let said = progress::during(&format!("backing up by {server}"), |_| ask(server, arguments))?;
            announce(format_args!("{server}: {}", said.trim_end_matches('\n')));
        }
        None => {
            let dir = &arguments.dir;
            let settings = arguments.config.settings()?;
            let shared = SharedStorage { name: arguments.shared.clone(), ..SharedStorage::default() };
            // A directory without a log is none of the database's.
            let access = if shared.name.shared.is_some() { Access::ReadLog } else { Access::Write };
            check_directory(dir, access)?;
            check_division(dir, shared.name.shared.as_deref())?;
            let failed = |error| Failure::database(dir, &error);
            let copy = progress::during(&format!("backing up {}", dir.display()), |_| {
                let mut builder = PointDb::builder(dir).settings(settings).create(false);
                if let Some(hash) = arguments.config.hash_settings()? {
                    builder = builder.hash_settings(hash);
                }
                let db = shared.set(builder, Access::Write)?.open_points().map_err(failed)?;
                let made = db.backup(&arguments.to).map_err(failed);
                db.close().map_err(failed)?;
                made
            })?;
            let (path, position) = (copy.path.display(), copy.position.0);
            announce(format_args!("{path} holds all writes before position {position}"));
        }
    }
    Ok(Ending::Done)
}

/// Asks `server`, and answers what it says.
fn ask(server: &str, arguments: &Arguments) -> Result<String> {
    let failed = |what: String| Failure::new(Ending::Failed, format!("{server}: {what}"));
    let address = server.strip_prefix("http://").unwrap_or(server).trim_end_matches('/');
    let name = encode(arguments.to.as_os_str().as_encoded_bytes());
    let request = format!("POST /backup?to={name} HTTP/1.1\r\nHost: {address}\r\nX-Firn: backup\r\n\r\n");
    let mut answer = Vec::new();
    let exchanged = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(request.as_bytes())?;
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)
    });
    exchanged.map_err(|error| failed(format!("no answer: {error}")))?;
    let text = String::from_utf8_lossy(&answer);
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        Some((head, body)) if head.starts_with("HTTP/1.1 ") => Err(failed(body.trim_end().to_owned())),
        _ => Err(failed("this is no answer of `firn serve`".to_owned())),
    }
}

/// Bytes as a query has them.
fn encode(bytes: &[u8]) -> String {
    let encoded = bytes.iter().map(|byte| match byte {
        plain if plain.is_ascii_alphanumeric() || b"-._~/".contains(plain) => char::from(*plain).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}
