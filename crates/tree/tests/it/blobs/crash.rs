//! GCs that the machine does not see the end of: cut at every operation, the disk full, the
//! executor wrong.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use firn_engine::conformance::semantics;
use firn_engine::{Engine, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, ScanRange, WriteOptions};
use firn_jobs::{Executor, JobHandle, JobSpec, Local};
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Operation, When};
use firn_storage::{ErrorKind, Storage};
use firn_tree::{Background, Settings, Tree, TreeOptions, VerifyOptions, verify};

use crate::support::world::{self, World, get_in, session, settle, tiny};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Settings under which nothing is collected, and those under which everything is.
fn lazy() -> Settings {
    Settings { space_amplification_max: 100.0, ..tiny() }
        .with_engine(|tree| tree.blob_segment_bytes = 32 << 10)
}

fn eager() -> Settings {
    Settings { space_amplification_max: 1.05, ..lazy() }
}

fn value(key: u32, round: u8) -> Vec<u8> {
    let bytes = 1500 + (key as usize * 37 + round as usize * 11) % 3000;
    vec![key as u8 ^ round.wrapping_mul(31); bytes]
}

/// A database in which GCs find much to do once it is opened to be eager.
fn littered() -> (World, KeyspaceId, Model) {
    let machine = World::new(lazy());
    let tree = machine.open().unwrap();
    let settings = KeyspaceSettings { separate_bytes: Some(100), ..KeyspaceSettings::default() };
    let keyspace = tree.create_keyspace("large", settings).unwrap();
    let mut model = Model::new();
    let mut session = session(&tree);
    for round in 0..3_u8 {
        for key in (0..80_u32).filter(|key| round == 0 || (key + u32::from(round)) % 3 != 0) {
            let (key, value) = (key.to_be_bytes(), value(key, round));
            session.put(keyspace, &key, &value, WriteOptions::default()).unwrap();
            model.insert(key.to_vec(), value);
        }
        tree.flush().unwrap();
    }
    tree.compact_range(keyspace, b"", None).unwrap();
    assert_eq!(
        tree.stats().tree.expect("a tree").blobs.gc_count,
        0,
        "{:?}",
        tree.stats().tree.expect("a tree").blobs
    );
    drop(session);
    tree.close().unwrap();
    (World { settings: eager(), ..machine }, keyspace, model)
}

fn compare(tree: &Tree, keyspace: KeyspaceId, model: &Model, what: &str) {
    let mut session = session(tree);
    for (key, value) in model {
        assert_eq!(get_in(&mut session, keyspace, key).as_ref(), Some(value), "{what}");
    }
}

/// Everything in the directory is sound, and each value is referred to or dead.
fn check(machine: &World, what: &str) {
    let storage = Arc::new(machine.storage.clone()) as Arc<dyn Storage>;
    let report = verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{what}: {:?}", report.findings);
}

#[test]
fn a_machine_that_goes_at_any_step_of_a_gc_loses_nothing() {
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 3 }, Crash::PowerLoss { seed: 4 }] {
        let mut cuts = 0;
        for step in 0.. {
            let (machine, keyspace, model) = littered();
            let tree = machine.open().unwrap();
            let first = machine.storage.operations();
            machine.storage.cut_write_at(first + step, (step as usize * 4001) % 9000);
            while tree.step().unwrap_or(false) {}
            let what = match machine.storage.cut_operation() {
                Some(operation) => format!("{crash:?} at step {step}, `{operation}`"),
                None => break,
            };
            cuts += 1;
            let left = machine.crash(crash);
            drop(tree);
            check(&left, &what);
            let tree = left.open().unwrap();
            compare(&tree, keyspace, &model, &what);
            settle(&tree);
            compare(&tree, keyspace, &model, &format!("{what}, settled"));
            let stats = tree.stats().tree.expect("a tree").blobs;
            let live: usize = model.values().map(Vec::len).sum();
            let most = live as f64 * 1.1 + 2.0 * eager().engine.blob_segment_bytes as f64;
            assert!((stats.segment_bytes as f64) < most, "{what}: {live} bytes live, {stats:?}");
            tree.close().unwrap();
            check(&left, &format!("{what}, closed"));
        }
        assert!(cuts > 20, "{cuts} cuts");
    }
}

#[test]
fn a_gc_waits_for_a_disk_that_is_full_and_is_done_once_there_is_room() {
    const OUTPUTS: &str = "*-000000.blobs";
    let refusals = [
        (Operation::Create, OUTPUTS),
        (Operation::Write, OUTPUTS),
        (Operation::Sync, OUTPUTS),
        (Operation::Publish, "manifest-*"),
    ];
    for (on, file) in refusals {
        let what = format!("no room to {on:?} {file}");
        let (machine, keyspace, model) = littered();
        let faulty = Arc::new(Faulty::new(Arc::new(machine.storage.clone())));
        let tree = machine.open_on(Arc::clone(&faulty) as Arc<dyn Storage>, Background::Manual);
        let (when, effect) = (When::Always { after: 0 }, Effect::Fail(ErrorKind::Full));
        faulty.inject(Fault { on, file: file.to_owned(), when, effect });
        let refused = |tree: &Tree| {
            let mut refused = 0;
            while tree.step().unwrap_or_else(|error| {
                assert_eq!(error.kind(), firn_engine::ErrorKind::Retry, "{what}: {error}");
                refused += 1;
                true
            }) {}
            refused
        };
        assert_eq!(refused(&tree), 1, "{what}: once, and then it waits");
        assert_eq!(tree.stats().tree.expect("a tree").blobs.gc_count, 0, "{what}");
        compare(&tree, keyspace, &model, &what);
        let names = machine.storage.list().unwrap();
        assert!(!names.iter().any(|(name, _)| name.ends_with("-000000.blobs")), "{what}: {names:?}");
        // Tried again by itself, less and less often.
        machine.clock.advance(Duration::from_secs(1));
        assert_eq!(refused(&tree), 1, "{what}");
        machine.clock.advance(Duration::from_secs(1));
        assert_eq!(refused(&tree), 0, "{what}");
        faulty.clear_faults();
        settle(&tree);
        assert_eq!(
            tree.stats().tree.expect("a tree").blobs.gc_count,
            0,
            "{what}: nobody knows that there is room"
        );
        machine.clock.advance(Duration::from_secs(1));
        settle(&tree);
        assert!(
            tree.stats().tree.expect("a tree").blobs.gc_count > 0,
            "{what}: nobody writes, and it is done all the same"
        );
        compare(&tree, keyspace, &model, &format!("{what}, and then some"));
        tree.close().unwrap();
        check(&machine, &what);
    }
}

#[test]
fn writers_go_on_while_segments_are_collected() {
    let (machine, keyspace, mut model) = littered();
    let tree = machine.open().unwrap();
    let mut random = fastrand::Rng::with_seed(9);
    let mut session = session(&tree);
    for round in 0..2000_u32 {
        let key = random.u32(0..80).to_be_bytes();
        let value = value(round, random.u8(..));
        session.put(keyspace, &key, &value, WriteOptions::default()).unwrap();
        model.insert(key.to_vec(), value);
        if round % 50 == 0 {
            tree.flush().unwrap();
        }
        (0..random.u32(0..4)).for_each(|_| {
            tree.step().unwrap();
        });
    }
    let gcs = tree.stats().tree.expect("a tree").blobs.gc_count;
    assert!(gcs > 10, "{gcs} GCs");
    compare(&tree, keyspace, &model, "at the end");
    drop(session);
    tree.close().unwrap();
    check(&machine, "closed");
    let tree = machine.open().unwrap();
    compare(&tree, keyspace, &model, "reopened");
    drop(world::session(&tree));
}

/// Runs jobs here, and something else after each GC, before it answers.
#[derive(Debug)]
struct Interrupting {
    inner: Local,
    tree: Mutex<Weak<Tree>>,
    act: fn(&Tree),
    gcs: AtomicU32,
}

impl Executor for Interrupting {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let is_collection = matches!(spec, JobSpec::BlobGc(_));
        let handle = self.inner.submit(spec)?;
        let tree = self.tree.lock().unwrap().upgrade();
        if let (true, Some(tree)) = (is_collection, tree) {
            // What it does must not be interrupted again.
            if self.gcs.fetch_add(1, Ordering::SeqCst) == 0 {
                (self.act)(&tree);
            }
        }
        Ok(handle)
    }
}

const SEPARATED: KeyspaceId = KeyspaceId(1);

fn overwrite_some(tree: &Tree) {
    let mut session = session(tree);
    for key in (0..80_u32).step_by(3) {
        session.put(SEPARATED, &key.to_be_bytes(), &value(key, 77), WriteOptions::default()).unwrap();
    }
    tree.compact_range(SEPARATED, b"", None).unwrap();
}

fn delete_all(tree: &Tree) {
    let mut session = session(tree);
    for key in 0..80_u32 {
        session.delete(SEPARATED, &key.to_be_bytes(), WriteOptions::default()).unwrap();
    }
    tree.compact_range(SEPARATED, b"", None).unwrap();
}

#[test]
fn what_dies_while_segments_are_collected_is_dead_afterwards() {
    type Act = fn(&Tree);
    let acts: [(Act, usize, bool); 2] = [(overwrite_some, 3, true), (delete_all, 1, false)];
    for (act, step, is_overwritten) in acts {
        let (machine, keyspace, mut model) = littered();
        assert_eq!(keyspace, SEPARATED);
        let storage = Arc::new(machine.storage.clone()) as Arc<dyn Storage>;
        let inner = Local::inline(Arc::clone(&storage), Arc::new(semantics()));
        let (tree, gcs) = (Mutex::default(), AtomicU32::new(0));
        let executor = Arc::new(Interrupting { inner, tree, act, gcs });
        let given = Some(Arc::clone(&executor) as Arc<dyn Executor>);
        let tree = Tree::open(TreeOptions { executor: given, ..machine.options() }).unwrap();
        *executor.tree.lock().unwrap() = Arc::downgrade(&tree);
        settle(&tree);
        for key in (0..80_u32).step_by(step) {
            match is_overwritten {
                true => drop(model.insert(key.to_be_bytes().to_vec(), value(key, 77))),
                false => drop(model.remove(key.to_be_bytes().as_slice())),
            }
        }
        assert!(executor.gcs.load(Ordering::SeqCst) > 0);
        assert_eq!(tree.stats().jobs_passed_on_count, 0, "{:?}", tree.stats().jobs_passed_on_reason);
        compare(&tree, keyspace, &model, "collected");
        tree.close().unwrap();
        check(&machine, "closed");
        let tree = machine.open().unwrap();
        compare(&tree, keyspace, &model, "reopened");
        let bytes = tree.stats().tree.expect("a tree").blobs.segment_bytes;
        assert_eq!(bytes == 0, model.is_empty(), "{bytes} bytes of segments");
    }
}

#[test]
fn a_scan_reads_on_where_segments_are_collected_under_it() {
    let (machine, keyspace, model) = littered();
    let tree = machine.open().unwrap();
    let mut reader = session(&tree);
    let mut scan = reader.scan(ReadAt::Latest, keyspace, ScanRange::all()).unwrap();
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = (&mut scan).take(10).map(|row| row.unwrap()).collect();
    settle(&tree);
    overwrite_some(&tree);
    delete_all(&tree);
    settle(&tree);
    assert!(tree.stats().tree.expect("a tree").blobs.gc_count > 0);
    found.extend((&mut scan).map(|row| row.unwrap()));
    assert_eq!(found, model.into_iter().collect::<Vec<_>>());
    drop(scan);
    settle(&tree);
    let names = machine.storage.list().unwrap();
    let values = names.iter().filter(|(name, _)| name.ends_with(".blobs")).count();
    assert!(values <= 1, "{names:?}");
}
