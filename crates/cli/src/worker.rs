//! `firn worker`: jobs of databases on this machine, in a process of its own.

use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn::jobs::socket::serve;
use firn_engine::Semantics;
use firn_storage::{Spawn, ThreadSpawn};

use crate::ending::{Ending, Failure, Result};

/// Work for databases on this machine: compact their tables and collect their value segments in this process. Runs until it is
/// ended.
///
/// A database that was started with the socket (`firn serve --worker`) sends jobs and does itself what this process does not:
/// it may come, go and be killed at any time. It serves any number of databases, and reads and writes their directories as
/// they say; the socket is for the user who started it alone. Give it processors of its own (`taskset`) or a lower priority
/// (`nice`) to keep that work away from a database's clients.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The socket to listen on; made if it is missing, taken over if nobody listens.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Jobs at a time, for each database.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let path = &arguments.socket;
    let listener = listen(path)?;
    println!("working for whoever connects to {}; SIGTERM or Ctrl-C ends it", path.display());
    // Whoever started us may read this through a pipe.
    let _ = std::io::stdout().flush();
    let spawn: Arc<dyn Spawn> = Arc::new(ThreadSpawn::new());
    // Operators, filters and extractors are code of programs that own databases: what needs them is refused.
    let semantics = Arc::new(Semantics::new());
    let error = match serve(&listener, &semantics, usize::from(arguments.threads), &spawn) {
        Ok(()) => return Ok(Ending::Done),
        Err(error) => error,
    };
    Err(Failure::file("listen on", path, &error))
}

/// Listens at `path`, which nobody else does.
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
