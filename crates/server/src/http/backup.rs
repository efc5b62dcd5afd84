//! `POST /backup?to=NAME`: a backup of the database in the folder for backups.
//!
//! A program on this machine may ask, if the server was started with a folder for backups. A page
//! in a browser there may not: it cannot send the required header without a preflight request,
//! which is refused. A host name that was made to lead to this address is refused too: it is no
//! address.

use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use firn::ErrorKind;
use firn::storage::{Priority, Spawn, ThreadSpawn};

use super::answer::{Answer, Pending};
use super::request::Request;
use crate::log::{Field, LogLevel};
use crate::net::Alarm;
use crate::server_thread::Shared;

/// The header that a request must have; its value says nothing.
const HEADER: &str = "x-firn";

/// Backups of a server: one at a time, on a thread of its own. Ends with the one that goes on.
#[derive(Debug)]
pub(super) struct Backups {
    threads: ThreadSpawn,
    is_running: Arc<AtomicBool>,
    /// Rung when an answer is there.
    alarm: Arc<Alarm>,
}

impl Backups {
    pub(super) fn new(alarm: Arc<Alarm>) -> Self {
        Self { threads: ThreadSpawn::new(), is_running: Arc::default(), alarm }
    }

    /// Begins a backup; `Err` is the answer where none is begun.
    pub(super) fn begin(
        &self,
        shared: &Arc<Shared>,
        peer: SocketAddr,
        request: &Request,
    ) -> Result<Pending, Answer> {
        let path = path_of(shared, peer, request)?;
        if self.is_running.swap(true, Ordering::AcqRel) {
            return Err(Answer::text(409, "another backup goes on\n"));
        }
        // The last one has ended, or does so this moment.
        self.threads.join_all();
        let pending = Pending::default();
        let (shared, is_running) = (Arc::clone(shared), Arc::clone(&self.is_running));
        let (answer, alarm) = (Arc::clone(&pending), Arc::clone(&self.alarm));
        let body = move || {
            let made = back_up(&shared, &path);
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            is_running.store(false, Ordering::Release);
            alarm.ring();
        };
        self.threads.spawn("firn-backup".to_owned(), Priority::Normal, Box::new(body)).map_err(|error| {
            self.is_running.store(false, Ordering::Release);
            Answer::text(503, format!("{error}\n"))
        })?;
        Ok(pending)
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        self.threads.join_all();
    }
}

fn back_up(shared: &Shared, path: &Path) -> Answer {
    let shown = path.display().to_string();
    match shared.store.db.backup(path) {
        Ok(copy) => {
            shared.diagnostics.log.note(LogLevel::Info, "backup", &[("path", Field::Text(&shown))]);
            let (dir, position) = (shared.settings.dir.display(), copy.position.0);
            Answer::text(200, format!("{shown} holds all writes to {dir} before position {position}\n"))
        }
        Err(error) => {
            let why = error.to_string();
            shared.diagnostics.log.note(
                LogLevel::Error,
                "backup_failed",
                &[("path", Field::Text(&shown)), ("why", Field::Text(&why))],
            );
            let status = if error.kind() == ErrorKind::Invalid { 409 } else { 503 };
            Answer::text(status, format!("{why}\n"))
        }
    }
}

/// Where the backup goes; `Err` if that, or the client, is refused.
fn path_of(shared: &Shared, peer: SocketAddr, request: &Request) -> Result<PathBuf, Answer> {
    let Some(folder) = &shared.settings.backup_dir else {
        return Err(Answer::text(
            403,
            "there is no folder for backups: start the server with --backup-dir\n",
        ));
    };
    if !peer.ip().to_canonical().is_loopback() {
        return Err(Answer::text(403, "backups are made for programs of this machine only\n"));
    }
    if request.header(HEADER).is_none() || !request.header("host").is_some_and(is_address) {
        return Err(Answer::text(403, "a backup needs the header X-Firn, and a host that is an address\n"));
    }
    let Some(to) = request.parameter("to") else {
        return Err(Answer::text(400, "say where: /backup?to=NAME\n"));
    };
    let path = folder.join(to);
    let is_inside = path.parent() == Some(folder.as_path())
        && matches!(path.components().next_back(), Some(Component::Normal(_)))
        && !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    match is_inside {
        true => Ok(path),
        false => {
            Err(Answer::text(400, format!("backups are made right in {}: say a name\n", folder.display())))
        }
    }
}

/// Whether a host is named by address, or is this machine.
pub(super) fn is_address(host: &str) -> bool {
    let name = host.strip_prefix("localhost").is_some_and(|port| port.is_empty() || port.starts_with(':'));
    name || host.parse::<SocketAddr>().is_ok() || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}
