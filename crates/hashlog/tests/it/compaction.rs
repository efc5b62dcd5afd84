//! The log gives its space back, and readers do not notice.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::conformance::{APPEND, FILTER_DROP};
use firn_engine::settings::MIB;
use firn_engine::{
    Batch, Change, Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, ReadAt, ReadSet,
    Session, WriteOptions,
};
use firn_hashlog::{HashLog, Settings};
use firn_storage::backend::Memory;
use firn_storage::{Clock, ManualClock, Storage};

use crate::support::{open, tiny};

/// Bytes of a value; some four thousand records are a segment of the tiny settings.
const VALUE_BYTES: usize = 200;

/// A database, and the storage and the clock that it was opened with.
struct Scene {
    memory: Memory,
    clock: Arc<ManualClock>,
    database: Arc<HashLog>,
}

impl Scene {
    fn new(has_threads: bool) -> Self {
        let (memory, clock) = (Memory::new(), Arc::new(ManualClock::new(1_000_000)));
        let database = open(Arc::new(memory.clone()), clock.clone(), has_threads, tiny()).expect("open");
        Self { memory, clock, database }
    }

    fn session(&self) -> Blocking<dyn Session> {
        Blocking::new(self.database.session())
    }

    /// Bytes of all files whose names end so.
    fn bytes(&self, end: &str) -> u64 {
        let files = self.memory.list().expect("list");
        files.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, bytes)| bytes).sum()
    }

    fn settle(&self) {
        self.database.flush().expect("flush");
        self.database.wait_idle().expect("idle");
    }

    fn reopened(self) -> Self {
        let Self { memory, clock, database } = self;
        database.close().expect("close");
        drop(database);
        let database = open(Arc::new(memory.clone()), clock.clone(), true, tiny()).expect("open again");
        Self { memory, clock, database }
    }
}

/// What `key` has after so many rounds.
fn value(key: u64, round: u64) -> Vec<u8> {
    let mut value = vec![key as u8; VALUE_BYTES];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value[8..16].copy_from_slice(&round.to_le_bytes());
    value
}

fn put(session: &mut Blocking<dyn Session>, key: u64, round: u64) {
    let options = WriteOptions::default();
    session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, round), options).expect("put");
}

fn get(session: &mut Blocking<dyn Session>, keyspace: KeyspaceId, key: &[u8]) -> Option<Vec<u8>> {
    session.get(ReadAt::Latest, keyspace, key).expect("get")
}

/// `keys` are overwritten in `rounds`; then all is as it was written last, in the space that it
/// takes, also after an opening.
fn overwritten(has_threads: bool, keys: u64, rounds: u64) {
    let scene = Scene::new(has_threads);
    let mut session = scene.session();
    for round in 0..rounds {
        for key in 0..keys {
            put(&mut session, key, round);
        }
    }
    drop(session);
    scene.settle();
    let (live, written) = (keys * 240, rounds * keys * 240);
    let check = |scene: &Scene, when: &str| {
        let bytes = scene.bytes(".hybrid");
        assert!(bytes < live * 3 / 2 + 4 * MIB, "{when}: {bytes} bytes for {live} of {written}");
        let mut session = scene.session();
        for key in 0..keys {
            let found = get(&mut session, KEYSPACE_DEFAULT, &key.to_le_bytes());
            assert!(found == Some(value(key, rounds - 1)), "{when}: key {key} has {found:?}");
        }
    };
    check(&scene, "while it is open");
    check(&scene.reopened(), "opened again");
}

#[test]
fn few_keys_that_are_overwritten_take_little_space() {
    overwritten(true, 500, 200);
}

#[test]
fn many_keys_that_are_overwritten_take_little_space() {
    overwritten(true, 40_000, 5);
}

#[test]
fn space_comes_back_without_threads() {
    overwritten(false, 5000, 20);
}

/// Where memory has room for all of the log, what is written over takes little space, and what is
/// not is still in memory.
#[test]
fn what_fits_in_memory_stays_there() {
    const KEYS: u64 = 20_000;
    let settings = Settings { memory_bytes: 32 * MIB, ..tiny() };
    let clock = Arc::new(ManualClock::new(1_000_000));
    let database = open(Arc::new(Memory::new()), clock, true, settings).expect("open");
    let mut session = Blocking::new(database.session());
    (0..KEYS).for_each(|key| put(&mut session, key, 0));
    for round in 1..10 {
        (0..KEYS).step_by(2).for_each(|key| put(&mut session, key, round));
        database.flush().expect("flush");
        database.wait_idle().expect("idle");
    }
    let stats = database.stats().hash.expect("of this engine");
    assert!(stats.compaction_copy_bytes_total > 2 * MIB, "{stats:?}");
    assert_eq!(stats.cold.segment_count, 0, "{stats:?}");
    assert!(stats.segment_bytes < KEYS * 240 * 3 / 2 + 4 * MIB, "{stats:?}");
    for key in 0..KEYS {
        let round = if key % 2 == 0 { 9 } else { 0 };
        let found = get(&mut session, KEYSPACE_DEFAULT, &key.to_le_bytes());
        assert!(found == Some(value(key, round)), "key {key} has {found:?}");
    }
}

/// What was deleted, has expired or was dropped takes no space.
#[test]
fn what_died_without_being_overwritten_gives_its_space_back() {
    const KEYS: u64 = 30_000;
    let scene = Scene::new(true);
    let mut session = scene.session();
    let other = scene.database.create_keyspace("other", KeyspaceSettings::default()).expect("create");
    let soon = WriteOptions { expires_at_ms: scene.clock.unix_ms() + 1000, ..WriteOptions::default() };
    for key in 0..KEYS {
        let bytes = key.to_le_bytes();
        let (keyspace, options) = match key % 3 {
            0 => (KEYSPACE_DEFAULT, WriteOptions::default()),
            1 => (KEYSPACE_DEFAULT, soon),
            _ => (other, WriteOptions::default()),
        };
        session.put(keyspace, &bytes, &value(key, 0), options).expect("put");
    }
    scene.database.flush().expect("flush");
    let before = scene.bytes(".hybrid");
    for key in (0..KEYS).step_by(3) {
        session.delete(KEYSPACE_DEFAULT, &key.to_le_bytes(), WriteOptions::default()).expect("delete");
    }
    scene.clock.advance(Duration::from_secs(3600));
    scene.database.drop_keyspace(other).expect("drop");
    drop(session);
    scene.settle();
    let after = scene.bytes(".hybrid");
    assert!(after <= 3 * MIB && before > 6 * MIB, "{before} bytes before, {after} after");
    let mut session = scene.session();
    for key in 0..KEYS {
        assert_eq!(get(&mut session, KEYSPACE_DEFAULT, &key.to_le_bytes()), None, "key {key}");
    }
}

/// Operands are merged; what expires below operands still does.
#[test]
fn operands_are_kept_by_compactions() {
    let scene = Scene::new(true);
    let settings =
        KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..KeyspaceSettings::default() };
    let appended = scene.database.create_keyspace("appended", settings).expect("create");
    let mut session = scene.session();
    let later = scene.clock.unix_ms() + 60_000;
    let expiring = WriteOptions { expires_at_ms: later, ..WriteOptions::default() };
    session.put(appended, b"base", b"a", WriteOptions::default()).expect("put");
    session.put(appended, b"expiring", b"a", expiring).expect("put");
    for round in 0..20_u64 {
        for key in ["base", "alone", "expiring"] {
            session
                .merge(appended, key.as_bytes(), &[b'b' + round as u8], WriteOptions::default())
                .expect("merge");
        }
        (0..8000).for_each(|key| put(&mut session, key, round));
    }
    drop(session);
    scene.settle();
    let operands: Vec<u8> = (0..20).map(|round| b'b' + round).collect();
    let whole = [b"a", operands.as_slice()].concat();
    let check = |scene: &Scene, expected: [(&str, &[u8]); 3]| {
        let mut session = scene.session();
        for (key, expected) in expected {
            let found = get(&mut session, appended, key.as_bytes());
            assert_eq!(found.as_deref(), Some(expected), "{key}");
        }
    };
    check(&scene, [("base", &whole), ("alone", &operands), ("expiring", &whole)]);
    let scene = scene.reopened();
    check(&scene, [("base", &whole), ("alone", &operands), ("expiring", &whole)]);
    scene.clock.advance(Duration::from_secs(61));
    check(&scene, [("base", &whole), ("alone", &operands), ("expiring", &operands)]);
}

/// What a snapshot sees stays until it is given up; a filter drops what none sees.
#[test]
fn snapshots_and_filters_are_heeded() {
    let scene = Scene::new(true);
    let settings =
        KeyspaceSettings { compaction_filter: Some(FILTER_DROP.to_owned()), ..KeyspaceSettings::default() };
    let filtered = scene.database.create_keyspace("filtered", settings).expect("create");
    let mut session = scene.session();
    session.put(filtered, b"key", b"drop it", WriteOptions::default()).expect("put");
    session.put(filtered, b"kept", b"keep it", WriteOptions::default()).expect("put");
    (0..8000).for_each(|key| put(&mut session, key, 0));
    let snapshot = scene.database.snapshot().expect("snapshot");
    for round in 1..10 {
        (0..8000).for_each(|key| put(&mut session, key, round));
    }
    scene.settle();
    for key in 0..8000_u64 {
        let found =
            session.get(ReadAt::Snapshot(&snapshot), KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
        assert!(found == Some(value(key, 0)), "key {key} has {found:?} in the snapshot");
    }
    assert_eq!(
        session.get(ReadAt::Snapshot(&snapshot), filtered, b"key").expect("get").as_deref(),
        Some(&b"drop it"[..])
    );
    drop(snapshot);
    (0..8000).for_each(|key| put(&mut session, key, 10));
    scene.settle();
    let bytes = scene.bytes(".hybrid");
    assert!(bytes < 8 * MIB, "{bytes} bytes after the snapshot has gone");
    assert_eq!(get(&mut session, filtered, b"key"), None, "the filter has dropped it");
    assert_eq!(get(&mut session, filtered, b"kept").as_deref(), Some(&b"keep it"[..]));
}

/// Values that lie alone go when they are replaced, and stay as long as a snapshot sees them.
#[test]
fn values_that_lie_alone_go_when_they_are_replaced() {
    const LONG: usize = 300 << 10;
    let scene = Scene::new(true);
    let mut session = scene.session();
    let long = |round: u8| vec![round; LONG];
    let put = |session: &mut Blocking<dyn Session>, key: &str, round: u8| {
        let options = WriteOptions::default();
        session.put(KEYSPACE_DEFAULT, key.as_bytes(), &long(round), options).expect("put");
    };
    put(&mut session, "a", 0);
    put(&mut session, "b", 0);
    let snapshot = scene.database.snapshot().expect("snapshot");
    for round in 1..20 {
        put(&mut session, "a", round);
    }
    session.delete(KEYSPACE_DEFAULT, b"b", WriteOptions::default()).expect("delete");
    scene.settle();
    assert!(scene.bytes(".value") <= 3 * LONG as u64, "{} bytes", scene.bytes(".value"));
    for key in ["a", "b"] {
        let found = session.get(ReadAt::Snapshot(&snapshot), KEYSPACE_DEFAULT, key.as_bytes()).expect("get");
        assert!(found == Some(long(0)), "{key} in the snapshot");
    }
    drop(snapshot);
    scene.settle();
    assert_eq!(scene.bytes(".value"), LONG as u64);
    assert!(get(&mut session, KEYSPACE_DEFAULT, b"a") == Some(long(19)));
    assert_eq!(get(&mut session, KEYSPACE_DEFAULT, b"b"), None);
    drop(session);
    let scene = scene.reopened();
    assert!(get(&mut scene.session(), KEYSPACE_DEFAULT, b"a") == Some(long(19)), "opened again");
    assert_eq!(scene.bytes(".value"), LONG as u64);
}

/// Batches that come to the end of the last free page together wait for the next one, and get it.
#[test]
fn batches_alone_turn_pages() {
    let scene = Scene::new(true);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let scene = &scene;
            scope.spawn(move || {
                let mut session = scene.session();
                for round in 0..200 {
                    let mut batch = firn_engine::Batch::new();
                    for key in 0..200_u64 {
                        batch.put(KEYSPACE_DEFAULT, &(thread << 32 | key).to_le_bytes(), &value(key, round));
                    }
                    session.write(&batch, WriteOptions::default()).expect("write");
                }
            });
        }
    });
    let mut session = scene.session();
    for thread in 0..3_u64 {
        for key in 0..200_u64 {
            let found = get(&mut session, KEYSPACE_DEFAULT, &(thread << 32 | key).to_le_bytes());
            assert!(found == Some(value(key, 199)), "key {key} of {thread}");
        }
    }
}

/// A record that was copied, and could not go before the process ended, leads to the value of its
/// copy: it is compacted again, and the value stays.
#[test]
fn a_value_stays_whose_record_is_compacted_twice() {
    let long = vec![9; 300 << 10];
    let scene = Scene::new(true);
    let mut session = scene.session();
    session.put(KEYSPACE_DEFAULT, b"long", &long, WriteOptions::default()).expect("put");
    (0..8000).for_each(|key| put(&mut session, key, 0));
    scene.database.flush().expect("flush");
    let snapshot = scene.database.snapshot().expect("snapshot");
    for round in 1..6 {
        (0..8000).for_each(|key| put(&mut session, key, round));
        scene.settle();
    }
    assert!(scene.database.stats().hash.is_some_and(|hash| hash.compaction_copy_bytes_total > 0));
    drop(session);
    let scene = {
        let (memory, clock) = (scene.memory.clone(), scene.clock.clone());
        scene.database.close().expect("close");
        drop((snapshot, scene));
        let database = open(Arc::new(memory.clone()), clock.clone(), true, tiny()).expect("open again");
        Scene { memory, clock, database }
    };
    let mut session = scene.session();
    for round in 6..12 {
        (0..8000).for_each(|key| put(&mut session, key, round));
        scene.settle();
    }
    assert!(get(&mut session, KEYSPACE_DEFAULT, b"long") == Some(long));
    assert!(!scene.memory.list().expect("list").iter().any(|(name, _)| name == "0000000000000000.hybrid"));
}

/// The value of a dead record is gone, and its number stays that record's until compaction has met
/// it: a value that came later is another one.
#[test]
fn a_value_stays_whose_number_a_dead_record_might_have() {
    let mut scene = Scene::new(false);
    let long = |byte: u8| vec![byte; 200_000];
    let put_long = |scene: &Scene, key: &[u8], byte| {
        let written = scene.session().put(KEYSPACE_DEFAULT, key, &long(byte), WriteOptions::default());
        written.expect("put");
    };
    put_long(&scene, b"dead", 1);
    scene.session().delete(KEYSPACE_DEFAULT, b"dead", WriteOptions::default()).expect("delete");
    scene.database.flush().expect("flush");
    assert_eq!(scene.bytes(".value"), 0, "it is gone");
    scene = scene.reopened();
    put_long(&scene, b"later", 2);
    scene.database.flush().expect("flush");
    // The log is written over until the dead record is compacted, and its segment gone.
    let mut session = scene.session();
    for round in 0..20 {
        (0..3000).for_each(|key| put(&mut session, key, round));
        scene.settle();
    }
    let stats = scene.database.stats().hash.expect("of this engine");
    assert!(stats.compaction_read_bytes_total > 4 * MIB, "{stats:?}");
    let found = get(&mut session, KEYSPACE_DEFAULT, b"later");
    assert!(found == Some(long(2)), "{:?}", found.map(|value| value.len()));
}

/// Long values that expired, or whose keyspace was dropped, go with their records.
#[test]
fn long_values_that_die_without_being_overwritten_go() {
    let scene = Scene::new(false);
    let mut session = scene.session();
    let other = scene.database.create_keyspace("other", KeyspaceSettings::default()).expect("create");
    let soon = WriteOptions { expires_at_ms: scene.clock.unix_ms() + 1000, ..WriteOptions::default() };
    let long = vec![1; 200_000];
    session.put(KEYSPACE_DEFAULT, b"soon", &long, soon).expect("put");
    session.put(other, b"dropped", &long, WriteOptions::default()).expect("put");
    session.put(KEYSPACE_DEFAULT, b"stays", &long, WriteOptions::default()).expect("put");
    scene.database.flush().expect("flush");
    scene.clock.advance(Duration::from_secs(3600));
    scene.database.drop_keyspace(other).expect("drop");
    assert_eq!(scene.bytes(".value"), 600_000);
    for round in 0..20 {
        (0..3000).for_each(|key| put(&mut session, key, round));
        scene.settle();
    }
    assert_eq!(scene.bytes(".value"), 200_000, "one of them lives");
    assert_eq!(get(&mut session, KEYSPACE_DEFAULT, b"stays"), Some(long));
}

/// Long values of writes that lose a race, or are refused, take no space.
#[test]
fn a_write_that_is_not_made_leaves_no_value() {
    let scene = Scene::new(false);
    let long = vec![1; 200_000];
    let (mut session, mut other) = (scene.session(), scene.session());
    put(&mut session, 0, 0);
    let mut races = 3;
    let new = long.clone();
    let options = WriteOptions::default();
    let update = session.update(KEYSPACE_DEFAULT, &0_u64.to_le_bytes(), options, move |_| {
        if races > 0 {
            races -= 1;
            put(&mut other, 0, races);
        }
        (Change::Put(new.clone()), ())
    });
    update.expect("updated");
    assert_eq!(scene.bytes(".value"), 200_000, "the last try's");
    let snapshot = scene.database.snapshot().expect("a snapshot");
    let mut reads = ReadSet::new(snapshot);
    reads.add(KEYSPACE_DEFAULT, &1_u64.to_le_bytes()).expect("a key");
    put(&mut session, 1, 0);
    let mut batch = Batch::new();
    batch.put(KEYSPACE_DEFAULT, b"long", &long);
    batch.put(KEYSPACE_DEFAULT, b"short", b"1");
    let refused = session.write_if(&batch, reads, options).expect_err("the key was written since");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused:?}");
    assert_eq!(scene.bytes(".value"), 200_000, "the batch's is gone");
    assert_eq!(get(&mut session, KEYSPACE_DEFAULT, &0_u64.to_le_bytes()), Some(long));
}
