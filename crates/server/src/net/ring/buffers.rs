//! Memory that the kernel chooses from where it puts what it receives.
//!
//! A ring of entries in memory that the kernel reads, by its interface:
//! ```text
//! offset size  field    meaning
//!      0    8  address  of a buffer that is free
//!      8    4  bytes    it has
//!     12    2  number   told with what was received
//!     14    2  tail     in the first entry alone: entries written; the kernel takes those before
//! ```
//! A buffer belongs to the kernel from [`Buffers::release`] until an answer names it, and to this
//! process from then on.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use io_uring::IoUring;

/// Buffers of a ring: a power of two.
const BUFFER_COUNT: u16 = 128;

/// Bytes of a buffer, most of what is received at once.
const BUFFER_BYTES: usize = 16 << 10;

/// The group of buffers, by the kernel's word; there is one.
pub(super) const GROUP: u16 = 0;

/// The buffers of one ring.
#[derive(Debug)]
pub(super) struct Buffers {
    /// One page of entries.
    entries: Box<Entries>,
    /// Entries written so far.
    tail: u16,
    memory: Vec<UnsafeCell<[u8; BUFFER_BYTES]>>,
}

#[derive(Debug)]
#[repr(C, align(4096))]
struct Entries([Entry; BUFFER_COUNT as usize]);

#[derive(Debug, Default)]
#[repr(C)]
struct Entry {
    address: AtomicU64,
    bytes: AtomicU32,
    number: AtomicU16,
    tail: AtomicU16,
}

const _: () = assert!(BUFFER_COUNT.is_power_of_two());
const _: () = assert!(size_of::<Entry>() == 16);
const _: () = assert!(std::mem::offset_of!(Entry, tail) == 14);

impl Buffers {
    pub(super) fn new() -> Self {
        let entries = Box::new(Entries(std::array::from_fn(|_| Entry::default())));
        let memory = (0..BUFFER_COUNT).map(|_| UnsafeCell::new([0; BUFFER_BYTES])).collect();
        let mut buffers = Self { entries, tail: 0, memory };
        (0..BUFFER_COUNT).for_each(|number| buffers.release(number));
        buffers
    }

    /// Lets `ring` choose from these buffers.
    ///
    /// # Safety
    /// They must stay where they are until nothing of `ring` is in flight and nothing more is asked
    /// of it.
    pub(super) unsafe fn register(&self, ring: &IoUring) -> io::Result<()> {
        let address = (&raw const *self.entries).addr() as u64;
        // SAFETY: the caller's promise; the entries are a page of their own, and as many as is
        // said.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFER_COUNT, GROUP, 0) }
    }

    /// Gives the buffer to the kernel, which must not have it already.
    pub(super) fn release(&mut self, number: u16) {
        let (Some(buffer), Some(entry)) = (
            self.memory.get(usize::from(number)),
            self.entries.0.get(usize::from(self.tail & (BUFFER_COUNT - 1))),
        ) else {
            return;
        };
        entry.address.store(buffer.get().expose_provenance() as u64, Ordering::Relaxed);
        entry.bytes.store(BUFFER_BYTES as u32, Ordering::Relaxed);
        entry.number.store(number, Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
        self.entries.0[0].tail.store(self.tail, Ordering::Release);
    }

    /// The first `bytes` bytes of a buffer.
    ///
    /// # Safety
    /// The buffer must be this process's: named by an answer, and not released since.
    pub(super) unsafe fn bytes(&self, number: u16, bytes: usize) -> &[u8] {
        let Some(buffer) = self.memory.get(usize::from(number)) else { return &[] };
        // SAFETY: the caller's promise: the kernel does not write to it before `release`, which
        // borrows the buffers anew.
        let buffer = unsafe { &*buffer.get() };
        buffer.get(..bytes).unwrap_or_default()
    }
}
