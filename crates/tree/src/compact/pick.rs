//! Choosing tables to compact: a pure function of the levels.
//!
//! Level 0 holds sorted runs whose tables a flush has cut at the base level's bounds. So tables of
//! level 0 and of the base level fall into *overlaps*: sets that overlap among themselves and
//! nothing outside. Two budgets hold for all overlaps together. One is the depth of level 0: reads
//! ask one table of each sorted run. The other is what level 0 supersedes, as flushes estimated it:
//! space that a rewrite gives back. While a budget is exceeded, the worst overlap is rewritten, and
//! no other. So overlaps take turns. Each grows to about twice the mean that the budget allows
//! before its turn comes. Rewriting every overlap at that mean would write twice as much.
//!
//! An overlap is rewritten into the base level, or sorted runs of level 0 are merged into one that
//! stays there. They are merged where only the overlap's depth is too much, and its part of level 0
//! is small beside that of the base level.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use firn_format::Sequence;
use firn_format::key::key_hash;

use crate::maintenance::Choice;
use crate::version::levels::LEVEL_MAX;
use crate::version::observed::PartlyHidden;
use crate::version::{Levels, SortedRun, Table};

mod room;

pub(crate) use room::first_with_room;

/// Limits that picking follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PickRules {
    /// Sorted runs of level 0 over one key at which its overlap is compacted.
    pub(crate) depth_max: usize,
    /// The same on average, overlaps weighed by their bytes, at which the deepest overlap is
    /// compacted.
    pub(crate) depth_mean_max: f64,
    /// Superseded bytes for each live byte, at which the overlap with the largest share of them is
    /// rewritten.
    pub(crate) share_max: f64,
    /// An overlap whose level 0 has at least this many bytes for each of its base level is
    /// rewritten into it.
    pub(crate) stay_max: f64,
    /// What a table should have.
    pub(crate) table_bytes: u64,
    /// A level above the last that would hold less than this is not used.
    pub(crate) level_bytes_min: u64,
    /// How much larger each level is than the one above it.
    pub(crate) level_ratio: u64,
    /// Bytes that reads must have lost for each byte that is rewritten for their sake.
    pub(crate) read_price: f64,
    /// Nothing but what takes tables out of level 0 is wanted.
    pub(crate) l0_only: bool,
    /// Bytes of the disk that outputs may take.
    pub(crate) room_bytes: u64,
    /// What expires by this time has expired, in milliseconds since the Unix epoch.
    pub(crate) now_ms: u64,
    /// Of the oldest snapshot; it sees records of smaller sequences alone.
    pub(crate) oldest_snapshot: Sequence,
}

/// The most urgent choice that touches no table of `busy`; `None` if nothing is over its limit.
pub(crate) fn pick(levels: &Levels, rules: &PickRules, busy: &BTreeSet<String>) -> Option<Choice> {
    let base = base_level(levels, rules);
    let best = pick_move(levels, base, busy).or_else(|| pick_overlap(levels, rules, base, busy));
    let deeper = if rules.l0_only { None } else { pick_deeper(levels, rules, base, busy) };
    let urgency = |choice: &Choice| (choice.fits(rules), choice.score);
    match (best, deeper) {
        (Some(best), Some(deeper)) => Some(if urgency(&deeper) > urgency(&best) { deeper } else { best }),
        (best, deeper) => best.or(deeper),
    }
}

/// The worst overlap, where a budget is exceeded or that overlap is deeper than any may be.
fn pick_overlap(levels: &Levels, rules: &PickRules, base: u32, busy: &BTreeSet<String>) -> Option<Choice> {
    let mut overlaps = overlaps(levels, base);
    // What is being rewritten is as good as rewritten.
    overlaps.retain(|overlap| !overlap.is_busy(busy));
    let all =
        levels.level0.iter().chain(levels.deeper.get(base as usize - 1)).map(SortedRun::bytes).sum::<u64>();
    let superseded: u64 = overlaps.iter().map(Overlap::superseded_bytes).sum();
    let live = all.saturating_sub(superseded).max(1);
    let depth_mean =
        overlaps.iter().map(|overlap| overlap.depth() as f64 * overlap.bytes() as f64).sum::<f64>()
            / all.max(1) as f64;
    let (deepness, garbage) =
        (depth_mean / rules.depth_mean_max, superseded as f64 / live as f64 / rules.share_max);
    let deepest = overlaps.iter().map(Overlap::depth).max()? as f64;
    let share_most = overlaps.iter().map(Overlap::share).fold(0.0, f64::max);
    let mut best: Option<((bool, f64), f64, Overlap)> = None;
    for overlap in overlaps {
        let depth = overlap.depth() as f64;
        let by_depth = (depth / rules.depth_max as f64).max(deepness * depth / deepest);
        let by_share = garbage * overlap.share() / share_most;
        let score = by_depth.max(by_share);
        let urgency = (overlap.fits(rules), score);
        if score >= 1.0 && best.as_ref().is_none_or(|best| best.0 < urgency) {
            best = Some((urgency, by_share, overlap));
        }
    }
    let ((_, score), by_share, overlap) = best?;
    let stays = by_share < 1.0 || by_share.is_nan();
    let merged = if stays { overlap.merge(rules, score) } else { None };
    let merged = merged.or_else(|| overlap.recut(&splits(levels, rules), score));
    // What stays in level 0 makes no room for itself.
    let merged = merged.filter(|merged| merged.fits(rules));
    Some(merged.unwrap_or_else(|| overlap.choice(base, score)))
}

/// Everything that overlaps `start..=end` in levels 0 to the last that holds any of it, to be
/// rewritten there.
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
    let all: Vec<_> = levels.placed().map(|(level, run, table)| (level, run, Arc::clone(table))).collect();
    for (level, run, table) in all.iter().filter(|(_, _, table)| touches(table)) {
        chosen.insert(table.meta().file.clone(), (*level, *run, Arc::clone(table)));
    }
    // Whatever overlaps the chosen must come along, or an older version could end up above a newer
    // one.
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
    Some(Choice { inputs, output_level, output_run: 0, moves: false, score: f64::MAX })
}

/// Of tables that are partly hidden, so many are looked at to rewrite one.
const LOOKED_AT_MAX: usize = 4;

/// The first of `partly` that can be rewritten, with whatever overlaps it, for less than it is
/// worth; never with a table of `busy`.
pub(crate) fn pick_for_deletes(
    levels: &Levels,
    rules: &PickRules,
    busy: &BTreeSet<String>,
    partly: &[PartlyHidden],
) -> Option<Choice> {
    let is_free = |table: &Table| !busy.contains(&table.meta().file);
    let free = partly.iter().filter(|part| part.table.upgrade().is_some_and(|table| is_free(&table)));
    // To find what overlaps one takes a look at all tables, each time that a thread chooses.
    free.take(LOOKED_AT_MAX).find_map(|part| {
        let part_table = part.table.upgrade()?;
        levels.tables().find(|(_, table)| Arc::ptr_eq(table, &part_table))?;
        let meta = part_table.meta();
        let end = [meta.largest.as_slice(), &[0]].concat();
        let choice = pick_range(levels, &meta.smallest, Some(&end), rules)?;
        let are_free = choice.inputs.iter().all(|(_, _, table)| is_free(table));
        (are_free && part.is_worth(choice.input_bytes())).then_some(Choice { score: 1.0, ..choice })
    })
}

pub(super) fn newest_first(a: &(u32, u64, Arc<Table>), b: &(u32, u64, Arc<Table>)) -> std::cmp::Ordering {
    let of = |item: &(u32, u64, Arc<Table>)| (item.0, u64::MAX - item.1);
    of(a).cmp(&of(b)).then_with(|| a.2.meta().smallest.cmp(&b.2.meta().smallest))
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
pub(super) struct Overlap {
    /// (level, sorted run, table)
    tables: Vec<(u32, u64, Arc<Table>)>,
}

impl Overlap {
    pub(super) fn is_busy(&self, busy: &BTreeSet<String>) -> bool {
        self.tables.iter().any(|(_, _, table)| busy.contains(&table.meta().file))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.tables.iter().map(|(_, _, table)| table.meta().bytes).sum()
    }

    pub(super) fn level0_bytes(&self) -> u64 {
        let level0 = self.tables.iter().filter(|(level, ..)| *level == 0);
        level0.map(|(_, _, table)| table.meta().bytes).sum()
    }

    pub(super) fn depth(&self) -> usize {
        self.tables
            .iter()
            .filter(|(level, ..)| *level == 0)
            .map(|(_, run, _)| run)
            .collect::<BTreeSet<_>>()
            .len()
    }

    fn superseded_bytes(&self) -> u64 {
        self.tables
            .iter()
            .filter(|(level, ..)| *level == 0)
            .map(|(_, _, table)| table.superseded_bytes())
            .sum()
    }

    /// Superseded bytes over all bytes.
    fn share(&self) -> f64 {
        self.superseded_bytes() as f64 / self.bytes().max(1) as f64
    }

    /// All of it, rewritten into the base level.
    pub(super) fn choice(mut self, base: u32, score: f64) -> Choice {
        self.tables.sort_by(newest_first);
        Choice { inputs: self.tables, output_level: base, output_run: 0, moves: false, score }
    }

    /// Sorted runs of level 0, adjacent in age and alike in size, merged into one that stays there:
    /// as many as cost least for each that goes. `None` where the base level is so small that it
    /// should be rewritten too.
    fn merge(&self, rules: &PickRules, score: f64) -> Option<Choice> {
        let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, run, table) in self.tables.iter().filter(|(level, ..)| *level == 0) {
            *runs.entry(*run).or_default() += table.meta().bytes;
        }
        let level0: u64 = runs.values().sum();
        if level0 as f64 >= (self.bytes() - level0) as f64 * rules.stay_max {
            return None;
        }
        let runs: Vec<(u64, u64)> = runs.into_iter().collect();
        let windows = (0..runs.len())
            .flat_map(|first| (first + MERGE_RUNS_MIN..=runs.len()).map(move |end| (first, end)))
            .map(|(first, end)| &runs[first..end]);
        let bytes = |window: &[(u64, u64)]| window.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let alike = windows.filter(|window| {
            window.iter().map(|(_, bytes)| *bytes).max().is_some_and(|largest| largest * 2 <= bytes(window))
        });
        let window = alike.min_by_key(|window| bytes(window) / (window.len() as u64 - 1))?;
        self.merge_runs(window.first()?.0..=window.last()?.0, score)
    }

    /// All sorted runs of level 0 merged into one that stays there; `None` if there are none.
    pub(super) fn merge_all(&self, score: f64) -> Option<Choice> {
        let runs = || self.tables.iter().filter(|(level, ..)| *level == 0).map(|(_, run, _)| *run);
        self.merge_runs(runs().min()?..=runs().max()?, score)
    }

    fn merge_runs(&self, runs: RangeInclusive<u64>, score: f64) -> Option<Choice> {
        let output_run = *runs.end();
        let chosen = self.tables.iter().filter(|(level, run, _)| *level == 0 && runs.contains(run));
        let mut inputs: Vec<_> = chosen.cloned().collect();
        inputs.sort_by(newest_first);
        Some(Choice { inputs, output_level: 0, output_run, moves: false, score })
    }

    /// Tables of one sorted run of level 0 that alone hold this overlap together, to be cut at
    /// `splits` where they are; `None` if there are none, or rewriting everything costs little
    /// more.
    ///
    /// A flush that began before the base level was divided leaves such tables.
    fn recut(&self, splits: &[Vec<u8>], score: f64) -> Option<Choice> {
        // A bound that only touches a split may be where a range tombstone ends, as it does after a
        // cut.
        let is_wide = |table: &Table| {
            let meta = table.meta();
            splits.iter().any(|split| meta.smallest < *split && *split < meta.largest)
        };
        let wide: Vec<_> =
            self.tables.iter().filter(|(level, _, table)| *level == 0 && is_wide(table)).cloned().collect();
        let bytes: u64 = wide.iter().map(|(_, _, table)| table.meta().bytes).sum();
        if bytes == 0 || bytes * RECUT_RATIO > self.bytes() {
            return None;
        }
        let run = wide.iter().map(|(_, run, _)| *run).max()?;
        let mut inputs: Vec<_> =
            self.tables.iter().filter(|(level, of, _)| *level == 0 && *of == run).cloned().collect();
        inputs.sort_by(newest_first);
        // Those between two of them come along: an output may hold keys from both sides.
        let last = inputs.iter().rposition(|(_, _, table)| is_wide(table))?;
        inputs.truncate(last + 1);
        inputs.drain(..inputs.iter().position(|(_, _, table)| is_wide(table))?);
        Some(Choice { inputs, output_level: 0, output_run: run, moves: false, score })
    }
}

/// An overlap must be this many times larger than the tables that hold it together for these to be
/// cut.
const RECUT_RATIO: u64 = 3;

/// Fewer sorted runs than this are not worth merging inside level 0.
const MERGE_RUNS_MIN: usize = 4;

/// Overlaps that the base level is divided into, about, however many tables it has.
const GROUPS_MAX: usize = 32;

/// Overlaps that the first flush into empty levels begins.
const GROUPS_FIRST: u64 = 16;

/// An overlap begins with at least this many bytes.
const GROUP_BYTES_MIN: u64 = 1 << 20;

/// Size at which a flush of `bytes` cuts its tables. The first flush divides the base level while
/// it is small, so that what comes is cut alike.
pub(crate) fn flush_table_bytes(levels: &Levels, bytes: u64, rules: &PickRules) -> u64 {
    if levels.tables().next().is_some() {
        return rules.table_bytes;
    }
    (bytes / GROUPS_FIRST).max(GROUP_BYTES_MIN).min(rules.table_bytes)
}

/// Keys that divide the base level, at which everything written above it or into it is cut, so that
/// overlaps stay apart. Base tables begin there; of many tables, those are taken whose keys have a
/// hash that says so. They stay what they are while other overlaps are rewritten: a flush that
/// began before still cuts where it should.
pub(crate) fn splits(levels: &Levels, rules: &PickRules) -> Vec<Vec<u8>> {
    let base = base_level(levels, rules) as usize;
    let Some(run) = levels.deeper.get(base - 1) else { return Vec::new() };
    let one_of = (run.tables.len() / GROUPS_MAX).next_power_of_two() as u64;
    // Small tables are left where much was deleted; they need no overlap of their own.
    let least = (rules.table_bytes / 4).min(run.bytes() / (4 * GROUPS_MAX as u64));
    let (mut bytes, mut splits) = (0, Vec::new());
    for table in &run.tables {
        let smallest = &table.meta().smallest;
        if bytes >= least && (key_hash(smallest) >> 32).is_multiple_of(one_of) {
            splits.push(smallest.clone());
            bytes = 0;
        }
        bytes += table.meta().bytes;
    }
    splits
}

/// Sorted runs of level 0 over one key, at most: those of the deepest overlap.
pub(crate) fn deepest(levels: &Levels, rules: &PickRules) -> usize {
    overlaps(levels, base_level(levels, rules)).iter().map(Overlap::depth).max().unwrap_or(0)
}

/// The overlaps of level 0 with what they overlap in the base level, by key.
pub(super) fn overlaps(levels: &Levels, base: u32) -> Vec<Overlap> {
    let placed = levels.placed().filter(|(level, ..)| *level == 0 || *level == base);
    let mut tables: Vec<_> = placed.map(|(level, run, table)| (level, run, Arc::clone(table))).collect();
    tables.sort_by(|a, b| a.2.meta().smallest.cmp(&b.2.meta().smallest));
    let mut overlaps: Vec<Overlap> = Vec::new();
    let mut largest: Vec<u8> = Vec::new();
    for item in tables {
        let meta = item.2.meta();
        let joins = !overlaps.is_empty() && meta.smallest <= largest;
        if meta.largest > largest || !joins {
            largest.clone_from(&meta.largest);
        }
        match overlaps.last_mut() {
            Some(overlap) if joins => overlap.tables.push(item),
            _ => overlaps.push(Overlap { tables: vec![item] }),
        }
    }
    overlaps.retain(|overlap| overlap.tables.iter().any(|(level, ..)| *level == 0));
    overlaps
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
    (!inputs.is_empty()).then_some(Choice {
        inputs,
        output_level: base,
        output_run: 0,
        moves: true,
        score: f64::MAX,
    })
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
        best = Some(Choice { inputs, output_level: level as u32 + 1, output_run: 0, moves, score });
    }
    best
}

/// Score of a compaction that flushes have to wait for.
pub(crate) const FAR_BEHIND: f64 = 2.0;

#[cfg(test)]
pub(crate) mod tests;
