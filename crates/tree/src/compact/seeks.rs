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
use std::sync::atomic::{AtomicU64, Ordering};

use super::pick::{Choice, Group, PickRules, base_level, groups};
use crate::version::Levels;

/// What reads of a keyspace have lost to sorted runs of level 0 and no compaction has paid back
/// yet.
#[derive(Debug, Default)]
pub(crate) struct Seeks {
    /// In bytes that a compaction handles in the same time.
    lost_bytes: AtomicU64,
}

/// A seek in one sorted run in memory, about 2.5 us, is worth this much compaction at 400 MB/s;
/// half of it, because compaction writes too.
const SEEK_BYTES: u64 = 512;

/// The same where it may wait for a device.
const SEEK_BYTES_BEYOND_MEMORY: u64 = 16 << 10;

/// A sorted run that a point read asks in vain, about 150 ns, is worth this much, reckoned in the
/// same way. Filters are in memory wherever the blocks are.
const ASK_BYTES: u64 = 32;

/// Of so many point reads of a session one is looked at, and taken for all. A prime, so that no
/// habit of a client's hides a keyspace for ever.
pub(crate) const READS_FOR_EACH_LOOK: u32 = 61;

impl Seeks {
    /// A scan has sought in `runs` sorted runs of level 0.
    pub(crate) fn add(&self, runs: usize, is_beyond_memory: bool) {
        if runs > 0 {
            let each = if is_beyond_memory { SEEK_BYTES_BEYOND_MEMORY } else { SEEK_BYTES };
            // An estimate that nothing is ordered by.
            self.lost_bytes.fetch_add(runs as u64 * each, Ordering::Relaxed);
        }
    }

    /// A point read that was looked at asked `runs` sorted runs of level 0 in vain.
    pub(crate) fn add_point_read(&self, runs: usize) {
        if runs > 0 {
            let bytes = runs as u64 * u64::from(READS_FOR_EACH_LOOK) * ASK_BYTES;
            self.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// What has been lost, in bytes of compaction; more than `most` is forgotten. All that reads
    /// can want is a level 0 that is gone, and what that costs is all they may have asked for when
    /// they cease.
    pub(crate) fn lost_bytes(&self, most: u64) -> u64 {
        self.lost_bytes.fetch_min(most, Ordering::Relaxed).min(most)
    }

    /// A compaction of `bytes` at `price` each begins, for whatever reason: it takes away what was
    /// in the way of reads too.
    pub(crate) fn pay(&self, bytes: u64, price: f64) {
        let left = |lost: u64| Some(lost.saturating_sub(priced(bytes, price)));
        // The closure never declines.
        let _ = self.lost_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }
}

/// The group whose rewriting takes most sorted runs out of reads' way for its bytes, if reads have
/// lost as many (`seeks`). Never one that touches a table of `busy`.
///
/// A group's part of level 0 becomes one sorted run there, or goes into the base level, whichever
/// costs less for each sorted run that goes.
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
    let groups = groups(levels, base);
    let all = groups.iter().map(Group::bytes).sum();
    let lost_bytes = seeks.lost_bytes(priced(all, rules.read_price));
    let (plan, group) = groups
        .into_iter()
        .filter(|group| !group.is_busy(busy))
        .filter_map(|group| Some((Plan::of(&group)?, group)))
        .max_by(|(a, _), (b, _)| a.worth.total_cmp(&b.worth))?;
    if priced(plan.bytes, rules.read_price) > lost_bytes {
        return None;
    }
    match plan.stays {
        true => group.merge_all(SCORE),
        false => Some(group.choice(base, SCORE)),
    }
}

/// What reads must have lost for `bytes` to be rewritten.
fn priced(bytes: u64, price: f64) -> u64 {
    (bytes as f64 * price) as u64
}

/// Less urgent than any budget that is exceeded.
const SCORE: f64 = 0.5;

/// What may be done with a group.
struct Plan {
    bytes: u64,
    /// Whether the outputs stay in level 0.
    stays: bool,
    /// Seeks that go, for each byte and each read: reads meet a group as often as it is large.
    worth: f64,
}

impl Plan {
    fn of(group: &Group) -> Option<Self> {
        let (depth, bytes) = (group.depth() as u64, group.bytes());
        let level0 = group.level0_bytes();
        let plan = |bytes: u64, gone: u64, stays| Self {
            bytes,
            stays,
            worth: gone as f64 * group.bytes() as f64 / bytes.max(1) as f64,
        };
        let (stay, go) = (plan(level0, depth.checked_sub(1)?, true), plan(bytes, depth, false));
        Some(if stay.worth > go.worth { stay } else { go })
    }
}
