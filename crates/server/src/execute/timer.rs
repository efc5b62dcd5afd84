//! How long commands take, with as few looks at the clock as can be.
//!
//! The end of one command is the beginning of the next, as long as the connection does not wait for
//! more. Successive `GET`s or `SET`s share the time until something else comes: a look at the clock
//! costs a good part of what they do.

use firn_protocol::command::CommandId;

use crate::server_thread::ServerThread;

/// The clock of one connection.
#[derive(Debug, Default)]
pub(super) struct Timer {
    /// When what is going on began, in nanoseconds of the clock that never goes back; `None` =
    /// nothing goes on.
    since_ns: Option<u64>,
    /// Commands of one kind that are not accounted for yet.
    plain: Option<(CommandId, u64)>,
}

impl Timer {
    /// A plain command begins.
    #[inline]
    pub(super) fn begin_plain(&mut self, thread: &ServerThread, id: CommandId) {
        match &mut self.plain {
            Some((last, count)) if *last == id => *count += 1,
            _ => {
                self.begin(thread);
                self.plain = Some((id, 1));
            }
        }
    }

    /// The last plain command turned out to be none.
    pub(super) fn take_back(&mut self) {
        if let Some((_, count)) = &mut self.plain {
            *count -= 1;
        }
    }

    /// Another command begins: accounts for those before; since when it runs.
    pub(super) fn begin(&mut self, thread: &ServerThread) -> u64 {
        self.settle(thread);
        *self.since_ns.get_or_insert_with(|| thread.monotonic_ns())
    }

    /// The command that began last is over; how long it took.
    pub(super) fn end(&mut self, thread: &ServerThread) -> u64 {
        let now_ns = thread.monotonic_ns();
        let since_ns = self.since_ns.replace(now_ns).unwrap_or(now_ns);
        now_ns - since_ns
    }

    /// Accounts for the plain commands so far; how long they took together.
    pub(super) fn settle(&mut self, thread: &ServerThread) -> u64 {
        let Some((id, count)) = self.plain.take() else { return 0 };
        let ns = self.end(thread);
        if count > 0 {
            thread.counters().called(id, count, ns);
        }
        ns
    }

    /// The connection waits for more: what is between is no command's.
    pub(super) fn stop(&mut self, thread: &ServerThread) {
        self.settle(thread);
        self.since_ns = None;
    }
}
