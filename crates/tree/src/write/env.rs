//! The database around the pipeline of writes.

use firn_engine::{ErrorKind, KeyspaceId, Result};
use firn_format::{Position, Sequence};

use super::roll::Freeze;
use crate::commit::CommitEnv;
use crate::commit::env::{LargeSegment, Rolled};
use crate::database::Database;
use crate::log::capacity_for;

impl CommitEnv for Database {
    fn is_stopped(&self) -> bool {
        let bytes = self.settings.segment_bytes;
        // A writer was stopped for want of an ordinary segment, and there is none yet.
        self.commit.admission.wanted() == bytes
            && (!self.has_memory_for(bytes) || self.is_disk_wanted())
            && self.is_anything_to_drain()
    }

    fn may_remove(&self, base: Position, bytes: usize) -> Result<bool> {
        self.may_remove_at(base, bytes as u64)
    }

    fn begin_next(&self, base: Position, bytes: usize, removes: impl Fn() -> bool) -> Result<Rolled> {
        match self.roll(base, Freeze::Full) {
            Err(error) if error.kind() == ErrorKind::Retry && removes() => {
                self.roll(base, Freeze::Removal(bytes))
            }
            // Frames that remove nothing wait until the buffer is written out, and leave the room
            // for that.
            Ok(Rolled::Stopped) if self.has_memory_for(self.settings.segment_bytes) && removes() => {
                self.roll(base, Freeze::Removal(bytes))
            }
            rolled => rolled,
        }
    }

    fn begin_large(&self, bytes: usize, removes: bool) -> Result<Option<LargeSegment<'_>>> {
        loop {
            self.commit.log.check()?;
            let base = self.commit.log.active().base();
            if self.must_write_out(base)? || removes && !self.may_remove_at(base, bytes as u64)? {
                return Ok(None);
            }
            let Some(mut roll) = self.commit.log.lock_roll(base)? else { continue };
            let capacity = capacity_for(bytes);
            let wanted = if removes { 0 } else { capacity };
            let has_disk = self.has_disk_or_spares_for(wanted);
            let may_begin = self.may_begin(bytes as u64, (wanted, has_disk), Freeze::Full);
            let Some(freeze) = may_begin else { return Ok(None) };
            if !removes {
                self.leave_room(capacity).inspect_err(|_| self.commit.room.note_refused(capacity))?;
                self.commit.room.note_refused(0);
            }
            let reserved = if has_disk { capacity } else { 0 };
            let segment = self.begin_segment(&mut roll, (capacity, reserved), freeze)?;
            return Ok(Some(LargeSegment { segment, roll }));
        }
    }

    fn rolled(&self) {
        self.after_roll();
    }

    fn crosses(&self, start: Position) {
        self.groups.crosses(start);
    }

    fn newest_below(&self, keyspace: KeyspaceId, key: &[u8], end: Position) -> Result<Option<Sequence>> {
        self.newest_version(&self.catalog.version.load(), keyspace, key, end)
    }

    fn renew_pace(&self) {
        self.pace_by_debt();
    }

    fn renew_space_pace(&self) {
        self.pace_by_space();
    }

    fn wait_to_retry(&self) -> Result<()> {
        self.wait_for_room()
    }

    fn put_on_shared_storage(&self, end: Position) -> Result<()> {
        self.share_through(end)
    }
}

impl Database {
    /// Whether a frame that gets a segment of its own waits until the buffer has been written out;
    /// what it holds is frozen then.
    ///
    /// Such a frame may be longer than the buffer's limit. Two of them at once would exceed it
    /// twice, and so on.
    fn must_write_out(&self, base: Position) -> Result<bool> {
        if self.buffer_bytes() <= self.settings.buffer_bytes_max {
            return Ok(false);
        }
        if self.is_anything_to_drain() {
            return Ok(true);
        }
        let is_empty = self.catalog.version.load().live().all(|keyspace| keyspace.memtable.is_empty());
        if !is_empty {
            self.roll(base, Freeze::All)?;
        }
        Ok(!is_empty)
    }
}
