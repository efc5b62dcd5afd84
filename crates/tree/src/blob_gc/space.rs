//! What values take on disk, and how much of that is more than may be.
//!
//! GCs keep the files of a database in proportion to what lives in it, as far as values
//! can. Their share is what the whole may take without logs, tables and what surrounds values in
//! their records.

use firn_engine::pace::SpaceDebt;
use firn_format::blob::SegmentNumber;
use firn_format::blob::record::HEAD_BYTES_MIN;
use firn_format::blob::segment::{ORDINAL_BYTES, Origin};

use super::unreclaimed::{hidden_bytes, hidden_bytes_min};
use crate::blobs::pick::{Candidate, PickRules, Space, pick};
use crate::blobs::{BlobStore, Home};
use crate::log::Log;
use crate::maintenance::{Rest, Unavailable};
use crate::version::Version;

/// Of the space that is allowed beside what lives, the part more at which GCs begin: the
/// later they do the less they copy (decision 0013).
const OVER_PART: f64 = 0.04;

/// Of the space that is allowed beside what lives, the part that values have in any case. Where
/// logs and tables are large beside them, no GC changes that.
const VALUES_PART_MIN: f64 = 0.6;

/// What blob segments take.
struct SpaceUse {
    space: Space,
    /// Segments that no task works on.
    candidates: Vec<Candidate>,
    rules: PickRules,
    /// Bytes that they may have for each byte of records that live in them.
    space_max: f64,
    /// Bytes of segments that take nothing more and wait to be sealed.
    waiting_bytes: u64,
}

impl SpaceUse {
    /// The segments to collect now.
    fn pick(&self) -> Option<Vec<SegmentNumber>> {
        pick(self.space, &self.candidates, &self.rules)
    }
}

/// Bytes of a record, and of what tells where it lies, that are neither key nor value; of some
/// there are few more.
const AROUND_BYTES: u64 = (HEAD_BYTES_MIN + ORDINAL_BYTES) as u64;

/// The space of a database's blobs, beside that of all else at one moment.
#[derive(Clone, Copy)]
pub(crate) struct BlobSpace<'s> {
    pub(crate) blobs: &'s BlobStore,
    pub(crate) version: &'s Version,
    /// Segments that are not to be chosen.
    pub(crate) unavailable: &'s Unavailable<'s>,
    /// Tell whether nothing has been written for a while.
    pub(crate) log: &'s Log,
    pub(crate) rest: &'s Rest,
}

impl BlobSpace<'_> {
    /// Segments to collect; `None` if there is nothing to gain. Writers get their pace by what
    /// there is to do.
    pub(crate) fn choose(&self) -> Option<Vec<SegmentNumber>> {
        let used = self.measure()?;
        let victims = used.pick();
        self.pace_by(&used, victims.is_some() || !self.unavailable.collecting.is_empty());
        victims
    }

    /// Gives writers a pace by what blob segments take now.
    pub(crate) fn set_pace(&self) {
        match self.measure() {
            Some(used) => {
                self.pace_by(&used, !self.unavailable.collecting.is_empty() || used.pick().is_some());
            }
            None => self.blobs.pace.space.set(&SpaceDebt::default(), 1.0, self.blobs.clock.now()),
        }
    }

    /// `is_collecting` if there is something to collect, or is being collected.
    fn pace_by(&self, used: &SpaceUse, is_collecting: bool) {
        let SpaceUse { space, rules, space_max, waiting_bytes, .. } = used;
        let over = (is_collecting || space.is_over(rules))
            .then(|| over(space, *space_max, rules.output_bytes, self.fixed_bytes(space)));
        let waiting_segments = waiting_bytes / self.blobs.segment_bytes_max();
        let debt = SpaceDebt { over, is_collecting, waiting_segments };
        self.blobs.pace.space.set(&debt, self.blobs.brought.for_each_written(), self.blobs.clock.now());
    }

    /// Bytes of values that newer records hide, about, and by how many bytes segments take more
    /// than they may.
    pub(crate) fn debt(&self) -> (u64, u64) {
        self.measure().map_or((0, 0), |used| (used.space.hidden_bytes, used.space.over_bytes(&used.rules)))
    }

    /// Bytes of values that there may be however little lives: kept for new segments, and hidden in
    /// the buffer.
    fn fixed_bytes(&self, space: &Space) -> u64 {
        let known = space.total_bytes.saturating_sub(space.dead_bytes);
        self.blobs.recycled_bytes_max() + hidden_bytes_min(&self.blobs.map(), &self.blobs.settings).min(known)
    }

    /// `None` where there are no values, as in every database without any: that costs nothing.
    fn measure(&self) -> Option<SpaceUse> {
        let Self { blobs, version, unavailable, log, rest } = *self;
        let map = blobs.map();
        let (mut space, mut candidates) = (Space::default(), Vec::new());
        let (mut sealed_bytes, mut around_bytes, mut waiting_bytes) = (0, 0, 0);
        for (number, home) in map.homes() {
            match home {
                Home::Sealed(sealed) => {
                    let (bytes, dead_bytes) = (sealed.meta.bytes, sealed.dead_bytes());
                    sealed_bytes += bytes;
                    around_bytes += u64::from(sealed.meta.ordinals) * AROUND_BYTES;
                    if unavailable.collecting.contains(&number) || unavailable.set_aside.contains(&number) {
                        // What is being collected is as good as collected; of what cannot be read
                        // nothing is to be had.
                        space.total_bytes += bytes.saturating_sub(dead_bytes);
                        continue;
                    }
                    space.total_bytes += bytes;
                    space.dead_bytes += dead_bytes;
                    let is_collected = sealed.segment.header().origin == Origin::Collected;
                    candidates.push(Candidate { number, bytes, dead_bytes, is_collected });
                }
                Home::Open(active) => {
                    let bytes = active.open.bytes();
                    space.total_bytes += bytes;
                    waiting_bytes += if active.is_settled() { bytes } else { 0 };
                }
                Home::Unsealed(_) | Home::Moved(..) => {}
            }
        }
        if space.total_bytes == 0 {
            return None;
        }
        let recycled_bytes = blobs.recycled_bytes();
        space.total_bytes += recycled_bytes;
        space.dead_bytes += recycled_bytes;
        space.hidden_bytes = hidden_bytes(version, &blobs.map(), &blobs.settings);
        let around = around_bytes as f64 / sealed_bytes.max(1) as f64;
        let beside = beside_values(version) as f64 / space.live_bytes().max(1.0);
        // At rest no writer waits for room, and processors and devices idle.
        let is_at_rest = rest.is_long(log.watermark(), blobs.clock.now());
        let part = if is_at_rest { 0.5 } else { 1.0 };
        let most = 1.0 + (blobs.settings.space_amplification_max - 1.0) * part;
        let space_max = space_max(most, around, beside);
        let rules = PickRules {
            space_max,
            output_bytes: blobs.segment_bytes(sealed_bytes),
            next: blobs.peek_number(),
        };
        Some(SpaceUse { space, candidates, rules, space_max, waiting_bytes })
    }
}

/// Bytes that blob segments may have for each byte of records that live in them. With so many all
/// files have `max` for each byte of keys and values, and a little more ([`OVER_PART`]). `around`
/// is the part of a record that is neither, `beside` what other files have for each byte that
/// lives.
fn space_max(max: f64, around: f64, beside: f64) -> f64 {
    let held = max + (max - 1.0) * OVER_PART;
    (held * (1.0 - around) - beside).max(1.0 + (max - 1.0) * VALUES_PART_MIN)
}

/// By how much values take more than `space_max` for each byte that lives, in bytes for each, for
/// the pace of writers. What is being copied does not count, an output of `output_bytes`; nor do
/// `fixed_bytes` beyond a part of what lives. Both may be more than little data has, and no
/// GC changes that.
fn over(space: &Space, space_max: f64, output_bytes: u64, fixed_bytes: u64) -> f64 {
    let live = space.live_bytes();
    let free = output_bytes as f64 + (fixed_bytes as f64 - live * FIXED_PART).max(0.0);
    let held = space.total_bytes as f64 - free;
    // A segment more or less is much of little data, too.
    (held - live * space_max) / live.max(OVER_LIVE_MIN)
}

/// Of what lives, the part that what is there in any case has within what is allowed.
const FIXED_PART: f64 = 0.1;
/// What is over is taken for a part of at least so many bytes.
const OVER_LIVE_MIN: f64 = (256 << 20) as f64;

/// Bytes of logs, and of tables as far as their entries have their values elsewhere.
fn beside_values(version: &Version) -> u64 {
    let logs = version.segments.segments().iter().map(|segment| segment.file_bytes());
    let tables = version.live().flat_map(|keyspace| keyspace.levels.tables()).map(|(_, table)| {
        let references = table.reader().properties().references.map_or(0, |summary| summary.count);
        table.meta().bytes * references / table.meta().entry_count.max(1)
    });
    logs.chain(tables).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_however_little_lives_slows_nobody() {
        const MIB: u64 = 1 << 20;
        let over = |live: u64, dead: u64| {
            let space = Space { total_bytes: (live + dead) * MIB, dead_bytes: dead * MIB, hidden_bytes: 0 };
            over(&space, 1.4, 8 * MIB, 48 * MIB)
        };
        // 48 MiB are within the tenth of what lives that they have.
        assert!((over(1024, 430) - (430.0 - 8.0 - 409.6) / 1024.0).abs() < 1e-9);
        assert!((over(512, 230) - (230.0 - 8.0 - 204.8) / 512.0).abs() < 1e-9);
        assert!(over(16, 60) < 0.0, "{}", over(16, 60));
        assert!(over(16, 90) > 0.05, "{}", over(16, 90));
    }

    #[test]
    fn what_lies_around_and_beside_values_is_taken_from_their_share() {
        assert_eq!(space_max(1.5, 0.0, 0.0), 1.52);
        assert!((space_max(1.5, 0.05, 0.05) - 1.394).abs() < 1e-9);
        assert!((space_max(1.1, 0.0, 0.0) - 1.104).abs() < 1e-9);
        // A buffer that is larger than the data does not have everything collected all the time.
        assert_eq!(space_max(1.5, 0.02, 7.0), 1.3);
    }
}
