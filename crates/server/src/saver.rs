//! Makes durable what was written, on a thread of its own, while others are served.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn::storage::{Priority, Spawn, ThreadSpawn};

use crate::failure::{Failure, Result};
use crate::statistics::Measure;
use crate::worker::{Message, Shared};

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
    state: Mutex<State>,
    count: AtomicU64,
    each_second: EachSecond,
}

/// What `appendfsync everysec` asks for.
#[derive(Debug, Default)]
struct EachSecond {
    threads: ThreadSpawn,
    is_syncing: AtomicBool,
    /// When the last one began, in milliseconds of the clock that never goes back, and how much was
    /// written then.
    last: Mutex<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct State {
    /// What goes on, since when in milliseconds of the clock that never goes back.
    running: Option<(Saving, u64)>,
    /// The tasks that wait, each with its worker.
    waiting: Vec<(usize, u32)>,
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
    /// Nothing was saved yet: `unix_s` is when the server starts.
    pub(crate) fn new(unix_s: u64) -> Self {
        let last = Saved { unix_s, took_ms: 0, changes: 0, failure: None };
        let state = State { running: None, waiting: Vec::new(), last };
        Self {
            threads: ThreadSpawn::new(),
            state: Mutex::new(state),
            count: AtomicU64::new(0),
            each_second: EachSecond::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes on, since when in milliseconds of the clock that never goes back.
    pub(crate) fn running(&self) -> Option<(Saving, u64)> {
        self.state().running
    }

    /// What came of the last.
    pub(crate) fn last(&self) -> Saved {
        self.state().last.clone()
    }

    /// How many there were that ended well.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Begins; the task `waiting` of a worker is woken when it is over.
    ///
    /// # Errors
    /// Another one goes on; no thread can be had.
    pub(crate) fn begin(shared: &Arc<Shared>, saving: Saving, waiting: Option<(usize, u32)>) -> Result<()> {
        let saver = &shared.saver;
        let clock = Arc::clone(&shared.store.clock);
        let since_ms = clock.now().as_millis() as u64;
        {
            let mut state = saver.state();
            if state.running.is_some() {
                return Err(Failure::new("ERR Background save already in progress"));
            }
            state.running = Some((saving, since_ms));
            state.waiting.extend(waiting);
        }
        // The last one has ended, or does so this moment.
        saver.threads.join_all();
        let changes = shared.statistics.all().of(Measure::Changes);
        let of_thread = Arc::clone(shared);
        let body = move || {
            of_thread.processors.unpin();
            let db = &of_thread.store.db;
            let done = match saving {
                Saving::Sync => db.sync().map(drop),
                Saving::Flush => db.flush(),
            };
            of_thread.saver.end(&of_thread, done.err().map(|error| error.to_string()), (since_ms, changes));
        };
        let spawned = saver.threads.spawn("firn-save".to_owned(), Priority::Normal, Box::new(body));
        spawned.map_err(|error| {
            saver.end(shared, Some(error.to_string()), (since_ms, changes));
            Failure::of(format!("ERR cannot save: {error}"))
        })
    }

    /// Makes durable what was written since this was last done, if that is a second ago, on a
    /// thread of its own. What fails closes the engine for writes, which says why.
    pub(crate) fn sync_each_second(shared: &Arc<Shared>) {
        let each = &shared.saver.each_second;
        let now_ms = shared.store.clock.now().as_millis() as u64;
        let mut last = each.last.lock().unwrap_or_else(PoisonError::into_inner);
        if now_ms.saturating_sub(last.0) < SECOND_MS || each.is_syncing.load(Ordering::Acquire) {
            return;
        }
        let written = shared.store.db.stats().log_write_bytes_total;
        let is_more = written != last.1;
        *last = (now_ms, written);
        drop(last);
        if !is_more {
            return;
        }
        each.is_syncing.store(true, Ordering::Release);
        // The last one has ended.
        each.threads.join_all();
        let of_thread = Arc::clone(shared);
        let body = move || {
            of_thread.processors.unpin();
            // The next write is refused with the cause: the engine takes no writes after a failed
            // sync.
            let _ = of_thread.store.db.sync();
            of_thread.saver.each_second.is_syncing.store(false, Ordering::Release);
        };
        if each.threads.spawn("firn-sync".to_owned(), Priority::Normal, Box::new(body)).is_err() {
            // Tried again a second later.
            each.is_syncing.store(false, Ordering::Release);
            each.last.lock().unwrap_or_else(PoisonError::into_inner).1 = 0;
        }
    }

    fn end(&self, shared: &Shared, failure: Option<String>, (since_ms, changes): (u64, u64)) {
        let clock = &shared.store.clock;
        let mut state = self.state();
        state.running = None;
        if failure.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
            state.last.unix_s = clock.unix_ms() / 1000;
            state.last.changes = changes;
            state.last.took_ms = clock.now().as_millis() as u64 - since_ms;
        }
        state.last.failure = failure;
        for (worker, task) in state.waiting.drain(..) {
            shared.mailboxes[worker].send(Message::Wake { task });
        }
    }
}
