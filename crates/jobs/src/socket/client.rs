//! The database's side.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use firn_storage::{Priority, Spawn};

use super::wire::{Found, HELLO, Incoming, Message, VERSION};
use super::worker::kind_of;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::{Executor, Finisher, JobHandle, new_job};
use crate::spec::{JobResult, JobSpec};

/// How often cancellations are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a worker may leave what is sent to it unread.
const SEND_MAX: Duration = Duration::from_secs(5);

/// Runs jobs in a worker process on this machine, which reaches the database's directory itself.
///
/// Connects when a job comes and there is no connection. A worker that is not there, that goes, or
/// that does not read for five seconds is `Unavailable`. So is a worker that does not work for this
/// database, with what it said. It is tried again with the next job. Dropped, the executor ends the
/// connection, whereupon the worker stops its jobs.
#[derive(Debug)]
pub struct Socket {
    shared: Arc<Shared>,
    spawn: Arc<dyn Spawn>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Connection>,
    next: u64,
}

/// A talk with one worker.
#[derive(Debug)]
struct Connection {
    stream: Arc<UnixStream>,
    jobs: BTreeMap<u64, Away>,
}

/// A job that the worker has.
#[derive(Debug)]
struct Away {
    finisher: Finisher,
    is_cancelled: bool,
}

impl Socket {
    /// An executor that asks the worker listening at `socket` to work on files in `directory`. A
    /// thread of `spawn`'s waits for answers while there is a connection. Does not connect yet, and
    /// the directory may be made later.
    ///
    /// # Errors
    /// `Invalid` if the directory has no name from the root on.
    pub fn new(socket: &Path, directory: &Path, spawn: Arc<dyn Spawn>) -> Result<Self> {
        let directory = std::path::absolute(directory).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("expected the directory {}: {error}", directory.display()))
        })?;
        let shared = Shared { path: socket.to_owned(), directory, state: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), spawn })
    }

    /// A new connection, with a thread that reads from it.
    fn connect(&self) -> Result<Connection> {
        let path = self.shared.path.display();
        let refused = |error: std::io::Error| {
            Error::new(ErrorKind::Unavailable, format!("no worker can be had at {path}: {error}"))
        };
        let stream = UnixStream::connect(&self.shared.path).map_err(refused)?;
        stream.set_read_timeout(Some(LOOK)).map_err(refused)?;
        stream.set_write_timeout(Some(SEND_MAX)).map_err(refused)?;
        let directory = self.shared.directory.as_os_str().as_bytes().to_vec();
        Message::Hello { version: VERSION, directory }.send(&stream).map_err(refused)?;
        let stream = Arc::new(stream);
        let (shared, reads) = (Arc::downgrade(&self.shared), Arc::clone(&stream));
        let read = Box::new(move || read(&shared, &reads));
        self.spawn.spawn("firn-worker-answers".to_owned(), Priority::Normal, read)?;
        Ok(Connection { stream, jobs: BTreeMap::new() })
    }
}

impl Executor for Socket {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        let mut state = self.shared.lock();
        if state.connection.is_none() {
            state.connection = Some(self.connect()?);
        }
        state.next += 1;
        let number = state.next;
        let Some(connection) = &mut state.connection else { return Err(gone()) };
        let sent = Message::Job { number, spec: spec.encode() }.send(&connection.stream);
        if let Err(error) = sent {
            let lost = state.connection.take();
            drop(state);
            end(lost, &gone());
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("the worker does not take jobs: {error}"),
            ));
        }
        let (handle, finisher) = new_job();
        connection.jobs.insert(number, Away { finisher, is_cancelled: false });
        Ok(handle)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let lost = self.shared.lock().connection.take();
        end(lost, &gone());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a job its result.
    fn finish(&self, stream: &Arc<UnixStream>, number: u64, result: Result<JobResult>) {
        let mut state = self.lock();
        let connection = state.connection.as_mut().filter(|known| Arc::ptr_eq(&known.stream, stream));
        let away = connection.and_then(|connection| connection.jobs.remove(&number));
        // Callbacks may submit the next job.
        drop(state);
        if let Some(away) = away {
            away.finisher.finish(result);
        }
    }

    /// Ends the talk over `stream`, unless another one has begun; its jobs are told `why`.
    fn lose(&self, stream: &Arc<UnixStream>, why: &Error) {
        let lost = self.lock().connection.take_if(|known| Arc::ptr_eq(&known.stream, stream));
        end(lost, why);
    }

    /// Passes cancellations on; whether `stream` is still the executor's connection.
    fn cancel_asked(&self, stream: &Arc<UnixStream>) -> bool {
        let mut state = self.lock();
        let connection = state.connection.as_mut().filter(|known| Arc::ptr_eq(&known.stream, stream));
        let Some(connection) = connection else { return false };
        for (number, away) in &mut connection.jobs {
            if away.finisher.control().is_cancelled() && !away.is_cancelled {
                away.is_cancelled = true;
                // A worker that cannot be sent it is gone, which shows.
                let _sent_or_gone = Message::Cancel { number: *number }.send(stream);
            }
        }
        true
    }
}

/// The reading thread's life: until the connection ends, or the executor has dropped or replaced
/// it.
fn read(shared: &Weak<Shared>, stream: &Arc<UnixStream>) {
    let mut incoming = Incoming::default();
    loop {
        let found = incoming.next(stream);
        let Some(shared) = shared.upgrade() else { return };
        let is_wanted = shared.cancel_asked(stream);
        match found {
            Found::Message(Message::Done { number, result }) => {
                let wrong =
                    |error| Error::new(ErrorKind::Invalid, format!("the worker's answer is none: {error}"));
                shared.finish(stream, number, JobResult::decode(&result).map_err(wrong));
            }
            // It does not work for this database.
            Found::Message(Message::Failed { number: HELLO, kind, message }) => {
                return shared.lose(stream, &Error::new(kind_of(kind), message));
            }
            Found::Message(Message::Failed { number, kind, message }) => {
                shared.finish(stream, number, Err(Error::new(kind_of(kind), message)));
            }
            Found::Nothing if is_wanted => {}
            // It is gone, or says what no worker says.
            _ => return shared.lose(stream, &gone()),
        }
    }
}

/// Ends a talk; its jobs are told `why`.
fn end(connection: Option<Connection>, why: &Error) {
    let Some(connection) = connection else { return };
    // A worker that is gone already has shut it.
    let _shut_or_gone = connection.stream.shutdown(std::net::Shutdown::Both);
    connection.jobs.into_values().for_each(|away| away.finisher.finish(Err(why.clone())));
}

fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the worker went away")
}
