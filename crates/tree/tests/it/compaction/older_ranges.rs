//! The tables below that a compaction is given: those of its own keys, however many there are.

use std::sync::{Arc, Mutex};

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Engine, KEYSPACE_DEFAULT, KeyspaceId, Ordered};
use firn_format::file_name::manifest_edit;
use firn_format::manifest::{Change, ManifestEdit, TableMeta};
use firn_jobs::{CompactSpec, Executor, JobHandle, JobSpec, KeyRange, Local};
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_tree::{Background, Settings, Tree, TreeOptions};

use crate::support::inspect::{edits, tables, tables_of};
use crate::support::sample::read_files;
use crate::support::world::{World, put, session, settle, tiny};

/// A compaction, and the tables that there were as it was submitted.
pub(crate) type Submitted = (CompactSpec, Vec<TableMeta>);

/// Runs jobs here, and keeps the specs of compactions.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Local,
    storage: Memory,
    specs: Mutex<Vec<Submitted>>,
}

impl Recorder {
    pub(crate) fn take(&self) -> Vec<Submitted> {
        std::mem::take(&mut *self.specs.lock().unwrap())
    }
}

impl Executor for Recorder {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        if let JobSpec::Compact(spec) = &spec {
            let tables = tables(&read_files(&self.storage)).into_iter().map(|(_, _, table)| table);
            self.specs.lock().unwrap().push((spec.clone(), tables.collect()));
        }
        self.inner.submit(spec)
    }
}

pub(crate) fn open(world: &World) -> (Arc<Tree>, Arc<Recorder>) {
    let inner = Local::inline(world.options().storage, Arc::new(world.options().semantics));
    let recorder = Recorder { inner, storage: world.storage.clone(), specs: Mutex::default() };
    let recorder = Arc::new(recorder);
    let executor: Option<Arc<dyn Executor>> = Some(Arc::clone(&recorder) as _);
    let options = TreeOptions { executor, background: Background::Manual, ..world.options() };
    (Tree::open(options).unwrap(), recorder)
}

/// Puts every key, and brings all of them into the last level.
fn fill(tree: &Tree) {
    let mut writer = session(tree);
    for key in 0..2000_u32 {
        put(&mut writer, &key.to_be_bytes(), &[7; 1000]);
    }
    tree.flush().unwrap();
    settle(tree);
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
}

/// Every so many keys of the first quarter, so little that it is merged above for a while.
fn overwrite(tree: &Tree, writer: &mut OrderedBlocking, round: u8, every: usize) {
    for key in (0..500_u32).step_by(every) {
        put(writer, &key.to_be_bytes(), &[round; 1000]);
    }
    tree.flush().unwrap();
}

/// What `table` may hold.
fn span_of(table: &TableMeta) -> KeyRange {
    KeyRange { start: table.smallest.clone(), end: Some([&table.largest[..], b"\0"].concat()) }
}

/// What lies between the first and the last key of its inputs.
fn span(spec: &CompactSpec) -> KeyRange {
    let spans = || spec.inputs.iter().map(|input| span_of(&input.table));
    let start = spans().map(|span| span.start).min().unwrap();
    KeyRange { start, end: spans().map(|span| span.end).max().unwrap() }
}

#[test]
fn a_compaction_is_told_of_the_tables_below_its_own_keys_alone() {
    let world = World::new(tiny().with_engine(|tree| tree.table_bytes = 64 << 10));
    let (tree, recorder) = open(&world);
    let mut writer = session(&tree);
    fill(&tree);
    recorder.take();
    for round in 0..40_u8 {
        overwrite(&tree, &mut writer, round, 50);
        settle(&tree);
    }
    let specs = recorder.take();
    assert!(!specs.is_empty());
    let given: usize = specs.iter().map(|(spec, _)| spec.rules.older_overlap.len()).sum();
    assert!(given > 0, "some of them are told of something");
    for (spec, _) in &specs {
        let span = span(spec);
        assert!(spec.rules.older_overlap.iter().all(|older| older.touches(&span)), "{spec:?}");
    }
}

/// Has what is in level 0 of a closed database lie in `level`, as in a database that is too large
/// for a test.
pub(crate) fn move_down(storage: &Memory, keyspace: KeyspaceId, level: u32) {
    let files = read_files(storage);
    let above = tables_of(&files, keyspace).into_iter().filter(|(level, ..)| *level == 0);
    let changes: Vec<_> =
        above.map(|(_, _, table)| Change::MoveTable { file: table.file, level, run: 0 }).collect();
    assert!(!changes.is_empty());
    let last = edits(&files).pop().unwrap();
    let edit = ManifestEdit { number: last.number + 1, base: false, epoch: last.epoch, changes };
    storage.publish(&manifest_edit(edit.number), &edit.encode()).unwrap();
}

/// A tombstone that is dropped though there is something below brings that back.
#[test]
fn a_compaction_is_told_of_every_table_below_its_own_keys() {
    // One thread has no job divided, and no edit says everything anew.
    let settings =
        Settings { background_threads: 1, manifest_edits_max: 1000, ..tiny() }.with_engine(|tree| {
            tree.table_bytes = 64 << 10;
            tree.level0_runs_max = 6;
        });
    let (mut most_above, mut most_below) = (0, 0);
    for is_deep in [false, true] {
        let world = World::new(settings.clone());
        let (mut tree, mut recorder) = open(&world);
        fill(&tree);
        for level in if is_deep { &[5, 4][..] } else { &[] } {
            overwrite(&tree, &mut session(&tree), 0, 50);
            tree.close().unwrap();
            drop(tree);
            move_down(&world.storage, KEYSPACE_DEFAULT, *level);
            (tree, recorder) = open(&world);
        }
        recorder.take();
        let mut writer = session(&tree);
        for round in 1..40 {
            // The first run is too large to be merged with few others.
            overwrite(&tree, &mut writer, round, if round == 1 { 5 } else { 50 });
            settle(&tree);
        }
        for (spec, tables) in recorder.take() {
            let span = span(&spec);
            let is_input = |table: &&TableMeta| spec.inputs.iter().any(|input| input.table == **table);
            // A job out of level 0 takes all newer tables along; one within level 0 is also given
            // newer ranges.
            let others = tables.iter().filter(|table| !is_input(table)).map(span_of);
            let mut below: Vec<KeyRange> = others.filter(|other| other.touches(&span)).collect();
            let mut given = spec.rules.older_overlap.clone();
            below.sort();
            given.sort();
            assert_eq!(given, below, "deep: {is_deep}: {spec:?}");
            assert!(given.len() < tables.len() / 2, "those of other keys are left out");
            let is_below = spec.inputs.iter().any(|input| input.level > 0);
            let most = if is_below { &mut most_below } else { &mut most_above };
            *most = given.len().max(*most);
        }
    }
    assert!(most_above > 1 && most_below > 1, "told of several: {most_above}, {most_below}");
}
