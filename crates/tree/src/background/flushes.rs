//! Flushes: which is due, and which threads work on its parts.

use firn_format::Position;

use super::choose::Choosing;
use crate::flush::pick::{pick_flush, pick_small};
use crate::maintenance::{Task, TaskKind};

/// Bytes of records of memtables that become runs together, at most: other threads freeze the rest
/// meanwhile.
const FREEZE_BYTES: usize = 1 << 20;

impl Choosing<'_> {
    /// Memtables that are to become runs: one, or many that hold little.
    pub(super) fn choose_freeze(&self, watermark: Position) -> Option<Task> {
        let (mut keyspaces, mut bytes) = (Vec::new(), 0);
        for keyspace in self.version.live() {
            let id = keyspace.id();
            let Some(frozen) = keyspace.frozen.last().filter(|frozen| frozen.span.end <= watermark) else {
                continue;
            };
            if self.busy.claims.buffer.freezing.contains(&id)
                || !self.busy.backoff.may_try((TaskKind::Freeze, id), self.now)
            {
                continue;
            }
            bytes += frozen.memtable.record_bytes();
            if !keyspaces.is_empty() && bytes > FREEZE_BYTES {
                break;
            }
            keyspaces.push(id);
        }
        (!keyspaces.is_empty()).then_some(Task::Freeze { keyspaces })
    }

    /// The runs that are to become tables first, of keyspaces of which none are being flushed.
    pub(super) fn choose_flush(&self) -> Option<Task> {
        let may_flush = |id| {
            !self.busy.claims.buffer.flushing.contains(&id)
                && self.busy.backoff.may_try((TaskKind::Flush, id), self.now)
        };
        let idle = || self.version.live().filter(|keyspace| may_flush(keyspace.id()));
        let through = |keyspace| self.busy.claims.buffer.flushed_through(keyspace);
        let pressure = self.database.commit.is_under_pressure();
        if self.database.files.may_share_tables()
            && self.busy.backoff.may_try((TaskKind::FlushSmall, 0), self.now)
        {
            // A keyspace whose flush failed is flushed alone: others are not to fail with it.
            let sound =
                idle().filter(|keyspace| !self.busy.backoff.has_failed((TaskKind::Flush, keyspace.id())));
            let flushes =
                pick_small(sound, &self.busy.claims.buffer.runs, pressure, through, &self.database.settings);
            if !flushes.is_empty() {
                return Some(Task::FlushSmall { flushes });
            }
        }
        let (keyspace, mut runs) =
            pick_flush(idle(), &self.busy.claims.buffer.runs, pressure, through, &self.database.settings)?;
        if self.busy.backoff.has_failed((TaskKind::Flush, keyspace)) {
            // What fails together may come off one by one, the oldest first.
            runs.drain(..runs.len().saturating_sub(1));
        }
        Some(Task::Flush { keyspace, runs })
    }
}
