//! A piece of memory that entries are appended to and that the system takes back whole.
//!
//! ```text
//! offset size  field
//!      0    8  file         of the entry's key
//!      8    8  number       of the entry's key
//!     16    8  body_bytes
//!     24    n  body, then up to 7 unused bytes
//! ```
//! It never leaves the process, so it has no version and no checksum.

use memmap2::MmapMut;

/// Bytes of an entry before its body.
const HEAD_BYTES: usize = 24;

/// What an entry is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryKey {
    pub(super) file: u64,
    pub(super) number: u64,
}

impl EntryKey {
    /// Well mixed bits, the same in every process.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        // Two rounds of multiply and fold ("rrmxmx", P. Evensen).
        let mut hash = self.file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.number;
        hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^ hash >> 32
    }
}

/// Memory of a fixed size, mapped by itself: dropping it gives it back to the system, whatever the
/// allocator does. Entries are appended, never changed or removed.
#[derive(Debug)]
pub(super) struct Chunk {
    memory: MmapMut,
    end: usize,
}

/// One entry of a chunk.
pub(super) struct Entry<'c> {
    pub(super) key: EntryKey,
    pub(super) body: &'c [u8],
    /// Head and body.
    pub(super) whole: &'c [u8],
}

impl Chunk {
    /// An empty chunk of `bytes`, a multiple of the page size; `None` if the system has no memory
    /// for it.
    pub(super) fn map(bytes: usize) -> Option<Self> {
        let memory = MmapMut::map_anon(bytes).ok()?;
        // A huge page over several chunks would stay until the last of them goes.
        #[cfg(target_os = "linux")]
        let _advised = memory.advise(memmap2::Advice::NoHugePage);
        Some(Self { memory, end: 0 })
    }

    /// Bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Whether an entry of `bytes` can be appended.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.memory.len() - self.end >= bytes
    }

    /// Appends an entry, for which there must be room; answers where it lies.
    pub(super) fn push(&mut self, key: EntryKey, body: &[&[u8]]) -> usize {
        let (at, body_bytes) = (self.end, body.iter().map(|part| part.len()).sum());
        self.end += entry_bytes(body_bytes);
        let mut room = &mut self.memory[at..self.end];
        let mut put = |bytes: &[u8]| {
            let (here, rest) = std::mem::take(&mut room).split_at_mut(bytes.len());
            here.copy_from_slice(bytes);
            room = rest;
        };
        put(&key.file.to_le_bytes());
        put(&key.number.to_le_bytes());
        put(&(body_bytes as u64).to_le_bytes());
        body.iter().for_each(|part| put(part));
        at
    }

    /// Appends what is an entry of another chunk, for which there must be room; answers where it
    /// lies.
    pub(super) fn push_whole(&mut self, whole: &[u8]) -> usize {
        let at = self.end;
        self.end += whole.len();
        self.memory[at..self.end].copy_from_slice(whole);
        at
    }

    /// The entry that begins `at`; `None` from the end on.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let rest = self.memory.get(at..self.end)?;
        let (head, body) = rest.split_first_chunk::<HEAD_BYTES>()?;
        let word =
            |index: usize| head.as_chunks::<8>().0.get(index).map_or(0, |word| u64::from_le_bytes(*word));
        let body_bytes = word(2) as usize;
        let key = EntryKey { file: word(0), number: word(1) };
        Some(Entry { key, body: body.get(..body_bytes)?, whole: rest.get(..entry_bytes(body_bytes))? })
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        self.end = 0;
    }
}

/// Bytes that an entry takes in a chunk.
pub(super) fn entry_bytes(body_bytes: usize) -> usize {
    (HEAD_BYTES + body_bytes).next_multiple_of(8)
}
