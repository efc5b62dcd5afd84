//! Files of segments that are gone are written over by new ones: never a file that could still be
//! read.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::{Engine, ErrorKind, KeyspaceId, KeyspaceSettings, ReadAt, ScanRange, WriteOptions};
use firn_jobs::{Executor, Finisher, JobHandle, JobSpec, Local, new_job};
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Operation, When};
use firn_storage::{ManualClock, Storage};
use firn_tree::{Background, Settings, Tree, TreeOptions};

use crate::support::world::{self, World, get_in, settle, tiny};

const KEYS: u32 = 400;

fn machine() -> World {
    World::new(
        Settings { space_amplification_max: 1.2, ..tiny() }
            .with_engine(|tree| tree.blob_segment_bytes = 64 << 10),
    )
}

fn world_of_values() -> (World, Arc<Tree>, KeyspaceId) {
    let machine = machine();
    let tree = machine.open().unwrap();
    let keyspace = keyspace_of(&tree);
    (machine, tree, keyspace)
}

fn keyspace_of(tree: &Tree) -> KeyspaceId {
    let separated = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    tree.create_keyspace("large", separated).unwrap()
}

fn text(key: u32, round: u32) -> Vec<u8> {
    vec![(key + 41 * round) as u8; 2900 + (key % 7) as usize * 40]
}

/// Every key gets another value, and all that was there is dead and collected.
fn overwrite(tree: &Tree, keyspace: KeyspaceId, round: u32) {
    overwrite_every(1, tree, keyspace, round);
}

/// The keys that leave as much of `step` as the round does get another value.
fn overwrite_every(step: u32, tree: &Tree, keyspace: KeyspaceId, round: u32) {
    let session = &mut world::session(tree);
    for key in (0..KEYS).filter(|key| key % step == round % step) {
        session.put(keyspace, &key.to_be_bytes(), &text(key, round), WriteOptions::default()).unwrap();
        if key % 50 == 0 {
            settle(tree);
        }
    }
    tree.flush().unwrap();
    settle(tree);
}

fn check(tree: &Tree, keyspace: KeyspaceId, round: u32) {
    let session = &mut world::session(tree);
    for key in 0..KEYS {
        assert_eq!(
            get_in(session, keyspace, &key.to_be_bytes()),
            Some(text(key, round)),
            "key {key}, round {round}"
        );
    }
}

/// Files of blob segments.
fn files(machine: &World) -> Vec<String> {
    let names = machine.storage.list().unwrap().into_iter().map(|(name, _)| name);
    names.filter(|name| name.ends_with(".blobs")).collect()
}

#[test]
fn a_few_files_are_kept_for_new_segments_until_somebody_waits() {
    let (machine, tree, keyspace) = world_of_values();
    for round in 0..6 {
        overwrite(&tree, keyspace, round);
        check(&tree, keyspace, round);
    }
    let stats = tree.stats().tree.expect("a tree").blobs;
    let (kept, segments) = (files(&machine).len() as u64, stats.segment_count);
    assert!((segments + 1..=segments + 6).contains(&kept), "{kept} files for {segments} segments");
    tree.wait_idle().unwrap();
    let (left, segments) =
        (files(&machine).len() as u64, tree.stats().tree.expect("a tree").blobs.segment_count);
    assert!(left <= segments + 1, "{left} files for {segments} segments");
    tree.close().unwrap();
    let tree = machine.open().unwrap();
    check(&tree, keyspace, 5);
}

/// A scan that began when a segment still took values reads through the file that writers had.
#[test]
fn a_scan_of_long_ago_finds_its_values() {
    let (_machine, tree, keyspace) = world_of_values();
    overwrite(&tree, keyspace, 0);
    let writer = &mut world::session(&tree);
    for key in 0..KEYS {
        writer.put(keyspace, &key.to_be_bytes(), &text(key, 1), WriteOptions::default()).unwrap();
    }
    let mut session = world::session(&tree);
    let mut rows = session.scan(ReadAt::Latest, keyspace, ScanRange::all()).unwrap();
    let first = rows.next().unwrap().unwrap();
    for round in 2..6 {
        overwrite(&tree, keyspace, round);
    }
    let all: Vec<_> = std::iter::once(Ok(first)).chain(rows).collect::<Result<_, _>>().unwrap();
    let expected = (0..KEYS).map(|key| (key.to_be_bytes().to_vec(), text(key, 1)));
    assert!(all.into_iter().eq(expected), "the scan sees what was there when it began");
    check(&tree, keyspace, 5);
}

#[test]
fn what_a_copy_links_is_not_written_over() {
    let (machine, tree, keyspace) = world_of_values();
    for round in 0..3 {
        overwrite(&tree, keyspace, round);
    }
    // Some of it is in a segment that takes values.
    let session = &mut world::session(&tree);
    session.put(keyspace, &7_u32.to_be_bytes(), &text(7, 50), WriteOptions::default()).unwrap();
    tree.copy_to("copy".as_ref()).unwrap();
    for round in 3..9 {
        overwrite(&tree, keyspace, round);
    }
    let copy = World { storage: machine.storage.directory("copy".as_ref()).unwrap(), ..machine.clone() };
    let opened = copy.open().unwrap();
    let session = &mut world::session(&opened);
    for key in 0..KEYS {
        let round = if key == 7 { 50 } else { 2 };
        assert_eq!(get_in(session, keyspace, &key.to_be_bytes()), Some(text(key, round)), "key {key}");
    }
    check(&tree, keyspace, 8);
}

/// A crash in the middle leaves files whose names and headers name different segments.
#[test]
fn a_file_with_another_segment_s_header_is_no_segment() {
    let (machine, tree, keyspace) = world_of_values();
    overwrite(&tree, keyspace, 0);
    overwrite(&tree, keyspace, 1);
    let session = &mut world::session(&tree);
    session.put(keyspace, &7_u32.to_be_bytes(), &text(7, 50), WriteOptions::default()).unwrap();
    let machine = machine.crash(Crash::Kill);
    let storage = &machine.storage;
    // As if the last segment's name were durable, and nothing of what was written to it.
    let names = files(&machine);
    let is_written = |name: &&String| name.len() == "00000000.blobs".len();
    let last = names.iter().filter(is_written).max().unwrap();
    let other = names.iter().find(|name| *name != last).unwrap();
    let mut bytes = vec![0; storage.open_read(other).unwrap().len() as usize];
    storage.open_read(other).unwrap().read_at(0, &mut bytes).unwrap();
    let file = storage.open_write(last).unwrap();
    // Its first record came to the device, and its header did not.
    storage.open_read(last).unwrap().read_at(64, &mut bytes[64..3000]).unwrap();
    file.write_at(0, &bytes).unwrap();
    let tree = machine.open().unwrap();
    assert!(!files(&machine).contains(last), "it is obsolete");
    check(&tree, keyspace, 1);
}

/// Does jobs here, and one GC long after it was asked for.
#[derive(Debug)]
struct Late {
    inner: Local,
    clock: Arc<ManualClock>,
    kept: Mutex<Option<(JobSpec, Finisher)>>,
}

impl Executor for Late {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let mut kept = self.kept.lock().unwrap();
        let has_recycled = matches!(&spec, JobSpec::BlobGc(spec) if spec.recycled.is_some());
        if kept.is_some() || !has_recycled {
            return self.inner.submit(spec);
        }
        let (handle, finisher) = new_job();
        *kept = Some((spec, finisher));
        // No executor waits for so long.
        self.clock.advance(Duration::from_secs(3600));
        Ok(handle)
    }
}

/// A worker that was given up reads files which are others' by then.
#[test]
fn a_gc_elsewhere_that_comes_late_changes_nothing() {
    let machine = machine();
    let options = machine.options();
    let inner = Local::inline(Arc::clone(&options.storage), Arc::new(options.semantics.clone()));
    let late = Arc::new(Late { inner, clock: Arc::clone(&machine.clock), kept: Mutex::default() });
    let executor: Option<Arc<dyn Executor>> = Some(Arc::clone(&late) as _);
    let tree = Tree::open(TreeOptions { executor, ..options }).unwrap();
    let keyspace = keyspace_of(&tree);
    overwrite(&tree, keyspace, 0);
    for round in 1..30 {
        // What is left of each segment has to be copied.
        overwrite_every(3, &tree, keyspace, round);
        machine.clock.advance(Duration::from_secs(3600));
    }
    let (kept, segments) =
        (files(&machine).len() as u64, tree.stats().tree.expect("a tree").blobs.segment_count);
    assert!((segments + 1..=segments + 6).contains(&kept), "{kept} files for {segments} segments");
    let (spec, finisher) = late.kept.lock().unwrap().take().expect("a GC that was kept");
    // Its victims are gone, or others are called what they were, and so is its recycled file.
    finisher.finish(late.inner.submit(spec).unwrap().wait());
    let session = &mut world::session(&tree);
    for key in 0..KEYS {
        let round = (27..30).find(|round| round % 3 == key % 3).unwrap();
        assert_eq!(get_in(session, keyspace, &key.to_be_bytes()), Some(text(key, round)), "key {key}");
    }
    overwrite(&tree, keyspace, 30);
    check(&tree, keyspace, 30);
    tree.wait_idle().unwrap();
    let (left, segments) =
        (files(&machine).len() as u64, tree.stats().tree.expect("a tree").blobs.segment_count);
    assert!(left <= segments + 1, "{left} files for {segments} segments");
    tree.close().unwrap();
    check(&machine.open().unwrap(), keyspace, 30);
}

#[test]
fn a_recycled_file_that_a_gc_cannot_have_is_not_left() {
    let machine = machine();
    let faulty = Faulty::new(Arc::new(machine.storage.clone()));
    let tree = machine.open_on(Arc::new(faulty.clone()), Background::Manual);
    let keyspace = keyspace_of(&tree);
    // No segment dies as a whole.
    let random = &mut fastrand::Rng::with_seed(world::seed(7));
    let session = &mut world::session(&tree);
    let mut rounds = vec![0; KEYS as usize];
    let effect = Effect::Fail(firn_storage::ErrorKind::Full);
    let mut refused = Vec::new();
    for round in 0..4000 {
        let key = random.u32(0..KEYS);
        session.put(keyspace, &key.to_be_bytes(), &text(key, round), WriteOptions::default()).unwrap();
        rounds[key as usize] = round;
        if round % 50 != 0 {
            continue;
        }
        tree.flush().unwrap();
        if round >= 2000 && refused.is_empty() {
            let (file, when) = ("*.blobs".to_owned(), When::Once { after: 0 });
            faulty.inject(Fault { on: Operation::Rename, file, when, effect });
        }
        while tree.step().unwrap_or_else(|error| {
            refused.push(error);
            true
        }) {}
        // Writers are spared.
        faulty.clear_faults();
    }
    assert!(matches!(&refused[..], [error] if error.kind() == ErrorKind::Retry), "{refused:?}");
    let renamed = faulty.counters().of_extension(Operation::Rename, "blobs").operations;
    assert!(renamed > 20, "{renamed} files were written over");
    tree.wait_idle().unwrap();
    let left = files(&machine);
    for (key, round) in (0..).zip(rounds).filter(|(_, round)| *round > 0) {
        assert_eq!(get_in(session, keyspace, &u32::to_be_bytes(key)), Some(text(key, round)), "key {key}");
    }
    tree.close().unwrap();
    drop(machine.open().unwrap());
    assert_eq!(left, files(&machine), "an opening removes what nothing refers to");
}
