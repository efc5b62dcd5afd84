//! The region and its protocol.
//!
//! # Protocol
//!
//! ```text
//!  0        published            tail            capacity
//!  ├─ frames ──┼─ frames and holes ─┼─ zeros ────────┤  tail ≤ capacity, not sealed
//!  ├─ frames ──┼─ frames and holes ─┼─ never used ───┤  tail > capacity: sealed, end = tail before
//! ```
//! - `tail`: bytes reserved so far. Only grows, by `fetch_add`. A reservation succeeds if the sum
//!   stays within the capacity. The addition that takes it beyond *seals*: it stores where the tail
//!   was in `sealed_end`. There is exactly one, since additions are ordered. `seal` is such an
//!   addition, too large on purpose. A thread that finds the tail beyond the capacity only reads;
//!   so no reservation ever succeeds after a failed one.
//! - `sealed_end`: `OPEN` until sealed, then the end of the last reservation, for ever. Released by
//!   its one store, acquired by its readers. Between the addition and this store there are a few
//!   instructions in which the region is sealed and does not know where. Only `seal` waits them
//!   out.
//! - A frame's *first word*: zero until the frame is published, then its length (low 32 bits; never
//!   zero) and 32 bits that are not ours. Stored with release by its writer, after the body;
//!   acquired by `advance`. So a thread that sees the word sees the body.
//! - `published`: the end of a prefix of published frames. Grows by `fetch_max` with release, and
//!   is read with acquire. A thread that sees a value has every byte before it. For the thread that
//!   stored it had seen every first word before it, or had acquired an earlier value from a thread
//!   that had.
//!
//! **No publication is missed.** Let writers A and B own neighbouring frames, publish them, and
//! then call `advance`. Without more, A's store could sit in its store buffer while A looks at B's
//! word and finds zero, and B's the same. Each would leave the other's frame to the other, and
//! neither would move `published` over the later one. A sequentially consistent fence between a
//! writer's own store and its look at the other words (the first thing `advance` does) forbids
//! that. Fences are totally ordered, so the writer whose fence comes last sees every word whose
//! writer's fence came before. Hence, when all writers of a prefix have returned from `advance`,
//! `published` is at least its end.

use crate::load::LoadError;
use crate::memory::Memory;
use crate::recycled::RecycledMemory;
use crate::reservation::Reservation;
use crate::sync::{Apart, AtomicBool, AtomicUsize, Ordering, fence, spin_loop, yield_now};
use std::fmt;
use std::io;
use std::sync::Arc;

/// `sealed_end` of a region that still takes reservations.
const OPEN: usize = usize::MAX;

/// Smallest reservation: the first word and as much again.
const RESERVATION_BYTES_MIN: usize = 16;

/// How often `seal` looks for another thread's store before it gives its turn away.
const SPINS_MAX: u32 = 64;

/// Memory of fixed capacity that writers fill frame by frame and readers read as it fills.
///
/// It lives as long as its log segment is referred to. Dropping it unmaps the memory, or gives it
/// back to the [`Pool`](crate::Pool) it came from.
/// 1. Bytes before [`published`](Self::published) never change; no others can be read.
/// 2. Once a reservation has failed, none succeeds.
pub struct Region {
    memory: Memory,
    tail: Apart<AtomicUsize>,
    published: Apart<AtomicUsize>,
    sealed_end: AtomicUsize,
    abandoned: AtomicBool,
    /// Where the memory goes when the region is dropped.
    home: Option<Arc<RecycledMemory>>,
}

/// A reservation that found no room: the region is sealed, by this call or an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Whether this very call sealed the region. Of all calls on a region exactly one has this set,
    /// unless [`Region::seal`] came before them (then none).
    pub first: bool,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the region is full")
    }
}

impl std::error::Error for Full {}

impl Region {
    /// A zeroed region of `bytes` bytes, rounded up to a multiple of 8; huge pages are asked for.
    ///
    /// Pages are taken on first touch. From 2 MiB on, the memory begins on a 2 MiB boundary.
    ///
    /// # Errors
    /// `InvalidInput` for zero or more than `isize::MAX` bytes; else what `mmap` said.
    pub fn anonymous(bytes: usize) -> io::Result<Region> {
        Ok(Self::over(Self::memory_of(bytes)?, None))
    }

    /// Zeroed memory for a region of `bytes`.
    pub(crate) fn memory_of(bytes: usize) -> io::Result<Memory> {
        let capacity = bytes
            .checked_next_multiple_of(8)
            .filter(|&rounded| rounded > 0 && rounded <= isize::MAX as usize);
        Memory::zeroed(capacity.ok_or(io::ErrorKind::InvalidInput)?)
    }

    /// A region over zeroed `memory`, which goes to `home` afterwards.
    pub(crate) fn over(memory: Memory, home: Option<Arc<RecycledMemory>>) -> Region {
        Region {
            memory,
            tail: Apart(AtomicUsize::new(0)),
            published: Apart(AtomicUsize::new(0)),
            sealed_end: AtomicUsize::new(OPEN),
            abandoned: AtomicBool::new(false),
            home,
        }
    }

    /// A region whose first `used` bytes are what `fill` writes, published, and which is sealed
    /// behind them.
    ///
    /// `fill` gets exactly `used` zeroed bytes. It must leave frames that tile them (after a prefix
    /// of any form): this is not checked, and the region never walks them again.
    ///
    /// # Errors
    /// [`LoadError::Map`] as [`anonymous`](Self::anonymous), or if `used` is not a multiple of 8
    /// within `bytes`; [`LoadError::Fill`] with what `fill` returned.
    pub fn load<E>(
        bytes: usize,
        used: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Region, LoadError<E>> {
        let mut region = Self::anonymous(bytes).map_err(LoadError::Map)?;
        if used > region.capacity() || !used.is_multiple_of(8) {
            return Err(LoadError::Map(io::ErrorKind::InvalidInput.into()));
        }
        region.fill_front(used, fill).map_err(LoadError::Fill)?;
        region.seal();
        Ok(region)
    }

    /// Publishes `prefix` as the first bytes of an unused region: a segment's header, which is no
    /// frame.
    ///
    /// # Panics
    /// If something was reserved before, or `prefix` does not fit or is not a multiple of 8 long.
    pub fn begin_with(&mut self, prefix: &[u8]) {
        assert!(prefix.len().is_multiple_of(8), "a prefix of {} bytes", prefix.len());
        assert!(prefix.len() <= self.capacity(), "a prefix of {} bytes does not fit", prefix.len());
        assert_eq!(self.tail.0.load(Ordering::Relaxed), 0, "the region is in use");
        let filled: Result<(), std::convert::Infallible> = self.fill_front(prefix.len(), |bytes| {
            bytes.copy_from_slice(prefix);
            Ok(())
        });
        match filled {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// Lets `fill` write the first `used` bytes and publishes them. The region is unused and `used`
    /// within it.
    fn fill_front<E>(&mut self, used: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        // SAFETY: `&mut self`: no reservation and no slice exists, so these bytes are ours alone.
        #[expect(unsafe_code, reason = "the slice into the arena")]
        let bytes = unsafe { self.memory.slice_mut(0, used) };
        fill(bytes)?;
        self.tail.0.store(used, Ordering::Relaxed);
        self.published.0.store(used, Ordering::Release);
        Ok(())
    }

    /// Bytes the region holds, a multiple of 8.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// Whether the kernel took the advice to use huge pages; without them the region works, slower.
    ///
    /// # Errors
    /// What the kernel said: `InvalidInput` where it is built without them.
    pub fn huge_pages(&self) -> io::Result<()> {
        self.memory.huge_pages()
    }

    /// A range of `bytes` bytes that is the caller's alone. Lock-free; one atomic addition.
    ///
    /// # Errors
    /// [`Full`] once the region is sealed; a reservation that does not fit seals it.
    ///
    /// # Panics
    /// If `bytes` is not a multiple of 8 from 16 to 4 GiB - 8.
    #[inline]
    pub fn reserve(&self, bytes: usize) -> Result<Reservation<'_>, Full> {
        assert!(
            bytes.is_multiple_of(8) && bytes >= RESERVATION_BYTES_MIN && u32::try_from(bytes).is_ok(),
            "a reservation of {bytes} bytes"
        );
        match self.extend(bytes) {
            Extended::From(offset) => Ok(Reservation::new(&self.memory, &self.abandoned, offset, bytes)),
            Extended::Sealed { first, .. } => Err(Full { first }),
        }
    }

    /// Adds to the tail, if that has not been taken beyond the capacity already.
    #[inline]
    fn extend(&self, bytes: usize) -> Extended {
        let capacity = self.capacity();
        // A tail beyond the capacity is not added to, so it cannot wrap around. What lies beyond is
        // one addition by each thread that saw it within, each of at most capacity + 1.
        if self.tail.0.load(Ordering::Relaxed) > capacity {
            return Extended::Sealed { first: false, end: None };
        }
        let offset = self.tail.0.fetch_add(bytes.min(capacity + 1), Ordering::AcqRel);
        if offset > capacity {
            return Extended::Sealed { first: false, end: None };
        }
        if bytes > capacity - offset {
            self.sealed_end.store(offset, Ordering::Release);
            return Extended::Sealed { first: true, end: Some(offset) };
        }
        Extended::From(offset)
    }

    /// Takes no reservations from now on; returns the end of the last one. Idempotent.
    ///
    /// Waits, spinning, for at most the few instructions in which another thread is sealing.
    pub fn seal(&self) -> usize {
        if let Extended::Sealed { end: Some(end), .. } = self.extend(usize::MAX) {
            return end;
        }
        let mut spins = 0;
        loop {
            if let Some(end) = self.sealed_end() {
                return end;
            }
            spins += 1;
            if spins < SPINS_MAX && !cfg!(loom) {
                spin_loop();
            } else {
                yield_now();
            }
        }
    }

    /// The end of the last reservation once the region is sealed.
    ///
    /// May still be `None` for an instant after another thread got [`Full`].
    #[inline]
    pub fn sealed_end(&self) -> Option<usize> {
        Some(self.sealed_end.load(Ordering::Acquire)).filter(|&end| end != OPEN)
    }

    /// Moves [`published`](Self::published) over all frames that follow it without a gap, and
    /// returns it.
    ///
    /// Any thread, any time; lock-free. A writer calls it after [`Reservation::publish`]. Of
    /// several writers that publish out of order and then call it, at least one moves it over all
    /// of them.
    #[inline]
    pub fn advance(&self) -> usize {
        fence(Ordering::SeqCst);
        let start = self.published.0.load(Ordering::Acquire);
        let mut end = start;
        while end < self.capacity() {
            // SAFETY: invariant 4: `end` is where a published prefix ends, so here begins a
            // reservation or bytes that are not reserved. By invariant 3 this word is not written
            // but atomically.
            #[expect(unsafe_code, reason = "the word in the arena")]
            let first_word = unsafe { self.memory.load_word(end) };
            let bytes = first_word as u32 as usize;
            if bytes == 0 {
                break;
            }
            end += bytes;
        }
        if end == start {
            return end;
        }
        self.published.0.fetch_max(end, Ordering::AcqRel).max(end)
    }

    /// End of the published prefix.
    #[inline]
    pub fn published(&self) -> usize {
        self.published.0.load(Ordering::Acquire)
    }

    /// The `bytes` bytes at `offset`; `None` unless all of them are published.
    #[inline]
    pub fn read(&self, offset: usize, bytes: usize) -> Option<&[u8]> {
        if offset.checked_add(bytes)? > self.published() {
            return None;
        }
        // SAFETY: invariant 4: no thread writes what is published, and the acquiring load above
        // orders what was written.
        #[expect(unsafe_code, reason = "the slice into the arena")]
        Some(unsafe { self.memory.slice(offset, bytes) })
    }

    /// The published bytes from `offset` on; empty if `offset` is not before their end.
    #[inline]
    pub fn read_from(&self, offset: usize) -> &[u8] {
        let bytes = self.published().saturating_sub(offset);
        self.read(offset, bytes).unwrap_or_default()
    }

    /// Gives the pages behind a sealed end back to the system. Does nothing before the region is
    /// sealed.
    pub fn trim(&self) {
        let Some(end) = self.sealed_end() else { return };
        // SAFETY: invariant 5: nothing behind a sealed end was ever reserved, nor will be.
        // `advance` may load the word at the end itself: it reads zero before and after.
        #[expect(unsafe_code, reason = "gives pages of the arena back")]
        unsafe {
            self.memory.discard_from(end);
        }
    }

    /// Whether a reservation was dropped unpublished: then nothing after it can ever be published.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            // Nothing behind a sealed end was ever stored to.
            let used = self.sealed_end().unwrap_or(self.capacity());
            home.keep(std::mem::replace(&mut self.memory, Memory::none()), used);
        }
    }
}

/// What an addition to the tail came to.
enum Extended {
    /// The range from here on.
    From(usize),
    /// Nothing; `end` is known to the addition that was first.
    Sealed { first: bool, end: Option<usize> },
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("capacity", &self.capacity())
            .field("published", &self.published())
            .field("sealed_end", &self.sealed_end())
            .field("abandoned", &self.is_abandoned())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
