//! Random levels, with several choices in progress at once: an older version must never end above a
//! newer one.

use firn_format::Sequence;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::{Choice, PickRules, pick, pick_range};
use super::{names, table};
use crate::compact::seeks::pick_for_reads;
use crate::version::observed::Seeks;
use crate::version::{Levels, Table};

/// Keys are single bytes below this.
const KEYS: u8 = 60;

/// Levels and, of each table, which version of each key it holds: greater is newer.
struct World {
    random: fastrand::Rng,
    levels: Levels,
    versions: BTreeMap<String, BTreeMap<u8, u64>>,
    /// Choices whose outputs are not there yet.
    running: Vec<Choice>,
    /// The running choice is of a range: nothing else begins until it has ended.
    alone: bool,
    files: u64,
    age: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let (levels, versions) = (Levels::default(), BTreeMap::new());
        Self { random, levels, versions, running: Vec::new(), alone: false, files: 0, age: 0 }
    }

    /// Tables of `versions`, cut at random, the bounds sometimes wider than the keys, as range
    /// tombstones make them.
    fn cut(&mut self, versions: BTreeMap<u8, u64>, hull: (u8, u8)) -> Vec<Arc<Table>> {
        let entries: Vec<(u8, u64)> = versions.into_iter().collect();
        let mut tables = Vec::new();
        let mut rest = &entries[..];
        let mut from = hull.0;
        while !rest.is_empty() {
            let (mine, others) = rest.split_at(self.random.usize(1..=rest.len()));
            let until = others.first().map_or(hull.1, |(key, _)| key - 1);
            let (first, last) = (mine[0].0, mine[mine.len() - 1].0);
            let smallest = if self.random.bool() { first } else { self.random.u8(from..=first) };
            let largest = if self.random.bool() { last } else { self.random.u8(last..=until) };
            self.files += 1;
            let name = format!("{:06}", self.files);
            let bytes = mine.len() as u64 * self.random.u64(10..100);
            tables.push(table(name.clone(), &[smallest], &[largest], bytes, self.random.f64()));
            self.versions.insert(name, mine.iter().copied().collect());
            (rest, from) = (others, largest + 1);
        }
        tables
    }

    /// A new sorted run of level 0.
    fn flush(&mut self) {
        self.age += 1;
        let (a, b) = (self.random.u8(0..KEYS), self.random.u8(0..KEYS));
        let hull = (a.min(b), a.max(b));
        let sparse = self.random.u8(1..8);
        let keys: Vec<u8> = (hull.0..=hull.1).filter(|_| self.random.u8(..sparse) == 0).collect();
        let versions = keys.into_iter().map(|key| (key, self.age)).collect();
        for table in self.cut(versions, hull) {
            self.levels.add(0, self.age, table);
        }
    }

    /// Begins a choice, perhaps of a range; tells whether there was one.
    fn begin(&mut self, rules: &PickRules, ranges: bool) -> bool {
        if self.alone {
            return false;
        }
        let running = self.running.iter().flat_map(names);
        let busy: BTreeSet<String> = running.map(str::to_owned).collect();
        let alone = ranges && self.running.is_empty() && self.random.u8(..20) == 0;
        let choice = if alone {
            let (start, end) = ([self.random.u8(..KEYS)], [self.random.u8(..KEYS)]);
            pick_range(&self.levels, &start, self.random.bool().then_some(&end), rules)
        } else {
            let seeks = Seeks::default();
            seeks.add(if self.random.u8(..4) == 0 { self.random.usize(..2000) } else { 0 }, false);
            pick(&self.levels, rules, &busy).or_else(|| pick_for_reads(&self.levels, rules, &busy, &seeks))
        };
        let Some(choice) = choice else { return false };
        assert!(!choice.inputs.is_empty());
        assert!(names(&choice).iter().all(|name| !busy.contains(*name)), "a busy table was chosen");
        self.assert_closed(&choice);
        self.running.push(choice);
        self.alone = alone;
        true
    }

    /// What is older than an input, overlaps it and lies not below the output level, must be an
    /// input too.
    fn assert_closed(&self, choice: &Choice) {
        let chosen: BTreeSet<&str> = names(choice).into_iter().collect();
        // Older than every input of a choice that stays in level 0, or below its outputs: passed by
        // nothing.
        let oldest = choice.inputs.iter().filter(|(level, ..)| *level == 0).map(|(_, run, _)| *run).min();
        let below = |level: u32, run: u64| match choice.output_level {
            0 => level > 0 || oldest.is_some_and(|oldest| run < oldest),
            output => level > output,
        };
        for (level, run, input) in &choice.inputs {
            for (other_level, other_run, other) in self.levels.placed() {
                let older = other_level > *level || (other_level == 0 && *level == 0 && other_run < *run);
                let meta = input.meta();
                if older && !below(other_level, other_run) && other.overlaps(&meta.smallest, &meta.largest) {
                    let (input, other) = (&meta.file, &other.meta().file);
                    assert!(chosen.contains(other.as_str()), "{input} passes {other}, which is older");
                }
            }
        }
    }

    /// Ends the running choice at `index`: its inputs go, its outputs come.
    fn commit(&mut self, index: usize) {
        let choice = self.running.swap_remove(index);
        self.alone = false;
        for (_, _, input) in &choice.inputs {
            let removed = self.levels.remove(&input.meta().file);
            assert!(removed.is_some(), "an input is there until its choice is committed");
        }
        if choice.moves {
            for (_, _, input) in &choice.inputs {
                self.levels.add(choice.output_level, 0, Arc::clone(input));
            }
            return;
        }
        let mut newest: BTreeMap<u8, u64> = BTreeMap::new();
        for (_, _, input) in &choice.inputs {
            for (key, age) in self.versions.remove(&input.meta().file).unwrap() {
                let slot = newest.entry(key).or_default();
                *slot = age.max(*slot);
            }
        }
        // Some keys were deleted for good.
        let lost = self.random.u8(..10);
        newest.retain(|key, _| key % 10 != lost);
        let smallest = choice.inputs.iter().map(|(_, _, input)| input.meta().smallest[0]).min().unwrap();
        let largest = choice.inputs.iter().map(|(_, _, input)| input.meta().largest[0]).max().unwrap();
        for table in self.cut(newest, (smallest, largest)) {
            self.levels.add(choice.output_level, choice.output_run, table);
        }
    }

    /// Each key's versions are newest first, and tables of one sorted run are disjoint.
    fn assert_ordered(&self) {
        let mut seen: BTreeMap<u8, u64> = BTreeMap::new();
        for run in self.levels.sorted_runs() {
            for pair in run.tables.windows(2) {
                let (a, b) = (pair[0].meta(), pair[1].meta());
                assert!(a.largest < b.smallest, "{} and {} overlap in one sorted run", a.file, b.file);
            }
            for (key, age) in run.tables.iter().flat_map(|table| &self.versions[&table.meta().file]) {
                let above = seen.insert(*key, *age);
                assert!(above.is_none_or(|above| above > *age), "key {key}: {above:?} lies above {age}");
            }
        }
    }
}

/// A random life of a keyspace, then the work that is left without flushes.
fn life(seed: u64) {
    let mut world = World::new(seed);
    let rules = PickRules {
        depth_max: world.random.usize(1..6),
        depth_mean_max: world.random.f64() * 6.0,
        share_max: world.random.f64(),
        stay_max: world.random.f64() * 2.0,
        table_bytes: world.random.u64(1..2000),
        level_bytes_min: world.random.u64(1..2000),
        level_ratio: world.random.u64(2..11),
        read_price: 1.0,
        l0_only: false,
        room_bytes: u64::MAX,
        now_ms: 0,
        oldest_snapshot: Sequence::MAX,
    };
    for _ in 0..world.random.usize(10..200) {
        match world.random.u8(..3) {
            0 => world.flush(),
            1 => drop(world.begin(&rules, true)),
            _ if world.running.is_empty() => {}
            _ => {
                let index = world.random.usize(..world.running.len());
                world.commit(index);
            }
        }
        world.assert_ordered();
    }
    for step in 0.. {
        assert!(step < 2000, "picking goes round in circles");
        let begun = world.begin(&rules, false);
        match world.running.len().checked_sub(1) {
            Some(last) => world.commit(last),
            None if !begun => break,
            None => {}
        }
        world.assert_ordered();
    }
    for key in 0..KEYS {
        let over = world.levels.level0.iter().filter(|run| run.spanning(&[key]).next().is_some()).count();
        assert!(
            over < rules.depth_max,
            "key {key} is left under {over} sorted runs, {} are too many",
            rules.depth_max
        );
    }
}

#[test]
fn an_older_version_never_ends_above_a_newer_one() {
    for seed in 0..600 {
        let lived = std::panic::catch_unwind(|| life(seed));
        assert!(lived.is_ok(), "reproduce with `life({seed})`");
    }
}
