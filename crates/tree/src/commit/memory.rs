//! The memory of a database: what is held, and what the cache gives up for it.

use super::CommitPipeline;
use crate::memory::{CACHE_SHARE_MIN, UNCOUNTED_SHARE};
use crate::settings::page_cache_bytes;

impl CommitPipeline {
    /// Bytes held beside the cache: arenas and what tables keep in memory, in any version, recycled
    /// arenas, indexes of memtables and runs, and gaps. Indexes that only an old scan still holds
    /// are not among them.
    pub(crate) fn held_bytes(&self) -> u64 {
        // Recycled arenas first: what becomes one in between is counted twice otherwise.
        let recycled = self.log.recycled().arena_bytes();
        recycled
            + self.files.obsolete.live_bytes()
            + self.index_bytes()
            + self.reads.balance.gap_budget.bytes() as u64
    }

    /// Gives the cache what the budget leaves, and tells tables and blob segments whether they all
    /// fit beside it.
    pub(crate) fn balance_memory(&self) {
        let version = self.catalog.version.load();
        let tables = || version.live().flat_map(|keyspace| keyspace.levels.tables()).map(|(_, table)| table);
        let may_be_evicted =
            version.table_bytes() + version.blobs.sealed_bytes() > page_cache_bytes(&self.settings);
        tables().for_each(|table| table.reader().set_may_be_evicted(may_be_evicted));
        version.blobs.set_may_be_evicted(may_be_evicted);
        self.reads.balance.set_due(false);
        let arriving = self.reads.balance.lock();
        self.reads
            .cache
            .set_capacity_bytes(self.capacity_beside(self.reads.balance.reserve_bytes.max(*arriving)));
    }

    /// Makes the cache leave room for an arena of `bytes`, until
    /// [`arena_is_there`](Self::arena_is_there) is said.
    pub(crate) fn give_way(&self, bytes: u64) {
        let mut arriving = self.reads.balance.lock();
        *arriving = bytes;
        // Half of what the reserve holds for indexes: mostly there is more, and the roll has
        // nothing to do.
        let capacity = self.capacity_beside(bytes + self.settings.engine.log_segment_bytes / 2);
        if capacity < self.reads.cache.capacity_bytes() {
            self.reads.cache.set_capacity_bytes(capacity);
        }
    }

    /// The arena that [`give_way`](Self::give_way) was called for is counted by now, or will not
    /// come.
    pub(crate) fn arena_is_there(&self) {
        *self.reads.balance.lock() = 0;
        self.reads.balance.set_due(true);
    }

    /// What the cache may take beside what is held and `bytes` more.
    fn capacity_beside(&self, bytes: u64) -> u64 {
        let budget = self.settings.memory_bytes;
        let uncounted = budget / UNCOUNTED_SHARE;
        budget.saturating_sub(self.held_bytes() + uncounted + bytes).max(budget / CACHE_SHARE_MIN)
    }
}
