//! What was given up a short while ago without having been read again.

use super::index::TAG_BITS;

/// Fingerprints side by side: half a cache line.
const BUCKET_LEN: usize = 16;

/// Fingerprints of the latest entries that were put in. Each bucket is a queue by itself, so how
/// many are remembered holds on average. A fingerprint stands for one of some 4000 absent entries
/// by mistake, which harms nothing.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// 0 = none. The latest first.
    buckets: Vec<[u16; BUCKET_LEN]>,
}

impl Ghosts {
    /// Room for `len` fingerprints, a power of two from 16 on; none for less.
    pub(super) fn new(len: usize) -> Self {
        Self { buckets: vec![[0; BUCKET_LEN]; len / BUCKET_LEN] }
    }

    /// Bytes that room for `len` fingerprints takes.
    pub(super) fn bytes_for(len: usize) -> usize {
        len / BUCKET_LEN * size_of::<[u16; BUCKET_LEN]>()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<[u16; BUCKET_LEN]>()
    }

    /// Remembers an entry, and forgets the one of its bucket that came first.
    pub(super) fn insert(&mut self, tag: u32, print: u16) {
        if let Some(bucket) = self.bucket(tag) {
            bucket.rotate_right(1);
            bucket[0] = print.max(1);
        }
    }

    /// Whether an entry is remembered; it no longer is afterwards.
    pub(super) fn remove(&mut self, tag: u32, print: u16) -> bool {
        let Some(bucket) = self.bucket(tag) else { return false };
        let Some(at) = bucket.iter().position(|known| *known == print.max(1)) else { return false };
        bucket[at..].rotate_left(1);
        bucket[BUCKET_LEN - 1] = 0;
        true
    }

    fn bucket(&mut self, tag: u32) -> Option<&mut [u16; BUCKET_LEN]> {
        let bits = self.buckets.len().checked_ilog2()?;
        self.buckets.get_mut((tag >> (TAG_BITS - bits)) as usize)
    }
}
