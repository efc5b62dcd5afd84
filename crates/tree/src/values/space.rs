//! What values take on disk, and how much of that is more than may be.
//!
//! Collections keep the files of a database in proportion to what lives in it, as far as values can: what is theirs is what
//! the whole may take without logs, tables and what surrounds values in their records.

use std::collections::BTreeSet;

use firn_format::value::SegmentNumber;
use firn_format::value::record::HEAD_BYTES_MIN;
use firn_format::value::segment::{ORDINAL_BYTES, Origin};

use super::Home;
use super::pick::{Candidate, PickRules, Space, pick};
use crate::database::Database;
use crate::version::Version;

/// Of the space that is allowed beside what lives, the part that values have in any case: where logs and tables are large beside
/// them, no collection changes that.
const VALUES_PART_MIN: f64 = 0.6;

/// What value segments take.
struct Look {
    space: Space,
    /// Those that nobody works on.
    candidates: Vec<Candidate>,
    rules: PickRules,
    /// Bytes that they may have for each byte of records that live in them.
    space_max: f64,
}

/// Bytes of a record, and of what tells where it lies, that are neither key nor value; of some there are few more.
const AROUND_BYTES: u64 = (HEAD_BYTES_MIN + ORDINAL_BYTES) as u64;

impl Database {
    /// Segments to collect beside those that are `busy`; `None` if there is nothing to gain. Writers get their pace by what there
    /// is to do.
    pub(crate) fn choose_collection(
        &self,
        version: &Version,
        busy: &BTreeSet<SegmentNumber>,
    ) -> Option<Vec<SegmentNumber>> {
        let look = self.look_at_values(version, busy);
        self.pace_by(look.as_ref(), busy);
        let look = look?;
        pick(look.space, &look.candidates, &look.rules)
    }

    /// Gives writers a pace by what value segments take now.
    pub(crate) fn pace_by_space(&self) {
        let busy = self.schedule.collecting();
        self.pace_by(self.look_at_values(&self.version.load(), &busy).as_ref(), &busy);
    }

    fn pace_by(&self, look: Option<&Look>, busy: &BTreeSet<SegmentNumber>) {
        let collecting = look.filter(|look| look.space.is_over(&look.rules) || !busy.is_empty());
        let over = collecting.map(|Look { space, rules, space_max, .. }| {
            // What is being copied is more than its share of little data.
            let held = space.total_bytes.saturating_sub(rules.output_bytes);
            held as f64 / space.live_bytes().max(1.0) - space_max
        });
        self.values.pace.set(over, self.values.brought.for_each_written(), self.clock.now());
    }

    /// Bytes of values that newer records hide, about, and by how many bytes segments take more than they may.
    pub(crate) fn value_debt(&self, version: &Version) -> (u64, u64) {
        let look = self.look_at_values(version, &BTreeSet::new());
        look.map_or((0, 0), |look| (look.space.hidden_bytes, look.space.over_bytes(&look.rules)))
    }

    /// `None` where there are no values, as in every database without any: that costs nothing.
    fn look_at_values(&self, version: &Version, busy: &BTreeSet<SegmentNumber>) -> Option<Look> {
        let map = self.values.map();
        let (mut space, mut candidates) = (Space::default(), Vec::new());
        let (mut sealed_bytes, mut around_bytes) = (0, 0);
        for (number, home) in map.homes() {
            match home {
                Home::Sealed(sealed) => {
                    let (bytes, dead_bytes) = (sealed.meta.bytes, sealed.dead_bytes());
                    sealed_bytes += bytes;
                    around_bytes += u64::from(sealed.meta.ordinals) * AROUND_BYTES;
                    if busy.contains(&number) {
                        // What is being collected is as good as collected.
                        space.total_bytes += bytes.saturating_sub(dead_bytes);
                        continue;
                    }
                    space.total_bytes += bytes;
                    space.dead_bytes += dead_bytes;
                    let is_collected = sealed.segment.header().origin == Origin::Collected;
                    candidates.push(Candidate { number, bytes, dead_bytes, is_collected });
                }
                Home::Open(active) => space.total_bytes += active.open.bytes(),
                Home::Unsealed(_) | Home::Moved(..) => {}
            }
        }
        if space.total_bytes == 0 {
            return None;
        }
        let spare_bytes = self.values.spare_bytes();
        space.total_bytes += spare_bytes;
        space.dead_bytes += spare_bytes;
        space.hidden_bytes = self.hidden_bytes(version);
        let around = around_bytes as f64 / sealed_bytes.max(1) as f64;
        let beside = beside_values(version) as f64 / space.live_bytes().max(1.0);
        let space_max = space_max(self.settings.space_amplification_max, around, beside);
        let rules = PickRules {
            space_max,
            output_bytes: self.values.segment_bytes(sealed_bytes),
            next: self.values.peek_number(),
        };
        Some(Look { space, candidates, rules, space_max })
    }
}

/// Bytes that value segments may have for each byte of records that live in them, so that all files have `max` for each byte of
/// keys and values: `around` is the part of a record that is neither, `beside` what other files have for each byte that lives.
fn space_max(max: f64, around: f64, beside: f64) -> f64 {
    (max * (1.0 - around) - beside).max(1.0 + (max - 1.0) * VALUES_PART_MIN)
}

/// Bytes of logs, and of tables as far as their entries have their values elsewhere.
fn beside_values(version: &Version) -> u64 {
    let logs = version.segments.segments().iter().map(|segment| segment.region().capacity() as u64);
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
    fn what_lies_around_and_beside_values_is_taken_from_their_share() {
        assert_eq!(space_max(1.5, 0.0, 0.0), 1.5);
        assert!((space_max(1.5, 0.02, 0.05) - 1.42).abs() < 1e-9);
        // A buffer that is larger than the data does not have everything collected all the time.
        assert_eq!(space_max(1.5, 0.02, 7.0), 1.3);
    }
}
