//! Makes durable what was written, on a thread of its own, while others are served.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn::PointDb;
use firn::storage::{Clock, Priority, Spawn, ThreadSpawn};

use crate::failure::{Failure, Result};
use crate::processors::Processors;
use crate::store::Store;
use crate::wake::TaskWaker;

/// Between two syncs of what was written.
const SECOND_MS: u64 = 1000;

/// What is to be done with what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saving {
    /// It is made durable.
    Sync,
    /// It is written to tables, so that the log becomes short.
    Flush,
}

/// At most one saving at a time, and what came of the last.
#[derive(Debug)]
pub(crate) struct Saver {
    threads: ThreadSpawn,
    savings: Arc<Savings>,
    each_second: EachSecond,
}

/// What the saver's threads work on.
struct Savings {
    db: PointDb,
    clock: Arc<dyn Clock>,
    processors: Arc<Processors>,
    state: Mutex<State>,
    count: AtomicU64,
    /// A sync that `appendfsync everysec` asks for goes on.
    is_syncing: AtomicBool,
}

/// What `appendfsync everysec` asks for.
#[derive(Debug, Default)]
struct EachSecond {
    threads: ThreadSpawn,
    /// When the last one began, in milliseconds of the clock that never goes back, and how much was
    /// written then.
    last: Mutex<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct State {
    /// What goes on, since when in milliseconds of the clock that never goes back.
    running: Option<(Saving, u64)>,
    /// The tasks that wait.
    waiting: Vec<TaskWaker>,
    last: Saved,
}

/// The last time that data was made durable on demand; the start, if it never was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) unix_s: u64,
    pub(crate) took_ms: u64,
    /// Records that were written before it began.
    pub(crate) changes: u64,
    /// What went wrong with the last attempt.
    pub(crate) failure: Option<String>,
}

impl Saver {
    /// Of what `store` holds. Nothing was saved yet: that counts from now.
    pub(crate) fn new(store: &Store, processors: &Arc<Processors>) -> Self {
        let unix_s = store.clock.unix_ms() / 1000;
        let last = Saved { unix_s, took_ms: 0, changes: 0, failure: None };
        let state = State { running: None, waiting: Vec::new(), last };
        let savings = Savings {
            db: store.db.clone(),
            clock: Arc::clone(&store.clock),
            processors: Arc::clone(processors),
            state: Mutex::new(state),
            count: AtomicU64::new(0),
            is_syncing: AtomicBool::new(false),
        };
        Self { threads: ThreadSpawn::new(), savings: Arc::new(savings), each_second: EachSecond::default() }
    }

    /// What goes on, since when in milliseconds of the clock that never goes back.
    pub(crate) fn running(&self) -> Option<(Saving, u64)> {
        self.savings.state().running
    }

    /// What came of the last.
    pub(crate) fn last(&self) -> Saved {
        self.savings.state().last.clone()
    }

    /// How many there were that ended well.
    pub(crate) fn count(&self) -> u64 {
        self.savings.count.load(Ordering::Relaxed)
    }

    /// Begins, after so many `changes`; the task `waiting` is woken when it is over.
    ///
    /// # Errors
    /// Another one goes on; no thread can be had.
    pub(crate) fn begin(&self, saving: Saving, changes: u64, waiting: Option<TaskWaker>) -> Result<()> {
        let since_ms = self.savings.now_ms();
        {
            let mut state = self.savings.state();
            if state.running.is_some() {
                return Err(Failure::new("ERR Background save already in progress"));
            }
            state.running = Some((saving, since_ms));
            state.waiting.extend(waiting);
        }
        // The last one has ended, or does so this moment.
        self.threads.join_all();
        let savings = Arc::clone(&self.savings);
        let body = move || {
            savings.processors.unpin();
            let done = match saving {
                Saving::Sync => savings.db.sync().map(drop),
                Saving::Flush => savings.db.flush(),
            };
            savings.end(done.err().map(|error| error.to_string()), since_ms, changes);
        };
        let spawned = self.threads.spawn("firn-save".to_owned(), Priority::Normal, Box::new(body));
        spawned.map_err(|error| {
            self.savings.end(Some(error.to_string()), since_ms, changes);
            Failure::of(format!("ERR cannot save: {error}"))
        })
    }

    /// Makes durable what was written since this was last done, if that is a second ago, on a
    /// thread of its own. What fails closes the engine for writes, which says why.
    pub(crate) fn sync_each_second(&self) {
        let (each, savings) = (&self.each_second, &self.savings);
        let now_ms = savings.now_ms();
        let mut last = each.last.lock().unwrap_or_else(PoisonError::into_inner);
        if now_ms.saturating_sub(last.0) < SECOND_MS || savings.is_syncing.load(Ordering::Acquire) {
            return;
        }
        let written = savings.db.stats().log_write_bytes_total;
        let is_more = written != last.1;
        *last = (now_ms, written);
        drop(last);
        if !is_more {
            return;
        }
        savings.is_syncing.store(true, Ordering::Release);
        // The last one has ended.
        each.threads.join_all();
        let of_thread = Arc::clone(savings);
        let body = move || {
            of_thread.processors.unpin();
            // The next write is refused with the cause: the engine takes no writes after a failed
            // sync.
            let _ = of_thread.db.sync();
            of_thread.is_syncing.store(false, Ordering::Release);
        };
        if each.threads.spawn("firn-sync".to_owned(), Priority::Normal, Box::new(body)).is_err() {
            // Tried again a second later.
            savings.is_syncing.store(false, Ordering::Release);
            each.last.lock().unwrap_or_else(PoisonError::into_inner).1 = 0;
        }
    }
}

impl Savings {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds of the clock that never goes back.
    fn now_ms(&self) -> u64 {
        self.clock.now().as_millis() as u64
    }

    /// What began at `since_ms`, after so many `changes`, is over.
    fn end(&self, failure: Option<String>, since_ms: u64, changes: u64) {
        let mut state = self.state();
        state.running = None;
        if failure.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
            state.last.unix_s = self.clock.unix_ms() / 1000;
            state.last.changes = changes;
            state.last.took_ms = self.now_ms() - since_ms;
        }
        state.last.failure = failure;
        state.waiting.drain(..).for_each(|task| task.wake());
    }
}

impl std::fmt::Debug for Savings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Savings").field("state", &self.state).finish_non_exhaustive()
    }
}
