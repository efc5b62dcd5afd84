//! The machine goes at any step of an ingestion.

use std::sync::Arc;

use firn_engine::{Engine, KEYSPACE_DEFAULT, KeyspaceId, ReadAt, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::Crash;
use firn_tree::{Background, Severity, Tree, TreeOptions, VerifyOptions, verify};

use super::{Model, all, compare, ingest, key, keyspaces, value};
use crate::support::world::{World, put, session, settle, tiny};

/// Where the buffer has records of the keyspace that is ingested into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffered {
    /// Among the keys of the ingestion, so that all that was written before is flushed.
    Among,
    /// Beside them: what was written before is in the log alone.
    Beside,
}

/// Records that are written before an ingestion, to both keyspaces.
fn prepared(buffered: Buffered) -> (World, Arc<Tree>, KeyspaceId, [Model; 2]) {
    let world = World::new(tiny().with_engine(|tree| {
        tree.table_bytes = 64 << 10;
        tree.blob_segment_bytes = 64 << 10;
    }));
    let tree = world.open().unwrap();
    let [_, keyspace] = keyspaces(&tree);
    let mut models = [Model::new(), Model::new()];
    ingest(&tree, keyspace, 0..50, 1, &mut models[1]).unwrap();
    let mut writer = session(&tree);
    let first = if buffered == Buffered::Among { 40 } else { NUMBERS.end };
    for number in 0..30 {
        put(&mut writer, &key(number), b"other");
        models[0].insert(key(number), b"other".to_vec());
        writer.put(keyspace, &key(first + number), b"before", WriteOptions::default()).unwrap();
        models[1].insert(key(first + number), b"before".to_vec());
    }
    (world, tree, keyspace, models)
}

/// As few records as begin every kind of file, and two tables.
const NUMBERS: std::ops::Range<u32> = 20..1820;

#[test]
fn it_leaves_all_of_it_or_nothing_and_nothing_before_it_missing() {
    let mut outcomes = [0; 2];
    let crashes = [Crash::Kill, Crash::PowerLoss { seed: 5 }, Crash::PowerLoss { seed: 6 }];
    let all = crashes.into_iter().flat_map(|crash| [Buffered::Among, Buffered::Beside].map(|it| (crash, it)));
    for (crash, buffered) in all {
        for step in 0.. {
            let (world, tree, keyspace, models) = prepared(buffered);
            let first = world.storage.operations();
            world.storage.cut_write_at(first + step, (step as usize * 4001) % 9000);
            let mut with = models[1].clone();
            let finished = ingest(&tree, keyspace, NUMBERS, 2, &mut with);
            let Some(operation) = world.storage.cut_operation() else {
                finished.unwrap();
                break;
            };
            let what = format!("{crash:?} at step {step}, {buffered:?}, `{operation}`");
            let left = world.crash(crash);
            drop(tree);
            let found = found(&left, keyspace);
            let is_there = found[1].contains_key(&key(NUMBERS.end - 1));
            outcomes[usize::from(is_there)] += 1;
            assert!(is_there || finished.is_err(), "{what}: it was finished and is gone");
            match (is_there, crash) {
                // What was acknowledged before is there, and so is all of the ingestion.
                (true, _) => {
                    NUMBERS.for_each(|number| _ = with.insert(key(number), value(number, 2)));
                    assert!(found == [models[0].clone(), with.clone()], "{what}: some of it is gone");
                }
                (false, Crash::Kill) => assert!(found == models, "{what}: not what was there before"),
                // What was in the log alone may be gone.
                (false, _) => assert!(found[1].iter().all(|entry| entry.1 != &value(20, 2)), "{what}"),
            }
            goes_on(&left, keyspace, found, &what);
        }
    }
    assert!(outcomes[0] > 90 && outcomes[1] >= 3, "gone and there: {outcomes:?}");
}

fn found(world: &World, keyspace: KeyspaceId) -> [Model; 2] {
    let storage = Arc::new(world.storage.crash(Crash::Kill)) as Arc<dyn Storage>;
    // Reading alone finds the same as an opening.
    let options = TreeOptions { storage, read_only: true, create: false, ..world.options() };
    let tree = Tree::open(options).unwrap();
    [KEYSPACE_DEFAULT, keyspace].map(|keyspace| all(&tree, ReadAt::Latest, keyspace))
}

/// The database is sound, has no files that nothing needs once it is open, and what is written now
/// is newer than what was ingested.
fn goes_on(world: &World, keyspace: KeyspaceId, mut found: [Model; 2], what: &str) {
    let check = || {
        let storage = Arc::new(world.storage.clone()) as Arc<dyn Storage>;
        let semantics = world.options().semantics;
        verify(VerifyOptions { storage, semantics }, &mut |_| {}).unwrap()
    };
    let damage: Vec<_> =
        check().findings.into_iter().filter(|finding| finding.severity == Severity::Damage).collect();
    assert!(damage.is_empty(), "{what}: {damage:?}");
    let tree = world.open_on(Arc::new(world.storage.clone()), Background::Manual);
    let mut writer = session(&tree);
    for number in [25, 300, NUMBERS.end - 1] {
        writer.put(keyspace, &key(number), b"afterwards", WriteOptions::default()).unwrap();
        found[1].insert(key(number), b"afterwards".to_vec());
    }
    compare(&tree, keyspace, &found[1], what);
    tree.flush().unwrap();
    settle(&tree);
    compare(&tree, keyspace, &found[1], what);
    compare(&tree, KEYSPACE_DEFAULT, &found[0], what);
    drop(writer);
    tree.close().unwrap();
    let report = check();
    assert!(report.is_sound(), "{what}: {:?}", report.findings);
}
