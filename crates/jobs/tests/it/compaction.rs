//! Readers at every snapshot see the same before and after.

use std::sync::Arc;

use firn_engine::{CompactionFilter, FilterVerdict, Semantics};
use firn_format::Sequence;
use firn_format::key::Kind;
use firn_jobs::{CompactResult, Control, ErrorKind, Sums, run_compact, verify_compact};

use crate::world::{Held, Mix, Read, World, all_keys, semantics};

fn compact(world: &World, seed: u64) -> (CompactResult, Held) {
    let result = match run_compact(&world.spec, &world.storage, &semantics(), &Control::new()) {
        Ok(result) => result,
        Err(error) => panic!("seed {seed}: {error}"),
    };
    if let Err(error) = verify_compact(&world.spec, &result) {
        panic!("seed {seed}: {error}");
    }
    let held = world.held(&result.tables);
    (result, held)
}

fn worlds(mix: Mix, seeds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, World)> {
    seeds.map(move |seed| (seed, World::new(seed, mix))).filter(|(_, world)| !world.spec.inputs.is_empty())
}

#[test]
fn readers_see_no_difference() {
    for older in [false, true] {
        for merges in [false, true] {
            let mix = Mix { operations: 60, merges, filter: false, older };
            for (seed, world) in worlds(mix, 0..300) {
                let (_, held) = compact(&world, seed);
                let (before, after) = (world.inputs.plus(&world.older), held.plus(&world.older));
                for key in all_keys() {
                    for point in world.points() {
                        for now_ms in [100, 150, 1000] {
                            let expected = before.read(&key, point, now_ms);
                            let found = after.read(&key, point, now_ms);
                            assert_eq!(
                                found, expected,
                                "seed {seed} {mix:?} key {key:?} at {point} now {now_ms}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_filter_touches_only_what_no_snapshot_sees() {
    let mut dropped = 0;
    let mix = Mix { operations: 60, merges: false, filter: true, older: true };
    for (seed, world) in worlds(mix, 0..300) {
        let (result, held) = compact(&world, seed);
        dropped += result.sums.filtered.count;
        let (before, after) = (world.inputs.plus(&world.older), held.plus(&world.older));
        let newest_snapshot = world.spec.rules.snapshots.iter().max().copied().unwrap_or(Sequence(0));
        for key in all_keys() {
            for point in world.points() {
                let (expected, found) = (before.read(&key, point, 150), after.read(&key, point, 150));
                let unseen =
                    before.entries.iter().any(|entry| entry.key == key && entry.sequence >= newest_snapshot);
                match &expected {
                    Read::Value(value) if value.starts_with(b"d") && point == Sequence::MAX && unseen => {
                        assert!(found == expected || found == Read::Absent, "seed {seed} key {key:?}");
                    }
                    _ => assert_eq!(found, expected, "seed {seed} key {key:?} at {point}"),
                }
            }
        }
    }
    assert!(dropped > 100, "the filter dropped only {dropped}");
}

#[test]
fn at_the_bottom_without_snapshots_one_version_a_key_is_left() {
    let mix = Mix { operations: 80, merges: true, filter: false, older: false };
    for (seed, mut world) in worlds(mix, 0..200) {
        world.spec.rules.snapshots.clear();
        world.spec.rules.older_overlap.clear();
        let (_, held) = compact(&world, seed);
        assert!(held.ranges.is_empty(), "seed {seed}: {:?}", held.ranges);
        let mut keys: Vec<_> = held.entries.iter().map(|entry| &entry.key).collect();
        let count = keys.len();
        keys.dedup();
        for entry in &held.entries {
            assert_ne!(entry.kind, Kind::Delete, "seed {seed} {entry:?}");
        }
        // Operands that were refused, and records that expire, stay as they are.
        let alone = |entry: &&crate::world::Owned| entry.kind == Kind::Put;
        if held.entries.iter().all(|entry| alone(&entry)) {
            assert_eq!(keys.len(), count, "seed {seed}");
        }
    }
}

#[test]
fn tables_are_cut_where_they_should_be() {
    let mix = Mix { operations: 300, merges: true, filter: false, older: true };
    let mut tables = 0;
    for (seed, mut world) in worlds(mix, 0..60) {
        world.spec.output.splits = vec![b"ab".to_vec(), b"b".to_vec(), b"bb".to_vec()];
        world.spec.output.table_bytes_target = 600;
        let (result, _) = compact(&world, seed);
        tables += result.tables.len();
        for table in &result.tables {
            let crossed = world
                .spec
                .output
                .splits
                .iter()
                .find(|split| table.smallest < **split && **split < table.largest);
            assert_eq!(crossed, None, "seed {seed} {table:?}");
            assert!(table.bytes < 8000, "seed {seed}: {} bytes", table.bytes);
        }
        let mut last: Option<Vec<u8>> = None;
        for pair in result.tables.windows(2) {
            assert!(pair[0].largest <= pair[1].smallest, "seed {seed}");
        }
        for table in &result.tables {
            let keys: Vec<_> =
                world.held(std::slice::from_ref(table)).entries.into_iter().map(|e| e.key).collect();
            assert!(
                last.is_none() || keys.first().is_none_or(|key| Some(key) > last.as_ref()),
                "seed {seed}"
            );
            last = keys.last().cloned().or(last);
        }
    }
    assert!(tables > 200, "only {tables} tables");
}

/// Drops every value, by the name that the worlds' own filter has.
#[derive(Debug)]
struct DropAll;

impl CompactionFilter for DropAll {
    fn name(&self) -> &str {
        "drop-d.1"
    }

    fn verdict(&self, _: &[u8], _: &[u8]) -> FilterVerdict {
        FilterVerdict::Drop
    }
}

#[test]
fn that_nothing_is_left_is_an_answer_and_is_believed_only_with_where_all_went() {
    let semantics = Semantics::new().with_compaction_filter(Arc::new(DropAll));
    let mix = Mix { operations: 80, merges: false, filter: true, older: false };
    let mut left = [0; 2];
    for (seed, mut world) in worlds(mix, 0..100) {
        world.spec.rules.snapshots.clear();
        world.spec.rules.older_overlap.clear();
        world.spec.rules.tick_ms = 10_000;
        let nothing = run_compact(&world.spec, &world.storage, &semantics, &Control::new()).unwrap();
        left[0] += nothing.tables.len();
        assert!(verify_compact(&world.spec, &nothing).is_ok(), "seed {seed}");
        // No answer at all looks the same, but for the sums.
        let none = CompactResult { sums: Sums::default(), ..nothing.clone() };
        let said = verify_compact(&world.spec, &none).map_err(|error| error.kind);
        assert_eq!(said, Err(ErrorKind::NotConserved), "seed {seed}");
        // Nor is it believed where something should be left.
        let (some, _) = compact(&world, seed);
        left[1] += some.tables.len();
        if !some.tables.is_empty() {
            let lost = CompactResult { tables: Vec::new(), ..some };
            let said = verify_compact(&world.spec, &lost).map_err(|error| error.kind);
            assert_eq!(said, Err(ErrorKind::NotConserved), "seed {seed}");
        }
    }
    assert_eq!(left[0], 0, "everything is dropped");
    assert!(left[1] > 100, "{left:?}");
}
