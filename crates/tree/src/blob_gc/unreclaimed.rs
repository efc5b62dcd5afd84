//! Values that newer records hide, and that no compaction or flush has found dead yet.
//!
//! A value dies when a compaction meets the record that refers to it beside a newer one. Until then
//! the space it takes is neither live nor to be had. The exception is a value that a flush has
//! found (see `obsolete`); flushes ask only tables that are in memory. How much is hidden can only
//! be estimated. The estimate is newer records of the buffer and level 0, times the share whose
//! keys older tables hold, times what a value takes. Where it is too much it is brought to light:
//! the buffer is flushed although it is not full, and level 0 is compacted sooner. That is done
//! before anything is collected. Tables are small beside the values that they refer to, so that
//! this is the cheaper half of keeping space in its bounds.

use crate::blobs::BlobMap;
use crate::settings::{Settings, garbage_share_max};
use crate::version::set::separate_bytes;
use crate::version::{Keyspace, Version};

/// What records of a keyspace refer to, on average, and hide.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UnreclaimedEstimate {
    /// Bytes of value that a record which supersedes another hides.
    pub(crate) worth: f64,
    /// Hidden by memtables, if they overwrite as much as the latest run.
    memtable_bytes: f64,
    /// Hidden by the runs of the buffer.
    pub(crate) run_bytes: f64,
    /// Hidden by the tables of level 0, but for what flushes have found (see `obsolete`).
    table_bytes: f64,
    /// What they have found of it, as a share.
    found_share: f64,
    /// Bytes of tables for each byte of values that they refer to.
    table_share: f64,
}

impl UnreclaimedEstimate {
    /// An estimate for `keyspace`, where a value takes `mean_bytes` with its record.
    pub(crate) fn of(keyspace: &Keyspace, mean_bytes: f64, settings: &Settings) -> Self {
        let separates = separate_bytes(keyspace, settings) < u32::MAX;
        let (mut entries, mut references, mut bytes) = (0_u64, 0_u64, 0_u64);
        let mut superseding = 0.0;
        for (level, table) in keyspace.levels.tables() {
            entries += table.meta().entry_count;
            references += table.reader().properties().references.map_or(0, |summary| summary.count);
            bytes += table.meta().bytes;
            if level == 0 {
                superseding += table.overwrites() * table.meta().entry_count as f64;
            }
        }
        // Of references alone: flushes find no others.
        let superseding = superseding * references as f64 / entries.max(1) as f64;
        let unfound = (superseding - keyspace.obsolete_count as f64).max(0.0);
        let dropped: u64 = keyspace.runs.iter().map(|run| run.dropped().references.len()).sum();
        let worth = match entries {
            // Nothing tells how many records have a value there.
            0 => mean_bytes * f64::from(u8::from(separates)),
            _ => mean_bytes * references as f64 / entries as f64,
        };
        let records: usize = keyspace.memtables().map(|memtable| memtable.len()).sum();
        let overwriting: f64 = keyspace.runs.iter().map(|run| run.overwrites() * run.len() as f64).sum();
        Self {
            worth,
            memtable_bytes: keyspace.observed.overwriting.get() * records as f64 * worth,
            run_bytes: overwriting * worth + dropped as f64 * mean_bytes,
            table_bytes: unfound * mean_bytes,
            found_share: if superseding > 0.0 { 1.0 - unfound / superseding } else { 1.0 },
            table_share: bytes as f64 / (references as f64 * mean_bytes).max(1.0),
        }
    }

    /// Hidden bytes for each live one at which tables are rewritten: the more these are worth in
    /// values, the sooner; at most `most`.
    ///
    /// Rewriting tables of share t of the values each time a share s of them is hidden writes t/s.
    /// What is hidden is s/2 on average, and GCs have to write more for having that much
    /// less room. By the model of a value log with uniform overwrites that is 11 times the
    /// difference, where a sixth of all is known to be dead. So much a space of 1.5 leaves beside
    /// logs, tables, recycled files and what is hidden. The sum is least at s = sqrt(t / 5.5).
    fn share_max(&self, most: f64) -> f64 {
        (self.table_share / 5.5).sqrt().clamp(SHARE_MIN, SHARE_MIN.max(most))
    }

    /// The same for the tables of level 0 alone.
    fn table_share_max(&self, most: f64) -> f64 {
        if self.worth > 0.0 { self.share_max(most) * (1.0 - BUFFER_PART) } else { most }
    }

    /// The share of superseded records at which level 0 is compacted: the larger, the more of what
    /// they hide flushes have found.
    fn garbage_share_max(&self, most: f64) -> f64 {
        (self.table_share_max(most) / (1.0 - self.found_share).max(f64::EPSILON)).min(most)
    }

    /// Bytes that the buffer may hide where values of `held_bytes` live or are hidden. Where its
    /// flushes find what it hides nothing is rewritten for that, so that little is hidden at little
    /// cost.
    pub(crate) fn buffer_bytes_max(&self, held_bytes: f64, most: f64) -> f64 {
        held_bytes
            * if self.found_share >= 0.5 { BUFFER_SHARE_FOUND } else { self.share_max(most) * BUFFER_PART }
    }
}

/// Nothing is rewritten for less.
const SHARE_MIN: f64 = 0.03;

/// Of what may be hidden, the part that the buffer may hide.
const BUFFER_PART: f64 = 0.5;

/// Of all values, the part that the buffer may hide where flushes find what it hides. Of 0.015,
/// 0.02, 0.03 and 0.05 the second had least written (2.49, 2.48, 2.50, 2.54 bytes for each byte at
/// 1 KiB). Sorted runs of level 0 have to be put together for all that.
const BUFFER_SHARE_FOUND: f64 = 0.02;

/// Record bytes below which no memtable is frozen for what it may hide, nor below a sixteenth of
/// what it may have; unless its values are large.
const FREEZE_BYTES_MIN: usize = 256 << 10;

/// Bytes of a record with a reference, about.
const RECORD_BYTES: usize = 64;

/// Bytes of values that its records may hide, from which on a memtable is frozen for that however
/// few records it has. To write so much costs far more than a segment of the log and a table.
pub(crate) const FREEZE_UNRECLAIMED_BYTES_MIN: f64 = (32 << 20) as f64;

/// The same at rest, when no larger flush is to come.
pub(crate) const REST_UNRECLAIMED_BYTES_MIN: f64 = (4 << 20) as f64;

/// Bytes of values that a memtable hides at least before it is frozen for that, about.
pub(super) fn hidden_bytes_min(map: &BlobMap, settings: &Settings) -> u64 {
    let Some((mean, _)) = map.mean_value() else { return 0 };
    let records = freeze_bytes_min(settings) / RECORD_BYTES;
    (records as f64 * mean).min(FREEZE_UNRECLAIMED_BYTES_MIN) as u64
}

/// Record bytes that a memtable has at least before it is frozen for what it may hide.
pub(crate) fn freeze_bytes_min(settings: &Settings) -> usize {
    FREEZE_BYTES_MIN.min(settings.engine.memtable_bytes as usize / 16)
}

/// Bytes of values that newer records hide, everywhere.
pub(super) fn hidden_bytes(version: &Version, map: &BlobMap, settings: &Settings) -> u64 {
    let Some((mean, _)) = map.mean_value() else { return 0 };
    let hidden = version.live().map(|keyspace| UnreclaimedEstimate::of(keyspace, mean, settings));
    hidden.map(|hidden| hidden.memtable_bytes + hidden.run_bytes + hidden.table_bytes).sum::<f64>() as u64
}

/// At which share of superseded bytes level 0 of `keyspace` is compacted.
pub(crate) fn level0_share_max(keyspace: &Keyspace, map: &BlobMap, settings: &Settings) -> f64 {
    let most = garbage_share_max(settings);
    map.mean_value()
        .map_or(most, |(mean, _)| UnreclaimedEstimate::of(keyspace, mean, settings).garbage_share_max(most))
}
