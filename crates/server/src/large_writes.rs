//! Batches that take long to write: one after the other, on a thread beside the server threads.
//!
//! ```text
//!   server thread ─ batch ─► line ─► thread, from the first such batch on ─► engine
//!        ◄─────── woken, a batch that failed given back ◄──────────────┘
//! ```
//! The task that has handed one in holds the locks of its keys until it is woken. So it does not
//! matter which thread writes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use firn::storage::{Priority, Spawn, ThreadSpawn};
use firn_engine::{Batch, Error, Outcome, Session, WriteOptions};

use crate::failure::{Failure, Result};
use crate::processors::Processors;
use crate::store::Engines;
use crate::wake::TaskWaker;

/// The line, and the thread that goes through it.
#[derive(Debug)]
pub(crate) struct LargeWrites {
    threads: ThreadSpawn,
    writer: Arc<Writer>,
}

/// What the thread works on.
struct Writer {
    engines: Engines,
    processors: Arc<Processors>,
    line: Mutex<Line>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    writes: VecDeque<Arc<LargeWrite>>,
    is_served: bool,
    is_ending: bool,
}

/// One batch on its way.
#[derive(Debug)]
pub(crate) struct LargeWrite {
    state: Mutex<State>,
    /// The task that waits.
    waiting: TaskWaker,
}

#[derive(Debug)]
struct State {
    batch: Batch,
    written: Option<Result<()>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LargeWrites {
    /// With an empty line for `engines`.
    pub(crate) fn new(engines: Engines, processors: &Arc<Processors>) -> Self {
        let processors = Arc::clone(processors);
        let writer = Writer { engines, processors, line: Mutex::default(), changed: Condvar::new() };
        Self { threads: ThreadSpawn::new(), writer: Arc::new(writer) }
    }

    /// Lets `batch` be written; the task `waiting` is woken when it is.
    pub(crate) fn begin(&self, batch: Batch, waiting: TaskWaker) -> Arc<LargeWrite> {
        let write = Arc::new(LargeWrite { state: Mutex::new(State { batch, written: None }), waiting });
        let mut line = locked(&self.writer.line);
        if !line.is_served {
            let writer = Arc::clone(&self.writer);
            let body = move || {
                writer.processors.unpin();
                let mut session = writer.engines.inline_session();
                while let Some(write) = writer.next() {
                    write.perform(session.as_mut());
                }
            };
            let spawned = self.threads.spawn("firn-write".to_owned(), Priority::Normal, Box::new(body));
            line.is_served = spawned.is_ok();
        }
        if line.is_served {
            line.writes.push_back(Arc::clone(&write));
            self.writer.changed.notify_one();
        } else {
            // Where no thread can be had, the server thread waits with all that it has.
            drop(line);
            write.perform(self.writer.engines.inline_session().as_mut());
        }
        write
    }

    /// Waits until nothing is written any more. Server threads have ended before, so that nothing
    /// new comes.
    pub(crate) fn finish(&self) {
        locked(&self.writer.line).is_ending = true;
        self.writer.changed.notify_all();
        self.threads.join_all();
    }
}

impl Writer {
    /// The next in line, once there is one; `None` at the end.
    fn next(&self) -> Option<Arc<LargeWrite>> {
        let mut line = locked(&self.line);
        loop {
            if let Some(write) = line.writes.pop_front() {
                return Some(write);
            }
            if line.is_ending {
                return None;
            }
            line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("line", &self.line).finish_non_exhaustive()
    }
}

impl LargeWrite {
    fn perform(&self, session: &mut dyn Session) {
        let batch = std::mem::take(&mut locked(&self.state).batch);
        let written = match session.write(&batch, WriteOptions::default()) {
            Ok(Outcome::Done(_)) => Ok(()),
            Ok(Outcome::Pending(_)) => Err(Failure::from(Error::bug("an inline write is pending"))),
            Err(error) => Err(error.into()),
        };
        // What is written is asked for no more. Giving back hundreds of megabytes takes long: that
        // is done here as well.
        let (kept, done) = if written.is_ok() { (Batch::new(), batch) } else { (batch, Batch::new()) };
        *locked(&self.state) = State { batch: kept, written: Some(written) };
        self.waiting.wake();
        drop(done);
    }

    /// Whether it was written, or could not be.
    pub(crate) fn is_over(&self) -> bool {
        locked(&self.state).written.is_some()
    }

    /// What came of it, with the batch if it was not written.
    pub(crate) fn take(&self) -> (Batch, Result<()>) {
        let mut state = locked(&self.state);
        let written = state.written.take().unwrap_or_else(|| Err(Error::bug("a write is not over").into()));
        (std::mem::take(&mut state.batch), written)
    }
}
