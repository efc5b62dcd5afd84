//! Tables beside an executor that may read them long after it was given up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::Engine;
use firn_jobs::{Executor, Finisher, JobHandle, JobSpec, Local, new_job};
use firn_storage::backend::Memory;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};
use firn_storage::{ManualClock, ReadFile, Storage};
use firn_tree::{Tree, TreeOptions, VerifyOptions};

use crate::support::world::{World, get, put, session, settle, tiny};

const KEYS: u32 = 400;
const VALUE_BYTES: usize = 60_000;

/// Does jobs here, and one compaction, once that is wanted, long after it was asked for.
#[derive(Debug)]
struct Elsewhere {
    inner: Local,
    storage: Memory,
    clock: Arc<ManualClock>,
    keeps: AtomicBool,
    kept: Mutex<Option<Kept>>,
}

/// A job that has opened its inputs.
#[derive(Debug)]
struct Kept {
    spec: JobSpec,
    finisher: Finisher,
    inputs: Vec<(String, Arc<dyn ReadFile>)>,
}

impl Executor for Elsewhere {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        if !self.keeps.swap(false, Ordering::Relaxed) {
            return self.inner.submit(spec);
        }
        let open = |name: &str| (name.to_owned(), self.storage.open_read(name).unwrap());
        let inputs = spec.input_files().into_keys().map(open).collect();
        let (handle, finisher) = new_job();
        *self.kept.lock().unwrap() = Some(Kept { spec, finisher, inputs });
        // No executor waits for so long.
        self.clock.advance(Duration::from_secs(3600));
        Ok(handle)
    }
}

fn open(world: &World) -> (Arc<Tree>, Arc<Elsewhere>) {
    let options = world.options();
    let inner = Local::inline(Arc::clone(&options.storage), Arc::new(options.semantics.clone()));
    let (keeps, kept) = Default::default();
    let elsewhere = Arc::new(Elsewhere {
        inner,
        storage: world.storage.clone(),
        clock: Arc::clone(&world.clock),
        keeps,
        kept,
    });
    let executor: Option<Arc<dyn Executor>> = Some(Arc::clone(&elsewhere) as _);
    (Tree::open(TreeOptions { executor, ..options }).unwrap(), elsewhere)
}

/// Rewrites all keys; values name their round.
fn overwrite(tree: &Tree, rounds: std::ops::Range<u32>) {
    let mut session = session(tree);
    for round in rounds {
        for number in 0..KEYS {
            put(&mut session, &number.to_be_bytes(), &value(round, number));
            if number % 50 == 0 {
                settle(tree);
            }
        }
    }
}

fn check(tree: &Tree, round: u32) {
    let mut session = session(tree);
    for number in 0..KEYS {
        assert_eq!(get(&mut session, &number.to_be_bytes()), Some(value(round, number)), "key {number}");
    }
}

fn value(round: u32, number: u32) -> Vec<u8> {
    (round * 1000 + number).to_be_bytes().repeat(VALUE_BYTES / 4)
}

fn tables(world: &World) -> usize {
    world.storage.list().unwrap().iter().filter(|(name, _)| name.ends_with(".table")).count()
}

/// What was done to tables whose files went to others.
fn given_on(world: &World) -> Vec<String> {
    world
        .storage
        .journal()
        .into_iter()
        .filter(|done| done.starts_with("rename") && done.contains(".table"))
        .collect()
}

fn is_new(inputs: &[(String, Arc<dyn ReadFile>)], name: &str) -> bool {
    inputs.iter().all(|(input, _)| input != name)
}

/// A backend with `inputs` as readers that opened them then find them by now. Also answers how many
/// of them are not what `spec` says.
fn as_read_now(world: &World, spec: &JobSpec, inputs: &[(String, Arc<dyn ReadFile>)]) -> (Memory, usize) {
    let JobSpec::Compact(spec) = spec else { panic!("a compaction") };
    let backend = Memory::new();
    let mut differ = 0;
    for (name, file) in inputs {
        let mut content = vec![0; file.len() as usize];
        // What was cut off is missing for a reader.
        let is_whole = file.read_at(0, &mut content).is_ok();
        let kept = if is_whole { &content[..] } else { &[] };
        backend.publish(name, kept).unwrap();
        let known = spec.inputs.iter().find(|input| input.table.file == *name).unwrap();
        let cache = Arc::new(BlockCache::new(0));
        differ +=
            usize::from(TableReader::open(&backend, &known.table, &cache, ReaderOptions::default()).is_err());
        assert!(world.storage.open_read(name).is_err(), "{name} is no longer needed");
    }
    (backend, differ)
}

#[test]
fn no_table_leaves_its_file_where_an_executor_may_read_it_late() {
    let world = World::new(tiny());
    let (tree, _) = open(&world);
    world.storage.keep_journal();
    overwrite(&tree, 0..8);
    assert_eq!(given_on(&world), Vec::<String>::new());
    check(&tree, 7);
}

/// A worker that was given up reads tables that the database needs no more.
#[test]
fn a_compaction_elsewhere_that_comes_late_changes_nothing() {
    let world = World::new(tiny());
    let (tree, elsewhere) = open(&world);
    overwrite(&tree, 0..4);
    elsewhere.keeps.store(true, Ordering::Relaxed);
    overwrite(&tree, 4..6);
    let Kept { spec, finisher, inputs } = elsewhere.kept.lock().unwrap().take().expect("one was kept");
    let (there, differ) = as_read_now(&world, &spec, &inputs);
    assert_eq!(differ, 0, "of {} inputs so many are other tables by now", inputs.len());
    let semantics = Arc::new(world.options().semantics.clone());
    let result = Local::inline(Arc::new(there.clone()), semantics).submit(spec).unwrap().wait();
    for (name, bytes) in there.list().unwrap().into_iter().filter(|(name, _)| is_new(&inputs, name)) {
        let mut content = vec![0; bytes as usize];
        there.open_read(&name).unwrap().read_at(0, &mut content).unwrap();
        world.storage.publish(&name, &content).unwrap();
    }
    finisher.finish(result);
    check(&tree, 5);
    overwrite(&tree, 6..7);
    check(&tree, 6);
    tree.wait_idle().unwrap();
    assert_eq!(tables(&world) as u64, tree.stats().tree.expect("a tree").table_count);
    tree.close().unwrap();
    let storage = Arc::new(world.storage.clone());
    let report =
        firn_tree::verify(VerifyOptions { storage, semantics: Default::default() }, &mut |_| {}).unwrap();
    assert!(report.is_sound());
    check(&world.open().unwrap(), 6);
}
