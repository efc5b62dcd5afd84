//! Memory from `mmap`: private, anonymous, zeroed by the kernel, on huge pages if it agrees.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Huge pages want this alignment.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// See invariant 1 of the crate.
pub(crate) struct Memory {
    /// The bytes of the region, inside the mapping.
    base: NonNull<u8>,
    capacity: usize,
    /// The mapping itself.
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    advised: rustix::io::Result<()>,
}

// SAFETY: `Memory` is an owned range of plain bytes (invariant 1) and not bound to a thread.
#[expect(unsafe_code, reason = "owns a mapping by pointer")]
unsafe impl Send for Memory {}
// SAFETY: through `&Memory` safe code reaches addresses only; every access is an unsafe call whose
// contract (invariants 3 and 4) rules out races.
#[expect(unsafe_code, reason = "owns a mapping by pointer")]
unsafe impl Sync for Memory {}

impl Memory {
    /// `capacity` zeroed bytes, a multiple of 8 and not zero.
    pub(crate) fn zeroed(capacity: usize) -> io::Result<Self> {
        let slack = if capacity < HUGE_PAGE_BYTES { 0 } else { HUGE_PAGE_BYTES };
        let mapping_bytes = capacity.checked_add(slack).filter(|&bytes| bytes <= isize::MAX as usize);
        let mapping_bytes = mapping_bytes.ok_or(io::ErrorKind::InvalidInput)?;
        // Without NORESERVE: where memory is overcommitted the caller gets an error here, not a
        // signal later. SAFETY: a fresh private mapping at an address of the kernel's choosing
        // touches no existing memory.
        #[expect(unsafe_code, reason = "the system call")]
        let mapping = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                mapping_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // Where the slack lets the region begin on a huge page's boundary, it does.
        let to_boundary = mapping.align_offset(HUGE_PAGE_BYTES);
        let skip = if to_boundary <= slack { to_boundary } else { 0 };
        // SAFETY: `skip <= slack`, so `skip + capacity` is inside the mapping just made.
        #[expect(unsafe_code, reason = "pointer arithmetic")]
        let base = unsafe { mapping.add(skip) };
        // SAFETY: the range is the mapping just made, which nothing else knows; this advice changes
        // no byte.
        #[expect(unsafe_code, reason = "the system call")]
        let advised =
            unsafe { rustix::mm::madvise(mapping.as_ptr().cast(), mapping_bytes, Advice::LinuxHugepage) };
        Ok(Self { base, capacity, mapping, mapping_bytes, advised })
    }

    /// No bytes; owns no mapping.
    pub(crate) fn none() -> Self {
        let none = NonNull::dangling();
        Self { base: none, capacity: 0, mapping: none, mapping_bytes: 0, advised: Ok(()) }
    }

    /// Zeroes the first `bytes` bytes again.
    pub(crate) fn clear(&mut self, bytes: usize) {
        let bytes = bytes.min(self.capacity);
        // SAFETY: `&mut self`: no region is over this memory and no slice of it lives, so all of it
        // is ours.
        #[expect(unsafe_code, reason = "the slice over the arena")]
        let front = unsafe { self.slice_mut(0, bytes) };
        front.fill(0);
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// What the kernel said to the advice to use huge pages.
    pub(crate) fn huge_pages(&self) -> io::Result<()> {
        self.advised.map_err(io::Error::from)
    }

    /// The address of `offset`, from which `bytes` lie inside the memory (checked).
    #[inline]
    fn address(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.capacity),
            "{bytes} bytes at {offset} are outside the region"
        );
        // SAFETY: invariant 1: `offset <= capacity`, checked above, so the address is inside the
        // mapping or one past.
        #[expect(unsafe_code, reason = "pointer arithmetic")]
        unsafe {
            self.base.add(offset)
        }
    }

    #[inline]
    fn word_at(&self, offset: usize) -> *mut u64 {
        assert!(offset.is_multiple_of(8), "a word at {offset}");
        self.address(offset, 8).as_ptr().cast()
    }

    /// The little-endian word at `offset`, a multiple of 8. Acquires what its writer did before.
    ///
    /// # Safety
    /// No access to these 8 bytes that is not atomic may be a write, from the region's birth until
    /// its end.
    #[inline]
    #[expect(unsafe_code, reason = "the caller upholds invariant 3")]
    pub(crate) unsafe fn load_word(&self, offset: usize) -> u64 {
        // SAFETY: valid and aligned by invariant 1 and `word_at`'s checks; no racing plain write by
        // our contract.
        let word = unsafe { AtomicU64::from_ptr(self.word_at(offset)) };
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// Stores the little-endian word at `offset`, a multiple of 8. Releases what this thread did
    /// before.
    ///
    /// # Safety
    /// As for [`load_word`](Self::load_word), and no slice over these 8 bytes may have been lent.
    #[inline]
    #[expect(unsafe_code, reason = "the caller upholds invariant 3")]
    pub(crate) unsafe fn store_word(&self, offset: usize, word: u64) {
        // SAFETY: valid and aligned by invariant 1 and `word_at`'s checks; no racing plain access
        // by our contract.
        let to = unsafe { AtomicU64::from_ptr(self.word_at(offset)) };
        to.store(word.to_le(), Ordering::Release);
    }

    /// `bytes` bytes at `offset`.
    ///
    /// # Safety
    /// No thread writes them while the slice lives, and what was written before happens before this
    /// call.
    #[inline]
    #[expect(unsafe_code, reason = "the caller upholds invariant 4")]
    pub(crate) unsafe fn slice(&self, offset: usize, bytes: usize) -> &[u8] {
        let address = self.address(offset, bytes);
        // SAFETY: inside the mapping (`address`), initialised (invariant 1), not written meanwhile
        // (our contract).
        unsafe { std::slice::from_raw_parts(address.as_ptr(), bytes) }
    }

    /// `bytes` bytes at `offset`, to write.
    ///
    /// # Safety
    /// No other code reads or writes them while the slice lives, and the lifetime ends before the
    /// memory does.
    #[inline]
    #[expect(unsafe_code, clippy::mut_from_ref, reason = "the caller upholds invariants 2 and 3")]
    pub(crate) unsafe fn slice_mut(&self, offset: usize, bytes: usize) -> &mut [u8] {
        let address = self.address(offset, bytes);
        // SAFETY: inside the mapping (`address`), initialised (invariant 1), ours alone (our
        // contract).
        unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), bytes) }
    }

    /// Gives the whole pages from `offset` on back; they read as zeros afterwards.
    ///
    /// # Safety
    /// No slice over bytes from `offset` on lives or is made later, and no word there is in use.
    #[expect(unsafe_code, reason = "the caller upholds invariant 5")]
    pub(crate) unsafe fn discard_from(&self, offset: usize) {
        let page_bytes = rustix::param::page_size();
        // `mmap` and the choice of `base` make the base a multiple of the page size.
        let start = offset.next_multiple_of(page_bytes);
        let Some(bytes) = self.capacity.checked_sub(start).filter(|&bytes| bytes > 0) else { return };
        let address = self.address(start, bytes);
        // SAFETY: whole pages of our own mapping (its end is page-rounded), which are in no use
        // (our contract).
        let given = unsafe { rustix::mm::madvise(address.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        // The pages stay ours if the kernel refuses: more memory used, nothing wrong.
        debug_assert!(given.is_ok(), "madvise(DONTNEED): {given:?}");
    }

    /// The word numbered `index`, counted in words of 8 bytes.
    ///
    /// Sound for memory of which no bytes are ever lent (invariant 6): then every access to it is
    /// atomic, and is one of a whole word.
    #[inline]
    pub(crate) fn atomic_word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.capacity / 8, "word {index} is outside the memory");
        // SAFETY: `index * 8 + 8 <= capacity`, so the address is inside the mapping (invariant 1).
        #[expect(unsafe_code, reason = "pointer arithmetic")]
        let at = unsafe { self.base.cast::<AtomicU64>().add(index) };
        // SAFETY: mapped, initialised and 8-aligned (invariant 1); only atomic accesses
        // (invariant 6); the mapping lives as long as `self`.
        #[expect(unsafe_code, reason = "words of the mapping are atomics")]
        unsafe {
            at.as_ref()
        }
    }

    /// The words of `range`; as [`atomic_word`](Self::atomic_word).
    #[inline]
    pub(crate) fn atomic_words(&self, range: Range<usize>) -> &[AtomicU64] {
        let count = range.end.checked_sub(range.start).expect("a range that does not go back");
        assert!(range.end <= self.capacity / 8, "words {range:?} are outside the memory");
        // SAFETY: `start * 8 <= capacity`, so the address is inside the mapping or one past.
        #[expect(unsafe_code, reason = "pointer arithmetic")]
        let at = unsafe { self.base.cast::<AtomicU64>().add(range.start) };
        // SAFETY: `count` words from there are mapped, initialised and 8-aligned (invariant 1);
        // only atomic accesses (invariant 6).
        #[expect(unsafe_code, reason = "words of the mapping are atomics")]
        unsafe {
            std::slice::from_raw_parts(at.as_ptr(), count)
        }
    }

    /// Gives the whole pages within the words of `range` back; they read as zeros afterwards.
    pub(crate) fn discard_words(&self, range: Range<usize>) {
        let page_bytes = rustix::param::page_size();
        let start = (range.start * 8).next_multiple_of(page_bytes);
        let end = range.end * 8 / page_bytes * page_bytes;
        let Some(bytes) = end.checked_sub(start).filter(|&bytes| bytes > 0) else { return };
        let address = self.address(start, bytes);
        // SAFETY: whole pages of our own mapping, of which only atomic words are in use
        // (invariant 6): to them this is a store of zeros.
        #[expect(unsafe_code, reason = "the system call")]
        let given = unsafe { rustix::mm::madvise(address.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        if given.is_err() {
            // The pages stay, as after a refused advice; the words have to be zero all the same.
            let words = self.atomic_words(start / 8..end / 8);
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.mapping_bytes == 0 {
            return;
        }
        // SAFETY: exactly the mapping made in `zeroed`; no borrow of it outlives `&mut self`.
        #[expect(unsafe_code, reason = "the system call")]
        let unmapped = unsafe { rustix::mm::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
    }
}
