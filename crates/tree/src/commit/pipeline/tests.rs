//! Writers with room and without, in a database and beside one that only counts what it is asked.

use std::cell::Cell;
use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::{
    Durability, Engine, Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, OrderedOp,
    OrderedOpKind, Result,
};
use firn_format::{Position, Sequence};
use firn_storage::ManualClock;
use firn_storage::backend::Memory;

use crate::commit::{Appended, CommitEnv, Condition, Frame, Item};
use crate::settings::Settings;
use crate::tree::Tree;
use crate::tree::tests::manual;

/// A database whose buffer takes 16 MiB, without threads.
fn small() -> Arc<Tree> {
    let settings = Settings::default().with_engine(|tree| {
        tree.log_segment_bytes = 4 << 20;
        tree.memtable_bytes = 4 << 20;
        tree.buffer_bytes = 8 << 20;
        tree.buffer_bytes_max = 16 << 20;
    });
    Tree::open(manual(Memory::new(), settings, Arc::new(ManualClock::new(1_000_000)))).expect("opens")
}

#[test]
fn who_waits_for_room_writes_its_values_once() {
    let tree = small();
    let beside = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let large = tree.create_keyspace("large", beside).expect("created");
    let value = vec![7; 100 << 10];
    let append = |keyspace: KeyspaceId, key: &[u8]| {
        let op = OrderedOp { keyspace, kind: OrderedOpKind::Put, key, value: &value, expires_at_ms: 0 };
        tree.shared.commit.append_ops(&*tree.shared, once(op), None).expect("no failure")
    };
    let mut key = 0_u32;
    while matches!(append(KEYSPACE_DEFAULT, &key.to_be_bytes()), Appended::At(_)) {
        key += 1;
        assert!(key < 1000, "16 MiB are never full");
    }
    let written = || tree.shared.blobs.counters.written_bytes.load(Ordering::Relaxed);
    let before = written();
    for _ in 0..10 {
        assert!(matches!(append(large, b"key"), Appended::Stopped));
    }
    assert_eq!(written(), before, "it is written once there is room");
    while tree.step().expect("no failure") {}
    assert!(matches!(append(large, b"key"), Appended::At(_)));
    assert!((100 << 10..110 << 10).contains(&(written() - before)));
    tree.close().expect("closed");
}

/// A database that only counts what the pipeline asks of it.
#[derive(Default)]
struct Asked {
    crossings: Cell<u32>,
    waits: Cell<u32>,
    newest: Option<Sequence>,
}

impl CommitEnv for Asked {
    fn is_compacting(&self) -> bool {
        panic!("the disk is not full")
    }

    fn crosses(&self, _start: Position) {
        self.crossings.set(self.crossings.get() + 1);
    }

    fn holds(&self, condition: &Condition<'_>, _: Position) -> Result<bool> {
        match condition {
            Condition::Unchanged { newest, .. } => Ok(*newest == self.newest),
            Condition::Unwritten { .. } => panic!("no transaction"),
        }
    }

    fn renew_space_pace(&self) {
        panic!("no value is separated")
    }

    fn wait_to_retry(&self) -> Result<()> {
        self.waits.set(self.waits.get() + 1);
        Err(Error::new(ErrorKind::Retry, "no room"))
    }

    fn put_on_shared_storage(&self, _end: Position) -> Result<()> {
        panic!("nothing is shared")
    }
}

fn op(keyspace: KeyspaceId, key: &'static [u8]) -> OrderedOp<'static> {
    OrderedOp { keyspace, kind: OrderedOpKind::Put, key, value: b"value", expires_at_ms: 0 }
}

#[test]
fn a_write_that_finds_room_asks_nothing_of_the_database() {
    let tree = small();
    let (pipeline, env) = (&tree.shared.commit, Asked::default());
    let before = pipeline.log.watermark();
    let end = pipeline.commit(&env, once(op(KEYSPACE_DEFAULT, b"a")), 6, Durability::Process).unwrap();
    assert!(before < end && pipeline.log.watermark() == end);
    assert_eq!((env.crossings.get(), env.waits.get()), (0, 0));
    let other = tree.create_keyspace("other", KeyspaceSettings::default()).unwrap();
    let both = [op(KEYSPACE_DEFAULT, b"b"), op(other, b"b")];
    pipeline.commit(&env, both.into_iter(), 12, Durability::Process).unwrap();
    assert_eq!((env.crossings.get(), env.waits.get()), (1, 0));
    tree.close().unwrap();
}

#[test]
fn a_write_without_room_waits_and_writes_nothing_where_that_fails() {
    let tree = small();
    let (pipeline, env) = (&tree.shared.commit, Asked::default());
    let value = vec![7; 100 << 10];
    let op = OrderedOp { value: &value, ..op(KEYSPACE_DEFAULT, b"key") };
    while matches!(pipeline.append_ops(&env, once(op), None).unwrap(), Appended::At(_)) {}
    let full = pipeline.log.watermark();
    let refused = pipeline.commit(&env, once(op), value.len(), Durability::Process).unwrap_err();
    assert_eq!((refused.kind(), env.waits.get()), (ErrorKind::Retry, 1));
    assert_eq!(pipeline.log.watermark(), full);
    tree.close().unwrap();
}

#[test]
fn a_frame_whose_key_has_changed_is_void() {
    let tree = small();
    let pipeline = &tree.shared.commit;
    let env = Asked { newest: Some(Position(800).sequence()), ..Asked::default() };
    let append = |newest| {
        let condition = Some(Condition::Unchanged { keyspace: KEYSPACE_DEFAULT, key: b"key", newest });
        let items = once(Item::from(op(KEYSPACE_DEFAULT, b"key")));
        pipeline.append(&env, Frame { condition, ..Frame::of(items) }).unwrap()
    };
    let version = tree.shared.catalog.version.load();
    let records = || version.keyspace(KEYSPACE_DEFAULT.0).unwrap().memtable.len();
    let before = pipeline.log.watermark();
    assert_eq!(append(None), Appended::Raced);
    assert!(before < pipeline.log.watermark() && records() == 0, "its place is passed, and holds nothing");
    assert!(matches!(append(env.newest), Appended::At(end) if end == pipeline.log.watermark()));
    assert_eq!(records(), 1);
    tree.close().unwrap();
}
