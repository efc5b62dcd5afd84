//! Where the entries of a shard are, and how often they were read.
//!
//! One word an entry, in a table with linear probing:
//!
//! ```text
//!  63   62 .. 37   36 35       34 .. 19   18 .. 0
//!  used  tag       frequency   chunk      offset / 8
//! ```
//! The tag's high bits say where the search for the word begins, so a table is rebuilt without a
//! look at the entries.

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 26;
const USED: u64 = 1 << 63;
const TAG_SHIFT: u32 = 37;
const FREQUENCY_SHIFT: u32 = 35;
const FREQUENCY_MAX: u64 = 3;
const CHUNK_SHIFT: u32 = 19;
const PLACE_MASK: u64 = (1 << FREQUENCY_SHIFT) - 1;
/// Fewest words of a table that has any.
const SLOTS_MIN: usize = 64;

/// Chunks that can be told apart.
pub(super) const CHUNK_COUNT_MAX: usize = 1 << (FREQUENCY_SHIFT - CHUNK_SHIFT);
/// Offsets in a chunk lie below this.
pub(super) const CHUNK_BYTES_MAX: usize = 8 << CHUNK_SHIFT;

/// Where an entry lies: the number of its chunk, and its offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) chunk: u32,
    pub(super) offset: usize,
}

impl Place {
    fn word(self) -> u64 {
        debug_assert!((self.chunk as usize) < CHUNK_COUNT_MAX && self.offset < CHUNK_BYTES_MAX);
        u64::from(self.chunk) << CHUNK_SHIFT | self.offset as u64 >> 3
    }

    fn of(word: u64) -> Self {
        let place = word & PLACE_MASK;
        Self {
            chunk: (place >> CHUNK_SHIFT) as u32,
            offset: ((place & ((1 << CHUNK_SHIFT) - 1)) << 3) as usize,
        }
    }
}

/// The words of one shard.
#[derive(Debug, Default)]
pub(super) struct Index {
    slots: Vec<u64>,
    len: usize,
}

impl Index {
    /// An empty index of `slots` words, a power of two; none with 0.
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![0; slots], len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    /// How many words it should have to take one more entry; `None` if those it has are enough.
    pub(super) fn wants_more(&self) -> Option<usize> {
        let fits = self.len < self.slots.len() / 4 * 3;
        (!fits).then(|| (self.slots.len() * 2).max(SLOTS_MIN))
    }

    /// How many words are enough where it has far too many.
    pub(super) fn wants_fewer(&self) -> Option<usize> {
        let wanted = (self.len * 2).next_power_of_two().max(SLOTS_MIN);
        (wanted * 4 <= self.slots.len()).then_some(wanted)
    }

    /// Takes all words of `other`.
    pub(super) fn take_all(&mut self, other: &Index) {
        other.slots.iter().filter(|word| **word != 0).for_each(|word| self.insert_word(*word));
    }

    /// The slot of the entry of this tag for which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, tag: u32, mut is_it: impl FnMut(Place) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = self.home(tag);
        loop {
            let word = self.slots[slot];
            if word == 0 {
                return None;
            }
            if tag_of(word) == tag && is_it(Place::of(word)) {
                return Some(slot);
            }
            slot = (slot + 1) & mask;
        }
    }

    #[inline]
    pub(super) fn place(&self, slot: usize) -> Place {
        Place::of(self.slots[slot])
    }

    /// How often the entry was read since it came to where it is, up to 3.
    pub(super) fn frequency(&self, slot: usize) -> u64 {
        self.slots[slot] >> FREQUENCY_SHIFT & FREQUENCY_MAX
    }

    /// The entry was read.
    #[inline]
    pub(super) fn count_read(&mut self, slot: usize) {
        if self.frequency(slot) < FREQUENCY_MAX {
            self.slots[slot] += 1 << FREQUENCY_SHIFT;
        }
    }

    /// Adds an entry that was not read yet. There must be a free slot beside the one it takes.
    pub(super) fn insert(&mut self, tag: u32, place: Place) {
        self.insert_word(USED | u64::from(tag) << TAG_SHIFT | place.word());
    }

    /// The entry lies somewhere else now, and counts as read so often.
    pub(super) fn relocate(&mut self, slot: usize, place: Place, frequency: u64) {
        let tag = self.slots[slot] & !(PLACE_MASK | FREQUENCY_MAX << FREQUENCY_SHIFT);
        self.slots[slot] = tag | frequency.min(FREQUENCY_MAX) << FREQUENCY_SHIFT | place.word();
    }

    /// Removes the entry; others move up, so slots found before mean nothing any more.
    pub(super) fn remove(&mut self, slot: usize) {
        let mask = self.slots.len() - 1;
        let (mut hole, mut next) = (slot, slot);
        loop {
            next = (next + 1) & mask;
            let word = self.slots[next];
            if word == 0 {
                break;
            }
            // It may not move up beyond where the search for it begins.
            let from_home = next.wrapping_sub(self.home(tag_of(word))) & mask;
            if from_home >= next.wrapping_sub(hole) & mask {
                self.slots[hole] = word;
                hole = next;
            }
        }
        self.slots[hole] = 0;
        self.len -= 1;
    }

    fn insert_word(&mut self, word: u64) {
        let mask = self.slots.len() - 1;
        let mut slot = self.home(tag_of(word));
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = word;
        self.len += 1;
    }

    /// Where the search for a tag begins.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        (tag >> (TAG_BITS - self.slots.len().trailing_zeros())) as usize
    }
}

#[inline]
fn tag_of(word: u64) -> u32 {
    (word >> TAG_SHIFT) as u32 & ((1 << TAG_BITS) - 1)
}
