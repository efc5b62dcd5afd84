//! The worker's side.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_engine::Semantics;
use firn_storage::place::{Local as LocalDirectory, LocalOptions};
use firn_storage::{Priority, Spawn, Storage};

use super::wire::{Found, Incoming, Message, VERSION};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::{Executor, JobHandle, Local};
use crate::spec::{JobResult, JobSpec};

/// How long a database may leave an answer unread.
const SEND_MAX: Duration = Duration::from_secs(5);

/// Serves whoever connects to `listener`, each on `threads` threads of `spawn`'s, for ever.
///
/// Each connection names a database's directory on this machine; jobs read named files there and make others under names that
/// no file has, new ones or of value segments that they were given to be written over. It takes no lock: the database that asks holds it. When a connection ends, its jobs are cancelled.
///
/// # Errors
/// The listener fails.
pub fn serve(
    listener: &UnixListener,
    semantics: &Arc<Semantics>,
    threads: usize,
    spawn: &Arc<dyn Spawn>,
) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        let (semantics, spawn_jobs) = (Arc::clone(semantics), Arc::clone(spawn));
        let talk = Box::new(move || talk(&Arc::new(stream), &semantics, threads, &*spawn_jobs));
        // Whoever cannot be served sees the connection end.
        let _served = spawn.spawn("firn-worker-talk".to_owned(), Priority::Normal, talk);
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
        // Whoever is gone cannot be told.
        let _told = message.send(&self.stream);
    }
}

/// Serves one connection until it ends.
fn talk(stream: &Arc<UnixStream>, semantics: &Arc<Semantics>, threads: usize, spawn: &dyn Spawn) {
    let mut incoming = Incoming::default();
    let Found::Message(Message::Hello { version: VERSION, directory }) = incoming.next(stream) else {
        return;
    };
    let Ok(local) = begin(stream, &directory, semantics, threads, spawn) else { return };
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

fn begin(
    stream: &UnixStream,
    directory: &[u8],
    semantics: &Arc<Semantics>,
    threads: usize,
    spawn: &dyn Spawn,
) -> Result<Local> {
    // Without a limit a database that hangs would keep its worker's threads.
    let _limited = stream.set_write_timeout(Some(SEND_MAX));
    let directory =
        LocalDirectory::open(Path::new(OsStr::from_bytes(directory)), LocalOptions { create: false })?;
    // The database holds the lock, and gives files on that it no longer needs from here.
    let storage: Arc<dyn Storage> = Arc::new(directory.without_mappings());
    Local::threads(storage, Arc::clone(semantics), spawn, threads)
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
