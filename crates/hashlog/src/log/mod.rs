//! The hybrid log: addresses, the memory under its newest part, and what may be done where.
//!
//! ```text
//!  begin ─ … ─ head ─ … ─ safe read-only ─ … ─ read-only ─ … ─ tail ─ … ─ limit
//!  │ device    │ memory, never changes     │ changes end   │ changed in place   │ zeroed pages
//! ```
//! An address counts words of 8 bytes. Memory is a ring: the word of an address is where its lower
//! bits say. Records never cross a page.

mod markers;
mod record;
mod tail;

pub(crate) use markers::Markers;
pub(crate) use record::{Content, NewRecord, Parts, Record};
pub(crate) use tail::{END_MAX, Room};

use std::io;
use std::sync::Arc;

use firn_arena::Words;
use firn_format::hybrid::ADDRESS_MIN;

use crate::epoch::Epochs;
use crate::sync::{AtomicU64, Ordering};
use tail::Tail;

/// Pages from the tail's on that are kept free, so that writers seldom wait for one: records of a
/// page together [have room](Log::end_of_room) wherever in its page the tail is.
const FREE_PAGES: u64 = 4;

/// Pages that are never changed in place: those on their way to the device.
const READ_ONLY_PAGES_MIN: u64 = FREE_PAGES + 2;

/// Pages that a log has at least.
pub(crate) const PAGES_MIN: u64 = 2 * READ_ONLY_PAGES_MIN;

/// Memory reaches beyond the tail by this part of what may be in memory.
const AHEAD_PART: u64 = 8;

/// The log of one engine, as far as it is in memory.
#[derive(Debug)]
pub(crate) struct Log {
    memory: Words,
    /// Words of the ring less one.
    mask: u64,
    /// Words that may be in memory at once: whole pages, no more than the ring's.
    capacity: AtomicU64,
    /// Memory is wanted up to here, if that is more than what is kept free.
    wanted: AtomicU64,
    pub(crate) tail: Tail,
    pub(crate) markers: Arc<Markers>,
}

impl Log {
    /// A log that goes on at `next`, with up to `capacity` words in memory, in pages of
    /// `1 << page_bits` words: some pages at first, more as they are [wanted](Self::evict). What
    /// lies in `begin..next` is on the device.
    pub(crate) fn new((begin, next): (u64, u64), capacity: u64, page_bits: u32) -> io::Result<Self> {
        let capacity = (capacity >> page_bits).max(PAGES_MIN) << page_bits;
        let ring = capacity.next_power_of_two();
        // The first page may have been begun before: its first words are on the device alone.
        let first_page = next >> page_bits << page_bits;
        Ok(Self {
            memory: Words::zeroed(usize::try_from(ring).map_err(|_| io::ErrorKind::InvalidInput)?)?,
            mask: ring - 1,
            capacity: AtomicU64::new(capacity),
            wanted: AtomicU64::new(0),
            tail: Tail::new(next, first_page + (PAGES_MIN << page_bits), page_bits),
            markers: Arc::new(Markers::new(begin.max(ADDRESS_MIN), next, first_page)),
        })
    }

    /// The record at `address`, which is in memory.
    #[inline]
    pub(crate) fn record(&self, address: u64) -> Record<'_> {
        Record::at(&self.memory, (address & self.mask) as usize)
    }

    /// The words that were reserved at `address`.
    #[inline]
    pub(crate) fn reserved(&self, address: u64, words: usize) -> NewRecord<'_> {
        let first = (address & self.mask) as usize;
        NewRecord::over(self.memory.words(first..first + words))
    }

    /// Loads the first words of the record at `address` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, address: u64) {
        firn_storage::backend::prefetch(self.memory.word((address & self.mask) as usize));
    }

    /// Appends the words from `address` on to `out`; they are in memory, within one page.
    pub(crate) fn copy_words(&self, address: u64, count: usize, out: &mut Vec<u8>) {
        let first = (address & self.mask) as usize;
        for word in self.memory.words(first..first + count) {
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
    }

    /// The oldest address there is.
    #[inline]
    pub(crate) fn begin(&self) -> u64 {
        self.markers.begin.load(Ordering::Acquire)
    }

    /// The oldest address that is in memory.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.markers.head.load(Ordering::Acquire)
    }

    /// The oldest address of which records may be changed in place.
    #[inline]
    pub(crate) fn read_only(&self) -> u64 {
        self.markers.read_only.load(Ordering::Acquire)
    }

    /// Whether a record with these parts lies in the log, or its value in a file of its own.
    #[inline]
    pub(crate) fn holds(&self, parts: &Parts<'_>) -> bool {
        parts.shape.words() as u64 <= self.tail.page_words() / 4
    }

    /// Has the log begin at `address`. No operation is under way.
    pub(crate) fn begin_at(&self, address: u64) {
        self.markers.begin.fetch_max(address, Ordering::SeqCst);
    }

    /// Words that may be in memory at once.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// What [`set_capacity`](Self::set_capacity) makes of so many words: whole pages, at least
    /// [`PAGES_MIN`] and at most the ring's.
    pub(crate) fn clamped(&self, words: u64) -> u64 {
        let page_words = self.tail.page_words();
        ((words / page_words).max(PAGES_MIN) * page_words).min(self.mask + 1)
    }

    /// Has so many words in memory from now on, [as far](Self::clamped) as there are pages for
    /// them. Where that is less than before, pages go with the next [`evict`](Self::evict) after
    /// they are on the device.
    pub(crate) fn set_capacity(&self, epochs: &Epochs, words: u64) {
        let capacity = self.clamped(words);
        if self.capacity.swap(capacity, Ordering::Relaxed) > capacity {
            self.turn(epochs, self.tail.next());
        }
    }

    /// Has memory reach beyond this address as soon as what has to go for it is on the device.
    pub(crate) fn want_room(&self, epochs: &Epochs, beyond: u64) {
        // A page more, since memory begins with a whole one.
        let wanted = beyond + self.tail.page_words();
        self.wanted.fetch_max(wanted, Ordering::AcqRel);
        let read_only = self.tail.page_of(wanted.saturating_sub(self.capacity())) + self.tail.page_words();
        if read_only > self.read_only() {
            self.markers.move_read_only(epochs, read_only.min(self.tail.next()));
        }
    }

    /// Whether a caller has asked for more memory at once than is kept free.
    pub(crate) fn is_asked_for_more(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.tail.next() + FREE_PAGES * self.tail.page_words()
    }

    /// Whether there is memory for `words` in records of any length.
    pub(crate) fn has_room(&self, words: u64) -> bool {
        self.end_of_room(words) <= self.tail.limit()
    }

    /// Where memory has to reach so that there is room for `words` in records of any length.
    pub(crate) fn end_of_room(&self, words: u64) -> u64 {
        // The rest of each page may be too short for the next record, which takes a quarter of one
        // at most.
        self.tail.next() + words + words / 2 + self.tail.page_words()
    }

    /// The tail has come to the page of `address`: what lies far enough before it is read-only.
    #[cold]
    pub(crate) fn turn(&self, epochs: &Epochs, address: u64) {
        let (capacity, page) = (self.capacity(), self.tail.page_words());
        // Words before the tail's page that may be changed in place.
        let mutable = capacity - (capacity / 10 / page).max(READ_ONLY_PAGES_MIN) * page;
        let read_only = self.tail.page_of(address).saturating_sub(mutable);
        self.markers.move_read_only(epochs, read_only);
    }

    /// Takes pages that are on the device out of memory, as many as the tail will need next.
    /// Answers whether it did anything.
    pub(crate) fn evict(&self, epochs: &Epochs) -> bool {
        let has_moved = self.markers.move_head(epochs, self.wanted_head());
        epochs.run_due();
        has_moved | self.free_evicted()
    }

    /// Whether [`evict`](Self::evict) would do anything.
    pub(crate) fn wants_evict(&self) -> bool {
        if self.wanted_head() > self.head() {
            return true;
        }
        let freed = *self.markers.freed();
        self.evicted() > freed || self.wanted_limit(freed) > self.tail.limit()
    }

    /// Where memory should begin, as far as what lies before is on the device.
    fn wanted_head(&self) -> u64 {
        self.wanted_head_by(self.markers.flushed.load(Ordering::Acquire))
    }

    /// Where memory should begin, if what lies before `needless` need not be in it.
    pub(crate) fn wanted_head_by(&self, needless: u64) -> u64 {
        let kept = self.tail.next() + FREE_PAGES * self.tail.page_words();
        let wanted = kept.max(self.wanted.load(Ordering::Acquire));
        self.tail.page_of(wanted.saturating_sub(self.capacity()).min(needless))
    }

    /// Where memory should end that the tail may use, if what lies before `freed` was given back.
    /// Not far beyond the tail: how much may be in memory changes.
    fn wanted_limit(&self, freed: u64) -> u64 {
        let (capacity, page_words) = (self.capacity(), self.tail.page_words());
        let ahead = (capacity / AHEAD_PART).max(PAGES_MIN / 2 * page_words);
        let wanted = (self.tail.next() + ahead).max(self.wanted.load(Ordering::Acquire));
        self.tail.page_of(wanted + page_words - 1).min(freed + capacity)
    }

    /// Where memory begins that an operation can still read: whole pages before are evicted. After
    /// an opening the head is amid a page.
    fn evicted(&self) -> u64 {
        self.tail.page_of(self.markers.safe_head.load(Ordering::Acquire))
    }

    /// Gives the memory of pages that no operation can still read to the tail.
    fn free_evicted(&self) -> bool {
        let mut freed = self.markers.freed();
        let safe_head = self.evicted();
        if *freed >= safe_head && self.wanted_limit(*freed) <= self.tail.limit() {
            return false;
        }
        while *freed < safe_head {
            let end = safe_head.min((*freed | self.mask) + 1);
            let first = (*freed & self.mask) as usize;
            self.memory.discard(first..first + (end - *freed) as usize);
            *freed = end;
        }
        self.tail.extend(self.wanted_limit(*freed));
        drop(freed);
        self.markers.notify();
        true
    }

    /// Bytes of the log that are in memory.
    pub(crate) fn used_bytes(&self) -> u64 {
        8 * (self.tail.next() - self.head())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Words of a page that an opening goes on amid are zero when the page is used again, too.
    #[test]
    fn a_page_that_was_begun_before_is_zeroed_whole() {
        let (page_bits, first_page) = (12, 5 << 12);
        let epochs = Epochs::new(None);
        let next = first_page + 300;
        let log = Log::new((ADDRESS_MIN, next), 0, page_bits).expect("memory");
        let words = || {
            let first = (first_page & log.mask) as usize;
            log.memory.words(first..first + (1 << page_bits)).iter()
        };
        words().skip(300).for_each(|word| word.store(7, Ordering::Relaxed));
        log.evict(&epochs);
        assert!(words().skip(300).all(|word| word.load(Ordering::Relaxed) == 7), "it is in use");
        log.markers.move_head(&epochs, first_page + (1 << page_bits));
        assert!(log.wants_evict());
        log.evict(&epochs);
        assert!(words().all(|word| word.load(Ordering::Relaxed) == 0));
    }
}
