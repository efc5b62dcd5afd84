//! When the range tombstones of a keyspace were looked at, and what that found.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use firn_format::Sequence;

use crate::version::{Keyspace, Table};

/// A table of which range tombstones hide a part from every reader.
#[derive(Clone, Debug)]
pub(crate) struct PartlyHidden {
    /// Weak, so that its file goes with it: no look comes once no range tombstone is left.
    pub(crate) table: Weak<Table>,
    /// Bytes of separated values that this part refers to, about.
    pub(crate) value_bytes: u64,
}

/// When a keyspace was looked at, and what has to change before it is looked at again.
#[derive(Debug, Default)]
pub(crate) struct ReclaimChecks {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The tables, by [`Levels::changes`].
    tables: Option<u64>,
    /// The newest range tombstone of the buffer.
    newest: Option<Sequence>,
    /// Snapshots that kept tables from going.
    kept_for: BTreeSet<Sequence>,
    /// What is worth rewriting.
    partly: Vec<PartlyHidden>,
    /// Before this moment of the engine's clock new range tombstones are no reason to look,
    rests_until: Duration,
    /// and before this one nothing is.
    fails_until: Duration,
}

/// How long range tombstones may arrive between two looks at them.
const REST: Duration = Duration::from_secs(1);

impl ReclaimChecks {
    /// Whether `keyspace` may have tables to remove that it had not at the last look.
    pub(crate) fn is_due(
        &self,
        keyspace: &Keyspace,
        now: Duration,
        snapshots: impl FnOnce() -> Vec<Sequence>,
    ) -> bool {
        let newest = newest_in_buffer(keyspace);
        if newest.is_none() && !keyspace.levels.has_range_deletes() {
            return false;
        }
        let seen = self.lock();
        if now < seen.fails_until {
            return false;
        }
        if seen.tables != Some(keyspace.levels.changes()) || newest > seen.newest && now >= seen.rests_until {
            return true;
        }
        if seen.kept_for.is_empty() {
            return false;
        }
        let alive = snapshots();
        seen.kept_for.iter().any(|snapshot| !alive.contains(snapshot))
    }

    /// `keyspace` is about to be looked at.
    pub(crate) fn begin(&self, keyspace: &Keyspace, now: Duration) {
        let mut seen = self.lock();
        seen.tables = Some(keyspace.levels.changes());
        let newest = newest_in_buffer(keyspace);
        if newest > seen.newest {
            seen.newest = newest;
            seen.rests_until = now + REST;
        }
    }

    /// The last look found that tables must stay for the snapshots `kept_for`, and that `partly` is
    /// worth rewriting.
    pub(crate) fn end(&self, kept_for: BTreeSet<Sequence>, partly: Vec<PartlyHidden>) {
        let mut seen = self.lock();
        (seen.kept_for, seen.partly) = (kept_for, partly);
    }

    /// What was worth rewriting at the last look; some of it may be gone.
    pub(crate) fn partly(&self) -> Vec<PartlyHidden> {
        self.lock().partly.clone()
    }

    /// What the last look found could not all be done: it is to be repeated in a while.
    pub(crate) fn repeat(&self, now: Duration) {
        let mut seen = self.lock();
        (seen.tables, seen.fails_until) = (None, now + REST);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The greatest sequence of a range tombstone that is in no table yet.
fn newest_in_buffer(keyspace: &Keyspace) -> Option<Sequence> {
    let runs = keyspace.runs.iter().map(|run| run.newest_range_delete()).max().flatten();
    runs.max(keyspace.memtables().map(|memtable| memtable.newest_range_delete()).max().flatten())
}
