//! Atomic read-modify-write.
//!
//! An update reads, computes, and copies its frame into the log like any write. Before it indexes
//! the frame it waits until everything below the frame is published: no older write can come in
//! then. It looks at the key again, and compares. The same newest version means that nothing came
//! between, and the frame is published; otherwise the frame becomes void and the update starts
//! over. Some write of the key succeeded then, so the system as a whole always moves on.
//!
//! That alone would starve one of many updaters of one key, and each that starts over holds the log
//! for nothing. So updates of a key stand in line: an update holds the key's lock from its first
//! read until its frame is published. The locks order updates, they guard nothing: after
//! [`PATIENCE`] an update goes on without its lock. So a function that breaks its contract and
//! waits for another update of its key is slow, and no deadlock.
//!
//! Between reservation and publication no code of the user runs, and nothing is read but the newest
//! version's sequence.

use std::time::{Duration, Instant};

use firn_engine::{
    Change, Completion, CompletionQueue, KeyLocks, KeyspaceId, OrderedOp, OrderedOpKind, Outcome, Result,
    Ticket, UpdateFn,
};
use firn_format::key::key_hash;
use firn_format::{Position, Sequence};

use crate::commit::{Appended, Blobs, CommitEnv, CommitPipeline, Condition, Frame};
use crate::database::{Database, closed};
use crate::read::{Found, Lookup};
use crate::reads::Reads;

/// For how long an update stands in line behind others of its key.
const PATIENCE: Duration = Duration::from_secs(5);

/// An update that is not yet written. Owned by the call that waits for it.
pub(crate) struct Update<'k> {
    keyspace: KeyspaceId,
    key: &'k [u8],
    f: UpdateFn,
    expires_at_ms: u64,
    turn: Turn,
}

/// Where an update stands among those of its key.
enum Turn {
    /// The update has not asked for the lock yet.
    Unasked,
    /// The update is the first in line: it holds the key's lock.
    Held { _lock: KeyLocks },
    /// The update goes on without the lock.
    Impatient,
}

impl<'k> Update<'k> {
    pub(crate) fn new(keyspace: KeyspaceId, key: &'k [u8], f: UpdateFn, expires_at_ms: u64) -> Self {
        Self { keyspace, key, f, expires_at_ms, turn: Turn::Unasked }
    }
}

/// What a key is locked by. Keyspaces are few: each gets another part of the same hashes.
pub(crate) fn lock_hash(keyspace: KeyspaceId, key: &[u8]) -> u64 {
    key_hash(key).wrapping_add(u64::from(keyspace.0).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What updates are read and written with.
pub(crate) struct Updates<'d, E> {
    pipeline: &'d CommitPipeline,
    reads: &'d Reads,
    env: &'d E,
}

impl<'d> Updates<'d, Database> {
    pub(crate) fn of(database: &'d Database) -> Self {
        Self { pipeline: &database.commit, reads: &database.reads, env: database }
    }
}

impl<E: CommitEnv> Updates<'_, E> {
    /// Writes `update`, or answers `Stopped` when the buffer is full. It keeps its place in line
    /// then, and is to be tried again.
    ///
    /// Blocks while other updates of the key are before it, and where the read misses memory.
    fn try_update(&self, update: &mut Update<'_>) -> Result<Appended> {
        if matches!(update.turn, Turn::Unasked) {
            update.turn = self.stand_in_line(update.keyspace, update.key);
        }
        let appended = self.try_update_in_turn(update);
        if !matches!(appended, Ok(Appended::Stopped)) {
            // Later updates need not wait until this one is durable.
            update.turn = Turn::Impatient;
        }
        appended
    }

    /// Writes `update`, waiting for room.
    ///
    /// # Errors
    /// As [`try_update`](Self::try_update); `Retry` where no room can be made.
    pub(crate) fn update(&self, update: &mut Update<'_>) -> Result<Position> {
        loop {
            match self.try_update(update)? {
                Appended::At(end) => return Ok(end),
                Appended::Stopped | Appended::Raced => self.env.wait_to_retry()?,
            }
        }
    }

    /// Waits until updates that came before have been written.
    fn stand_in_line(&self, keyspace: KeyspaceId, key: &[u8]) -> Turn {
        let queue = CompletionQueue::new();
        let hash = std::iter::once(lock_hash(keyspace, key));
        let locked = self.pipeline.update_locks.lock(hash, &queue.sender(), || Ticket(0));
        if let Outcome::Done(lock) = locked {
            return Turn::Held { _lock: lock };
        }
        #[expect(clippy::disallowed_methods, reason = "`wait` takes its deadline as an Instant")]
        let deadline = Instant::now() + PATIENCE;
        queue.notifier().wait(Some(deadline));
        match queue.pop() {
            Some((_, Completion::Locked(lock))) => Turn::Held { _lock: lock },
            // The queue goes, and with it its place in line.
            _ => Turn::Impatient,
        }
    }

    fn try_update_in_turn(&self, update: &mut Update<'_>) -> Result<Appended> {
        let Update { keyspace, key, ref mut f, expires_at_ms, .. } = *update;
        let mut value = Vec::new();
        loop {
            let version = self.reads.catalog.version.load_full();
            if version.lock.is_none() {
                return Err(closed());
            }
            let before = self.pipeline.read_position(&version);
            let found = self.reads.lookup(&version, &Lookup::latest(keyspace, key, before), &mut value)?;
            self.reads.counters.count_read(found);
            let current = matches!(found, Found::Value { .. }).then_some(value.as_slice());
            let (kind, new) = match f(current) {
                Change::Keep => return Ok(Appended::At(before)),
                Change::Put(new) => (OrderedOpKind::Put, new),
                Change::Delete => (OrderedOpKind::Delete, Vec::new()),
            };
            let op = OrderedOp { keyspace, kind, key, value: &new, expires_at_ms };
            self.pipeline.validate(std::iter::once(op))?;
            match self.try_append_if_unchanged(op, found.newest())? {
                Appended::Raced => {}
                appended => return Ok(appended),
            }
        }
    }

    fn try_append_if_unchanged(&self, op: OrderedOp<'_>, seen: Option<Sequence>) -> Result<Appended> {
        let ops = std::iter::once(op);
        let Reads { blobs, catalog, .. } = self.reads;
        // A separated value is written again if another write comes between.
        let separated = blobs.separate(catalog, &blobs.settings, ops)?.unwrap_or_default();
        let item = separated.references.item(0, op);
        let frame = Frame {
            items: std::iter::once(item),
            blobs: Blobs::Written(separated.places),
            condition: Some(Condition::Unchanged { keyspace: op.keyspace, key: op.key, newest: seen }),
        };
        self.pipeline.append(self.env, frame)
    }
}
