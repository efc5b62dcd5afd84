//! Writes to a segment of values are on their way to the device before the segment is sealed.

use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KeyspaceSettings, WriteOptions};
use firn_storage::backend::{Effect, Fault, Faulty, Operation, When};
use firn_storage::{ErrorKind as StorageErrorKind, Storage};
use firn_tree::{Background, Tree};

use crate::support::world::{World, session, tiny};

/// Segments that take some MiB.
fn machine() -> (World, Arc<Faulty>) {
    let machine = World::new(tiny().with_engine(|tree| tree.blob_segment_bytes = 8 << 20));
    let faulty = Arc::new(Faulty::new(Arc::new(machine.storage.clone())));
    (machine, faulty)
}

fn open(machine: &World, faulty: &Arc<Faulty>) -> Arc<Tree> {
    machine.open_on(Arc::clone(faulty) as Arc<dyn Storage>, Background::Manual)
}

/// Values of some 100 KiB under keys from `from` on.
fn put(tree: &Tree, from: u32, count: u32) -> firn_engine::Result<()> {
    let separated = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let keyspace = match tree.keyspace("large") {
        Some(known) => known,
        None => tree.create_keyspace("large", separated)?,
    };
    let mut session = session(tree);
    (from..from + count).try_for_each(|key| {
        session
            .put(keyspace, &key.to_be_bytes(), &vec![key as u8; 100 << 10], WriteOptions::default())
            .map(drop)
    })
}

#[test]
fn a_thread_that_looks_for_work_has_the_device_begin() {
    let (machine, faulty) = machine();
    let tree = open(&machine, &faulty);
    let asked = || faulty.counters().of_extension(Operation::WriteBack, "blobs").operations;
    put(&tree, 0, 5).unwrap();
    while tree.step().unwrap() {}
    assert_eq!(asked(), 0, "half a MiB is not worth it");
    put(&tree, 5, 15).unwrap();
    while tree.step().unwrap() {}
    assert_eq!(asked(), 1, "all of it at once");
    put(&tree, 20, 12).unwrap();
    while tree.step().unwrap() {}
    assert_eq!(asked(), 2);
    tree.close().unwrap();
}

#[test]
fn other_work_has_its_turn_where_there_is_always_more_to_begin() {
    let (machine, faulty) = machine();
    let tree = open(&machine, &faulty);
    for round in 0..8 {
        put(&tree, 30 * round, 30).unwrap();
        tree.step().unwrap();
    }
    let count = |on| faulty.counters().of_extension(on, "blobs").operations;
    assert!(count(Operation::WriteBack) > 3);
    // Sealing a segment cuts its file.
    assert!(count(Operation::SetLen) > 0, "two segments of 8 MiB were full");
    tree.close().unwrap();
}

#[test]
fn a_device_that_refuses_to_begin_is_not_trusted_with_more() {
    let (machine, faulty) = machine();
    let tree = open(&machine, &faulty);
    let (file, effect) = ("*.blobs".to_owned(), Effect::Fail(StorageErrorKind::Io));
    faulty.inject(Fault { on: Operation::WriteBack, file, when: When::Once { after: 0 }, effect });
    put(&tree, 0, 15).unwrap();
    while tree.step().unwrap_or(false) {}
    assert_eq!(put(&tree, 15, 1).unwrap_err().kind(), ErrorKind::Closed);
}
