//! Blocks and records in memory, for tables that are not read where they lie.
//!
//! ```text
//!   get, insert ─► shard (a lock each) ─► index: where it lies ─► chunk: its bytes
//!                    small ─► main: queues of chunks        ghosts: what went lately
//! ```
//! Entries of all sizes lie one behind the other in chunks, which are mapped one by one. Memory
//! that is given up is the system's again at once, and all of it (decision 0006).

mod chunk;
mod ghost;
mod index;
mod record;
mod shard;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_format::key::Sequence;
use firn_format::table::data::Shape;

use self::chunk::EntryKey;
use self::shard::Shard;

pub(crate) use self::record::CachedRecord;

/// A shard is no smaller than this at the capacity a cache begins with.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARD_COUNT_MAX: u64 = 64;
/// Chunks of a shard at that capacity, where the limits of their size allow.
const CHUNK_COUNT: u64 = 128;
const CHUNK_BYTES_MIN: u64 = 16 << 10;
const CHUNK_BYTES_MAX: u64 = 4 << 20;
const _: () = assert!(CHUNK_BYTES_MAX as usize <= index::CHUNK_BYTES_MAX);

/// Decompressed, checked blocks, and single records of blocks that are not kept; never more than
/// `capacity_bytes` of both together.
///
/// Where data is larger than memory, what point reads find is kept as records: a block around a hot
/// record is mostly cold ones. Shared by every table of a database; cheap to share between threads.
/// What is read once does not push out what is read again and again. Something larger than an
/// eighth of its shard's share of the capacity is not kept: reading it works, every time from the
/// file. Readers get copies, so no reader holds anything that left.
///
/// # Invariants
/// 1. What is held never exceeds the capacity: bytes kept, those that lie unused around them, index
///    and all. Memory over a smaller capacity is the system's again when it is set.
/// 2. A file number is given out once, so a new file never meets an old one's blocks.
pub struct BlockCache {
    shards: Box<[Mutex<Shard>]>,
    capacity_bytes: Mutex<u64>,
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

/// The number by which a cache knows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileNumber(u64);

impl BlockCache {
    /// An empty cache, which takes no memory yet. With `capacity_bytes` 0 it never keeps anything.
    ///
    /// How finely it is divided follows from this capacity; a cache that may grow begins with the
    /// most it may have.
    pub fn new(capacity_bytes: u64) -> Self {
        let shard_count = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARD_COUNT_MAX);
        let shard_bytes = capacity_bytes / shard_count;
        let wanted = 1 << (shard_bytes / CHUNK_COUNT).max(1).ilog2();
        let chunk_bytes = u64::clamp(wanted, CHUNK_BYTES_MIN, CHUNK_BYTES_MAX) as usize;
        let chunk_bytes = chunk_bytes.next_multiple_of(rustix::param::page_size());
        let shard = |_| Mutex::new(Shard::new(shard_bytes as usize, chunk_bytes));
        Self {
            shards: (0..shard_count).map(shard).collect(),
            capacity_bytes: Mutex::new(capacity_bytes),
            next_file: AtomicU64::new(0),
            miss_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes held now, overheads included.
    pub fn memory_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).held_bytes() as u64).sum()
    }

    /// The most it will hold.
    pub fn capacity_bytes(&self) -> u64 {
        *lock(&self.capacity_bytes)
    }

    /// Changes the capacity; what is over it goes at once, before this returns.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        let mut capacity = lock(&self.capacity_bytes);
        let shard_bytes = (capacity_bytes / self.shards.len() as u64) as usize;
        self.shards.iter().for_each(|shard| lock(shard).set_budget_bytes(shard_bytes));
        *capacity = capacity_bytes;
    }

    /// Bytes of blocks, as stored, that readers of tables fetched because they knew of no copy in
    /// memory. They were read from a file, or touched for the first time where the file is mapped.
    /// What jobs read is not among them.
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
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[cfg(test)]
    pub(crate) fn record_count(&self) -> usize {
        let records = |shard: &Mutex<Shard>| {
            let keys = lock(shard).keys();
            keys.iter().filter(|key| key.number & 1 == 1).count()
        };
        self.shards.iter().map(records).sum()
    }

    pub(crate) fn new_file(&self) -> FileNumber {
        // Only uniqueness counts, not order.
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// A copy of the block at `offset`.
    pub(crate) fn get(&self, file: FileNumber, offset: u64) -> Option<CachedBlock> {
        let payload = self.look(file, offset, <[u8]>::to_vec)?;
        let shape = Shape::of(&payload).ok()?;
        Some(CachedBlock { payload, shape })
    }

    /// What `look` makes of the payload of the block at `offset`; others that look into the same
    /// shard wait for it.
    pub(crate) fn look<T>(&self, file: FileNumber, offset: u64, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let key = block_key(file, offset);
        let hash = key.hash();
        self.shard(hash).get(hash, key, |payload| Some(look(payload)))
    }

    pub(crate) fn contains(&self, file: FileNumber, offset: u64) -> bool {
        let key = block_key(file, offset);
        let hash = key.hash();
        self.shard(hash).contains(hash, key)
    }

    /// Keeps a copy of `block`.
    pub(crate) fn insert(&self, file: FileNumber, offset: u64, block: &CachedBlock) {
        let key = block_key(file, offset);
        let hash = key.hash();
        self.shard(hash).insert(hash, key, &[&block.payload]);
    }

    /// A copy of what `file` answered for `key`, if that is the answer for a reader that sees
    /// sequences below `before`.
    ///
    /// Of the keys of one hash only the one asked for last is known.
    pub(crate) fn record(
        &self,
        file: FileNumber,
        key_hash: u32,
        key: &[u8],
        before: Sequence,
    ) -> Option<CachedRecord> {
        let entry = record_key(file, key_hash);
        let hash = entry.hash();
        self.shard(hash).get(hash, entry, |body| CachedRecord::read(body, key, before))
    }

    /// Keeps a copy of what `file` answers for `key`.
    pub(crate) fn insert_record(&self, file: FileNumber, key_hash: u32, key: &[u8], record: &CachedRecord) {
        let entry = record_key(file, key_hash);
        let hash = entry.hash();
        self.shard(hash).insert(hash, entry, &[&record.head(key), key, record.value()]);
    }

    #[inline]
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The bits that shards themselves do not look at.
        let index = ((hash >> 48) as usize * self.shards.len()) >> 16;
        lock(&self.shards[index])
    }
}

fn block_key(file: FileNumber, offset: u64) -> EntryKey {
    EntryKey { file: file.0, number: offset << 1 }
}

fn record_key(file: FileNumber, key_hash: u32) -> EntryKey {
    EntryKey { file: file.0, number: u64::from(key_hash) << 1 | 1 }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
mod tests;
