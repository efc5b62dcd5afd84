//! Calls beside a roll that is under way: the version knows the next segment, and the one before is
//! still active.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use firn_engine::{
    Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Outcome, ReadAt, Semantics, WriteOptions,
};
use firn_format::log::frame_bytes;
use firn_storage::backend::Memory;
use firn_storage::{Clock, ManualClock, Storage, SystemClock};

use super::Tree;
use crate::commit::roll::Freeze;
use crate::database::Database;
use crate::settings::{Background, Settings, TreeOptions};

/// A call that need not wait for a roll is done by then.
const SOON: Duration = Duration::from_millis(200);

/// A new database at `storage` whose owner does all work.
pub(crate) fn manual(storage: Memory, settings: Settings, clock: Arc<ManualClock>) -> TreeOptions {
    TreeOptions {
        storage: Arc::new(storage) as Arc<dyn Storage>,
        settings,
        semantics: Semantics::new(),
        clock,
        background: Background::Manual,
        executor: None,
        seed: 7,
        create: true,
        read_only: false,
        take_over: false,
    }
}

fn open(storage: &Memory) -> Arc<Tree> {
    let settings = Settings::default().with_engine(|tree| tree.log_segment_bytes = 4 << 20);
    let clock = Arc::new(ManualClock::new(1_000_000));
    Tree::open(manual(storage.clone(), settings, clock)).expect("opens")
}

fn put(tree: &Tree, keyspace: KeyspaceId) -> firn_engine::Result<()> {
    let mut session = tree.session();
    session.set_inline(true);
    session.put(keyspace, b"key", b"value", WriteOptions::default()).map(drop)
}

fn get(tree: &Tree) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let found = tree.session().get(ReadAt::Latest, KEYSPACE_DEFAULT, b"key", &mut value).expect("read");
    matches!(found, Outcome::Done(true)).then_some(value)
}

/// What was put is in a table, and nowhere else.
fn assert_flushed(tree: &Tree) {
    let version = tree.shared.catalog.version.load();
    let keyspace = version.keyspace(KEYSPACE_DEFAULT.0).expect("is there");
    let above = (keyspace.memtable.is_empty(), keyspace.frozen.len(), keyspace.runs.len());
    assert_eq!(above, (true, 0, 0), "left to flush");
    assert_eq!(keyspace.levels.tables().count(), 1);
    assert_eq!(get(tree).as_deref(), Some(&b"value"[..]));
}

/// Does `work` on another thread, and `end`s what it may wait for when it is done, or [`SOON`].
pub(crate) fn meanwhile<T: Send>(end: impl FnOnce(), work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (done, answer) = mpsc::channel();
        scope.spawn(move || done.send(work()).expect("awaited"));
        let early = answer.recv_timeout(SOON);
        end();
        early.or_else(|_| answer.recv()).expect("answered")
    })
}

/// Does `work` on another thread beside a roll.
pub(crate) fn beside_a_roll<T: Send>(
    database: &Database,
    freeze: Freeze,
    work: impl FnOnce() -> T + Send,
) -> T {
    let base = database.commit.log.active().base();
    let mut next = database.commit.log.lock_roll(base).expect("is open").expect("nobody else rolls");
    let segment = database.commit.begin_segment(&mut next, (4 << 20, 4 << 20), freeze).expect("begun");
    let end = move || {
        database.commit.log.activate(&mut next, &segment, false);
        drop(next);
    };
    meanwhile(end, work)
}

#[test]
fn a_copy_holds_what_a_roll_is_freezing() {
    let storage = Memory::new();
    let tree = open(&storage);
    put(&tree, KEYSPACE_DEFAULT).unwrap();
    let taken = beside_a_roll(&tree.shared, Freeze::All, || tree.copy_to(Path::new("copy")));
    let copy = open(&storage.directory(&taken.unwrap().path).unwrap());
    assert_eq!(get(&copy).as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_flush_writes_what_a_roll_is_freezing() {
    let tree = open(&Memory::new());
    put(&tree, KEYSPACE_DEFAULT).unwrap();
    beside_a_roll(&tree.shared, Freeze::All, || tree.flush()).unwrap();
    assert_flushed(&tree);
}

/// Both times that a flush is about to roll, another thread does, and freezes nothing.
#[test]
fn a_flush_writes_all_where_others_roll_first() {
    let tree = open(&Memory::new());
    put(&tree, KEYSPACE_DEFAULT).unwrap();
    let (database, clock) = (&tree.shared, SystemClock::new());
    let first = database.commit.log.active();
    // Keeps the flush between its rolls.
    let unpublished = first.region().reserve(frame_bytes(8)).unwrap();
    let mut next = database.commit.log.lock_roll(first.base()).unwrap().unwrap();
    let others_roll = || {
        let second = database.commit.begin_segment(&mut next, (4 << 20, 4 << 20), Freeze::Full).unwrap();
        database.commit.log.activate(&mut next, &second, false);
        drop(next);
        clock.sleep(SOON);
        // `None` where the flush came so late that it is the second one to roll.
        let again = database.commit.log.lock_roll(second.base()).unwrap();
        database.commit.publish_void(&first, unpublished).unwrap();
        let Some(mut next) = again else { return };
        clock.sleep(SOON);
        let third = database.commit.begin_segment(&mut next, (4 << 20, 4 << 20), Freeze::Full).unwrap();
        database.commit.log.activate(&mut next, &third, false);
    };
    meanwhile(others_roll, || tree.flush()).unwrap();
    assert_flushed(&tree);
}

#[test]
fn a_keyspace_made_beside_a_roll_can_be_written_to_at_once() {
    let tree = open(&Memory::new());
    let create = || tree.create_keyspace("new", KeyspaceSettings::default());
    let made = beside_a_roll(&tree.shared, Freeze::Full, create).unwrap();
    put(&tree, made).unwrap();
}

/// The other thread that makes it has not reached a segment that knows it.
#[test]
fn a_keyspace_that_somebody_else_is_making_can_be_written_to_at_once() {
    let tree = open(&Memory::new());
    let create = || tree.create_keyspace("new", KeyspaceSettings::default());
    let next = tree.shared.commit.log.lock_roll(tree.shared.commit.log.active().base()).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(create);
        while tree.keyspace("new").is_none() {
            std::thread::yield_now();
        }
        meanwhile(|| drop(next), || put(&tree, create()?)).unwrap();
        first.join().unwrap().unwrap();
    });
}

#[test]
fn no_segment_begins_with_a_keyspace_that_was_dropped_beside_a_roll() {
    let tree = open(&Memory::new());
    let made = tree.create_keyspace("new", KeyspaceSettings::default()).unwrap();
    beside_a_roll(&tree.shared, Freeze::Full, || tree.drop_keyspace(made)).unwrap();
    assert!(tree.shared.commit.log.active().carried().get(made.0).is_none());
}
