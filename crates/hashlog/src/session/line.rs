//! Calls of a session that have to wait: the pool does them, writes one after another.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_engine::{Completion, CompletionSender, Error, ErrorKind, Result, Ticket};

use crate::caller::Caller;
use crate::database::Database;

/// A call that waits.
type Call = Box<dyn FnOnce(&mut Caller) -> Result<Completion> + Send>;

/// The calls of one session that wait.
pub(super) struct Line {
    database: Arc<Database>,
    sender: CompletionSender,
    /// As which the session writes to the redo log.
    writer: usize,
    given: AtomicU64,
    /// Given and not delivered yet.
    outstanding: AtomicU64,
    writes: Arc<Mutex<Writes>>,
}

#[derive(Default)]
struct Writes {
    waiting: VecDeque<(Ticket, Call)>,
    /// A thread of the pool does them.
    is_running: bool,
}

impl Line {
    pub(super) fn new(database: &Arc<Database>, sender: CompletionSender, writer: usize) -> Self {
        Self {
            database: Arc::clone(database),
            sender,
            writer,
            given: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            writes: Arc::default(),
        }
    }

    /// Whether no write waits or is being done.
    pub(super) fn is_free(&self) -> bool {
        let writes = lock(&self.writes);
        writes.waiting.is_empty() && !writes.is_running
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        Ticket(self.given.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) fn delivered(&self) {
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Has a write done after those that wait.
    pub(super) fn push(
        &self,
        call: impl FnOnce(&mut Caller) -> Result<Completion> + Send + 'static,
    ) -> Ticket {
        let ticket = self.ticket();
        let mut writes = lock(&self.writes);
        writes.waiting.push_back((ticket, Box::new(call)));
        let is_first = !std::mem::replace(&mut writes.is_running, true);
        drop(writes);
        if is_first {
            let (database, sender) = (Arc::clone(&self.database), self.sender.clone());
            let (writes, writer) = (Arc::clone(&self.writes), self.writer);
            self.database.on_pool(move || do_all(&database, &sender, &writes, writer));
        }
        ticket
    }

    /// Has a read done, beside whatever else waits.
    pub(super) fn push_read(
        &self,
        call: impl FnOnce(&mut Caller) -> Result<Completion> + Send + 'static,
    ) -> Ticket {
        let ticket = self.ticket();
        let (database, sender) = (Arc::clone(&self.database), self.sender.clone());
        let writer = self.writer;
        self.database.on_pool(move || do_one(&database, &sender, writer, (ticket, Box::new(call))));
        ticket
    }
}

/// Does the writes of one session until none waits.
fn do_all(database: &Arc<Database>, sender: &CompletionSender, writes: &Mutex<Writes>, writer: usize) {
    loop {
        let next = {
            let mut writes = lock(writes);
            let next = writes.waiting.pop_front();
            writes.is_running = next.is_some();
            next
        };
        let Some(next) = next else { return };
        do_one(database, sender, writer, next);
    }
}

fn do_one(
    database: &Arc<Database>,
    sender: &CompletionSender,
    writer: usize,
    (ticket, call): (Ticket, Call),
) {
    let completion = Caller::new(database).and_then(|mut caller| {
        caller.write_as(writer);
        let done = catch_unwind(AssertUnwindSafe(|| call(&mut caller)));
        done.unwrap_or_else(|_| {
            let message = "a function or an operator panicked: nothing was written";
            Err(Error::new(ErrorKind::Retry, message))
        })
    });
    sender.send(ticket, completion.unwrap_or_else(Completion::Failed));
}

fn lock(writes: &Mutex<Writes>) -> MutexGuard<'_, Writes> {
    writes.lock().unwrap_or_else(PoisonError::into_inner)
}
