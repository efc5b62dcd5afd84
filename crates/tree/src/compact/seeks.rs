//! Compaction for the sake of reads. Sorted runs of level 0 that are in their way are merged once
//! what they cost reads comes to what merging them costs.
//!
//! Where much is written, the budgets of [`pick`](super::pick) keep level 0 shallow enough. Where
//! little is, it would stay as deep as those allow for ever. Every scan would seek in each of its
//! sorted runs, and every point read ask a filter of each. How many reads are to come is not known.
//! To pay as much as has been lost, and no sooner, costs at most twice what knowing would cost.
//! That is in time; writing wears devices too. So the setting `read_compaction_price` says how much
//! must have been lost for each byte that is rewritten (decision 0007).
//!
//! Source: the ski-rental problem; LevelDB's compaction after a number of seeks.

use std::collections::BTreeSet;

use super::pick::{Overlap, PickRules, base_level, overlaps};
use crate::maintenance::Choice;
use crate::version::Levels;
use crate::version::observed::{Seeks, priced};

/// The overlap whose rewriting takes most sorted runs out of reads' way for its bytes, if reads
/// have lost as many (`seeks`). Never one that touches a table of `busy`.
///
/// An overlap's part of level 0 becomes one sorted run there, or goes into the base level,
/// whichever costs less for each sorted run that goes.
pub(crate) fn pick_for_reads(
    levels: &Levels,
    rules: &PickRules,
    busy: &BTreeSet<String>,
    seeks: &Seeks,
) -> Option<Choice> {
    if seeks.lost_bytes(u64::MAX) == 0 {
        return None;
    }
    let base = base_level(levels, rules);
    let overlaps = overlaps(levels, base);
    let all = overlaps.iter().map(Overlap::bytes).sum();
    let lost_bytes = seeks.lost_bytes(priced(all, rules.read_price));
    let (plan, overlap) = overlaps
        .into_iter()
        .filter(|overlap| !overlap.is_busy(busy))
        .filter_map(|overlap| Some((Plan::of(&overlap)?, overlap)))
        .max_by(|(a, _), (b, _)| a.worth.total_cmp(&b.worth))?;
    if priced(plan.bytes, rules.read_price) > lost_bytes {
        return None;
    }
    match plan.stays {
        true => overlap.merge_all(SCORE),
        false => Some(overlap.choice(base, SCORE)),
    }
}

/// Less urgent than any budget that is exceeded.
const SCORE: f64 = 0.5;

/// What may be done with an overlap.
struct Plan {
    bytes: u64,
    /// Whether the outputs stay in level 0.
    stays: bool,
    /// Seeks that go, for each byte and each read: reads meet an overlap as often as it is large.
    worth: f64,
}

impl Plan {
    fn of(overlap: &Overlap) -> Option<Self> {
        let (depth, bytes) = (overlap.depth() as u64, overlap.bytes());
        let level0 = overlap.level0_bytes();
        let plan = |bytes: u64, gone: u64, stays| Self {
            bytes,
            stays,
            worth: gone as f64 * overlap.bytes() as f64 / bytes.max(1) as f64,
        };
        let (stay, go) = (plan(level0, depth.checked_sub(1)?, true), plan(bytes, depth, false));
        Some(if stay.worth > go.worth { stay } else { go })
    }
}
