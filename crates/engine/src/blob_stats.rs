//! Statistics of separated values, and of GCs.

/// Separated values, and the GC of values that nothing refers to any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobStats {
    /// Blob segments, those being written to included.
    pub segment_count: u64,
    /// Bytes of their files.
    pub segment_bytes: u64,
    /// Sealed segments by the share of their bytes that is dead, each in the first of
    /// [`DEAD_SHARES`](Self::DEAD_SHARES) that is no smaller.
    pub by_dead: [u64; Self::DEAD_SHARES.len()],
    /// Bytes of values in them that nothing refers to, as far as that is known.
    pub dead_bytes: u64,
    /// References in tables that lead to dead values: a flush has met newer records of their keys.
    /// The compaction that merges the tables leaves them out.
    pub obsolete_count: u64,
    /// Bytes of values that newer records hide, about. Nothing refers to them once compactions have
    /// met both.
    pub unreclaimed_bytes: u64,
    /// Bytes that GCs have to free until the segments take no more than they may.
    pub debt_bytes: u64,
    /// Segments that are gone and whose files stay, since a reader, a job or a copy has them
    /// still.
    pub retired_count: u64,
    /// Bytes of those files.
    pub retired_bytes: u64,
    /// Collected segments through which values are still found.
    pub relocation_count: u64,
    /// Memory that takes.
    pub relocation_bytes: u64,
    /// Values written to blob segments as they came, those included whose writes failed
    /// afterwards. What compactions move there is in
    /// [`compaction_write_bytes_total`](crate::TreeStats::compaction_write_bytes_total).
    pub write_count: u64,
    /// Bytes written for them.
    pub write_bytes_total: u64,
    /// Device syncs of segments as values came, and as those segments were sealed. Each GC
    /// syncs the segment it makes once more, wherever it runs.
    pub sync_count: u64,
    /// Values, or parts of values, that gets, scans and updates read from blobs. The last
    /// reads of a session or a scan are counted a little later.
    pub read_count: u64,
    /// Bytes of them, as they were written by users.
    pub read_bytes_total: u64,
    /// GCs committed.
    pub gc_count: u64,
    /// Segments that they collected.
    pub gc_segment_count: u64,
    /// GCs that failed, and were given up or tried again.
    pub gc_failure_count: u64,
    /// Bytes of the segments they collected.
    pub gc_read_bytes_total: u64,
    /// Bytes of the segments they made.
    pub gc_write_bytes_total: u64,
    /// Values that they copied, since those lived when the jobs were made.
    pub survivor_count: u64,
    /// Bytes of them, as they were written by users.
    pub survivor_bytes_total: u64,
    /// Values of the segments they collected that were dropped, places that writers gave up among
    /// them.
    pub dropped_count: u64,
    /// Bytes of them, as they were written by users.
    pub dropped_bytes_total: u64,
    /// Segments that were removed without a GC, since nothing referred to any of their
    /// values.
    pub wholly_dead_count: u64,
    /// Bytes of their files.
    pub wholly_dead_bytes_total: u64,
}

impl BlobStats {
    /// Upper bounds of the shares in [`by_dead`](Self::by_dead).
    pub const DEAD_SHARES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

    /// One more sealed segment of `bytes` bytes, `dead_bytes` of which nothing refers to.
    pub fn add_sealed(&mut self, bytes: u64, dead_bytes: u64) {
        let share = dead_bytes as f64 / bytes.max(1) as f64;
        let at = Self::DEAD_SHARES.iter().position(|bound| share <= *bound);
        self.by_dead[at.unwrap_or(Self::DEAD_SHARES.len() - 1)] += 1;
        self.dead_bytes += dead_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_counted_once_by_its_dead_share() {
        let mut stats = BlobStats::default();
        for dead_bytes in [0, 1, 25, 26, 50, 75, 76, 100] {
            stats.add_sealed(100, dead_bytes);
        }
        assert_eq!((stats.by_dead, stats.dead_bytes), ([1, 2, 2, 1, 2], 353));
    }
}
