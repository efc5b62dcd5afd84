//! Takes back what a failed command of a unit has written; the rest of the unit goes on.

use super::Transaction;
use crate::store::Databases;

/// How far a transaction had come.
#[derive(Debug)]
pub(crate) struct Savepoint {
    writes: usize,
    touched: usize,
    ready: usize,
    rid: usize,
    messages: usize,
    messages_bytes: usize,
    purges: usize,
    buckets: usize,
    databases: Option<Databases>,
}

impl Transaction {
    /// Where it is now.
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            writes: self.own.batch().len(),
            touched: self.touched.len(),
            ready: self.ready.len(),
            rid: self.rid.len(),
            messages: self.messages.len(),
            messages_bytes: self.messages_bytes,
            purges: self.purges.len(),
            buckets: self.buckets.len(),
            databases: self.databases.clone(),
        }
    }

    /// Forgets what was written since, as if it had not been.
    pub(crate) fn roll_back(&mut self, to: Savepoint) {
        self.own.truncate(to.writes);
        self.touched.truncate(to.touched);
        self.ready.truncate(to.ready);
        self.rid.truncate(to.rid);
        self.messages.truncate(to.messages);
        self.messages_bytes = to.messages_bytes;
        self.purges.truncate(to.purges);
        self.buckets.truncate(to.buckets);
        self.databases = to.databases;
    }
}
