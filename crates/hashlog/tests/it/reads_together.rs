//! Several keys read at once, most of them not in memory: each has what it has when it is read by
//! itself, and the device is asked for many of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::blocking::Blocking;
use firn_engine::conformance::APPEND;
use firn_engine::settings::MIB;
use firn_engine::{
    Batch, Completion, Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Outcome, ReadAt,
    Session, Values, WriteOptions,
};
use firn_hashlog::HashLog;
use firn_storage::backend::{ASKED_MAX, Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{ManualClock, Storage};

use crate::asking::Asking;
use crate::support::{open, tiny};

/// Keys whose records are several times what memory has.
const KEYS: u64 = 150_000;

/// With an index for half of the keys: the others are in the cold log.
const FEW_ENTRIES: u64 = MIB + MIB / 2;
/// For all: all are in the log.
const MANY_ENTRIES: u64 = 8 * MIB;

fn opened(storage: Arc<dyn Storage>, index_bytes_max: u64) -> Arc<HashLog> {
    opened_with(storage, index_bytes_max, 0)
}

fn opened_with(storage: Arc<dyn Storage>, index_bytes_max: u64, read_cache_bytes: u64) -> Arc<HashLog> {
    let settings = tiny().with_engine(|hash| {
        hash.index_bytes_max = index_bytes_max;
        hash.read_cache_bytes = read_cache_bytes;
    });
    open(storage, Arc::new(ManualClock::new(1_000_000)), true, settings).expect("open")
}

fn value(key: u64) -> Vec<u8> {
    match key {
        // Longer than what is read first; longer than what goes together; one that lies alone.
        key if key % 1000 == 1 => vec![key as u8; 3000],
        key if key % 5000 == 2 => vec![key as u8; 100_000],
        key if key % 50_000 == 3 => vec![key as u8; 300_000],
        key => [key.to_le_bytes().as_slice(), &[key as u8; 150]].concat(),
    }
}

fn merging(database: &HashLog) -> KeyspaceId {
    let settings = KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..Default::default() };
    database.create_keyspace("merging", settings).expect("a keyspace")
}

/// Values, operands, tombstones and values that have expired, of all ages: in memory, in the log
/// and in the cold log.
fn written(database: &Arc<HashLog>) -> KeyspaceId {
    let keyspace = merging(database);
    let mut session = Blocking::new(database.session());
    let (default, expired) =
        (WriteOptions::default(), WriteOptions { expires_at_ms: 999_999, ..Default::default() });
    for key in 0..KEYS {
        let options = if key % 11 == 5 { expired } else { default };
        session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key), options).expect("put");
        if key % 30 == 0 {
            session.put(keyspace, &key.to_le_bytes(), b"base", default).expect("put");
        }
        if key % 13 == 12 {
            session.delete(KEYSPACE_DEFAULT, &(key / 2).to_le_bytes(), default).expect("delete");
        }
        if key % 40 == 0 && key > KEYS / 2 {
            session.merge(keyspace, &(key - KEYS / 2).to_le_bytes(), b"+", default).expect("merge");
        }
    }
    database.flush().expect("flush");
    database.wait_idle().expect("idle");
    keyspace
}

fn session(database: &Arc<HashLog>) -> Box<dyn Session> {
    let mut session = database.session();
    session.set_inline(true);
    session
}

/// Keys drawn from all of them, and some beyond, which are nowhere.
fn drawn(random: &mut fastrand::Rng, count: usize) -> Vec<[u8; 8]> {
    (0..count).map(|_| random.u64(..KEYS + KEYS / 8).to_le_bytes()).collect()
}

/// What `keys` have.
fn read(session: &mut Box<dyn Session>, keyspace: KeyspaceId, keys: &[[u8; 8]]) -> Values {
    let mut out = Values::new();
    read_at(session, (ReadAt::Latest, keyspace), keys, &mut out);
    out
}

fn read_at(
    session: &mut Box<dyn Session>,
    (at, keyspace): (ReadAt<'_>, KeyspaceId),
    keys: &[[u8; 8]],
    out: &mut Values,
) {
    let read = session.multi_get(at, keyspace, &slices(keys), out).expect("multi_get");
    assert!(matches!(read, Outcome::Done(())), "an inline session never waits");
}

fn slices(keys: &[[u8; 8]]) -> Vec<&[u8]> {
    keys.iter().map(|key| key.as_slice()).collect()
}

#[test]
fn each_key_has_what_it_has_by_itself() {
    for index_bytes_max in [FEW_ENTRIES, MANY_ENTRIES] {
        let database = opened(Arc::new(Memory::new()), index_bytes_max);
        let merging = written(&database);
        let stats = database.stats().hash.expect("its part");
        let is_cold = stats.cold.run_write_bytes_total > 0;
        assert_eq!(is_cold, index_bytes_max == FEW_ENTRIES, "{stats:?}");
        compare(&database, merging);
    }
}

/// Reads of many keys with reads of each.
fn compare(database: &Arc<HashLog>, merging: KeyspaceId) {
    let snapshot = database.snapshot().expect("snapshot");
    let mut session = session(database);
    let mut random = fastrand::Rng::with_seed(3);
    let (mut out, mut one, mut found) = (Values::new(), Vec::new(), [0usize; 2]);
    for count in [0, 1, 2, 16, 64, 65, 300] {
        for round in 0..12 {
            let at = if round % 3 == 2 { ReadAt::Snapshot(&snapshot) } else { ReadAt::Latest };
            let keyspace = if round % 4 == 1 { merging } else { KEYSPACE_DEFAULT };
            let keys = drawn(&mut random, count);
            read_at(&mut session, (at, keyspace), &keys, &mut out);
            assert_eq!(out.len(), count);
            for (index, key) in keys.iter().enumerate() {
                let is_there = session.get(at, keyspace, key, &mut one).expect("get").done() == Some(true);
                let expected = is_there.then_some(one.as_slice());
                assert!(out.get(index) == expected, "key {key:?}, round {round} of {count}");
                found[usize::from(is_there)] += 1;
                if keyspace == KEYSPACE_DEFAULT && round % 3 != 2 {
                    let is_stored = session.is_stored(keyspace, key).expect("is_stored").done();
                    assert_eq!(is_stored, Some(out.is_stored(index)), "key {key:?}");
                }
            }
        }
    }
    assert!(found.iter().all(|found| *found > 500), "{found:?}");
}

#[test]
fn values_stop_where_enough_was_read() {
    let database = opened(Arc::new(Memory::new()), FEW_ENTRIES);
    written(&database);
    let mut session = session(&database);
    let mut random = fastrand::Rng::with_seed(4);
    for bytes_max in [1, 150, 2000, 40_000] {
        let keys = drawn(&mut random, 400);
        let (mut all, mut some) = (Values::new(), Values::with_bytes_max(bytes_max));
        for out in [&mut all, &mut some] {
            read_at(&mut session, (ReadAt::Latest, KEYSPACE_DEFAULT), &keys, out);
        }
        assert!(some.iter().eq(all.iter().take(some.len())));
        let bytes = |count: usize| all.iter().take(count).flatten().map(<[u8]>::len).sum::<usize>();
        assert!(some.is_full() && bytes(some.len() - 1) < bytes_max, "{} of {bytes_max}", some.len());
    }
}

#[test]
fn the_device_is_asked_for_many_together() {
    let asking = Asking::new(Arc::new(Memory::new()));
    let database = opened(Arc::new(asking.clone()), FEW_ENTRIES);
    written(&database);
    let mut session = session(&database);
    // Keys that are in runs, so that each takes a page and a record.
    let keys: Vec<[u8; 8]> = (0..64u64).map(|number| (number * 110 + 4).to_le_bytes()).collect();
    assert!(asking.take().all > 0, "compaction reads");
    let _values = read(&mut session, KEYSPACE_DEFAULT, &keys);
    let reads = asking.take();
    assert!(reads.all >= 100 && reads.under_way == ASKED_MAX, "{reads:?}");
    // The last one of a few may have no other beside it.
    assert!(reads.asked + 4 >= reads.all, "{reads:?}");
    // One by one nothing is asked for: it is read at once.
    for key in &keys {
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key, &mut Vec::new()).expect("get");
        assert!(found.done().is_some());
    }
    let reads = asking.take();
    assert!(reads.all >= 100 && reads.asked == 0, "{reads:?}");
}

#[test]
fn a_read_that_fails_fails_all_of_them_and_the_next_call_finds_them() {
    for index_bytes_max in [FEW_ENTRIES, MANY_ENTRIES] {
        let faulty = Faulty::new(Arc::new(Memory::new()));
        let database = opened(Arc::new(faulty.clone()), index_bytes_max);
        written(&database);
        let files: &[&str] = match index_bytes_max {
            FEW_ENTRIES => &["*.coldrun", "*.cold"],
            _ => &["*.hybrid"],
        };
        for file in files {
            fail_once(&faulty, &database, file, 0);
            fail_once(&faulty, &database, file, 17);
        }
    }
}

/// Has a read of `file` fail after so many others.
fn fail_once(faulty: &Faulty, database: &Arc<HashLog>, file: &str, after: u64) {
    let mut session = session(database);
    let mut random = fastrand::Rng::with_seed(5);
    let effect = Effect::Fail(firn_storage::ErrorKind::Refused);
    let (on, when) = (Operation::Read, When::Once { after });
    let struck = faulty.struck_count();
    faulty.inject(Fault { on, file: file.to_owned(), when, effect });
    let mut calls = 0;
    while faulty.struck_count() == struck {
        assert!(calls < 100, "{file} is not read");
        calls += 1;
        let (keys, mut out) = (drawn(&mut random, 200), Values::new());
        let result = session.multi_get(ReadAt::Latest, KEYSPACE_DEFAULT, &slices(&keys), &mut out);
        if faulty.struck_count() == struck {
            assert!(result.is_ok_and(|read| matches!(read, Outcome::Done(()))));
            continue;
        }
        let error = result.expect_err("the device failed");
        assert_eq!(error.kind(), ErrorKind::Retry, "{file}: {error:?}");
        assert!(format!("{error:?}").contains(&file[1..]), "{file}: {error:?}");
        assert_eq!(read(&mut session, KEYSPACE_DEFAULT, &keys).len(), 200);
    }
    faulty.clear_faults();
}

/// Waits for what `outcome` says is pending; `false` if nothing was.
fn settled(session: &mut Box<dyn Session>, outcome: &Outcome<()>) -> bool {
    let Outcome::Pending(ticket) = outcome else { return false };
    let mut is_there = false;
    while !is_there {
        session.poll(&mut |which, completion| {
            assert!(which == *ticket && matches!(completion, Completion::Value(None)), "{completion:?}");
            is_there = true;
        });
        session.wait(None);
    }
    true
}

/// A session that may not wait has what several keys need read, and then finds it at once.
#[test]
fn what_was_loaded_is_read_at_once() {
    for index_bytes_max in [FEW_ENTRIES, MANY_ENTRIES] {
        let asking = Asking::new(Arc::new(Memory::new()));
        let database = opened_with(Arc::new(asking.clone()), index_bytes_max, MIB);
        written(&database);
        let is_deleted = |key: u64| (2 * key) % 13 >= 11;
        let live = (0..KEYS / 10).filter(|key| key % 11 != 5 && !is_deleted(*key) && key % 1000 > 3);
        let keys: Vec<u64> = live.step_by(101).take(100).collect();
        let bytes: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let mut session = database.session();
        let _before = asking.take();
        let pending = session.load(KEYSPACE_DEFAULT, &slices(&bytes));
        assert!(settled(&mut session, &pending), "all was in memory");
        let reads = asking.take();
        assert!(reads.all >= 100 && reads.under_way == ASKED_MAX, "{reads:?}");
        let mut found = Vec::new();
        let at_once = keys.iter().zip(&bytes).filter(|(key, bytes)| {
            let read = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, *bytes, &mut found).expect("get");
            assert!(matches!(read, Outcome::Pending(_) | Outcome::Done(true)), "key {key}");
            assert!(read.done().is_none() || found == value(**key), "key {key}");
            !found.is_empty()
        });
        // Of keys that share a chain one has a copy, and a full index has no entry for some.
        let at_once = at_once.count();
        assert!(at_once >= 80, "{at_once} of 100, index {index_bytes_max}");
    }
}

/// Puts values to so many keys that records before leave memory.
fn fill(session: &mut Box<dyn Session>) {
    for key in 0..60_000u64 {
        let (key, value) = ((KEYS + key).to_le_bytes(), [7; 200]);
        let put = session.put(KEYSPACE_DEFAULT, &key, &value, WriteOptions::default());
        assert!(put.is_ok_and(|put| put.done().is_some()));
    }
}

/// The first segment of the log, by name.
fn oldest(storage: &dyn Storage) -> String {
    let names = storage.list().expect("list").into_iter().map(|(name, _)| name);
    names.filter(|name| name.ends_with(".hybrid")).min().expect("a log")
}

/// Values and operands that apply to them lie on the device, in segments of their own. While the
/// operands are on their way from there the values are moved, and their segment goes.
#[test]
fn what_is_moved_amid_a_read_of_several_keys_is_found() {
    let asking = Asking::new(Arc::new(Memory::new()));
    let database = opened(Arc::new(asking.clone()), MANY_ENTRIES);
    let merging = merging(&database);
    let keys: Vec<[u8; 8]> = (0..40u64).map(u64::to_le_bytes).collect();
    let mut session = session(&database);
    for key in &keys {
        let put = session.put(merging, key, b"base", WriteOptions::default());
        assert!(put.is_ok_and(|put| put.done().is_some()));
    }
    fill(&mut session);
    for key in &keys {
        let merged = session.merge(merging, key, b"+", WriteOptions::default());
        assert!(merged.is_ok_and(|merged| merged.done().is_some()));
    }
    fill(&mut session);
    database.flush().expect("flush");
    database.wait_idle().expect("idle");
    let first = oldest(&asking);
    let (writer, storage) = (Arc::clone(&database), asking.clone());
    let moved = Arc::new(AtomicBool::new(false));
    let is_moved = Arc::clone(&moved);
    asking.do_amid(move || {
        let mut session = self::session(&writer);
        for _ in 0..50 {
            fill(&mut session);
            writer.flush().expect("flush");
            writer.wait_idle().expect("idle");
            if oldest(&storage) != first {
                return is_moved.store(true, Ordering::Relaxed);
            }
        }
    });
    let found = read(&mut session, merging, &keys);
    assert!(moved.load(Ordering::Relaxed), "the values were not moved amid the read");
    assert!(found.iter().all(|value| value == Some(b"base+")), "{found:?}");
}

/// While batches put the same number to all of some keys, readers of all of them see one number.
#[test]
fn several_keys_are_as_of_one_moment() {
    let database = opened(Arc::new(Memory::new()), FEW_ENTRIES);
    written(&database);
    let keys: Vec<[u8; 8]> = (0..40u64).map(|number| (number * 1000 + 4).to_le_bytes()).collect();
    let put_all = |session: &mut Box<dyn Session>, round: u64| {
        let mut batch = Batch::new();
        for key in &keys {
            batch.put(KEYSPACE_DEFAULT, key, &round.to_le_bytes());
        }
        let written = session.write(&batch, WriteOptions::default()).expect("write");
        assert!(written.done().is_some());
    };
    put_all(&mut session(&database), 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut session = session(&database);
            let others = vec![7; 300];
            for round in 1..300u64 {
                put_all(&mut session, round);
                // What was written leaves memory.
                for key in 0..200u64 {
                    let key = (KEYS + round * 200 + key).to_le_bytes();
                    let put = session.put(KEYSPACE_DEFAULT, &key, &others, WriteOptions::default());
                    assert!(put.is_ok_and(|put| put.done().is_some()));
                }
            }
        });
        let (mut session, mut reads) = (session(&database), 0);
        while !writer.is_finished() || reads == 0 {
            let out = read(&mut session, KEYSPACE_DEFAULT, &keys);
            let first = out.get(0).expect("a value").to_vec();
            assert!(out.iter().all(|value| value == Some(&first)), "of several moments");
            reads += 1;
        }
    });
}
