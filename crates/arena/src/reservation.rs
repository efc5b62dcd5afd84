//! A range of a region that one writer fills.

use crate::memory::Memory;
use crate::sync::{AtomicBool, Ordering};
use std::fmt;

/// The bytes of the frame before its body: length and checksum, in one word.
const FIRST_WORD_BYTES: usize = 8;

/// A range that belongs to its holder until it publishes.
///
/// 1. It overlaps no other reservation, and no thread reads it before it is published.
/// 2. Dropping it unpublished abandons the region: nothing after it can ever be published
///    ([`is_abandoned`](crate::Region::is_abandoned)). Forgetting it (`mem::forget`) has the same
///    effect but goes unnoticed.
#[must_use = "dropped without `publish`, a reservation abandons its region"]
pub struct Reservation<'r> {
    memory: &'r Memory,
    abandoned: &'r AtomicBool,
    offset: usize,
    bytes: usize,
    published: bool,
}

impl<'r> Reservation<'r> {
    /// For `Region::reserve`, which has made sure that no other reservation overlaps this range of
    /// `memory`. Sets `abandoned` if it is dropped unpublished.
    #[inline]
    pub(crate) fn new(memory: &'r Memory, abandoned: &'r AtomicBool, offset: usize, bytes: usize) -> Self {
        Self { memory, abandoned, offset, bytes, published: false }
    }

    /// Where the range begins in the region; a multiple of 8.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Length of the range, the first word included; a multiple of 8.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a reservation is never empty")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// All bytes of the range but the first 8, zeroed until written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (offset, bytes) = (self.offset + FIRST_WORD_BYTES, self.bytes - FIRST_WORD_BYTES);
        // SAFETY: invariant 2: no other reservation overlaps these bytes; invariant 3: only this
        // one reaches them until it publishes, which takes it by value; `&mut self` keeps this
        // slice the only one, and borrows the region for as long.
        #[expect(unsafe_code, reason = "the slice into the arena")]
        unsafe {
            self.memory.slice_mut(offset, bytes)
        }
    }

    /// Stores the first word and with it hands the frame over to readers. Follow it with
    /// [`Region::advance`](crate::Region::advance).
    ///
    /// The low 32 bits of `first_word` are the frame's length; in memory the word is little-endian.
    ///
    /// # Panics
    /// If that length is not the reservation's (and the region is abandoned).
    #[inline]
    pub fn publish(mut self, first_word: u64) {
        let named = first_word as u32 as usize;
        assert!(named == self.bytes, "a frame of {} bytes says it has {named}", self.bytes);
        // SAFETY: invariant 3: the first 8 bytes of a reservation are only ever an atomic word
        // until this store, and invariant 4: `Region::read` lends them only once it was seen.
        #[expect(unsafe_code, reason = "the word in the arena")]
        unsafe {
            self.memory.store_word(self.offset, first_word);
        }
        self.published = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.published {
            self.abandoned.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("offset", &self.offset)
            .field("bytes", &self.bytes)
            .field("published", &self.published)
            .finish_non_exhaustive()
    }
}
