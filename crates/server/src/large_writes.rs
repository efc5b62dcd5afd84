//! Batches that take long to write: one after the other, on a thread beside the workers.
//!
//! ```text
//!   worker ─ batch ─► line ─► thread, from the first such batch on ─► engine
//!        ◄─────── woken, a batch that failed given back ◄──────────────┘
//! ```
//! The task that has handed one in holds the locks of its keys until it is woken. So it does not
//! matter which thread writes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use firn::storage::{Priority, Spawn, ThreadSpawn};
use firn_engine::{Batch, Error, Outcome, Session, WriteOptions};

use crate::failure::{Failure, Result};
use crate::worker::{Message, Shared};

/// The line, and the thread that goes through it.
#[derive(Debug)]
pub(crate) struct LargeWrites {
    threads: ThreadSpawn,
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
    /// The worker and its task that wait.
    waiting: (usize, u32),
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
    /// With an empty line.
    pub(crate) fn new() -> Self {
        Self { threads: ThreadSpawn::new(), line: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until nothing is written any more. Workers have ended before, so that nothing new
    /// comes.
    pub(crate) fn finish(&self) {
        locked(&self.line).is_ending = true;
        self.changed.notify_all();
        self.threads.join_all();
    }

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

impl LargeWrite {
    /// Lets `batch` be written; the task `waiting` of a worker is woken when it is.
    pub(crate) fn begin(shared: &Arc<Shared>, batch: Batch, waiting: (usize, u32)) -> Arc<Self> {
        let write = Arc::new(Self { state: Mutex::new(State { batch, written: None }), waiting });
        let large_writes = &shared.large_writes;
        let mut line = locked(&large_writes.line);
        if !line.is_served {
            let of_thread = Arc::clone(shared);
            let body = move || {
                of_thread.processors.unpin();
                let mut session = of_thread.store.engine.session();
                session.set_inline(true);
                while let Some(write) = of_thread.large_writes.next() {
                    write.perform(&of_thread, session.as_mut());
                }
            };
            let spawned =
                large_writes.threads.spawn("firn-write".to_owned(), Priority::Normal, Box::new(body));
            line.is_served = spawned.is_ok();
        }
        if line.is_served {
            line.writes.push_back(Arc::clone(&write));
            large_writes.changed.notify_one();
        } else {
            // Where no thread can be had, the worker waits with all that it has.
            drop(line);
            let mut session = shared.store.engine.session();
            session.set_inline(true);
            write.perform(shared, session.as_mut());
        }
        write
    }

    fn perform(&self, shared: &Shared, session: &mut dyn Session) {
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
        let (worker, task) = self.waiting;
        shared.mailboxes[worker].send(Message::Wake { task });
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
