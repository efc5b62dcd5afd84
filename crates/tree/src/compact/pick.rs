//! Choosing tables to compact: a pure function of the levels.
//!
//! Level 0 holds sorted runs whose tables a drain has cut at the base level's bounds, so tables of level 0 and of
//! the base level fall into *groups*: sets that overlap among themselves and nothing outside. A group is compacted
//! when it is deep (reads ask one table of each sorted run) or when what its level 0 supersedes, as drains
//! estimated it, is a large share of the group (space that a rewrite gives back).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::version::levels::LEVEL_MAX;
use crate::version::{Levels, SortedRun, Table};

/// Limits that picking follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PickRules {
    /// Sorted runs over one key at which a group is compacted.
    pub(crate) depth_max: usize,
    /// Superseded bytes over all bytes of a group, at which it is compacted.
    pub(crate) share_max: f64,
    /// A level above the last that would hold less than this is not used.
    pub(crate) level_bytes_min: u64,
    /// How much larger each level is than the one above it.
    pub(crate) level_ratio: u64,
}

/// Tables to rewrite together.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// (level, sorted run, table), newest place first.
    pub(crate) inputs: Vec<(u32, u64, Arc<Table>)>,
    pub(crate) output_level: u32,
    /// The inputs overlap nothing below and each other nowhere: they change their level and are not rewritten.
    pub(crate) moves: bool,
    /// How urgent, 1.0 = at the limit.
    pub(crate) score: f64,
}

/// The most urgent choice that touches no table of `busy`; `None` if nothing is over its limit.
pub(crate) fn pick(levels: &Levels, rules: &PickRules, busy: &BTreeSet<String>) -> Option<Choice> {
    let base = base_level(levels, rules);
    let mut best = pick_move(levels, base, busy);
    for group in groups(levels, base) {
        if group.is_busy(busy) {
            continue;
        }
        let score = group.score(rules);
        if score >= 1.0 && best.as_ref().is_none_or(|best| best.score < score) {
            best = Some(group.choice(base, score));
        }
    }
    let deeper = pick_deeper(levels, rules, base, busy);
    match (best, deeper) {
        (Some(best), Some(deeper)) => Some(if deeper.score > best.score { deeper } else { best }),
        (best, deeper) => best.or(deeper),
    }
}

/// Everything that overlaps `start..=end` in levels 0 to the last that holds any of it, to be rewritten there.
pub(crate) fn pick_range(
    levels: &Levels,
    start: &[u8],
    end: Option<&[u8]>,
    rules: &PickRules,
) -> Option<Choice> {
    let touches = |table: &Table| {
        table.meta().largest.as_slice() >= start
            && end.is_none_or(|end| table.meta().smallest.as_slice() < end)
    };
    let mut chosen: BTreeMap<String, (u32, u64, Arc<Table>)> = BTreeMap::new();
    let all: Vec<_> = placed(levels).collect();
    for (level, run, table) in all.iter().filter(|(_, _, table)| touches(table)) {
        chosen.insert(table.meta().file.clone(), (*level, *run, Arc::clone(table)));
    }
    // Whatever overlaps the chosen must come along, or an older version could end up above a newer one.
    loop {
        let more: Vec<_> = all
            .iter()
            .filter(|(_, _, table)| !chosen.contains_key(&table.meta().file))
            .filter(|(_, _, table)| {
                chosen
                    .values()
                    .any(|(_, _, held)| table.overlaps(&held.meta().smallest, &held.meta().largest))
            })
            .cloned()
            .collect();
        if more.is_empty() {
            break;
        }
        for (level, run, table) in more {
            chosen.insert(table.meta().file.clone(), (level, run, table));
        }
    }
    let deepest = chosen.values().map(|(level, ..)| *level).max()?;
    let output_level = deepest.max(base_level(levels, rules));
    let mut inputs: Vec<_> = chosen.into_values().collect();
    inputs.sort_by(newest_first);
    Some(Choice { inputs, output_level, moves: false, score: f64::MAX })
}

fn newest_first(a: &(u32, u64, Arc<Table>), b: &(u32, u64, Arc<Table>)) -> std::cmp::Ordering {
    let of = |item: &(u32, u64, Arc<Table>)| (item.0, u64::MAX - item.1);
    of(a).cmp(&of(b)).then_with(|| a.2.meta().smallest.cmp(&b.2.meta().smallest))
}

/// (level, sorted run, table) of every table.
fn placed(levels: &Levels) -> impl Iterator<Item = (u32, u64, Arc<Table>)> + '_ {
    let level0 = levels
        .level0
        .iter()
        .flat_map(|run| run.tables.iter().map(|table| (0, run.number, Arc::clone(table))));
    let deeper = (1..)
        .zip(&levels.deeper)
        .flat_map(|(level, run)| run.tables.iter().map(move |table| (level, 0, Arc::clone(table))));
    level0.chain(deeper)
}

/// The level that level 0 is compacted into: the last one, or higher up once that is large.
pub(crate) fn base_level(levels: &Levels, rules: &PickRules) -> u32 {
    let mut target = levels.deeper.get(LEVEL_MAX - 1).map_or(0, |run| run.bytes());
    let mut base = LEVEL_MAX;
    while base > 1 && target / rules.level_ratio >= rules.level_bytes_min {
        target /= rules.level_ratio;
        base -= 1;
    }
    // Never below a level that already holds tables: they would be skipped over.
    let first_used =
        levels.deeper.iter().position(|run| !run.tables.is_empty()).map_or(LEVEL_MAX, |index| index + 1);
    base.min(first_used) as u32
}

/// Tables of level 0 and the base level that overlap among themselves and nothing outside.
struct Group {
    /// (level, sorted run, table)
    tables: Vec<(u32, u64, Arc<Table>)>,
}

impl Group {
    fn is_busy(&self, busy: &BTreeSet<String>) -> bool {
        self.tables.iter().any(|(_, _, table)| busy.contains(&table.meta().file))
    }

    fn bytes(&self) -> u64 {
        self.tables.iter().map(|(_, _, table)| table.meta().bytes).sum()
    }

    fn depth(&self) -> usize {
        self.tables
            .iter()
            .filter(|(level, ..)| *level == 0)
            .map(|(_, run, _)| run)
            .collect::<BTreeSet<_>>()
            .len()
    }

    fn score(&self, rules: &PickRules) -> f64 {
        let depth = self.depth() as f64 / rules.depth_max as f64;
        let all = self.bytes();
        let level0 = self.tables.iter().filter(|(level, ..)| *level == 0);
        let superseded: u64 = level0.map(|(_, _, table)| table.superseded_bytes()).sum();
        depth.max(superseded as f64 / all.max(1) as f64 / rules.share_max)
    }

    fn choice(mut self, base: u32, score: f64) -> Choice {
        self.tables.sort_by(newest_first);
        Choice { inputs: self.tables, output_level: base, moves: false, score }
    }
}

/// The groups of level 0 with what they overlap in the base level, by key.
fn groups(levels: &Levels, base: u32) -> Vec<Group> {
    let mut tables: Vec<_> = placed(levels).filter(|(level, ..)| *level == 0 || *level == base).collect();
    tables.sort_by(|a, b| a.2.meta().smallest.cmp(&b.2.meta().smallest));
    let mut groups: Vec<Group> = Vec::new();
    let mut largest: Vec<u8> = Vec::new();
    for item in tables {
        let meta = item.2.meta();
        let joins = !groups.is_empty() && meta.smallest <= largest;
        if meta.largest > largest || !joins {
            largest.clone_from(&meta.largest);
        }
        match groups.last_mut() {
            Some(group) if joins => group.tables.push(item),
            _ => groups.push(Group { tables: vec![item] }),
        }
    }
    groups.retain(|group| group.tables.iter().any(|(level, ..)| *level == 0));
    groups
}

/// A table of the oldest sorted run that overlaps nothing older goes down without being rewritten.
fn pick_move(levels: &Levels, base: u32, busy: &BTreeSet<String>) -> Option<Choice> {
    let oldest = levels.level0.last()?;
    let below = levels.deeper.get(base as usize - 1);
    let free = |table: &Arc<Table>| {
        let meta = table.meta();
        !busy.contains(&meta.file)
            && below.is_none_or(|run| run.overlapping(&meta.smallest, &meta.largest).next().is_none())
    };
    let inputs: Vec<_> = oldest
        .tables
        .iter()
        .filter(|table| free(table))
        .map(|table| (0, oldest.number, Arc::clone(table)))
        .collect();
    (!inputs.is_empty()).then_some(Choice { inputs, output_level: base, moves: true, score: f64::MAX })
}

/// A table of a level above the last that is over its target, with what it overlaps below.
fn pick_deeper(levels: &Levels, rules: &PickRules, base: u32, busy: &BTreeSet<String>) -> Option<Choice> {
    let mut target = levels.deeper.get(LEVEL_MAX - 1).map_or(0, |run| run.bytes());
    // The last level is not there where all of it was deleted before the database was opened.
    let nothing = SortedRun::default();
    let mut best: Option<Choice> = None;
    for level in (base as usize..LEVEL_MAX).rev() {
        target /= rules.level_ratio;
        let Some(run) = levels.deeper.get(level - 1) else { continue };
        let score = run.bytes() as f64 / target.max(rules.level_bytes_min) as f64;
        if score < 1.0 || best.as_ref().is_some_and(|best| best.score >= score) {
            continue;
        }
        let below = levels.deeper.get(level).unwrap_or(&nothing);
        let cost = |table: &Arc<Table>| -> u64 {
            let meta = table.meta();
            below.overlapping(&meta.smallest, &meta.largest).map(|under| under.meta().bytes).sum::<u64>()
                * 1000
                / meta.bytes.max(1)
        };
        let free = |table: &&Arc<Table>| {
            let meta = table.meta();
            !busy.contains(&meta.file)
                && !below
                    .overlapping(&meta.smallest, &meta.largest)
                    .any(|under| busy.contains(&under.meta().file))
        };
        let Some(table) = run.tables.iter().filter(free).min_by_key(|table| cost(table)) else { continue };
        let meta = table.meta();
        let mut inputs = vec![(level as u32, 0, Arc::clone(table))];
        inputs.extend(
            below
                .overlapping(&meta.smallest, &meta.largest)
                .map(|under| (level as u32 + 1, 0, Arc::clone(under))),
        );
        let moves = inputs.len() == 1;
        best = Some(Choice { inputs, output_level: level as u32 + 1, moves, score });
    }
    best
}

#[cfg(test)]
mod tests;
