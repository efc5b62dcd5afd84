//! Runs by level and span, and what is chosen of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_engine::{Compression, KeyspaceSettings, Semantics};
use firn_format::Position;
use firn_format::filter::Filter;
use firn_format::tombstone::FragmentList;

use super::{pick_flush, pick_merge};
use crate::buffer::run::{Dropped, Parts, PrefixSet, Run};
use crate::memtable::Memtable;
use crate::settings::Settings;
use crate::version::{Definition, Keyspace, Levels};

/// A run of `level` over `start..start + 10`, whose records take `bytes`.
fn run(level: u32, start: u64, bytes: u64) -> Arc<Run> {
    let parts = Parts {
        common: Vec::new(),
        entries: Vec::new(),
        hashes: Vec::new(),
        filter: Filter::with_room(0, 10),
        prefixes: PrefixSet::default(),
        tombstones: Arc::new(FragmentList::new()),
        smallest: Vec::new(),
        largest: Vec::new(),
    };
    Arc::new(parts.assemble(Position(start)..Position(start + 10), level, bytes, Dropped::default()))
}

/// Runs of these levels, newest first; the oldest begins at position 0, each other 10 after the one
/// before.
fn runs(levels: &[u32]) -> Vec<Arc<Run>> {
    let starts = (0..levels.len() as u64).rev().map(|age| age * 10);
    levels.iter().zip(starts).map(|(level, start)| run(*level, start, 100)).collect()
}

/// Starts of what is merged.
fn merged(levels: &[u32], fan_in: usize, busy: &[u64]) -> Option<Vec<u64>> {
    let picked = pick_merge(&runs(levels), fan_in, |run| busy.contains(&run.span().start.0));
    picked.map(|starts| starts.into_iter().map(|start| start.0).collect())
}

#[test]
fn as_many_as_the_fan_in_are_merged() {
    assert_eq!(merged(&[], 2, &[]), None);
    assert_eq!(merged(&[0, 0, 0], 4, &[]), None);
    assert_eq!(merged(&[0, 0, 0, 0], 4, &[]), Some(vec![30, 20, 10, 0]));
    assert_eq!(merged(&[0, 0, 0, 0, 0, 0], 4, &[]), Some(vec![30, 20, 10, 0]), "the oldest of them");
    assert_eq!(merged(&[0, 0], 2, &[]), Some(vec![10, 0]));
}

#[test]
fn only_runs_of_one_level_that_lie_side_by_side() {
    assert_eq!(merged(&[0, 0, 1, 1], 3, &[]), None);
    assert_eq!(merged(&[0, 1, 0, 0], 3, &[]), None, "the run of level 1 lies between them in age");
    assert_eq!(merged(&[0, 0, 0, 1, 1], 3, &[]), Some(vec![40, 30, 20]));
    assert_eq!(merged(&[0, 1, 1, 1, 2], 3, &[]), Some(vec![30, 20, 10]));
}

#[test]
fn lower_levels_come_first() {
    assert_eq!(merged(&[0, 0, 1, 1], 2, &[]), Some(vec![30, 20]));
    assert_eq!(merged(&[0, 0, 1, 1], 2, &[30]), Some(vec![10, 0]), "unless they are busy");
}

#[test]
fn busy_runs_are_neither_merged_nor_jumped_over() {
    assert_eq!(merged(&[0, 0, 0], 2, &[10]), None, "the busy one lies between the others");
    assert_eq!(merged(&[0, 0, 0], 2, &[0]), Some(vec![20, 10]));
    assert_eq!(merged(&[0, 0, 0], 2, &[20]), Some(vec![10, 0]));
    assert_eq!(merged(&[0, 0, 0, 0], 2, &[0, 30]), Some(vec![20, 10]));
    assert_eq!(merged(&[0, 0], 2, &[0, 10]), None);
}

fn keyspace(id: u32, runs: Vec<Arc<Run>>) -> Arc<Keyspace> {
    let name = format!("keyspace {id}");
    let definition =
        Definition::new(id, &name, KeyspaceSettings::default(), (Compression::None, &Semantics::new()))
            .unwrap();
    Arc::new(Keyspace {
        definition: Arc::new(definition),
        memtable: Arc::new(Memtable::new(&[])),
        memtable_start: Position(1000),
        frozen: Vec::new(),
        runs,
        levels: Arc::new(Levels::default()),
        flushed_through: Position(0),
        ingested_through: Position(0),
        observed: Arc::default(),
        obsolete_count: 0,
    })
}

/// Keyspace and starts of what is flushed, of a buffer that flushes at 10 000 bytes.
fn flushed(
    keyspaces: &[Arc<Keyspace>],
    busy: &[(u32, u64)],
    pressure: bool,
    through: u64,
) -> Option<(u32, Vec<u64>)> {
    let settings = Settings::default().with_engine(|tree| tree.buffer_bytes = 10_000);
    let busy: BTreeSet<_> = busy.iter().map(|(id, start)| (*id, Position(*start))).collect();
    let picked = pick_flush(keyspaces.iter(), &busy, pressure, |_| Position(through), &settings);
    picked.map(|(id, starts)| (id, starts.into_iter().map(|start| start.0).collect()))
}

#[test]
fn nothing_flushes_without_a_reason() {
    let one = [keyspace(1, runs(&[0, 0, 0]))];
    assert_eq!(flushed(&one, &[], false, 0), None);
    assert_eq!(flushed(&[keyspace(1, Vec::new())], &[], true, 1000), None);
    assert_eq!(flushed(&[], &[], true, 1000), None);
}

#[test]
fn pressure_flushes_the_oldest_five_eighths() {
    let four = vec![run(0, 30, 2500), run(0, 20, 2500), run(1, 10, 2500), run(1, 0, 2000)];
    // The runs' own indexes count too, so that three are as much as 6250 bytes, five eighths of the
    // buffer.
    let index = run(0, 0, 0).memory_bytes();
    assert!((0..500).contains(&index), "{index}");
    assert_eq!(flushed(&[keyspace(1, four)], &[], true, 0), Some((1, vec![20, 10, 0])));
    let large = vec![run(0, 30, 9000), run(0, 20, 9000)];
    assert_eq!(flushed(&[keyspace(1, large)], &[], true, 0), Some((1, vec![20])), "one at least");
}

#[test]
fn the_keyspace_with_the_oldest_run_flushes() {
    let young = keyspace(1, vec![run(0, 50, 100), run(0, 40, 100)]);
    let old = keyspace(2, vec![run(0, 60, 100), run(0, 30, 100)]);
    assert_eq!(flushed(&[young.clone(), old.clone()], &[], true, 0), Some((2, vec![60, 30])));
    assert_eq!(flushed(&[young.clone(), old.clone()], &[], false, 41), Some((2, vec![30])));
    assert_eq!(flushed(&[young.clone(), keyspace(2, Vec::new())], &[], false, 41), Some((1, vec![40])));
    assert_eq!(flushed(&[young, old], &[], false, 30), None);
}

#[test]
fn without_pressure_only_what_was_asked_for_flushes() {
    let one = [keyspace(1, runs(&[0, 0, 0, 0, 0]))];
    assert_eq!(flushed(&one, &[], false, 20), Some((1, vec![10, 0])));
    assert_eq!(
        flushed(&one, &[], false, 21),
        Some((1, vec![20, 10, 0])),
        "a run that begins before it, whole"
    );
    // All of it, however much that is.
    let large = [keyspace(1, (0..5).rev().map(|age| run(0, age * 10, 9000)).collect())];
    assert_eq!(flushed(&large, &[], false, 40), Some((1, vec![30, 20, 10, 0])));
    assert_eq!(flushed(&large, &[], true, 20), Some((1, vec![10, 0])), "pressure does not cut it short");
}

#[test]
fn a_flush_ends_before_a_busy_run() {
    let one = [keyspace(1, runs(&[0, 0, 0, 0]))];
    assert_eq!(flushed(&one, &[(1, 20)], true, 0), Some((1, vec![10, 0])));
    assert_eq!(flushed(&one, &[(1, 20)], false, 1000), Some((1, vec![10, 0])));
    assert_eq!(flushed(&one, &[(1, 0)], true, 1000), None, "records must not overtake older ones");
    assert_eq!(flushed(&one, &[(2, 0)], true, 1000), Some((1, vec![30, 20, 10, 0])), "another keyspace's");
}

#[test]
fn a_keyspace_whose_oldest_run_is_busy_keeps_no_other_from_flushing() {
    let old = keyspace(1, vec![run(0, 60, 100), run(0, 30, 100)]);
    let young = keyspace(2, vec![run(0, 50, 100), run(0, 40, 100)]);
    let both = [old, young];
    assert_eq!(flushed(&both, &[(1, 30)], true, 0), Some((2, vec![50, 40])));
    assert_eq!(flushed(&both, &[(1, 30)], false, 41), Some((2, vec![40])));
    assert_eq!(flushed(&both, &[(1, 30)], false, 40), None, "the other was not asked for");
    assert_eq!(flushed(&both, &[(1, 60)], true, 0), Some((1, vec![30])), "a younger run is busy");
    assert_eq!(flushed(&both, &[(1, 30), (2, 40)], true, 0), None);
}

#[test]
fn a_buffer_that_may_hold_nothing_flushes_run_by_run() {
    let settings = Settings::default().with_engine(|tree| tree.buffer_bytes = 0);
    let one = [keyspace(1, runs(&[0, 0]))];
    let picked = pick_flush(one.iter(), &BTreeSet::new(), true, |_| Position(0), &settings);
    assert_eq!(picked, Some((1, vec![Position(0)])));
}
