//! The shortest paths through everything.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{
    Engine, KEYSPACE_DEFAULT, Ordered, OrderedSession, Outcome, ReadAt, ScanBatch, ScanRange, WriteOptions,
};
use firn_storage::backend::Memory;
use firn_storage::{ManualClock, Storage};
use firn_tree::{Background, Settings, Tree, TreeOptions};

pub(crate) fn small() -> Settings {
    Settings { memory_bytes: 64 << 20, ..Settings::default() }.with_engine(|tree| {
        tree.log_segment_bytes = 4 << 20;
        tree.memtable_bytes = 4 << 20;
        tree.buffer_bytes = 16 << 20;
        tree.buffer_bytes_max = 32 << 20;
        tree.log_bytes_max = 64 << 20;
        tree.table_bytes = 1 << 20;
    })
}

pub(crate) fn options(storage: &Memory, settings: Settings) -> TreeOptions {
    TreeOptions {
        storage: Arc::new(storage.clone()) as Arc<dyn Storage>,
        settings,
        semantics: Default::default(),
        clock: Arc::new(ManualClock::new(1_000_000)),
        background: Background::Manual,
        executor: None,
        seed: 7,
        create: true,
        read_only: false,
        take_over: false,
    }
}

fn inline(tree: &Tree) -> Box<dyn OrderedSession> {
    let mut session = tree.ordered_session();
    session.set_inline(true);
    session
}

fn put(session: &mut dyn OrderedSession, key: &str, value: &[u8]) {
    let outcome = session.put(KEYSPACE_DEFAULT, key.as_bytes(), value, WriteOptions::default()).unwrap();
    assert!(matches!(outcome, Outcome::Done(_)));
}

fn get(session: &mut dyn OrderedSession, key: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key.as_bytes(), &mut out).unwrap();
    found.done().expect("inline").then_some(out)
}

fn count(session: &mut dyn OrderedSession, range: ScanRange) -> usize {
    let mut scan = session.scan(ReadAt::Latest, KEYSPACE_DEFAULT, range).unwrap();
    let (mut batch, mut total) = (ScanBatch::new(), 0);
    loop {
        scan.next_batch(Default::default(), &mut batch).unwrap().done().expect("inline");
        total += batch.len();
        if batch.is_finished() {
            return total;
        }
    }
}

#[test]
fn what_is_put_is_got_scanned_reopened_and_flushed() {
    let storage = Memory::new();
    let n = 20_000;
    let value = |i: usize| vec![(i % 251) as u8; 500 + i % 100];
    {
        let tree = Tree::open(options(&storage, small())).unwrap();
        let mut session = inline(&tree);
        for i in 0..n {
            put(&mut *session, &format!("key{:08}", i * 7919 % n), &value(i * 7919 % n));
        }
        for i in (0..n).step_by(37) {
            assert_eq!(get(&mut *session, &format!("key{i:08}")), Some(value(i)), "{i}");
        }
        assert_eq!(get(&mut *session, "nokey"), None);
        assert_eq!(count(&mut *session, ScanRange::all()), n);
        assert_eq!(count(&mut *session, ScanRange::all().backward()), n);
    }
    {
        let tree = Tree::open(options(&storage, small())).unwrap();
        let mut session = inline(&tree);
        for i in 0..n {
            assert_eq!(get(&mut *session, &format!("key{i:08}")), Some(value(i)), "{i}");
        }
        assert_eq!(count(&mut *session, ScanRange::all()), n);
        tree.flush().unwrap();
        tree.wait_idle().unwrap();
        assert!(tree.stats().log_bytes <= small().engine.log_segment_bytes, "{:?}", tree.stats());
        for i in 0..n {
            assert_eq!(get(&mut *session, &format!("key{i:08}")), Some(value(i)), "{i}");
        }
        assert_eq!(count(&mut *session, ScanRange::all()), n);
        assert_eq!(count(&mut *session, ScanRange::between(b"key00000100", b"key00000200")), 100);
        assert_eq!(count(&mut *session, ScanRange::with_prefix(b"key000001")), 100);
        tree.close().unwrap();
    }
    let tree = Tree::open(options(&storage, small())).unwrap();
    let mut session = inline(&tree);
    assert_eq!(count(&mut *session, ScanRange::all().backward()), n);
}

#[test]
fn statistics_say_how_long_the_database_is_open() {
    let (storage, clock) = (Memory::new(), Arc::new(ManualClock::new(1_000_000)));
    clock.advance(Duration::from_secs(3));
    let tree =
        Tree::open(TreeOptions { clock: Arc::clone(&clock) as _, ..options(&storage, small()) }).unwrap();
    assert_eq!(tree.stats().open_us, 0);
    clock.advance(Duration::from_secs(5));
    assert_eq!(tree.stats().open_us, 5_000_000);
}
