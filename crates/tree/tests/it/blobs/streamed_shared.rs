//! Values that a source brings, where other machines are to have them.

use std::sync::Arc;

use firn_engine::{Compression, Engine, ErrorKind, KeyspaceId, WriteOptions};
use firn_storage::ErrorKind as Kind;
use firn_storage::backend::{Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_tree::{Tree, TreeOptions};

use crate::blobs::streamed::{MIB, beside, put_from, value};
use crate::shared_storage::large::machine;
use crate::support::machine::{Machine, SHARED, lost, on};
use crate::support::world::{describe, get_in, session};

/// A machine whose shared part fails on command, its database, and a keyspace whose values are
/// separated.
fn opened(first: &Machine) -> (Faulty, Arc<Tree>, KeyspaceId) {
    let faulty = Faulty::new(Arc::new(first.shared.clone()));
    let (local, shared) = (Arc::new(first.local.clone()), Arc::new(faulty.clone()));
    let storage = Arc::new(Divided::open(local, shared, first.home).unwrap());
    let tree = Tree::open(TreeOptions { storage, ..first.options() }).unwrap();
    let keyspace = tree.create_keyspace("large", beside(Compression::None)).unwrap();
    (faulty, tree, keyspace)
}

#[test]
fn no_log_object_holds_a_value_that_lies_where_all_machines_reach_it() {
    let shared = Memory::new();
    let (first, second) = (machine(&shared, 7), machine(&shared, 8));
    let (_, tree, keyspace) = opened(&first);
    let value = value(1, 6 * MIB);
    let session_here = &mut session(&tree);
    put_from(&tree, keyspace, b"shared", &value, SHARED).unwrap();
    // Log objects have begun: what is promised less is not in them either.
    put_from(&tree, keyspace, b"here", &value, WriteOptions::default()).unwrap();
    session_here.put(keyspace, b"small", b"small", SHARED).unwrap();
    let stats = tree.stats();
    assert!(stats.log_object_count > 0 && stats.log_object_write_bytes_total < 10_000, "{stats:?}");
    let left = lost(&shared, tree);
    let second = on(&second, &left);
    let tree = second.take_over().unwrap();
    let session = &mut session(&tree);
    for key in [&b"shared"[..], b"here"] {
        assert!(get_in(session, keyspace, key).as_deref() == Some(&value[..]));
    }
    put_from(&tree, keyspace, b"more", &value, SHARED).unwrap();
    tree.flush().unwrap();
    tree.close().unwrap();
    second.check_files("taken over");
}

#[test]
fn a_value_behind_many_segments_that_wait_is_in_no_log_object_either() {
    let shared = Memory::new();
    let first = machine(&shared, 7);
    let (_, tree, keyspace) = opened(&first);
    let mut session = session(&tree);
    // No background work is done: each of a segment or two, they wait to be sealed.
    for number in 0..12_u32 {
        let small = value(u64::from(number), 40_000);
        session.put(keyspace, &number.to_be_bytes(), &small, WriteOptions::default()).unwrap();
    }
    let large = value(3, 6 * MIB);
    put_from(&tree, keyspace, b"large", &large, SHARED).unwrap();
    let stats = tree.stats();
    assert!(stats.tree.as_ref().expect("a tree").blobs.segment_count > 8, "{stats:?}");
    assert!(stats.log_object_count > 0 && stats.log_object_write_bytes_total < MIB as u64, "{stats:?}");
    assert!(get_in(&mut session, keyspace, b"large").as_deref() == Some(&large[..]));
}

#[test]
fn where_the_segment_cannot_lie_there_a_log_object_has_the_value() {
    for (on_operation, file) in [(Operation::Write, "*.blobs"), (Operation::Publish, "*.group")] {
        let shared = Memory::new();
        let (first, second) = (machine(&shared, 7), machine(&shared, 8));
        let (faulty, tree, keyspace) = opened(&first);
        let value = value(2, 6 * MIB);
        session(&tree).put(keyspace, b"before", b"small", SHARED).unwrap();
        let (when, effect) = (When::Always { after: 0 }, Effect::Fail(Kind::Full));
        faulty.inject(Fault { on: on_operation, file: file.to_owned(), when, effect });
        let put = put_from(&tree, keyspace, b"key", &value, SHARED);
        assert!(faulty.struck_count() > 0);
        if on_operation == Operation::Publish {
            assert_eq!(put.as_ref().unwrap_err().kind(), ErrorKind::NotDurable);
            faulty.clear_faults();
            session(&tree).put(keyspace, b"after", b"small", SHARED).unwrap();
        } else {
            put.unwrap_or_else(|error| panic!("{}", describe(&error)));
            assert!(tree.stats().log_object_write_bytes_total > 6 << 20);
        }
        assert!(get_in(&mut session(&tree), keyspace, b"key").as_deref() == Some(&value[..]));
        let left = lost(&shared, tree);
        let tree = on(&second, &left).take_over().unwrap();
        assert!(get_in(&mut session(&tree), keyspace, b"key").as_deref() == Some(&value[..]), "{file}");
    }
}

#[test]
fn a_backend_of_one_part_refuses_it_before_anything_is_taken() {
    let (_, tree, keyspace) = crate::blobs::streamed::begun(crate::support::world::tiny());
    let bytes = value(3, 5 * MIB);
    let mut source = crate::blobs::streamed::Source::of(&bytes);
    let refused = tree.put_from(keyspace, b"key", bytes.len() as u64, &mut source, SHARED).unwrap_err();
    assert_eq!((refused.kind(), source.taken()), (ErrorKind::Invalid, 0), "{}", describe(&refused));
}
