//! Words that many threads read and change at once.

use crate::memory::Memory;
use crate::sync::AtomicU64;
use std::fmt;
use std::io;
use std::ops::Range;

/// Zeroed 64-bit words of fixed number, each touched only as a whole, by atomic loads and stores.
///
/// Unlike a [`Region`](crate::Region), it has no protocol: any thread may change any word at any
/// time. So what order its readers see is the caller's affair, and no bytes of it can be lent.
///
/// 1. Memory is taken when a word is first written to, 4 KiB or a huge page at a time.
/// 2. A word that was never stored to, or was given back, is zero.
pub struct Words {
    memory: Memory,
}

impl Words {
    /// `count` words of zero. Takes no memory yet, only addresses.
    ///
    /// # Errors
    /// `InvalidInput` for zero words, or more than can be addressed; those of the system for want
    /// of memory.
    pub fn zeroed(count: usize) -> io::Result<Self> {
        let bytes = count.checked_mul(8).filter(|&bytes| bytes > 0).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { memory: Memory::zeroed(bytes)? })
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.memory.capacity() / 8
    }

    /// The word numbered `index`; panics from [`count`](Self::count) on.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        self.memory.atomic_word(index)
    }

    /// The words of `range`, which lies within [`count`](Self::count) (checked).
    #[inline]
    pub fn words(&self, range: Range<usize>) -> &[AtomicU64] {
        self.memory.atomic_words(range)
    }

    /// Gives the memory of the whole pages within `range` back; their words are zero afterwards.
    ///
    /// A thread that uses one of these words meanwhile may see it as it was or as zero, and what it
    /// stores may be lost. Costs a system call, and later uses cost a fault for each page.
    pub fn discard(&self, range: Range<usize>) {
        self.memory.discard_words(range);
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
