//! All of a key range rewritten where several levels overlap one another in a chain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered, OrderedBatch, Position,
    ReadAt, ScanRange, Stats, WriteOptions,
};
use firn_format::manifest::TableMeta;
use firn_storage::backend::{Effect, Fault, Faulty, Operation, When};
use firn_tree::{Background, Settings, Tree};

use crate::compaction::older_ranges::{move_down, open};
use crate::support::inspect::tables;
use crate::support::sample::read_files;
use crate::support::world::{World, appending, get, put, rows, seed, session, settle, tiny};

const KEYS: u32 = 48_000;
const TABLE_BYTES: u64 = 64 << 10;

/// One key in so many has a newer value in the level above, and another one is deleted there.
const ABOVE: u32 = 10;
const DELETED: u32 = 5;

/// A closed database whose last level has every key in some 740 tables. The level above it has some
/// of them, in tables that each overlap ten of those.
fn chained() -> World {
    // No edit says everything anew.
    let world = World::new(
        Settings { manifest_edits_max: 10_000, ..tiny() }.with_engine(|tree| tree.table_bytes = TABLE_BYTES),
    );
    let tree = world.open().unwrap();
    let mut writer = session(&tree);
    for key in 0..KEYS {
        put(&mut writer, &key.to_be_bytes(), &[1; 1000]);
    }
    tree.flush().unwrap();
    settle(&tree);
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    for key in (0..KEYS).step_by(ABOVE as usize) {
        put(&mut writer, &key.to_be_bytes(), &[2; 1000]);
        let deleted = (key + DELETED).to_be_bytes();
        writer.delete(KEYSPACE_DEFAULT, &deleted, WriteOptions::default()).unwrap();
    }
    drop(writer);
    tree.flush().unwrap();
    tree.close().unwrap();
    drop(tree);
    move_down(&world.storage, KEYSPACE_DEFAULT, 5);
    world
}

#[track_caller]
fn holds(tree: &Tree) {
    let mut session = session(tree);
    for key in 0..KEYS {
        let expected = match key % ABOVE {
            0 => Some(vec![2; 1000]),
            DELETED => None,
            _ => Some(vec![1; 1000]),
        };
        assert_eq!(get(&mut session, &key.to_be_bytes()), expected, "key {key}");
    }
}

/// How many tables there are in level 5, and in level 6.
fn levels(stats: &Stats) -> [u64; 2] {
    let levels = &stats.keyspaces[0].tree.as_ref().expect("a tree").levels;
    [5, 6].map(|level: usize| levels.get(level).map_or(0, |level| level.0))
}

/// Tables of level 6.
fn last_level(world: &World) -> BTreeSet<String> {
    let tables = tables(&read_files(&world.storage)).into_iter();
    tables.filter(|(level, ..)| *level == 6).map(|(_, _, table)| table.file).collect()
}

/// Files of tables, and those of them that the database has.
fn files(world: &World, tree: &Tree) -> (u64, u64) {
    settle(tree);
    let files = firn_storage::Storage::list(&world.storage).unwrap();
    (
        files.iter().filter(|(name, _)| name.ends_with(".table")).count() as u64,
        tree.stats().tree.expect("a tree").table_count,
    )
}

#[test]
fn what_levels_hold_together_is_cut_and_committed_piece_by_piece() {
    let world = chained();
    let (tree, recorder) = open(&world);
    let before = tree.stats();
    let [above, last] = levels(&before);
    assert!(above >= 60 && last >= 600, "{above}, {last}");
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    let jobs = recorder.take();
    // Jobs that cut come first, and read little beside all of it.
    let cut = jobs.iter().take_while(|(spec, _)| spec.inputs.iter().all(|input| input.level == 5)).count();
    assert!(cut >= 10, "{cut} jobs cut {above} tables, of {} jobs", jobs.len());
    let read = |jobs: &[(firn_jobs::CompactSpec, Vec<TableMeta>)]| {
        jobs.iter().map(|(spec, _)| spec.input_bytes()).sum::<u64>() as f64
    };
    let all =
        before.keyspaces[0].tree.as_ref().expect("a tree").levels.iter().map(|level| level.1).sum::<u64>()
            as f64;
    assert!(read(&jobs[..cut]) < 0.15 * all, "{} to cut, of {all}", read(&jobs[..cut]));
    // After that each piece is a commit, whose tables are few beside all.
    let names = |tables: &[TableMeta]| tables.iter().map(|table| table.file.clone()).collect::<BTreeSet<_>>();
    let gone = jobs[cut..].windows(2).map(|pair| {
        let (was, is) = (names(&pair[0].1), names(&pair[1].1));
        was.difference(&is).count()
    });
    let most = gone.max().unwrap();
    assert!((4..40).contains(&most), "{most} tables of {} are replaced by one commit", above + last);
    let after = tree.stats();
    assert!(
        after.tree.as_ref().expect("a tree").compaction_count
            - before.tree.as_ref().expect("a tree").compaction_count
            >= 80,
        "{}",
        after.tree.as_ref().expect("a tree").compaction_count
    );
    assert_eq!(levels(&after)[0], 0);
    holds(&tree);
    let (files, live) = files(&world, &tree);
    assert_eq!(files, live);
}

#[test]
fn a_full_disk_costs_what_was_not_cut_or_not_rewritten() {
    // After how many writes to tables it is full: while they are cut, and later.
    for after in [40, 400] {
        let world = chained();
        let faulty = Faulty::new(Arc::new(world.storage.clone()));
        let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
        let (before, last) = (levels(&tree.stats()), last_level(&world));
        faulty.inject(Fault {
            on: Operation::Write,
            file: "*.table".to_owned(),
            when: When::Always { after },
            effect: Effect::Fail(firn_storage::ErrorKind::Full),
        });
        let error = tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
        let stats = tree.stats();
        let half = levels(&stats);
        assert!(stats.tree.as_ref().expect("a tree").compaction_count > 0 && half[0] > 0, "{half:?}");
        // What was cut is more tables than before; of those below none is another one until all is
        // cut.
        assert!(half[0] > before[0], "{before:?}, {half:?}");
        assert_eq!(after == 40, last_level(&world) == last, "{before:?}, {half:?}");
        holds(&tree);
        let (files_now, live) = files(&world, &tree);
        assert_eq!(files_now, live, "nothing is left of what was not done");
        let next = world.crash(firn_storage::backend::Crash::Kill);
        let found = next.open().unwrap();
        assert_eq!(levels(&found.stats()), half);
        holds(&found);
        assert_eq!(tables(&read_files(&next.storage)).len() as u64, live);
        drop(found);
        faulty.clear_faults();
        tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
        assert_eq!(levels(&tree.stats())[0], 0);
        holds(&tree);
        tree.close().unwrap();
        drop(tree);
        let tree = world.open().unwrap();
        holds(&tree);
        let (files, live) = files(&world, &tree);
        assert_eq!(files, live);
    }
}

/// How many there are where each is changed in several ways.
const HARD_KEYS: u32 = 24_000;

/// All that a table may hold, in all levels, with a snapshot amid.
#[test]
fn whatever_lies_in_the_levels_reads_the_same_after_they_were_cut() {
    let settings = Settings { manifest_edits_max: 10_000, space_amplification_max: 100.0, ..tiny() }
        .with_engine(|tree| {
            tree.table_bytes = TABLE_BYTES;
            tree.level0_runs_max = 100;
        });
    let world = World::new(settings);
    let (tree, _) = open(&world);
    let separated = KeyspaceSettings { separate_bytes: Some(1500), ..appending() };
    let hard = tree.create_keyspace("hard", separated).unwrap();
    let mut writer = session(&tree);
    for key in 0..HARD_KEYS {
        let bytes = if key % 7 == 0 { 2000 } else { 1000 };
        writer.put(hard, &key.to_be_bytes(), &vec![1; bytes], WriteOptions::default()).unwrap();
    }
    tree.flush().unwrap();
    settle(&tree);
    tree.compact_range(hard, b"", None).unwrap();
    let mut random = fastrand::Rng::with_seed(seed(11));
    change(&mut writer, hard, &mut random, ABOVE);
    drop(writer);
    tree.flush().unwrap();
    tree.close().unwrap();
    drop(tree);
    move_down(&world.storage, hard, 5);
    let (tree, recorder) = open(&world);
    let mut reader = session(&tree);
    let mut writer = session(&tree);
    change(&mut writer, hard, &mut random, 5 * ABOVE);
    tree.flush().unwrap();
    let snapshot = tree.snapshot().unwrap();
    for _ in 0..2 {
        change(&mut writer, hard, &mut random, 5 * ABOVE);
        tree.flush().unwrap();
    }
    // Some have expired for every reader.
    world.clock.advance(Duration::from_secs(2));
    let read = |reader: &mut OrderedBlocking| {
        [ReadAt::Latest, ReadAt::Snapshot(&snapshot)].map(|at| rows(reader, at, hard, ScanRange::default()))
    };
    let before = read(&mut reader);
    assert!(before[0] != before[1] && before[0].len() as u32 > HARD_KEYS / 2, "{}", before[0].len());
    recorder.take();
    tree.compact_range(hard, b"", None).unwrap();
    let jobs = recorder.take();
    let is_cut = |spec: &&firn_jobs::CompactSpec| spec.inputs.iter().all(|input| input.level < 6);
    let cut: Vec<_> = jobs.iter().map(|(spec, _)| spec).take_while(is_cut).collect();
    let of = |level: u32| cut.iter().flat_map(|spec| &spec.inputs).filter(move |input| input.level == level);
    assert!(of(0).count() >= 10 && of(5).count() >= 10, "{} jobs of {} cut", cut.len(), jobs.len());
    let tombstones = |spec: &&firn_jobs::CompactSpec| {
        spec.inputs.iter().any(|input| input.table.range_tombstone_count > 0)
    };
    assert!(cut.iter().copied().any(|spec| tombstones(&spec)), "some of it holds range tombstones");
    assert!(read(&mut reader) == before, "after all of it was rewritten");
    for (key, value) in before[0].iter().step_by(7) {
        assert_eq!(reader.get(ReadAt::Latest, hard, key).unwrap().as_ref(), Some(value), "{key:?}");
    }
    let (files, live) = files(&world, &tree);
    assert_eq!(files, live);
    let [latest, _] = before;
    drop(snapshot);
    tree.compact_range(hard, b"", None).unwrap();
    assert!(rows(&mut reader, ReadAt::Latest, hard, ScanRange::default()) == latest, "without the snapshot");
    drop((reader, writer));
    tree.close().unwrap();
    drop(tree);
    let tree = world.open().unwrap();
    assert!(rows(&mut session(&tree), ReadAt::Latest, hard, ScanRange::default()) == latest, "opened again");
}

/// One change of some kind for each so many keys.
fn change(writer: &mut OrderedBlocking, keyspace: KeyspaceId, random: &mut fastrand::Rng, every: u32) {
    let options = WriteOptions::default();
    for at in (0..HARD_KEYS).step_by(every as usize) {
        let number = at + random.u32(..every);
        let key = number.to_be_bytes();
        match random.u32(..6) {
            0 => writer.delete(keyspace, &key, options).unwrap(),
            1 => writer.merge(keyspace, &key, b"more", options).unwrap(),
            2 => writer.put(keyspace, &key, &[3; 2000], options).unwrap(),
            3 => {
                // Of them some expire in a second, and some later.
                let expires_at_ms = 1_001_000 + u64::from(random.bool()) * 1_000_000;
                writer.put(keyspace, &key, &[4; 900], WriteOptions { expires_at_ms, ..options }).unwrap()
            }
            4 if random.u32(..20) == 0 => delete_range(writer, keyspace, number, number + random.u32(1..200)),
            _ => writer.put(keyspace, &key, &[5; 900], options).unwrap(),
        };
    }
}

fn delete_range(writer: &mut OrderedBlocking, keyspace: KeyspaceId, start: u32, end: u32) -> Position {
    let mut batch = OrderedBatch::default();
    batch.delete_range(keyspace, &start.to_be_bytes(), &end.to_be_bytes());
    writer.write_ordered(&batch, WriteOptions::default()).unwrap()
}
