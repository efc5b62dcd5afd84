//! Where the next record goes.

use std::fmt;

use firn_format::hybrid::ADDRESS_MAX;

use crate::sync::{Apart, AtomicU64, Ordering};

/// Where the last log ends: an entry of the index has no more bits.
pub(crate) const END_MAX: u64 = ADDRESS_MAX + 1;

/// The end of the log, which all writers move.
pub(crate) struct Tail {
    /// The first address that was never reserved.
    next: Apart<AtomicU64>,
    /// Addresses from here on have no memory yet.
    limit: Apart<AtomicU64>,
    page_bits: u32,
}

/// What a reservation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The words from this address on belong to the caller.
    At(u64),
    /// As `At`, and they are the first of a page.
    Turned(u64),
    /// Memory is full: the caller leaves its epoch, waits until the limit is beyond this address,
    /// and begins anew.
    Full(u64),
}

impl Tail {
    pub(super) fn new(begin: u64, limit: u64, page_bits: u32) -> Self {
        let limit = Apart(AtomicU64::new(limit.min(END_MAX)));
        Self { next: Apart(AtomicU64::new(begin)), limit, page_bits }
    }

    /// Reserves `words`, at most a page's, within one page: where the rest of a page is too short
    /// it stays zero, and they are the first of the next one.
    #[inline]
    pub(crate) fn reserve(&self, words: u64) -> Room {
        let page_words = 1 << self.page_bits;
        let mut seen = self.next.0.load(Ordering::Relaxed);
        loop {
            let rest = page_words - (seen & (page_words - 1));
            let start = if words <= rest { seen } else { seen + rest };
            let end = start + words;
            if end > self.limit.0.load(Ordering::Acquire) {
                return Room::Full(end);
            }
            match self.next.0.compare_exchange_weak(seen, end, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if start & (page_words - 1) == 0 => return Room::Turned(start),
                Ok(_) => return Room::At(start),
                Err(found) => seen = found,
            }
        }
    }

    /// The end of the log.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.0.load(Ordering::Acquire)
    }

    /// Addresses below have memory.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.0.load(Ordering::Acquire)
    }

    /// Addresses up to `limit`, as far as there are any, have zeroed memory from now on.
    pub(super) fn extend(&self, limit: u64) {
        self.limit.0.fetch_max(limit.min(END_MAX), Ordering::AcqRel);
    }

    /// Words of a page.
    pub(crate) fn page_words(&self) -> u64 {
        1 << self.page_bits
    }

    /// The first address of the page with `address`.
    pub(crate) fn page_of(&self, address: u64) -> u64 {
        address >> self.page_bits << self.page_bits
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("next", &self.next()).field("limit", &self.limit()).finish()
    }
}
