//! Two machines that write to one database: the one that opened it last has it, and nothing of its
//! writes is lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use firn_engine::conformance::semantics;
use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, Ordered, ReadAt, ScanRange, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::{Divided, Memory};
use firn_tree::{Settings, Tree, TreeOptions, VerifyOptions, verify};

use crate::support::watched::Watched;
use crate::support::world::{World, describe, rows, session, settle, tiny};

fn settings() -> Settings {
    Settings { space_amplification_max: 1.2, manifest_edits_max: 6, ..tiny() }
        .with_engine(|tree| tree.blob_segment_bytes = 32 << 10)
}

/// Opens the database of which `shared` is one part, and takes it over where it is another's.
fn open(local: &Memory, shared: Arc<dyn Storage>, home: u128) -> firn_engine::Result<Arc<Tree>> {
    let storage = Arc::new(Divided::open(Arc::new(local.clone()), shared, home).unwrap());
    Tree::open(TreeOptions { storage, take_over: true, ..World::new(settings()).options() })
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes under `prefix` and has it in tables; what failed is not in the model.
fn work(tree: &Tree, prefix: u8, model: &mut Model) -> firn_engine::Result<()> {
    let mut session = session(tree);
    for round in 0..3_u8 {
        let mut written = Model::new();
        for key in 0..30_u8 {
            let (key, value) = (vec![prefix, key], vec![key ^ round; 1200 + usize::from(key) * 50]);
            session.put(KEYSPACE_DEFAULT, &key, &value, WriteOptions::default())?;
            written.insert(key, value);
        }
        tree.flush()?;
        model.extend(written);
        while tree.step()? {}
    }
    tree.compact_range(KEYSPACE_DEFAULT, b"", None)
}

/// What the first machine finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Nothing,
    /// A database of its own.
    Its,
    /// A database that a third machine has open, and that the first one takes over.
    Open,
}

#[test]
fn whoever_opens_last_has_it_at_whatever_moment_that_is() {
    race(Start::Its);
}

#[test]
fn whoever_takes_over_last_has_it_at_whatever_moment_that_is() {
    race(Start::Open);
}

#[test]
fn of_two_that_create_it_at_whatever_moment_one_does() {
    race(Start::Nothing);
}

/// Has a second machine open and use the database before each operation on shared files with which
/// the first opens, uses and closes it.
fn race(start: Start) {
    for at in 0.. {
        let (shared, mut locals) = (Memory::new(), [Memory::new(), Memory::new()]);
        let mut model = Model::new();
        let (mut home, mut before) = (7, None);
        if start != Start::Nothing {
            let tree = open(&locals[0], Arc::new(shared.clone()), 7).unwrap();
            tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(100)).unwrap();
            work(&tree, 0, &mut model).unwrap();
            match start {
                Start::Open => (locals[0], home, before) = (Memory::new(), 6, Some(tree)),
                _ => tree.close().unwrap(),
            }
        }
        // What the second machine writes when it takes the database from the first one, in the
        // middle of something.
        let taken = Arc::new(Mutex::new(None));
        let first = {
            let (taken, local, backend) = (Arc::clone(&taken), locals[1].clone(), shared.clone());
            Watched::interrupted(&shared, at, move || {
                let mut written = Model::new();
                let tree = open(&local, Arc::new(backend), 8).unwrap();
                work(&tree, 2, &mut written).unwrap();
                *taken.lock().unwrap() = Some((tree, written));
            })
        };
        let mut written = Model::new();
        // The machine that opens it has it: the second one then finds that out, if it was there
        // before.
        let tree = open(&locals[0], Arc::clone(&first) as _, home)
            .unwrap_or_else(|error| panic!("before operation {at}: {}", describe(&error)));
        let worked = work(&tree, 1, &mut written);
        let closed = tree.close();
        let worked = worked.and(closed);
        drop(tree);
        let Some((second, theirs)) = taken.lock().unwrap().take() else {
            worked.unwrap();
            assert!(at > 50, "{at} operations");
            return;
        };
        let what = format!("before operation {at}");
        if let Some(before) = before {
            let error = before.set_separate_bytes(KEYSPACE_DEFAULT, Some(101)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {}", describe(&error));
        }
        // Either the first one lost it, or it was not open yet and took it back.
        let mut third = Memory::new();
        if let Err(error) = &worked {
            assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {}", describe(error));
            settle(&second);
            second.close().unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
            third = locals[1].clone();
        }
        drop(second);
        let last = open(&third, Arc::new(shared.clone()), 8)
            .unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
        let mut reader = session(&last);
        let found: Model =
            rows(&mut reader, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()).into_iter().collect();
        for (key, value) in model.iter().chain(&theirs) {
            assert_eq!(found.get(key), Some(value), "{what}, {worked:?}: {key:?}");
        }
        if worked.is_ok() {
            assert!(written.iter().all(|(key, value)| found.get(key) == Some(value)), "{what}");
        }
        drop(reader);
        last.close().unwrap();
        let storage = Arc::new(Divided::open(Arc::new(third), Arc::new(shared), 8).unwrap());
        let report = verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}).unwrap();
        assert!(report.is_sound(), "{what}: {:?}", report.findings);
    }
}
