//! The worker's side.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_engine::Semantics;
use firn_storage::backend::{Local as LocalDirectory, LocalOptions};
use firn_storage::{Clock, Priority, Spawn, Storage};

use super::wire::{Found, HELLO, Incoming, Message, VERSION};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::{Executor, JobHandle, Local};
use crate::spec::{JobResult, JobSpec};

/// How long a database may leave an answer unread.
const SEND_MAX: Duration = Duration::from_secs(5);

/// How long no connection is accepted after that failed: descriptors are short, as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Reports in one line what a worker does not do and why.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Serves each connection to `listener` on `threads` threads of `spawn`'s, for ever.
///
/// Each connection names a database's directory on this machine. Jobs read named files there and
/// make others under names that no file has: new ones, or blob segments given to be written over.
/// It takes no lock: the database that asks holds it. When a connection ends, its jobs are
/// cancelled. A database that is not served hears why, and so does `report`. Where no connection
/// can be accepted it is tried again, ten times a second by `clock`.
pub fn serve(
    listener: &UnixListener,
    semantics: &Arc<Semantics>,
    threads: usize,
    spawn: &Arc<dyn Spawn>,
    clock: &dyn Clock,
    report: &Report,
) -> ! {
    let mut is_short = false;
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                if !is_short {
                    report(&format!("no database is let in for now: {error}"));
                }
                is_short = true;
                clock.sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        is_short = false;
        let (semantics, spawn_jobs, report_talk) =
            (Arc::clone(semantics), Arc::clone(spawn), Arc::clone(report));
        let talk = Box::new(move || talk(&Arc::new(stream), &semantics, threads, &*spawn_jobs, &report_talk));
        // A database that cannot be served sees the connection end.
        if let Err(error) = spawn.spawn("firn-worker-talk".to_owned(), Priority::Normal, talk) {
            report(&format!("a database is not served: {error}"));
        }
    }
}

/// The way back to a database.
#[derive(Debug)]
struct Answers {
    stream: Arc<UnixStream>,
    /// Messages of two jobs must not mix.
    sending: Mutex<()>,
}

impl Answers {
    fn send(&self, number: u64, result: Result<JobResult>) {
        let message = match result {
            Ok(result) => Message::Done { number, result: result.encode() },
            Err(error) => Message::Failed { number, kind: error.kind as u8, message: error.to_string() },
        };
        let _alone = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        // Only a database that is gone is not sent it.
        let _sent_or_gone = message.send(&self.stream);
    }
}

/// Serves one connection until it ends.
fn talk(
    stream: &Arc<UnixStream>,
    semantics: &Arc<Semantics>,
    threads: usize,
    spawn: &dyn Spawn,
    report: &Report,
) {
    let mut incoming = Incoming::default();
    let Found::Message(Message::Hello { version, directory }) = incoming.next(stream) else {
        return;
    };
    // Without a limit a database that hangs would keep its worker's threads.
    let _limited = stream.set_write_timeout(Some(SEND_MAX));
    let directory = Path::new(OsStr::from_bytes(&directory));
    let local = match begin(version, directory, semantics, threads, spawn) {
        Ok(local) => local,
        Err(error) => {
            report(&format!("the database in {} is not served: {error}", directory.display()));
            return refuse(stream, &error);
        }
    };
    let answers = Arc::new(Answers { stream: Arc::clone(stream), sending: Mutex::new(()) });
    let handles: Arc<Mutex<BTreeMap<u64, JobHandle>>> = Arc::default();
    let lock = || handles.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match incoming.next(stream) {
            Found::Message(Message::Job { number, spec }) => {
                let decoded = JobSpec::decode(&spec);
                let wrong = |error| Error::new(ErrorKind::Invalid, format!("the job is none: {error}"));
                match decoded.map_err(wrong).and_then(|spec| local.submit(spec)) {
                    Ok(handle) => {
                        lock().insert(number, handle.clone());
                        let (answers, handles, done) =
                            (Arc::clone(&answers), Arc::clone(&handles), handle.clone());
                        handle.on_finished(Box::new(move || {
                            handles.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                            if let Some(result) = done.poll() {
                                answers.send(number, result);
                            }
                        }));
                    }
                    Err(error) => answers.send(number, Err(error)),
                }
            }
            Found::Message(Message::Cancel { number }) => {
                if let Some(handle) = lock().get(&number) {
                    handle.cancel();
                }
            }
            Found::Nothing => {}
            Found::Message(_) | Found::End => break,
        }
    }
    lock().values().for_each(JobHandle::cancel);
}

/// Threads for the jobs of a database in `directory`, which speaks `version`.
fn begin(
    version: u64,
    directory: &Path,
    semantics: &Arc<Semantics>,
    threads: usize,
    spawn: &dyn Spawn,
) -> Result<Local> {
    let unavailable = |what: String| Error::new(ErrorKind::Unavailable, what);
    if version != VERSION {
        let older = if version < VERSION { "database" } else { "worker" };
        return Err(unavailable(format!(
            "the worker speaks version {VERSION} of the messages, the database version {version}: upgrade the {older}"
        )));
    }
    let opened = LocalDirectory::open(directory, LocalOptions { create: false })
        .map_err(|error| unavailable(format!("the worker cannot open the directory: {error}")))?;
    // The database holds the lock, and gives files on that it no longer needs from here.
    let storage: Arc<dyn Storage> = Arc::new(opened.without_mappings());
    Local::threads(storage, Arc::clone(semantics), spawn, threads)
        .map_err(|error| unavailable(format!("the worker has no threads for jobs: {error}")))
}

/// Says why nothing is done, and ends once the database has. Closing earlier would fail its next
/// message, and hide the reason.
fn refuse(mut stream: &UnixStream, why: &Error) {
    let message = Message::Failed { number: HELLO, kind: why.kind as u8, message: why.to_string() };
    // Only a database that is gone is not sent it.
    let _sent_or_gone = message.send(stream).and_then(|()| stream.shutdown(Shutdown::Write));
    let _limited = stream.set_read_timeout(Some(SEND_MAX));
    let mut piece = [0; 4096];
    while stream.read(&mut piece).is_ok_and(|count| count > 0) {}
}

/// The kind that travelled as `byte`; storage's own errors do not travel, their text does.
pub(super) fn kind_of(byte: u8) -> ErrorKind {
    let kinds = [
        ErrorKind::Rejected,
        ErrorKind::Cancelled,
        ErrorKind::Invalid,
        ErrorKind::Storage,
        ErrorKind::NotConserved,
        ErrorKind::Unavailable,
        ErrorKind::Corrupt,
        ErrorKind::Panicked,
    ];
    kinds.into_iter().find(|kind| *kind as u8 == byte).unwrap_or(ErrorKind::Invalid)
}
