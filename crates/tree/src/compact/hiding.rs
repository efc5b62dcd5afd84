//! Compaction for the sake of what tables above the last level hide.
//!
//! A tombstone that has reached a level above the last still hides what lies deeper. So does a
//! small record that replaced a large one. Their tables know about how much that is. The table that
//! hides most for what it costs goes down, with what it overlaps.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_format::manifest::TableMeta;

use super::pick::PickRules;
use crate::edits::Supersedes;
use crate::maintenance::Choice;
use crate::version::levels::LEVEL_MAX;
use crate::version::{Levels, Table};

impl Choice {
    /// What its `outputs` supersede in tables older than they will be: nothing if they are the
    /// `last` of their keys. Else what the inputs did, less what went.
    pub(crate) fn left(&self, outputs: &[TableMeta], is_last: bool) -> Supersedes {
        if is_last {
            return Supersedes::default();
        }
        let inputs = || self.inputs.iter().map(|(_, _, table)| table);
        let entries: u64 = inputs().map(|table| table.meta().entry_count).sum();
        let superseding = |table: &Arc<Table>| table.overwrites() * table.meta().entry_count as f64;
        let share = inputs().map(superseding).sum::<f64>() / entries.max(1) as f64;
        let gone = self.input_bytes().saturating_sub(outputs.iter().map(|table| table.bytes).sum());
        let left = self.superseded_bytes().saturating_sub(gone);
        let written: u64 = outputs.iter().map(|table| table.entry_count).sum();
        let of =
            |table: &TableMeta| u128::from(left) * u128::from(table.entry_count) / u128::from(written.max(1));
        Supersedes { share, bytes: outputs.iter().map(|table| of(table) as u64).collect() }
    }
}

/// The table of a level between the first and the last that hides most for what it costs, with what
/// it overlaps in the next level. Only if all of them hide more than `rules` allow; never one that
/// touches a table of `busy`.
pub(crate) fn pick_hiding(levels: &Levels, rules: &PickRules, busy: &BTreeSet<String>) -> Option<Choice> {
    if rules.l0_only {
        return None;
    }
    let between = || levels.tables().filter(|(level, _)| (1..LEVEL_MAX as u32).contains(level));
    let hidden: u64 = between().map(|(_, table)| table.superseded_bytes()).sum();
    if hidden == 0 {
        return None;
    }
    let bytes: u64 = levels.tables().map(|(_, table)| table.meta().bytes).sum();
    let score = hidden as f64 / bytes.saturating_sub(hidden).max(1) as f64 / rules.share_max;
    if score < 1.0 {
        return None;
    }
    let is_free = |table: &Arc<Table>| !busy.contains(&table.meta().file);
    let choices = between().filter(|(_, table)| table.superseded_bytes() > 0).filter_map(|(level, table)| {
        let meta = table.meta();
        let below = levels.deeper.get(level as usize).into_iter();
        let below = below.flat_map(|run| run.overlapping(&meta.smallest, &meta.largest));
        let below = below.map(|under| (level + 1, 0, Arc::clone(under)));
        let inputs: Vec<_> = std::iter::once((level, 0, Arc::clone(table))).chain(below).collect();
        let is_all_free = inputs.iter().all(|(_, _, table)| is_free(table));
        let moves = inputs.len() == 1;
        is_all_free.then_some(Choice { inputs, output_level: level + 1, output_run: 0, moves, score })
    });
    let worth = |choice: &Choice| choice.superseded_bytes() as f64 / choice.input_bytes().max(1) as f64;
    choices.max_by(|a, b| worth(a).total_cmp(&worth(b)))
}
