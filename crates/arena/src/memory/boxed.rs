//! Memory from a box: for Miri, which has no `mmap`, and for loom, which must see every access.
//!
//! Under loom a shadow stands beside the bytes. It has an atomic for each word that could be a
//! frame's first, and a cell for each word of the body. A cell is touched whenever a slice over it
//! is lent, so that loom reports a read and a write that are not ordered.

use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;

use crate::sync::{AtomicU64, Ordering};

/// See invariant 1 of the crate.
pub(crate) struct Memory {
    words: Box<[UnsafeCell<u64>]>,
    #[cfg(loom)]
    firsts: Box<[loom::sync::atomic::AtomicU64]>,
    #[cfg(loom)]
    bodies: Box<[loom::cell::UnsafeCell<()>]>,
}

// SAFETY: as for the mapped memory: safe code reaches addresses only.
#[expect(unsafe_code, reason = "interior mutability")]
unsafe impl Sync for Memory {}

impl Memory {
    /// `capacity` zeroed bytes, a multiple of 8 and not zero.
    pub(crate) fn zeroed(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            words: (0..capacity / 8).map(|_| UnsafeCell::new(0)).collect(),
            #[cfg(loom)]
            firsts: (0..capacity / 8).map(|_| loom::sync::atomic::AtomicU64::new(0)).collect(),
            #[cfg(loom)]
            bodies: (0..capacity / 8).map(|_| loom::cell::UnsafeCell::new(())).collect(),
        })
    }

    /// No bytes.
    pub(crate) fn none() -> Self {
        Self {
            words: Box::default(),
            #[cfg(loom)]
            firsts: Box::default(),
            #[cfg(loom)]
            bodies: Box::default(),
        }
    }

    /// Zeroes the first `bytes` bytes again.
    pub(crate) fn clear(&mut self, bytes: usize) {
        let words = bytes.div_ceil(8);
        self.words.iter_mut().take(words).for_each(|word| *word = UnsafeCell::new(0));
        #[cfg(loom)]
        self.firsts.iter_mut().take(words).for_each(|first| *first = loom::sync::atomic::AtomicU64::new(0));
    }

    pub(crate) fn capacity(&self) -> usize {
        self.words.len() * 8
    }

    pub(crate) fn huge_pages(&self) -> io::Result<()> {
        Ok(())
    }

    fn address(&self, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.capacity()),
            "{bytes} bytes at {offset} are outside the region"
        );
        let base = UnsafeCell::raw_get(self.words.as_ptr()).cast::<u8>();
        // SAFETY: invariant 1: `offset <= capacity`, checked above.
        #[expect(unsafe_code, reason = "pointer arithmetic")]
        unsafe {
            base.add(offset)
        }
    }

    fn word_at(&self, offset: usize) -> *mut u64 {
        assert!(offset.is_multiple_of(8), "a word at {offset}");
        self.address(offset, 8).cast()
    }

    #[cfg(loom)]
    fn witness(&self, offset: usize, bytes: usize, see: impl Fn(&loom::cell::UnsafeCell<()>)) {
        for cell in &self.bodies[offset / 8..(offset + bytes).div_ceil(8)] {
            see(cell);
        }
    }

    /// As for the mapped memory.
    #[cfg(not(loom))]
    #[expect(unsafe_code, reason = "the caller upholds invariant 3")]
    pub(crate) unsafe fn load_word(&self, offset: usize) -> u64 {
        use std::sync::atomic::{AtomicU64, Ordering};
        // SAFETY: valid and aligned by invariant 1 and `word_at`'s checks; no racing plain write by
        // our contract.
        let word = unsafe { AtomicU64::from_ptr(self.word_at(offset)) };
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// As for the mapped memory.
    #[cfg(not(loom))]
    #[expect(unsafe_code, reason = "the caller upholds invariant 3")]
    pub(crate) unsafe fn store_word(&self, offset: usize, word: u64) {
        use std::sync::atomic::{AtomicU64, Ordering};
        // SAFETY: valid and aligned by invariant 1 and `word_at`'s checks; no racing plain access
        // by our contract.
        let to = unsafe { AtomicU64::from_ptr(self.word_at(offset)) };
        to.store(word.to_le(), Ordering::Release);
    }

    /// As for the mapped memory.
    #[cfg(loom)]
    #[expect(unsafe_code, reason = "the same contract as the mapped memory's")]
    pub(crate) unsafe fn load_word(&self, offset: usize) -> u64 {
        self.firsts[offset / 8].load(loom::sync::atomic::Ordering::Acquire)
    }

    /// As for the mapped memory; the plain bytes are written first, as part of what the store
    /// releases.
    #[cfg(loom)]
    #[expect(unsafe_code, reason = "the same contract as the mapped memory's")]
    pub(crate) unsafe fn store_word(&self, offset: usize, word: u64) {
        // No slice over these bytes has been lent (our contract), so this thread is alone with
        // them.
        self.witness(offset, 8, |cell| cell.with_mut(|_| ()));
        // SAFETY: valid and aligned; ours alone by our contract.
        unsafe { self.word_at(offset).write(word.to_le()) };
        self.firsts[offset / 8].store(word, loom::sync::atomic::Ordering::Release);
    }

    /// As for the mapped memory.
    #[expect(unsafe_code, reason = "the caller upholds invariant 4")]
    pub(crate) unsafe fn slice(&self, offset: usize, bytes: usize) -> &[u8] {
        #[cfg(loom)]
        self.witness(offset, bytes, |cell| cell.with(|_| ()));
        // SAFETY: inside the box (`address`), initialised (invariant 1), not written meanwhile (our
        // contract).
        unsafe { std::slice::from_raw_parts(self.address(offset, bytes), bytes) }
    }

    /// As for the mapped memory.
    #[expect(unsafe_code, clippy::mut_from_ref, reason = "the caller upholds invariants 2 and 3")]
    pub(crate) unsafe fn slice_mut(&self, offset: usize, bytes: usize) -> &mut [u8] {
        #[cfg(loom)]
        self.witness(offset, bytes, |cell| cell.with_mut(|_| ()));
        // SAFETY: inside the box (`address`), initialised (invariant 1), ours alone (our contract).
        unsafe { std::slice::from_raw_parts_mut(self.address(offset, bytes), bytes) }
    }

    /// A box keeps its pages.
    #[expect(unsafe_code, reason = "the same contract as the mapped memory's")]
    pub(crate) unsafe fn discard_from(&self, _offset: usize) {}

    /// As for the mapped memory.
    pub(crate) fn atomic_word(&self, index: usize) -> &AtomicU64 {
        &self.atomic_words(index..index + 1)[0]
    }

    /// As for the mapped memory.
    #[cfg(not(loom))]
    pub(crate) fn atomic_words(&self, range: Range<usize>) -> &[AtomicU64] {
        assert!(range.end <= self.words.len(), "words {range:?} are outside the memory");
        let words = &self.words[range];
        // SAFETY: a word and an atomic have the same size and alignment; only atomic accesses
        // (invariant 6).
        #[expect(unsafe_code, reason = "words of the box are atomics")]
        unsafe {
            std::slice::from_raw_parts(UnsafeCell::raw_get(words.as_ptr()).cast::<AtomicU64>(), words.len())
        }
    }

    /// As for the mapped memory.
    #[cfg(loom)]
    pub(crate) fn atomic_words(&self, range: Range<usize>) -> &[AtomicU64] {
        assert!(range.end <= self.firsts.len(), "words {range:?} are outside the memory");
        &self.firsts[range]
    }

    /// As for the mapped memory, with pages of 4 KiB, or of 64 bytes where models have few words.
    pub(crate) fn discard_words(&self, range: Range<usize>) {
        const PAGE: usize = if cfg!(loom) { 8 } else { 512 };
        let (start, end) = (range.start.next_multiple_of(PAGE), range.end / PAGE * PAGE);
        if start < end {
            self.atomic_words(start..end).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }
}
