//! A write that is more than one log object takes: another machine has all of it, or nothing.

use std::sync::Arc;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Durability, Engine, ErrorKind, KEYSPACE_DEFAULT, WriteOptions};
use firn_storage::ErrorKind as Kind;
use firn_storage::backend::{Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::machine::{Machine, Model, SHARED, all, lost, objects, on, settings};
use crate::support::world::{describe, session};

const DISK: WriteOptions = WriteOptions { durability: Some(Durability::Disk), expires_at_ms: 0 };

/// Three log objects.
const LARGE: usize = 40 << 20;

/// A machine whose memory has room for such writes.
pub(crate) fn machine(shared: &Memory, home: u128) -> Machine {
    let settings = Settings { memory_bytes: 256 << 20, ..settings() }.with_engine(|tree| {
        tree.buffer_bytes = 64 << 20;
        tree.buffer_bytes_max = 128 << 20;
        tree.log_bytes_max = 256 << 20;
    });
    Machine::new(settings, shared, home)
}

/// The backend takes `taken` of the large write's log objects; how many it was asked for is said
/// where it takes all.
fn is_whole_or_absent(separate_bytes: Option<u32>, taken: u64) -> Option<usize> {
    let what = format!("separated from {separate_bytes:?}, {taken} log objects are taken");
    let shared = Memory::new();
    let (first, second) = (machine(&shared, 7), machine(&shared, 8));
    let faulty = Faulty::new(Arc::new(shared.clone()));
    let storage =
        Arc::new(Divided::open(Arc::new(first.local.clone()), Arc::new(faulty.clone()), 7).unwrap());
    let tree = Tree::open(TreeOptions { storage, ..first.options() }).unwrap();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, separate_bytes).unwrap();
    let mut writer = session(&tree);
    let mut model = Model::new();
    let put = |writer: &mut OrderedBlocking, key: &[u8], value: &[u8]| {
        writer.put(KEYSPACE_DEFAULT, key, value, SHARED).map(drop)
    };
    put(&mut writer, b"before", b"small").unwrap();
    model.insert(b"before".to_vec(), b"small".to_vec());
    // On this machine's device: the large write's first log object has them, and what follows says
    // that they are durable.
    for key in [&b"here"[..], b"here too"] {
        writer.put(KEYSPACE_DEFAULT, key, b"small", DISK).unwrap();
    }
    let before: usize = objects(&shared).values().map(Vec::len).sum();
    let (when, effect) = (When::Always { after: taken }, Effect::Fail(Kind::Refused));
    faulty.inject(Fault { on: Operation::Publish, file: "*.group".to_owned(), when, effect });
    let value: Vec<u8> = (0..LARGE as u32 / 4).flat_map(u32::to_le_bytes).collect();
    let written = put(&mut writer, b"large", &value);
    let made = objects(&shared).values().map(Vec::len).sum::<usize>() - before;
    if let Err(refused) = &written {
        assert_eq!(refused.kind(), ErrorKind::NotDurable, "{what}: {}", describe(refused));
        assert_eq!(made as u64, taken, "{what}");
    } else {
        model.insert(b"large".to_vec(), value.clone());
        for key in [&b"here"[..], b"here too"] {
            model.insert(key.to_vec(), b"small".to_vec());
        }
    }

    let left = lost(&shared, (writer, tree));
    let second = on(&second, &left);
    let tree = second.take_over().unwrap();
    assert!(all(&tree) == model, "{what}: {:?}", all(&tree).keys());
    // What it has is nowhere else but in the log objects that it found, and the next machine after
    // a loss finds the same.
    writer = session(&tree);
    writer.put(KEYSPACE_DEFAULT, b"lost", b"small", DISK).unwrap();
    let left = lost(&left, (writer, tree));
    let second = on(&Machine { local: Memory::new(), home: 10, ..machine(&left, 10) }, &left);
    let tree = second.take_over().unwrap();
    assert!(all(&tree) == model, "{what}: {:?}", all(&tree).keys());
    // Writing goes on there, and elsewhere.
    let mut writer = session(&tree);
    put(&mut writer, b"after", b"small").unwrap();
    model.insert(b"after".to_vec(), b"small".to_vec());
    put(&mut writer, b"again", &value).unwrap();
    model.insert(b"again".to_vec(), value);
    let third = on(&first, &lost(&left, (writer, tree)));
    let third = Machine { local: Memory::new(), home: 9, ..third };
    let tree = third.take_over().unwrap();
    assert!(all(&tree) == model, "{what}");
    close(&tree);
    third.check_files(&what);
    written.is_ok().then_some(made)
}

fn close(tree: &Tree) {
    tree.flush().unwrap();
    tree.close().unwrap();
}

#[test]
fn a_write_of_several_log_objects_is_there_as_a_whole_or_not_at_all() {
    for separate_bytes in [None, Some(1000)] {
        let made = (0..6).find_map(|taken| is_whole_or_absent(separate_bytes, taken));
        assert_eq!(made, Some(3), "separated from {separate_bytes:?}");
    }
}
