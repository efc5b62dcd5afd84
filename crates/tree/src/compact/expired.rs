//! Compaction for the sake of what has expired.
//!
//! Nothing overwrites or deletes a value that expires and that no command meets, so that nothing is
//! known to hide it. Each table says which bytes expire by when. The table of which most has
//! expired is rewritten where it lies, and keeps a tombstone at most of each value.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::pick::PickRules;
use crate::maintenance::Choice;
use crate::version::{Levels, Table};

/// More urgent than this it never is: flushes do not wait for it.
pub(super) const SCORE_MAX: f64 = 1.9;

/// The table of which the largest share has expired, if in all of them more has than `rules` allow;
/// never one of `busy`.
pub(crate) fn pick_expired(levels: &Levels, rules: &PickRules, busy: &BTreeSet<String>) -> Option<Choice> {
    if rules.l0_only || !levels.has_expiring() {
        return None;
    }
    let (mut held, mut expired) = (0.0, 0.0);
    let mut worst: Option<(f64, u32, u64, &Arc<Table>)> = None;
    for (level, run, table) in levels.placed() {
        let (share, bytes) = (table.expired_share(rules.now_ms), table.disk_bytes() as f64);
        held += bytes;
        expired += share * bytes;
        let is_worse = share > worst.map_or(0.0, |(most, ..)| most);
        if is_worse && !busy.contains(&table.meta().file) {
            worst = Some((share, level, run, table));
        }
    }
    let score = expired / (held - expired).max(1.0) / rules.share_max;
    let (_, level, run, table) = worst.filter(|_| score >= 1.0)?;
    Some(Choice {
        inputs: vec![(level, run, Arc::clone(table))],
        output_level: level,
        output_run: run,
        moves: false,
        score: score.min(SCORE_MAX),
    })
}
