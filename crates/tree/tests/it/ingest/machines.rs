//! Ingestions on storage that other machines reach.

use firn_engine::{Engine, KEYSPACE_DEFAULT, Ordered, WriteOptions};
use firn_format::file_name::FileName;
use firn_storage::backend::Memory;

use super::{Model, compare, ingest, key, keyspaces, value};
use crate::support::machine::{HERE, Machine, SHARED, lost, names, on, settings};
use crate::support::world::{session, settle};

#[test]
fn another_machine_finds_it_and_writes_what_is_newer() {
    for is_sent in [false, true] {
        let shared = Memory::new();
        let machine = Machine::new(settings(), &shared, 7);
        let tree = machine.open();
        let [_, keyspace] = keyspaces(&tree);
        let mut model = Model::new();
        let mut writer = session(&tree);
        if is_sent {
            // From then on the log goes there, too.
            writer.put(keyspace, &key(900), b"shared", SHARED).unwrap();
            writer.put(keyspace, &key(901), b"before", HERE).unwrap();
            model.insert(key(900), b"shared".to_vec());
            model.insert(key(901), b"before".to_vec());
        }
        ingest(&tree, keyspace, 0..500, 1, &mut model).unwrap();
        compare(&tree, keyspace, &model, "here");
        drop(writer);
        let left = lost(&shared, tree);
        let other = on(&Machine::new(settings(), &left, 8), &left);
        let tree = other.take_over().unwrap();
        compare(&tree, keyspace, &model, "taken over");
        let mut writer = session(&tree);
        for number in [3, 499] {
            writer.put(keyspace, &key(number), b"newest", HERE).unwrap();
            model.insert(key(number), b"newest".to_vec());
        }
        compare(&tree, keyspace, &model, "written there");
        ingest(&tree, keyspace, 100..200, 2, &mut model).unwrap();
        tree.compact_range(keyspace, b"", None).unwrap();
        compare(&tree, keyspace, &model, "compacted there");
        drop(writer);
        tree.close().unwrap();
        other.check_files("closed");
    }
}

#[test]
fn what_a_lost_machine_has_not_finished_goes() {
    let shared = Memory::new();
    let machine = Machine::new(settings(), &shared, 7);
    let tree = machine.open();
    let [_, keyspace] = keyspaces(&tree);
    let mut ingestion = tree.ingest(keyspace).unwrap();
    (0..20_000).for_each(|number| ingestion.put(&key(number), &value(number, 1), 0).unwrap());
    let files = |names: Vec<FileName>| {
        let is_output =
            |name: &FileName| matches!(name, FileName::Table { .. } | FileName::CollectedBlobs { .. });
        names.into_iter().filter(is_output).count()
    };
    assert!(files(names(&shared)) > 3, "nothing was written yet");
    let left = lost(&shared, (ingestion, tree));
    let other = on(&Machine::new(settings(), &left, 8), &left);
    let tree = other.take_over().unwrap();
    settle(&tree);
    assert_eq!(files(names(&left)), 0, "{:?}", names(&left));
    let model = Model::from([(key(1), b"1".to_vec())]);
    session(&tree).put(KEYSPACE_DEFAULT, &key(1), b"1", WriteOptions::default()).unwrap();
    compare(&tree, KEYSPACE_DEFAULT, &model, "afterwards");
    compare(&tree, keyspace, &Model::new(), "nothing of it");
    tree.close().unwrap();
    other.check_files("closed");
}
