//! Compaction for the sake of what snapshots kept.
//!
//! A flush under a snapshot writes a tombstone together with what it deletes. Where both lie in the
//! last level nothing compacts them any more, and nothing newer hides them. Once no snapshot sees
//! what was deleted, the table of which most is tombstones is rewritten where it lies.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::expired::SCORE_MAX;
use super::pick::PickRules;
use crate::maintenance::Choice;
use crate::version::levels::LEVEL_MAX;
use crate::version::{Levels, Table};

/// The table of the last level of which tombstones, and what they delete, are the largest share.
/// Only if they are more there than `rules` allow; never one of `busy`, nor one that a snapshot
/// looks into.
pub(crate) fn pick_kept(levels: &Levels, rules: &PickRules, busy: &BTreeSet<String>) -> Option<Choice> {
    let last = levels.deeper.get(LEVEL_MAX - 1).filter(|_| !rules.l0_only)?;
    let is_kept = |table: &&Arc<Table>| {
        let meta = table.meta();
        meta.tombstone_count > 0 && meta.sequence_max < rules.oldest_snapshot
    };
    let worst = last
        .tables
        .iter()
        .filter(is_kept)
        .filter(|table| !busy.contains(&table.meta().file))
        .max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let held: f64 = levels.tables().map(|(_, table)| table.disk_bytes() as f64).sum();
    let kept: f64 = last.tables.iter().filter(is_kept).map(|it| share(it) * it.disk_bytes() as f64).sum();
    let score = kept / (held - kept).max(1.0) / rules.share_max;
    (score >= 1.0).then(|| Choice {
        inputs: vec![(LEVEL_MAX as u32, 0, Arc::clone(worst))],
        output_level: LEVEL_MAX as u32,
        output_run: 0,
        moves: false,
        score: score.min(SCORE_MAX),
    })
}

/// Which part of the entries are tombstones, or deleted by them.
fn share(table: &Table) -> f64 {
    let meta = table.meta();
    (2.0 * meta.tombstone_count as f64 / meta.entry_count.max(1) as f64).min(1.0)
}
