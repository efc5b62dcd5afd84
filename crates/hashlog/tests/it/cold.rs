//! Keys beyond the memory of the index: they are found in the cold log, and take no entry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::settings::MIB;
use firn_engine::{
    BatchLimit, Change, Engine, ErrorKind, HashBatch, HashCursor, HashScan, HashStats, Hashed,
    KEYSPACE_DEFAULT, KeyspaceSettings, Outcome, ReadAt, Rmw, RmwAnswer, Session, WriteOptions,
};
use firn_hashlog::{HashLog, Settings, verify};
use firn_storage::backend::{Crash, Memory};
use firn_storage::{ManualClock, Storage};

use crate::support::{open, tiny};

/// An index of a mebibyte and a half has room for some eighty thousand keys.
fn few_entries() -> Settings {
    tiny().with_engine(|hash| hash.index_bytes_max = MIB + MIB / 2)
}

struct Scene {
    memory: Memory,
    clock: Arc<ManualClock>,
    database: Arc<HashLog>,
    has_threads: bool,
}

impl Scene {
    fn new(has_threads: bool) -> Self {
        let (memory, clock) = (Memory::new(), Arc::new(ManualClock::new(1_000_000)));
        let database =
            open(Arc::new(memory.clone()), clock.clone(), has_threads, few_entries()).expect("open");
        Self { memory, clock, database, has_threads }
    }

    fn session(&self) -> Blocking<dyn Session> {
        Blocking::new(self.database.session())
    }

    fn stats(&self) -> HashStats {
        self.database.stats().hash.expect("of this engine")
    }

    fn reopened(self) -> Self {
        let Self { memory, clock, database, has_threads } = self;
        database.close().expect("close");
        drop(database);
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        let report = verify(&storage, &mut |_| {}).expect("verified");
        assert!(report.is_sound(), "{:?}", report.findings);
        let opened = open(Arc::new(memory.clone()), clock.clone(), has_threads, few_entries());
        Self { memory, clock, database: opened.expect("open again"), has_threads }
    }

    /// As after a kill: what the process wrote is there, and nothing was closed.
    fn killed(self) -> Self {
        let Self { memory, clock, database, has_threads } = self;
        let copy = memory.crash(Crash::Kill);
        drop(database);
        let database =
            open(Arc::new(copy.clone()), clock.clone(), has_threads, few_entries()).expect("open again");
        Self { memory: copy, clock, database, has_threads }
    }

    /// What a scan returns, each key once.
    fn scanned(&self) -> BTreeMap<u64, Vec<u8>> {
        let mut session = self.database.hashed_session();
        session.set_inline(true);
        let (mut found, mut batch, mut next) = (BTreeMap::new(), HashBatch::new(), Some(HashCursor::START));
        while let Some(from) = next {
            let limit = BatchLimit { records: 500, ..BatchLimit::default() };
            let scan = HashScan { keyspace: KEYSPACE_DEFAULT, from, limit, has_values: true };
            let scanned = session.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("scan");
            assert!(matches!(scanned, Outcome::Done(())), "an inline session never waits");
            for (key, value) in batch.records().records() {
                let key = u64::from_le_bytes(key.try_into().expect("eight bytes"));
                let value = value.to_vec();
                assert_eq!(found.insert(key, value), None, "key {key} twice");
            }
            next = batch.next();
        }
        found
    }

    fn check(&self, expected: &BTreeMap<u64, Vec<u8>>, keys: u64, when: &str) {
        let mut session = self.session();
        for key in 0..keys {
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
            assert_eq!(found.as_ref(), expected.get(&key), "{when}: key {key}");
        }
        drop(session);
        assert_eq!(&self.scanned(), expected, "{when}: scanned");
    }
}

fn value(key: u64, round: u64) -> Vec<u8> {
    [key, round].map(u64::to_le_bytes).concat().repeat(5)
}

/// Writes of every kind to many more keys than the index has room for.
fn written(scene: &Scene, keys: u64) -> BTreeMap<u64, Vec<u8>> {
    let (mut expected, mut session) = (BTreeMap::new(), scene.session());
    let default = WriteOptions::default();
    let mut put = |session: &mut Blocking<dyn Session>, key: u64, round: u64, options| {
        let key_bytes = key.to_le_bytes();
        session.put(KEYSPACE_DEFAULT, &key_bytes, &value(key, round), options).expect("put");
        expected.insert(key, value(key, round));
    };
    for key in 0..keys {
        put(&mut session, key, 0, default);
    }
    // Some of the first keys, which are cold by now, are written again, or expire.
    for key in (0..keys).step_by(7) {
        put(&mut session, key, 1, default);
    }
    let expiring = WriteOptions { expires_at_ms: 1_010_000, ..default };
    for key in (3..keys).step_by(50) {
        put(&mut session, key, 2, expiring);
    }
    for key in (1..keys).step_by(11) {
        session.delete(KEYSPACE_DEFAULT, &key.to_le_bytes(), default).expect("delete");
        expected.remove(&key);
    }
    for key in (2..keys).step_by(13) {
        let (key_bytes, seen) = (key.to_le_bytes(), expected.get(&key).cloned());
        let new = value(key, 3);
        let update = move |found: Option<&[u8]>| {
            assert_eq!(found, seen.as_deref(), "an update of key {key} saw another value");
            (Change::Put(new.clone()), ())
        };
        session.update(KEYSPACE_DEFAULT, &key_bytes, default, update).expect("update");
        expected.insert(key, value(key, 3));
    }
    expected
}

fn keys_beyond_memory_are_found(has_threads: bool, keys: u64) {
    let scene = Scene::new(has_threads);
    let mut expected = BTreeMap::new();
    let mut session = scene.session();
    for key in 0..keys {
        session
            .put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, 0), WriteOptions::default())
            .expect("put");
        expected.insert(key, value(key, 0));
    }
    drop(session);
    scene.check(&expected, keys, "while it is open");
    let stats = scene.stats();
    assert!(stats.index_bytes + stats.cold.memory_bytes <= 2 * MIB, "{stats:?}");
    assert!(stats.cold.run_entry_count > keys / 4, "{stats:?}");
    // The delta may have the keys of a segment.
    let run_bytes = stats.cold.memory_bytes.saturating_sub(32 * 12_000);
    assert!(
        run_bytes < 2 * stats.cold.run_entry_count,
        "{run_bytes} bytes of memory for cold keys: {stats:?}"
    );
    let scene = scene.reopened();
    scene.check(&expected, keys, "opened again");
    scene.killed().check(&expected, keys, "killed");
}

#[test]
fn keys_beyond_memory_are_found_with_threads() {
    keys_beyond_memory_are_found(true, 250_000);
}

#[test]
fn keys_beyond_memory_are_found_without_threads() {
    keys_beyond_memory_are_found(false, 150_000);
}

/// Overwritten, deleted, expired and updated keys are what was written last, whatever of them is
/// cold, also when all of it has become cold.
#[test]
fn what_is_written_over_cold_keys_counts() {
    const KEYS: u64 = 120_000;
    let scene = Scene::new(true);
    let mut expected = written(&scene, KEYS);
    scene.check(&expected, KEYS, "written");
    scene.clock.advance(Duration::from_secs(100));
    expected.retain(|key, value| *value != self::value(*key, 2));
    scene.check(&expected, KEYS, "expired");
    // Other keys push all of these into the cold log.
    let mut session = scene.session();
    for key in KEYS..2 * KEYS {
        session
            .put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, 0), WriteOptions::default())
            .expect("put");
        expected.insert(key, value(key, 0));
    }
    drop(session);
    scene.check(&expected, 2 * KEYS, "cold");
    let scene = scene.reopened();
    scene.check(&expected, 2 * KEYS, "opened again");
    scene.killed().check(&expected, 2 * KEYS, "killed");
}

/// Counters that are cold by the time when they are added to again have exact sums.
#[test]
fn sums_of_cold_counters_are_exact() {
    const KEYS: u64 = 100_000;
    const ROUNDS: i64 = 4;
    let scene = Scene::new(true);
    let mut sessions: Vec<_> = (0..2).map(|_| scene.session()).collect();
    std::thread::scope(|scope| {
        for session in &mut sessions {
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    for key in 0..KEYS {
                        let key = key.to_le_bytes();
                        let added = session.rmw(KEYSPACE_DEFAULT, &key, Rmw::Add(3), WriteOptions::default());
                        added.expect("add");
                    }
                }
            });
        }
    });
    let session = &mut sessions[0];
    for key in 0..KEYS {
        let added = session.rmw(KEYSPACE_DEFAULT, &key.to_le_bytes(), Rmw::Add(0), WriteOptions::default());
        assert_eq!(added.expect("add"), RmwAnswer::Sum(2 * 3 * ROUNDS), "key {key}");
    }
    assert!(scene.stats().cold.segment_count > 0, "some were cold: {:?}", scene.stats());
}

/// Cold keys that are overwritten again and again take the space of what lives: all of them in one
/// order, or a third of them in another, so that the log has newer records of many cold ones.
#[test]
fn the_cold_log_gives_its_space_back() {
    const KEYS: u64 = 110_000;
    const ROUNDS: u64 = 6;
    for (step, rounds) in [(1, ROUNDS), (3, 3 * ROUNDS)] {
        let (scene, mut expected) = (Scene::new(true), BTreeMap::new());
        let mut session = scene.session();
        let mut put = |key: u64, round: u64| {
            let value = value(key, round);
            session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value, WriteOptions::default()).expect("put");
            expected.insert(key, value);
        };
        (0..KEYS).for_each(|key| put(key, 0));
        for round in 1..rounds {
            (0..KEYS / step).for_each(|number| put(number * 7919 % (KEYS / step) * step, round));
        }
        drop(session);
        scene.database.flush().expect("flush");
        scene.database.wait_idle().expect("idle");
        scene.check(&expected, KEYS, "overwritten");
        let files = scene.memory.list().expect("list");
        let is_log = |name: &str| name.ends_with(".hybrid") || name.ends_with(".cold");
        let bytes: u64 = files.iter().filter(|(name, _)| is_log(name)).map(|(_, bytes)| bytes).sum();
        let live = KEYS * 112;
        assert!(bytes < live / 2 * 3 + MIB, "step {step}: {bytes} bytes for {live}: {files:?}");
    }
}

/// A byte of a run or of a cold segment that changed is named by a verification. Readers get the
/// right value or an error that names the file, never another value and never *not found*.
#[test]
fn damage_of_what_is_cold_is_named() {
    const KEYS: u64 = 150_000;
    let scene = Scene::new(false);
    let mut session = scene.session();
    for key in 0..KEYS {
        session
            .put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, 0), WriteOptions::default())
            .expect("put");
    }
    drop(session);
    let Scene { memory, clock, database, .. } = scene;
    database.close().expect("close");
    drop(database);
    let (mut flipped, mut named) = (0, 0);
    let files = memory.list().expect("list");
    for (name, bytes) in
        files.iter().filter(|(name, _)| name.ends_with(".cold") || name.ends_with(".coldrun"))
    {
        for at in [40, 5000, bytes - 9] {
            let damaged = memory.crash(Crash::Kill);
            let file = damaged.open_write(name).expect("open");
            let mut byte = [0];
            file.read_at(at, &mut byte).expect("read");
            file.write_at(at, &[byte[0] ^ 4]).expect("write");
            drop(file);
            let storage: Arc<dyn Storage> = Arc::new(damaged.clone());
            let report = verify(&storage, &mut |_| {}).expect("verified");
            flipped += 1;
            named += usize::from(report.findings.iter().any(|finding| finding.file == *name));
            let database = match open(Arc::new(damaged), clock.clone(), false, few_entries()) {
                Ok(database) => database,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{name} at {at}: {error}");
                    assert!(error.to_string().contains(name.as_str()), "{name} at {at}: {error}");
                    continue;
                }
            };
            let mut session = Blocking::new(database.session());
            for key in (0..KEYS).step_by(29) {
                match session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()) {
                    Ok(found) => assert_eq!(found, Some(value(key, 0)), "{name} at {at}: key {key}"),
                    Err(error) => {
                        assert!(error.to_string().contains(name.as_str()), "{name} at {at}: {error}");
                    }
                }
            }
        }
    }
    assert!(flipped > 20 && flipped == named, "{named} of {flipped} were named");
}

/// A cold key that is read again is read from memory, as a copy of its own, and what is written
/// then is found.
#[test]
fn cold_keys_that_are_read_again_are_read_from_memory() {
    const KEYS: u64 = 200_000;
    let scene = Scene::new(true);
    let mut session = scene.session();
    for key in 0..KEYS {
        session
            .put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, 0), WriteOptions::default())
            .expect("put");
    }
    scene.database.flush().expect("flush");
    scene.database.wait_idle().expect("idle");
    let cold: Vec<u64> = (0..50_000).step_by(50).collect();
    let mut misses = Vec::new();
    for round in 0..3 {
        let before = scene.database.stats().read_miss_count;
        for key in &cold {
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
            assert_eq!(found, Some(value(*key, 0)), "key {key}, round {round}");
        }
        misses.push(scene.database.stats().read_miss_count - before);
    }
    assert!(misses[0] >= cold.len() as u64 && misses[2] * 10 < misses[0], "{misses:?}");
    for (number, key) in cold.iter().enumerate() {
        let (key, key_bytes) = (*key, key.to_le_bytes());
        match number % 3 {
            0 => {
                let new = value(key, 1);
                session.put(KEYSPACE_DEFAULT, &key_bytes, &new, WriteOptions::default()).expect("put");
            }
            1 => {
                session.delete(KEYSPACE_DEFAULT, &key_bytes, WriteOptions::default()).expect("delete");
            }
            _ => {
                let (old, new) = (value(key, 0), value(key, 1));
                let update = move |found: Option<&[u8]>| {
                    assert_eq!(found, Some(old.as_slice()), "key {key}");
                    (Change::Put(new.clone()), ())
                };
                session
                    .update(KEYSPACE_DEFAULT, &key_bytes, WriteOptions::default(), update)
                    .expect("update");
            }
        }
    }
    for (number, key) in cold.iter().enumerate() {
        let expected = (number % 3 != 1).then(|| value(*key, 1));
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
        assert_eq!(found, expected, "key {key}");
    }
}

/// Large values that become cold, are deleted, and whose tombstones become cold too: what finds
/// them goes with them, and background work ends.
#[test]
fn cold_records_that_go_before_a_run_has_them_take_no_memory() {
    let settings = tiny().with_engine(|hash| hash.index_bytes_max = 64 << 10);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let database = open(Arc::new(Memory::new()), clock, false, settings).expect("open");
    let mut session = Blocking::new(database.session());
    let options = WriteOptions::default();
    let value = vec![1; 100_000];
    // What is overwritten has the rest become cold.
    let settle = |session: &mut Blocking<dyn Session>, round: u64| {
        for _ in 0..40 {
            session.put(KEYSPACE_DEFAULT, b"overwritten", &value, options).expect("put");
        }
        let mut steps = 0;
        while database.step().expect("a step") {
            steps += 1;
            assert!(steps < 100, "round {round} does not end: {:?}", database.stats().hash);
        }
    };
    for round in 0..30_u64 {
        let keys: Vec<_> = (0..20).map(|key| (1000 * round + key).to_le_bytes()).collect();
        for key in &keys {
            session.put(KEYSPACE_DEFAULT, key, &value, options).expect("put");
        }
        settle(&mut session, round);
        for key in &keys {
            session.delete(KEYSPACE_DEFAULT, key, options).expect("delete");
        }
        settle(&mut session, round);
        let stats = database.stats().hash.expect("of this engine");
        assert!(stats.cold.memory_bytes <= 32 * 41, "round {round} has at most 41 keys: {stats:?}");
    }
}

/// What expires, or whose keyspace is dropped, after it has become cold gives its space back, also
/// what was cold before an opening.
#[test]
fn cold_keys_that_expire_or_are_dropped_give_their_space_back() {
    const KEYS: u64 = 150_000;
    for (is_dropped, is_reopened) in [(false, false), (false, true), (true, true)] {
        let mut scene = Scene::new(true);
        let keyspace = scene.database.create_keyspace("leaves", KeyspaceSettings::default()).expect("create");
        let mut session = scene.session();
        let options =
            WriteOptions { expires_at_ms: if is_dropped { 0 } else { 2_000_000 }, ..WriteOptions::default() };
        for key in 0..KEYS {
            session.put(keyspace, &key.to_le_bytes(), &value(key, 0), options).expect("put");
        }
        drop(session);
        scene.database.flush().expect("flush");
        scene.database.wait_idle().expect("idle");
        let cold = |scene: &Scene| scene.stats().cold.segment_bytes;
        let before = cold(&scene);
        if is_reopened {
            scene = scene.reopened();
        }
        match is_dropped {
            true => scene.database.drop_keyspace(keyspace).expect("drop"),
            false => scene.clock.advance(Duration::from_secs(3600)),
        }
        // A little is written, as it goes on anywhere.
        let mut session = scene.session();
        for key in 0..1000u64 {
            let put =
                session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, 0), WriteOptions::default());
            put.expect("put");
        }
        drop(session);
        scene.database.flush().expect("flush");
        scene.database.wait_idle().expect("idle");
        let after = cold(&scene);
        assert!(before > 4 * MIB && after <= 3 * MIB, "{before} bytes were cold, {after} are: {is_reopened}");
    }
}
