//! How full memory and the log are, and what that means for writers.

use firn_engine::pace::RoomDebt;

use super::CommitPipeline;
use crate::memory::flush_bytes;

impl CommitPipeline {
    /// Memory of the buffer: arenas of live segments, memtables and run indexes.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let version = self.catalog.version.load();
        let arenas: u64 = version.segments.segments().iter().map(|segment| segment.memory_bytes()).sum();
        arenas + self.index_bytes()
    }

    /// Memory of the indexes of memtables and runs.
    pub(crate) fn index_bytes(&self) -> u64 {
        let version = self.catalog.version.load();
        version
            .live()
            .map(|keyspace| {
                let runs: u64 = keyspace.runs.iter().map(|run| run.memory_bytes()).sum();
                let frozen: usize = keyspace.frozen.iter().map(|frozen| frozen.memtable.memory_bytes()).sum();
                runs + (frozen + keyspace.memtable.memory_bytes()) as u64
            })
            .sum()
    }

    /// Whether runs must flush: the buffer is over its soft limit, the log is long, or a writer is
    /// stopped for want of room.
    pub(crate) fn is_under_pressure(&self) -> bool {
        let held = self.buffer_bytes();
        let wanted = self.admission.wanted();
        held > self.settings.engine.buffer_bytes
            || (wanted > 0 && held + wanted > self.settings.engine.buffer_bytes_max)
            || self.is_disk_wanted()
            || self.is_log_long(&self.catalog.version.load())
    }

    /// Whether a segment of `bytes` may begin, if the disk has room for it. One segment beside the
    /// active one always may.
    pub(crate) fn has_memory_for(&self, bytes: u64) -> bool {
        let version = self.catalog.version.load();
        if version.segments.segments().len() <= 1 {
            return true;
        }
        self.buffer_bytes() + bytes <= self.settings.engine.buffer_bytes_max
            && bytes <= self.log_room(&version)
    }

    /// Sets the pace of writers from the buffer's size and the log's length now.
    pub(crate) fn pace_by_debt(&self) {
        let held = self.buffer_bytes();
        let settings = &self.settings;
        // Between limits that are one segment apart there is no room to share out.
        let span = settings.engine.buffer_bytes_max.saturating_sub(settings.engine.buffer_bytes);
        let is_full = held > settings.engine.buffer_bytes && span > settings.engine.log_segment_bytes;
        let version = self.catalog.version.load();
        let is_long = self.is_log_long(&version)
            && settings.engine.log_bytes_max > 4 * settings.engine.log_segment_bytes;
        let active = self.log.active();
        let unused = active.memory_bytes().saturating_sub(active.region().published() as u64);
        let mut room = (settings.engine.buffer_bytes_max + unused)
            .saturating_sub(held + settings.engine.log_segment_bytes);
        if is_long {
            room = room
                .min((self.log_room(&version) + unused).saturating_sub(settings.engine.log_segment_bytes));
        }
        let flush_bytes = flush_bytes(settings.engine.buffer_bytes);
        let debt = RoomDebt { is_pressed: is_full || is_long, room_bytes: room, flush_bytes };
        self.pace.room.set(&debt, self.clock.now());
    }
}
