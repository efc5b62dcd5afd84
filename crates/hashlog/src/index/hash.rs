//! What the index knows of a key.

/// Slots of a database: the units of ownership, and of the index.
pub(crate) const SLOTS: usize = if cfg!(loom) { 2 } else { 16384 };

/// Where the index keeps a key: its slot, and 50 bits of its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash {
    bits: u64,
}

impl KeyHash {
    /// The key whose hash is `bits`; its slot is the upper 14 of them.
    #[inline]
    pub(crate) fn new(bits: u64) -> Self {
        Self { bits }
    }

    /// All bits.
    pub(crate) fn bits(self) -> u64 {
        self.bits
    }

    #[inline]
    pub(crate) fn slot(self) -> usize {
        (self.bits >> 50) as usize & (SLOTS - 1)
    }

    /// The lower 16 bits: what an entry keeps of the hash.
    #[inline]
    pub(crate) fn tag(self) -> u16 {
        self.bits as u16
    }

    /// Which of `1 << size` buckets: the lower `size` bits. The first 16 of them are the tag's, so
    /// that splitting a bucket reads no record.
    #[inline]
    pub(crate) fn bucket(self, size: u32) -> u64 {
        self.bits & ((1 << size) - 1)
    }
}
