//! One word of the index: which records it leads to.

use super::hash::TAG_BITS;
use crate::sync::AtomicU64;

/// Bits of an address: 2^45 words of 8 bytes are 256 TiB of log.
pub(crate) const ADDRESS_BITS: u32 = 45;

const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const COPY: u64 = 1 << 61;
const FROZEN: u64 = 1 << 62;
const TENTATIVE: u64 = 1 << 63;

/// A word of a bucket: `address` 45 bits, `tag` 16, copy, frozen, tentative.
///
/// 1. Zero: free.
/// 2. *Tentative*: taken by an insertion that has not yet seen that it is alone with its tag. Not
///    there for lookups.
/// 3. *Copy*: the address is one of the read cache. What lies there leads to the log.
/// 4. *Frozen*: its bucket is being split. Never changes again; the entry's place is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    /// A free place.
    pub(crate) const FREE: Self = Self(0);

    pub(crate) fn new(tag: u16, address: u64) -> Self {
        debug_assert!(address <= ADDRESS_MASK && address > 0, "an address of {address} words");
        Self(u64::from(tag) << ADDRESS_BITS | address)
    }

    /// The newest record of the chain, in words of the log, or a copy of one in the read cache.
    #[inline]
    pub(crate) fn target(self) -> u64 {
        self.0 & ADDRESS_MASK
    }

    #[inline]
    pub(crate) fn tag(self) -> u16 {
        (self.0 >> ADDRESS_BITS & TAG_MASK) as u16
    }

    /// Which of `1 << size` buckets of its slot this belongs to.
    pub(crate) fn bucket(self, size: u32) -> u64 {
        u64::from(self.tag()) >> (TAG_BITS - size)
    }

    #[inline]
    pub(crate) fn is_free(self) -> bool {
        self.0 & !FROZEN == 0
    }

    #[inline]
    pub(crate) fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    #[inline]
    pub(crate) fn is_tentative(self) -> bool {
        self.0 & TENTATIVE != 0
    }

    pub(crate) fn tentative(self) -> Self {
        Self(self.0 | TENTATIVE)
    }

    /// Whether it leads to a copy in the read cache.
    #[inline]
    pub(crate) fn is_copy(self) -> bool {
        self.0 & COPY != 0
    }

    /// This entry, leading to `address` in the log.
    pub(crate) fn leading_to(self, address: u64) -> Self {
        debug_assert!(address <= ADDRESS_MASK && address > 0, "an address of {address} words");
        Self(self.0 & !(ADDRESS_MASK | COPY) | address)
    }

    /// This entry, leading to the copy at `address`.
    pub(crate) fn leading_to_copy(self, address: u64) -> Self {
        Self(self.leading_to(address).0 | COPY)
    }
}

/// Makes the entry in `word` one that never changes again; answers what it was.
pub(super) fn freeze(word: &AtomicU64) -> Entry {
    Entry(word.fetch_or(FROZEN, crate::sync::Ordering::AcqRel))
}
