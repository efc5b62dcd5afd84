//! Copies of records that lie on the device, so that reading them again needs no device.
//!
//! ```text
//!   entry, marked ─► copy in the cache ─► the chain's newest record in the log ─► …
//!   entry, marked ─► copy in the cache        (of a record in the cold log)
//! ```
//! The cache is a log of its own that is on no device: copies go to its tail, and its oldest page
//! is given to new ones. A copy is in front of its chain. Each change of the chain takes it out,
//! since the entry leads to the new record then. So a copy that an entry leads to is what a reader
//! of the log would find. A key that is in the cold log alone has a chain of its copy alone.
//!
//! A copy that was read while it was there is copied again when its page goes (its second chance).
//! Nothing waits for room: what finds none is not copied.

use crate::epoch::Epochs;
use crate::log::{Log, PAGES_MIN, Parts, Record, Room};
use crate::sync::Ordering;

/// Pages that the cache has at most, if they are not too short then.
const PAGES: u64 = 128;

/// Words of a page as a power of two, at least and at most: 16 KiB and 4 MiB.
const PAGE_BITS: std::ops::RangeInclusive<u32> = 11..=19;

/// The read cache of one engine.
#[derive(Debug)]
pub(crate) struct ReadCache(Log);

impl ReadCache {
    /// A cache of up to so many bytes, which take memory as they are used; `None` for too few.
    pub(crate) fn new(bytes: u64) -> std::io::Result<Option<Self>> {
        let words = bytes / 8;
        let page_bits = (words / PAGES).max(1).ilog2().clamp(*PAGE_BITS.start(), *PAGE_BITS.end());
        if words < PAGES_MIN << page_bits {
            return Ok(None);
        }
        let first = 1 << page_bits;
        Ok(Some(Self(Log::new((first, first), words, page_bits)?)))
    }

    /// The copy at `address`.
    #[inline]
    pub(crate) fn record(&self, address: u64) -> Record<'_> {
        self.0.record(address)
    }

    /// Loads the first words of the copy at `address` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, address: u64) {
        self.0.prefetch(address);
    }

    /// Has up to so many bytes from now on. Pages that are too many go with the next
    /// [eviction](Self::evict).
    pub(crate) fn set_bytes_max(&self, epochs: &Epochs, bytes: u64) {
        self.0.set_capacity(epochs, bytes / 8);
    }

    /// Bytes that may be used.
    pub(crate) fn bytes_max(&self) -> u64 {
        8 * self.0.capacity()
    }

    /// Bytes in use, and so many pages more.
    pub(crate) fn bytes_filled_by(&self, pages: u64) -> u64 {
        self.bytes() + pages * self.page_bytes()
    }

    /// Where the next copy goes.
    pub(crate) fn next(&self) -> u64 {
        self.0.tail.next()
    }

    /// Where the oldest copy is.
    pub(crate) fn head(&self) -> u64 {
        self.0.head()
    }

    /// The first address of the page with `address`.
    pub(crate) fn page_of(&self, address: u64) -> u64 {
        self.0.tail.page_of(address)
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> u64 {
        8 * self.0.tail.page_words()
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.used_bytes()
    }

    /// Whether the oldest page is to go.
    pub(crate) fn wants_evict(&self) -> bool {
        self.0.wanted_head_by(self.decided()) > self.0.head() || self.0.wants_evict()
    }

    /// Before this address every copy is in front of its chain, or never will be.
    fn decided(&self) -> u64 {
        self.0.markers.safe_read_only.load(Ordering::Acquire)
    }

    /// Whether a copy with these parts fits.
    pub(crate) fn holds(&self, parts: &Parts<'_>) -> bool {
        self.0.holds(parts)
    }

    /// The pages that should go now: no entry may lead to copies in them when they
    /// [do](Self::evict).
    pub(crate) fn outgoing(&self) -> std::ops::Range<u64> {
        self.0.markers.flushed.load(Ordering::Acquire)..self.0.wanted_head_by(self.decided())
    }

    /// Gives the pages before `end` to new copies, once no operation reads them any more.
    pub(crate) fn evict(&self, epochs: &Epochs, end: u64) -> bool {
        // What the log takes for written out is what no entry leads to any more.
        self.0.markers.flushed.fetch_max(end, Ordering::AcqRel);
        self.0.evict(epochs)
    }

    /// Appends a copy that leads to `previous`; `None` where there is no room for it.
    pub(crate) fn append(&self, epochs: &Epochs, parts: &Parts<'_>, previous: u64) -> Option<u64> {
        let words = parts.shape.words();
        let address = match self.0.tail.reserve(words as u64) {
            Room::At(address) => address,
            Room::Turned(address) => {
                self.0.turn(epochs, address);
                address
            }
            Room::Full(_) => return None,
        };
        self.0.reserved(address, words).fill(parts, previous);
        Some(address)
    }
}
