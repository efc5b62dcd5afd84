//! Blocks and records in memory, for tables that are not read where they lie.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_format::key::{Sequence, Trailer};
use firn_format::table::data::Shape;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// What an entry costs beside its bytes: keys, pointers, the cache's own tables.
const ENTRY_OVERHEAD_BYTES: u64 = 128;
/// A shard smaller than this refuses blocks that people reasonably have.
const SHARD_BYTES_MIN: u64 = 4 << 20;
const SHARD_COUNT_MAX: u64 = 64;

/// Decompressed, checked blocks, and single records of blocks that are not kept; never more than `capacity_bytes`
/// of both together.
///
/// Where data is larger than memory, what point reads find is kept as records: a block around a hot record is mostly
/// cold ones. Shared by every table of a database; cheap to share between threads. What is read once does not
/// push out what is read again and again. A block larger than its shard's share of the capacity is not kept:
/// reading it works, every time from the file.
///
/// # Invariants
/// 1. The sum of the bytes kept and of what it takes to keep them never exceeds the capacity.
/// 2. A file number is given out once, so a new file never meets an old one's blocks.
pub struct BlockCache {
    kept: Cache<Key, Cached, Weight>,
    next_file: AtomicU64,
    miss_bytes: AtomicU64,
}

/// One block in memory.
#[derive(Debug, Default)]
pub struct CachedBlock {
    /// The payload, decompressed and checked.
    pub(crate) payload: Vec<u8>,
    /// Its shape as a data block.
    pub(crate) shape: Shape,
}

/// What a table answered for one key when asked for its newest version.
#[derive(Debug)]
pub(crate) struct CachedRecord {
    /// Key, then value.
    bytes: Box<[u8]>,
    key_bytes: usize,
    /// `None`: the table has no version of the key.
    found: Option<(Trailer, u64)>,
}

impl CachedRecord {
    /// The newest version of `key` in a table.
    pub(crate) fn found(key: &[u8], trailer: Trailer, expires_at_ms: u64, value: &[u8]) -> Self {
        let bytes = [key, value].concat().into_boxed_slice();
        Self { bytes, key_bytes: key.len(), found: Some((trailer, expires_at_ms)) }
    }

    /// A table has no version of `key`, whatever its filter says.
    pub(crate) fn absent(key: &[u8]) -> Self {
        Self { bytes: key.into(), key_bytes: key.len(), found: None }
    }

    /// Whether it is the answer for `key` to whoever sees sequences below `before`.
    pub(crate) fn answers(&self, key: &[u8], before: Sequence) -> bool {
        let is_seen = self.found.is_none_or(|(trailer, _)| trailer.sequence() < before);
        is_seen && self.bytes.get(..self.key_bytes) == Some(key)
    }

    /// Trailer and expiry of the version, if there is one.
    pub(crate) fn version(&self) -> Option<(Trailer, u64)> {
        self.found
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.bytes.get(self.key_bytes..).unwrap_or_default()
    }
}

/// The number by which a cache knows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileNumber(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// By its offset.
    Block(FileNumber, u64),
    /// By the filter hash of its key.
    Record(FileNumber, u32),
}

#[derive(Clone, Debug)]
enum Cached {
    Block(Arc<CachedBlock>),
    Record(Arc<CachedRecord>),
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Cached> for Weight {
    fn weight(&self, _: &Key, cached: &Cached) -> u64 {
        let bytes = match cached {
            Cached::Block(block) => block.payload.capacity(),
            Cached::Record(record) => record.bytes.len(),
        };
        bytes as u64 + ENTRY_OVERHEAD_BYTES
    }
}

impl BlockCache {
    /// An empty cache. With `capacity_bytes` 0 it never keeps anything.
    pub fn new(capacity_bytes: u64) -> Self {
        let shards = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARD_COUNT_MAX);
        let estimate = (capacity_bytes / 1024).clamp(16, 1 << 24) as usize;
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(estimate)
            .weight_capacity(capacity_bytes)
            .build();
        let kept = match options {
            Ok(options) => Cache::with_options(
                options,
                Weight,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            Err(_) => Cache::with_weighter(estimate, capacity_bytes, Weight),
        };
        Self { kept, next_file: AtomicU64::new(0), miss_bytes: AtomicU64::new(0) }
    }

    /// Bytes held now, overheads included.
    pub fn memory_bytes(&self) -> u64 {
        self.kept.weight()
    }

    /// The most it will hold.
    pub fn capacity_bytes(&self) -> u64 {
        self.kept.capacity()
    }

    /// Changes the capacity; what is over it goes at once.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.kept.set_capacity(capacity_bytes);
    }

    /// Bytes of blocks, as stored, that readers of tables fetched because they were in no memory they know of: read
    /// from a file, or touched for the first time where the file is mapped. What jobs read is not among them.
    pub fn miss_bytes_total(&self) -> u64 {
        self.miss_bytes.load(Ordering::Relaxed)
    }

    /// Counts a fetch of `bytes`.
    pub(crate) fn count_miss(&self, bytes: u64) {
        // A counter that nothing is ordered by.
        self.miss_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Blocks and records held now.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn record_count(&self) -> usize {
        self.kept.iter().filter(|(key, _)| matches!(key, Key::Record(..))).count()
    }

    pub(crate) fn new_file(&self) -> FileNumber {
        // Only uniqueness counts, not order.
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn get(&self, file: FileNumber, offset: u64) -> Option<Arc<CachedBlock>> {
        match self.kept.get(&Key::Block(file, offset)) {
            Some(Cached::Block(block)) => Some(block),
            _ => None,
        }
    }

    pub(crate) fn contains(&self, file: FileNumber, offset: u64) -> bool {
        self.kept.contains_key(&Key::Block(file, offset))
    }

    pub(crate) fn insert(&self, file: FileNumber, offset: u64, block: Arc<CachedBlock>) {
        self.kept.insert(Key::Block(file, offset), Cached::Block(block));
    }

    /// What `file` answered for a key of this hash, for whichever such key it was asked last.
    pub(crate) fn record(&self, file: FileNumber, key_hash: u32) -> Option<Arc<CachedRecord>> {
        match self.kept.get(&Key::Record(file, key_hash)) {
            Some(Cached::Record(record)) => Some(record),
            _ => None,
        }
    }

    pub(crate) fn insert_record(&self, file: FileNumber, key_hash: u32, record: Arc<CachedRecord>) {
        self.kept.insert(Key::Record(file, key_hash), Cached::Record(record));
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
    fn a_record_answers_for_its_key_and_for_who_sees_it() {
        let trailer = Trailer::new(Sequence(7), firn_format::Kind::Put);
        let found = CachedRecord::found(b"key", trailer, 5, b"value");
        assert_eq!((found.version(), found.value()), (Some((trailer, 5)), &b"value"[..]));
        assert!(found.answers(b"key", Sequence(8)));
        assert!(!found.answers(b"key", Sequence(7)), "a snapshot before it");
        assert!(!found.answers(b"keyv", Sequence(8)), "another key of the same hash");
        let absent = CachedRecord::absent(b"key");
        assert_eq!((absent.version(), absent.value()), (None, &b""[..]));
        assert!(absent.answers(b"key", Sequence(1)) && !absent.answers(b"ke", Sequence(1)));
    }

    #[test]
    fn records_and_blocks_share_the_capacity() {
        let cache = BlockCache::new(1 << 20);
        let file = cache.new_file();
        for number in 0..4000 {
            cache.insert(file, u64::from(number), block(4096));
            let record = CachedRecord::absent(&[0; 1000]);
            cache.insert_record(file, number, Arc::new(record));
            assert!(cache.memory_bytes() <= 1 << 20);
        }
        assert!((0..4000).any(|hash| cache.record(file, hash).is_some()));
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
