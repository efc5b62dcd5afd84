//! Two machines, one of which takes over while the other one acknowledges writes as `Shared`. The
//! machine that has the database in the end has all of them.

use std::sync::{Arc, Mutex};

use firn_engine::{
    Durability, Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, ReadAt, ScanRange, WriteOptions,
};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Divided, Memory};
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::machine::Model;
use crate::support::watched::Watched;
use crate::support::world::{World, describe, rows, session, settle, tiny};

const SHARED: WriteOptions = WriteOptions { durability: Some(Durability::Shared), expires_at_ms: 0 };
const HERE: WriteOptions = WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };

/// Opens the database of which `shared` is one part, and takes it over where it is another's.
fn open(local: &Memory, shared: Arc<dyn Storage>, home: u128) -> firn_engine::Result<Arc<Tree>> {
    let settings =
        Settings { manifest_edits_max: 4, ..tiny() }.with_engine(|tree| tree.blob_segment_bytes = 32 << 10);
    let storage = Arc::new(Divided::open(Arc::new(local.clone()), shared, home).unwrap());
    Tree::open(TreeOptions { storage, take_over: true, ..World::new(settings).options() })
}

/// Writes under `prefix`; what was acknowledged as shared is in the model, even if something fails
/// later. Tables take some of it over.
fn work(tree: &Tree, prefix: u8, model: &mut Model) -> firn_engine::Result<()> {
    let mut session = session(tree);
    for round in 0..3_u8 {
        for key in 0..4_u8 {
            let (key, value) = (vec![prefix, key], vec![key ^ round; 40 + usize::from(key % 2) * 2000]);
            session.put(KEYSPACE_DEFAULT, &[prefix, 99], &[round], HERE)?;
            let written = session.put(KEYSPACE_DEFAULT, &key, &value, SHARED);
            if written.is_err() {
                // Overwritten or not: neither was promised.
                model.remove(&key);
            }
            written?;
            model.insert(key, value);
        }
        if round == 1 {
            tree.flush()?;
            while tree.step()? {}
        }
    }
    Ok(())
}

fn all(tree: &Tree) -> Model {
    rows(&mut session(tree), ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()).into_iter().collect()
}

fn compare(tree: &Tree, model: &Model, what: &str) {
    let found = all(tree);
    for (key, value) in model {
        assert!(found.get(key) == Some(value), "{what}: {key:?}");
    }
}

/// A database with something in tables, something in log objects, and separated values.
fn begin(shared: &Memory, local: &Memory, model: &mut Model) {
    let tree = open(local, Arc::new(shared.clone()), 7).unwrap();
    // Its segment ends without a frame.
    tree.create_keyspace("other", KeyspaceSettings::default()).unwrap();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
    work(&tree, 0, model).unwrap();
}

#[test]
fn a_machine_that_is_interrupted_anywhere_has_acknowledged_nothing_that_another_one_lacks() {
    for at in 0.. {
        let (shared, locals) = (Memory::new(), [Memory::new(), Memory::new()]);
        let mut model = Model::new();
        begin(&shared, &locals[0], &mut model);
        let taken = Arc::new(Mutex::new(None));
        let first = {
            let (taken, local, backend) = (Arc::clone(&taken), locals[1].clone(), shared.clone());
            Watched::interrupted(&shared, at, move || {
                let mut theirs = Model::new();
                let tree = open(&local, Arc::new(backend), 8).unwrap();
                work(&tree, 2, &mut theirs).unwrap();
                *taken.lock().unwrap() = Some((tree, theirs));
            })
        };
        let what = format!("before operation {at}");
        let tree = open(&locals[0], Arc::clone(&first) as _, 7)
            .unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
        let worked = work(&tree, 1, &mut model);
        let Some((second, theirs)) = taken.lock().unwrap().take() else {
            worked.unwrap();
            assert!(at > 60, "{at} operations");
            return;
        };
        model.extend(theirs);
        if let Err(error) = &worked {
            assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {}", describe(error));
            compare(&second, &model, &what);
        }
        // Neither of them was closed, and both machines are gone.
        let left = shared.crash(Crash::Kill);
        drop((tree, second));
        let third = open(&Memory::new(), Arc::new(left), 9)
            .unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
        compare(&third, &model, &format!("{what}, on a third machine, {worked:?}"));
        third.flush().unwrap();
        settle(&third);
        compare(&third, &model, &what);
    }
}

#[test]
fn whoever_takes_over_has_what_is_acknowledged_meanwhile() {
    for at in 0.. {
        let (shared, local) = (Memory::new(), Memory::new());
        let mut model = Model::new();
        begin(&shared, &local, &mut model);
        let tree = open(&local, Arc::new(shared.clone()), 7).unwrap();
        work(&tree, 1, &mut model).unwrap();
        // The first one goes on in the middle of it: it acknowledges more, and removes what is in
        // tables.
        let written = Arc::new(Mutex::new(None));
        let backend = {
            let (written, tree) = (Arc::clone(&written), Arc::clone(&tree));
            Watched::interrupted(&shared, at, move || {
                let mut model = Model::new();
                let worked = (0..2).try_for_each(|_| work(&tree, 2, &mut model));
                *written.lock().unwrap() = Some((model, worked));
            })
        };
        let what = format!("before operation {at}");
        let second =
            open(&Memory::new(), backend, 8).unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
        let Some((acknowledged, worked)) = written.lock().unwrap().take() else {
            assert!(at > 20, "{at} operations");
            return;
        };
        if let Err(error) = &worked {
            assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {}", describe(error));
        }
        model.extend(acknowledged);
        compare(&second, &model, &format!("{what}, {worked:?}"));
        let late = session(&tree).put(KEYSPACE_DEFAULT, b"late", b"", SHARED).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Closed, "{what}: {}", describe(&late));
        let left = shared.crash(Crash::Kill);
        drop((tree, second));
        let third = open(&Memory::new(), Arc::new(left), 9).unwrap();
        compare(&third, &model, &format!("{what}, on a third machine"));
    }
}
