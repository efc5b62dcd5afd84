//! Blocks in memory, for tables that are not mapped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_format::table::data::Shape;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// What an entry costs beside its bytes: keys, pointers, the cache's own tables.
const ENTRY_OVERHEAD_BYTES: u64 = 128;
/// A shard smaller than this refuses blocks that people reasonably have.
const SHARD_BYTES_MIN: u64 = 4 << 20;
const SHARD_COUNT_MAX: u64 = 64;

/// Decompressed, checked blocks, never more than `capacity_bytes` of them.
///
/// Shared by every table of a database; cheap to share between threads. A block that is read once (a scan, a
/// compaction) does not push out one that is read again and again. A block larger than its shard's share of
/// the capacity is not kept: reading it works, every time from the file.
///
/// # Invariants
/// 1. The sum of the blocks' bytes and of what it takes to keep them never exceeds the capacity.
/// 2. A file number is given out once, so a new file never meets an old one's blocks.
pub struct BlockCache {
    blocks: Cache<BlockKey, Arc<CachedBlock>, BlockWeight>,
    next_file: AtomicU64,
}

/// One block in memory.
#[derive(Debug, Default)]
pub struct CachedBlock {
    /// The payload, decompressed and checked.
    pub(crate) payload: Vec<u8>,
    /// Its shape as a data block.
    pub(crate) shape: Shape,
}

/// The number by which a cache knows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileNumber(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BlockKey {
    file: FileNumber,
    offset: u64,
}

#[derive(Clone)]
struct BlockWeight;

impl Weighter<BlockKey, Arc<CachedBlock>> for BlockWeight {
    fn weight(&self, _: &BlockKey, block: &Arc<CachedBlock>) -> u64 {
        block.payload.capacity() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

impl BlockCache {
    /// An empty cache. With `capacity_bytes` 0 it never keeps anything.
    pub fn new(capacity_bytes: u64) -> Self {
        let shards = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARD_COUNT_MAX);
        let blocks_estimate = (capacity_bytes / 4096).clamp(16, 1 << 24) as usize;
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(blocks_estimate)
            .weight_capacity(capacity_bytes)
            .build();
        let blocks = match options {
            Ok(options) => Cache::with_options(
                options,
                BlockWeight,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            Err(_) => Cache::with_weighter(blocks_estimate, capacity_bytes, BlockWeight),
        };
        Self { blocks, next_file: AtomicU64::new(0) }
    }

    /// Bytes held now, overheads included.
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// The most it will hold.
    pub fn capacity_bytes(&self) -> u64 {
        self.blocks.capacity()
    }

    /// Changes the capacity; blocks over it go at once.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.blocks.set_capacity(capacity_bytes);
    }

    /// Blocks held now.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether no block is held.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn new_file(&self) -> FileNumber {
        // Only uniqueness counts, not order.
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn get(&self, file: FileNumber, offset: u64) -> Option<Arc<CachedBlock>> {
        self.blocks.get(&BlockKey { file, offset })
    }

    pub(crate) fn contains(&self, file: FileNumber, offset: u64) -> bool {
        self.blocks.contains_key(&BlockKey { file, offset })
    }

    pub(crate) fn insert(&self, file: FileNumber, offset: u64, block: Arc<CachedBlock>) {
        self.blocks.insert(BlockKey { file, offset }, block);
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("memory_bytes", &self.memory_bytes())
            .field("capacity_bytes", &self.capacity_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize) -> Arc<CachedBlock> {
        Arc::new(CachedBlock { payload: vec![0; bytes], shape: Shape::default() })
    }

    #[test]
    fn capacity_is_strict() {
        for capacity in [0, 1, 4000, 100_000, 50 << 20] {
            let cache = BlockCache::new(capacity);
            let file = cache.new_file();
            for offset in 0..30_000 {
                cache.insert(file, offset, block(4096));
                assert!(cache.memory_bytes() <= capacity, "{} of {capacity}", cache.memory_bytes());
            }
            assert_eq!(cache.capacity_bytes(), capacity);
            assert!(capacity < 100_000 || cache.memory_bytes() > capacity / 2);
        }
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_read_again() {
        let cache = BlockCache::new(4 << 20);
        let (hot, scanned) = (cache.new_file(), cache.new_file());
        let read = |file, offset| {
            if cache.get(file, offset).is_none() {
                cache.insert(file, offset, block(4096));
            }
        };
        for _ in 0..10 {
            (0..500).for_each(|offset| read(hot, offset));
        }
        (0..20_000).for_each(|offset| read(scanned, offset));
        let kept = (0..500).filter(|offset| cache.contains(hot, *offset)).count();
        assert!(kept > 450, "only {kept} of 500 hot blocks left");
    }

    #[test]
    fn files_do_not_meet() {
        let cache = BlockCache::new(1 << 20);
        let (one, two) = (cache.new_file(), cache.new_file());
        cache.insert(one, 0, block(1));
        assert!(cache.get(one, 0).is_some());
        assert!(cache.get(two, 0).is_none());
        cache.set_capacity_bytes(0);
        assert_eq!((cache.memory_bytes(), cache.len()), (0, 0));
    }
}
