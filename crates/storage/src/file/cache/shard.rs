//! One shard: what it holds, and what goes when there is no room.

use std::collections::VecDeque;

use super::chunk::{Chunk, EntryKey, entry_bytes};
use super::ghost::Ghosts;
use super::index::{CHUNK_COUNT_MAX, Index, Place, TAG_BITS};

/// An entry may take this part of a shard's budget.
const ENTRY_SHARE_MAX: usize = 8;
/// Share of the chunks' bytes, one in so many, that `small` may hold before it is the one to give.
const SMALL_SHARE: usize = 10;
/// Bytes that one call may copy because they were read; then a chunk goes with all it holds. It
/// bounds how long readers of the shard wait where all of it was read, to some milliseconds.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Entries of one part of all keys, in chunks in two queues (S3-FIFO).
///
/// What is new is appended to `small`. Of the oldest chunk of `small` what was read since goes to
/// `main`. Of the oldest of `main` what was read goes to the end of `main`, as read once less. The
/// rest is given up with the chunk. What leaves `small` unread is remembered for a while by its
/// fingerprint, and goes to `main` directly if it comes back.
///
/// 1. Chunks, index, ghosts and tables never take more than the budget.
/// 2. While there are chunks, one more may be taken within the budget: what a chunk leaves behind
///    fits in one. That room is what `recycled` may fill.
/// 3. An entry counts if the index says that it lies where it does; others are remains of it.
#[derive(Debug)]
pub(super) struct Shard {
    budget_bytes: usize,
    chunk_bytes: usize,
    chunks: Vec<Option<Chunk>>,
    /// Numbers of chunks that are not in use.
    free: Vec<u32>,
    small: Queue,
    main: Queue,
    /// A chunk that is in no queue, kept for the next one to begin.
    recycled: Option<Chunk>,
    index: Index,
    ghosts: Ghosts,
}

/// Chunks by number, oldest first. Entries are appended to the last.
#[derive(Debug, Default)]
struct Queue {
    numbers: VecDeque<u32>,
    bytes: usize,
}

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Small,
    Main,
}

/// What the hash of an entry's key is used for in a shard.
#[derive(Clone, Copy)]
struct Hash {
    tag: u32,
    print: u16,
}

impl Hash {
    fn of(hash: u64) -> Self {
        Self { tag: (hash >> 22) as u32 & ((1 << TAG_BITS) - 1), print: hash as u16 }
    }
}

impl Shard {
    /// An empty shard, which takes no memory yet. Its chunks are `chunk_bytes` long, whatever
    /// becomes of its budget.
    pub(super) fn new(budget_bytes: usize, chunk_bytes: usize) -> Self {
        Self {
            budget_bytes,
            chunk_bytes,
            chunks: Vec::new(),
            free: Vec::new(),
            small: Queue::default(),
            main: Queue::default(),
            recycled: None,
            index: Index::default(),
            ghosts: Ghosts::default(),
        }
    }

    /// Bytes held, all of them.
    pub(super) fn held_bytes(&self) -> usize {
        self.used_bytes() + self.recycled.as_ref().map_or(0, Chunk::bytes)
    }

    /// Entries held.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// What `read` makes of the entry's body, which then counts as read; `None` if there is no such
    /// entry, or `read` says so.
    #[inline]
    pub(super) fn get<T>(
        &mut self,
        hash: u64,
        key: EntryKey,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let slot = self.find(Hash::of(hash).tag, key)?;
        let place = self.index.place(slot);
        let found = read(self.chunks[place.chunk as usize].as_ref()?.entry(place.offset)?.body)?;
        self.index.count_read(slot);
        Some(found)
    }

    /// Whether there is such an entry; it does not count as read.
    pub(super) fn contains(&self, hash: u64, key: EntryKey) -> bool {
        self.find(Hash::of(hash).tag, key).is_some()
    }

    /// Keeps `body` (its parts one after the other) for `key`, instead of what was kept for it.
    ///
    /// Not if it takes more than an eighth of the budget, or there is no memory for it.
    pub(super) fn insert(&mut self, hash: u64, key: EntryKey, body: &[&[u8]]) {
        let hash = Hash::of(hash);
        let bytes = entry_bytes(body.iter().map(|part| part.len()).sum());
        if let Some(slot) = self.find(hash.tag, key) {
            if self.holds(slot, body) {
                // Two readers missed it at once.
                return self.index.count_read(slot);
            }
            self.index.remove(slot);
        }
        if bytes > self.budget_bytes / ENTRY_SHARE_MAX {
            return;
        }
        let which = if self.ghosts.remove(hash.tag, hash.print) { Which::Main } else { Which::Small };
        if let Some(slots) = self.index.wants_more() {
            if slots > SLOTS_MAX || !self.make_room(index_bytes(slots)) {
                return;
            }
            self.rebuild_index(slots);
        }
        if let Some(place) = self.append(which, bytes, key, body) {
            self.index.insert(hash.tag, place);
        }
    }

    /// Changes the budget; what is over it goes at once.
    pub(super) fn set_budget_bytes(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        if !self.make_room(0) {
            // Not even room for one chunk: nothing can be kept.
            *self = Self::new(budget_bytes, self.chunk_bytes);
        }
    }

    /// Keys of all entries.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<EntryKey> {
        let mut keys = Vec::new();
        for (number, chunk) in self.chunks.iter().enumerate() {
            let (Some(chunk), mut offset) = (chunk, 0) else { continue };
            while let Some(entry) = chunk.entry(offset) {
                let place = Place { chunk: number as u32, offset };
                let tag = Hash::of(entry.key.hash()).tag;
                keys.extend(self.index.find(tag, |known| known == place).map(|_| entry.key));
                offset += entry.whole.len();
            }
        }
        keys
    }

    #[inline]
    fn find(&self, tag: u32, key: EntryKey) -> Option<usize> {
        self.index.find(tag, |place| {
            let chunk = self.chunks[place.chunk as usize].as_ref();
            chunk.and_then(|chunk| chunk.entry(place.offset)).is_some_and(|entry| entry.key == key)
        })
    }

    /// Whether the entry's body is `body`.
    fn holds(&self, slot: usize, body: &[&[u8]]) -> bool {
        let place = self.index.place(slot);
        let chunk = self.chunks[place.chunk as usize].as_ref();
        let Some(entry) = chunk.and_then(|chunk| chunk.entry(place.offset)) else { return false };
        let mut rest = entry.body;
        body.iter().all(|part| {
            let same = rest.strip_prefix(*part);
            rest = same.unwrap_or_default();
            same.is_some()
        }) && rest.is_empty()
    }

    /// Bytes held, less the recycled chunk's.
    fn used_bytes(&self) -> usize {
        self.small.bytes
            + self.main.bytes
            + self.index.memory_bytes()
            + self.ghosts.memory_bytes()
            + self.chunks.capacity() * size_of::<Option<Chunk>>()
            + (self.free.capacity() + self.small.numbers.capacity() + self.main.numbers.capacity())
                * size_of::<u32>()
    }

    /// Appends an entry of `bytes` to a queue; `None` if there is no memory for it.
    fn append(&mut self, which: Which, bytes: usize, key: EntryKey, body: &[&[u8]]) -> Option<Place> {
        if bytes > self.chunk_bytes / 2 {
            return self.append_large(which, bytes, key, body);
        }
        if self.last_with_room(which, bytes).is_none() {
            self.make_tables()?;
            // Relieving a chunk may have begun one at the end of this very queue.
            if !self.make_room(self.chunk_bytes) {
                return None;
            }
            if self.last_with_room(which, bytes).is_none() {
                self.begin_chunk(which)?;
            }
        }
        let number = self.last_with_room(which, bytes)?;
        let offset = self.chunks[number as usize].as_mut()?.push(key, body);
        Some(Place { chunk: number, offset })
    }

    /// Puts an entry of `bytes` into a chunk of its own.
    #[cold]
    fn append_large(&mut self, which: Which, bytes: usize, key: EntryKey, body: &[&[u8]]) -> Option<Place> {
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        self.make_tables()?;
        if !self.make_room(bytes) {
            return None;
        }
        let mut chunk = Chunk::map(bytes)?;
        let offset = chunk.push(key, body);
        let number = self.number_chunk(chunk)?;
        self.queue_whole(which, number, bytes);
        Some(Place { chunk: number, offset })
    }

    /// The last chunk of a queue, if an entry of `bytes` can be appended to it.
    #[inline]
    fn last_with_room(&self, which: Which, bytes: usize) -> Option<u32> {
        let number = *self.queue(which).numbers.back()?;
        let chunk = self.chunks[number as usize].as_ref()?;
        (chunk.has_room(bytes) && chunk.bytes() == self.chunk_bytes).then_some(number)
    }

    /// Appends an empty chunk to a queue: the recycled chunk, or a new one, for which there must be
    /// room.
    fn begin_chunk(&mut self, which: Which) -> Option<()> {
        let chunk = match self.recycled.take() {
            Some(chunk) => chunk,
            None => Chunk::map(self.chunk_bytes)?,
        };
        let number = self.number_chunk(chunk)?;
        let bytes = self.chunk_bytes;
        let queue = self.queue_mut(which);
        queue.numbers.push_back(number);
        queue.bytes += bytes;
        Some(())
    }

    /// Puts a chunk that takes no more entries into a queue, before the chunk that does.
    fn queue_whole(&mut self, which: Which, number: u32, bytes: usize) {
        let queue = self.queue_mut(which);
        let last = queue.numbers.pop_back();
        queue.numbers.push_back(number);
        queue.numbers.extend(last);
        queue.bytes += bytes;
    }

    /// Gives a chunk a number; the tables have room for it.
    fn number_chunk(&mut self, chunk: Chunk) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.chunks[number as usize] = Some(chunk);
            return Some(number);
        }
        debug_assert!(self.chunks.len() < self.chunks.capacity(), "tables are made before chunks");
        self.chunks.push(Some(chunk));
        Some(self.chunks.len() as u32 - 1)
    }

    /// Sees to it that two chunks more can be numbered and queued: one to begin, and one for what
    /// the next chunk to be relieved leaves.
    fn make_tables(&mut self) -> Option<()> {
        if self.free.len() + self.chunks.capacity() - self.chunks.len() >= 2 {
            return Some(());
        }
        let count = (self.chunks.capacity() * 2).max(16);
        if count > CHUNK_COUNT_MAX || !self.make_room(count * TABLE_BYTES) {
            return None;
        }
        self.chunks.reserve_exact(count - self.chunks.len());
        self.free.reserve_exact(count - self.free.len());
        for queue in [&mut self.small, &mut self.main] {
            queue.numbers.reserve_exact(count - queue.numbers.len());
        }
        Some(())
    }

    /// Gives chunks up until `bytes` more may be held, and one chunk beside them (invariant 2);
    /// `false` if that cannot be.
    fn make_room(&mut self, bytes: usize) -> bool {
        let mut kept_bytes = 0;
        while self.used_bytes() + bytes + self.chunk_bytes > self.budget_bytes {
            let Some(kept) = self.relieve(kept_bytes < KEPT_BYTES_MAX) else { return false };
            kept_bytes += kept;
            if let Some(slots) = self.index.wants_fewer()
                && self.held_bytes() + index_bytes(slots) <= self.budget_bytes
            {
                self.rebuild_index(slots);
            }
        }
        true
    }

    /// Gives up the chunk whose turn it is, and with it what was not read in it, or everything
    /// unless it `keeps`. Answers the bytes kept; `None` if there is no chunk.
    fn relieve(&mut self, keeps: bool) -> Option<usize> {
        let is_small = self.small.bytes > (self.small.bytes + self.main.bytes) / SMALL_SHARE;
        let from = if is_small || self.main.numbers.is_empty() { Which::Small } else { Which::Main };
        let number = self.queue_mut(from).numbers.pop_front()?;
        let mut chunk = self.chunks[number as usize].take()?;
        self.queue_mut(from).bytes -= chunk.bytes();
        if chunk.bytes() != self.chunk_bytes {
            return Some(self.relieve_large(from, number, chunk, keeps));
        }
        let (mut offset, mut kept_bytes) = (0, 0);
        while let Some(entry) = chunk.entry(offset) {
            let (hash, place) = (Hash::of(entry.key.hash()), Place { chunk: number, offset });
            offset += entry.whole.len();
            let Some(slot) = self.index.find(hash.tag, |known| known == place) else { continue };
            let frequency = self.index.frequency(slot);
            let kept = if keeps && frequency > 0 { self.append_kept(entry.whole) } else { None };
            match kept {
                Some(place) => {
                    kept_bytes += entry.whole.len();
                    self.index.relocate(slot, place, left(from, frequency));
                }
                None => self.give_up(from, hash, slot),
            }
        }
        chunk.clear();
        self.free.push(number);
        self.recycled.get_or_insert(chunk);
        Some(kept_bytes)
    }

    /// As [`relieve`](Self::relieve) for a chunk of one entry, which is kept or given up as it is.
    #[cold]
    fn relieve_large(&mut self, from: Which, number: u32, chunk: Chunk, keeps: bool) -> usize {
        let place = Place { chunk: number, offset: 0 };
        let hash = chunk.entry(0).map(|entry| Hash::of(entry.key.hash()));
        if let Some(hash) = hash
            && let Some(slot) = self.index.find(hash.tag, |known| known == place)
        {
            let frequency = self.index.frequency(slot);
            if keeps && frequency > 0 {
                self.index.relocate(slot, place, left(from, frequency));
                let bytes = chunk.bytes();
                self.chunks[number as usize] = Some(chunk);
                self.queue_whole(Which::Main, number, bytes);
                return bytes;
            }
            self.give_up(from, hash, slot);
        }
        self.free.push(number);
        0
    }

    fn give_up(&mut self, from: Which, hash: Hash, slot: usize) {
        self.index.remove(slot);
        if from == Which::Small {
            self.ghosts.insert(hash.tag, hash.print);
        }
    }

    /// Appends an entry of a chunk that is being relieved to `main`, in the room kept for that if
    /// need be.
    fn append_kept(&mut self, whole: &[u8]) -> Option<Place> {
        if self.last_with_room(Which::Main, whole.len()).is_none() {
            self.begin_chunk(Which::Main)?;
        }
        let number = self.last_with_room(Which::Main, whole.len())?;
        let offset = self.chunks[number as usize].as_mut()?.push_whole(whole);
        Some(Place { chunk: number, offset })
    }

    /// Gives the index `slots` words and the ghosts as much room as half of them; ghosts are
    /// forgotten.
    fn rebuild_index(&mut self, slots: usize) {
        self.ghosts = Ghosts::new(slots / GHOST_SHARE);
        let old = std::mem::replace(&mut self.index, Index::new(slots));
        self.index.take_all(&old);
    }

    fn queue(&self, which: Which) -> &Queue {
        match which {
            Which::Small => &self.small,
            Which::Main => &self.main,
        }
    }

    fn queue_mut(&mut self, which: Which) -> &mut Queue {
        match which {
            Which::Small => &mut self.small,
            Which::Main => &mut self.main,
        }
    }
}

/// More words than this cannot be told apart by their tags.
const SLOTS_MAX: usize = 1 << TAG_BITS;
/// Bytes of tables for each chunk.
const TABLE_BYTES: usize = size_of::<Option<Chunk>>() + 3 * size_of::<u32>();
/// Words of the index for each ghost; of every eight words, three to six are in use.
const GHOST_SHARE: usize = 2;

/// Bytes of an index of `slots` words and the ghosts beside it.
fn index_bytes(slots: usize) -> usize {
    slots * size_of::<u64>() + Ghosts::bytes_for(slots / GHOST_SHARE)
}

/// As how often read an entry begins its new turn.
fn left(from: Which, frequency: u64) -> u64 {
    match from {
        Which::Small => 0,
        Which::Main => frequency.saturating_sub(1),
    }
}
