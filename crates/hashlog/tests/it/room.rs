//! Batches and transactions are made whole or not at all, whatever there is no room for.

use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::conformance::APPEND;
use firn_engine::{
    Batch, Durability, Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, ReadAt, ReadSet, Rmw,
    WriteOptions,
};
use firn_storage::backend::{Crash, Faulty, Memory};
use firn_storage::{ManualClock, SystemClock};

use crate::support::{open, tiny};

const CHECKPOINT: WriteOptions = WriteOptions { durability: Some(Durability::Checkpoint), expires_at_ms: 0 };
const PROCESS: WriteOptions = WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(1))
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// A batch that replaces `old` and makes `new` keys with values of so many bytes.
fn batch_of(old: &[u8], new: std::ops::Range<u64>, bytes: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(KEYSPACE_DEFAULT, old, b"replaced");
    for number in new {
        batch.put(KEYSPACE_DEFAULT, &key(number), &vec![1; bytes]);
    }
    batch
}

/// The index becomes full amid what a batch would need: it is refused, and nothing of it is there,
/// now and after a kill. Batches that need no entries go on.
#[test]
fn a_full_index_refuses_whole_batches() {
    let memory = Memory::new();
    let settings = tiny().with_engine(|hash| hash.index_bytes_max = 64 << 10);
    let database = open(Arc::new(memory.clone()), clock(), false, settings.clone()).expect("open");
    let mut session = Blocking::new(database.session());
    session.put(KEYSPACE_DEFAULT, b"old", b"first", PROCESS).expect("put");
    // Until a batch of 100 has no room, while some keys have.
    let (mut next, count) = (0, 100);
    let refused = loop {
        match session.write(&batch_of(b"old", next..next + count, 8), PROCESS) {
            Ok(_) => next += count,
            Err(error) => break error,
        }
        session.put(KEYSPACE_DEFAULT, b"old", b"first", PROCESS).expect("put");
    };
    // Each key is the first of its slot, and takes a bucket.
    assert!(next > 500, "{next} keys are few");
    assert_eq!(refused.kind(), ErrorKind::Retry, "{refused:?}");
    assert!(refused.to_string().contains("index_bytes_max"), "{refused}");
    let mut reads = ReadSet::new(database.snapshot().expect("a snapshot"));
    reads.add(KEYSPACE_DEFAULT, b"old").expect("added");
    let refused = session.write_if(&batch_of(b"old", next..next + count, 8), reads.clone(), PROCESS);
    assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Retry);
    session.write(&batch_of(b"other", 0..50, 8), PROCESS).expect("all but one are there");
    let check = |session: &mut Blocking| {
        let mut get = |key: &[u8]| session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).expect("get");
        assert_eq!(get(b"old").as_deref(), Some(&b"first"[..]));
        assert!((0..next).all(|number| get(&key(number)).is_some()));
        assert!((next..next + count).all(|number| get(&key(number)).is_none()));
    };
    check(&mut session);
    session.put(KEYSPACE_DEFAULT, &key(next), b"alone", PROCESS).expect("one has room");
    session.delete(KEYSPACE_DEFAULT, &key(next), PROCESS).expect("delete");
    let left = memory.crash(Crash::Kill);
    let again = open(Arc::new(left), clock(), false, settings).expect("open again");
    check(&mut Blocking::new(again.session()));
}

/// A full disk keeps pages in memory: a batch that needs more than is left is refused whole, and
/// succeeds once there is space.
#[test]
fn a_full_disk_refuses_whole_batches() {
    for has_threads in [false, true] {
        let faulty = Faulty::new(Arc::new(Memory::new()));
        let storage = Arc::new(faulty.clone());
        let database = open(storage, Arc::new(SystemClock::new()), has_threads, tiny()).expect("open");
        let mut session = Blocking::new(database.session());
        session.put(KEYSPACE_DEFAULT, b"old", b"first", CHECKPOINT).expect("put");
        faulty.limit_space(Some(100_000)).expect("a limit");
        // Three pages each.
        let (mut next, count) = (0, 1500);
        let refused = loop {
            match session.write(&batch_of(b"old", next..next + count, 1000), CHECKPOINT) {
                Ok(_) => next += count,
                Err(error) => break error,
            }
            session.put(KEYSPACE_DEFAULT, b"old", b"first", CHECKPOINT).expect("changed in place");
        };
        assert!(next > 0, "some are in memory");
        assert!(format!("{refused:?}").contains("no space left"), "{refused:?}");
        let mut get = |key: &[u8]| session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).expect("get");
        assert_eq!(get(b"old").as_deref(), Some(&b"first"[..]));
        assert!((0..next).all(|number| get(&key(number)).is_some()));
        assert!((next..next + count).all(|number| get(&key(number)).is_none()));
        faulty.limit_space(None).expect("room");
        let batch = batch_of(b"old", next..next + count, 1000);
        // Threads find out when they try again.
        while let Err(error) = session.write(&batch, CHECKPOINT) {
            assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
            assert!(has_threads, "{error:?}");
            std::thread::yield_now();
        }
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"old").expect("get");
        assert_eq!(found.as_deref(), Some(&b"replaced"[..]));
    }
}

/// A transaction takes as many pages as it needs, up to a bound that its error names.
#[test]
fn transactions_are_longer_than_a_page() {
    let memory = Memory::new();
    let database = open(Arc::new(memory.clone()), clock(), false, tiny()).expect("open");
    let mut session = Blocking::new(database.session());
    for round in 0..5_u64 {
        let mut reads = ReadSet::new(database.snapshot().expect("a snapshot"));
        reads.add(KEYSPACE_DEFAULT, b"old").expect("added");
        // Four pages, and then memory is as good as full of them.
        let batch = batch_of(b"old", 2000 * round..2000 * (round + 1), 1000);
        session.write_if(&batch, reads.clone(), PROCESS).expect("a transaction");
        let conflict = session.write_if(&batch, reads.clone(), PROCESS).expect_err("it was written since");
        assert_eq!(conflict.kind(), ErrorKind::Conflict);
    }
    let mut reads = ReadSet::new(database.snapshot().expect("a snapshot"));
    reads.add(KEYSPACE_DEFAULT, b"old").expect("added");
    // Long values go out of the way; very many short ones cannot.
    let reads_more = reads.clone();
    session.write_if(&batch_of(b"old", 2000..2080, 60_000), reads_more, PROCESS).expect("a transaction");
    session.write(&batch_of(b"old", 2000..4000, 1000), PROCESS).expect("as before");
    let too_long = batch_of(b"older", 0..4000, 1000);
    let refused = session.write_if(&too_long, reads.clone(), PROCESS).expect_err("too long");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("memory_bytes"), "{refused}");
    let refused = session.write(&too_long, PROCESS).expect_err("too long");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let left = memory.crash(Crash::Kill);
    for database in [database, open(Arc::new(left), clock(), false, tiny()).expect("open again")] {
        let mut session = Blocking::new(database.session());
        let mut get = |key: &[u8]| session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).expect("get");
        assert!((0..10_000).all(|number| get(&key(number)).is_some_and(|value| value.len() == 1000)));
        assert_eq!(get(b"older"), None);
    }
}

/// Threads write batches, single keys and sums into chains that several keys share, while pages and
/// copies come and go: none is lost, and each batch is whole.
#[test]
fn batches_and_others_share_chains() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 400;
    const KEYS: u64 = 8000;
    let memory = Memory::new();
    let clock = Arc::new(SystemClock::new());
    let database = open(Arc::new(memory.clone()), clock, true, tiny()).expect("open");
    let settings = KeyspaceSettings { in_one_slot: true, ..KeyspaceSettings::default() };
    // So many keys of a slot that one of ten has its 16 bits of the hash in common with another.
    let space = database.create_keyspace("one slot", settings).expect("a keyspace");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let database = &database;
            scope.spawn(move || {
                let mut session = Blocking::new(database.session());
                let mut rng = fastrand::Rng::with_seed(thread);
                for round in 0..ROUNDS {
                    let mut batch = Batch::new();
                    for number in 0..20 {
                        let key = (number * THREADS + thread).to_le_bytes();
                        batch.put(space, &key, &round.to_le_bytes().repeat(20));
                    }
                    batch.put(space, b"all", &thread.to_le_bytes());
                    batch.put(space, b"together", &thread.to_le_bytes());
                    session.write(&batch, PROCESS).expect("write");
                    session.rmw(space, b"sum", Rmw::Add(1), PROCESS).expect("a sum");
                    for _ in 0..20 {
                        let key = (rng.u64(20..KEYS) * THREADS + thread).to_le_bytes();
                        session.put(space, &key, &round.to_le_bytes().repeat(20), PROCESS).expect("put");
                    }
                    let pair: [&[u8]; 2] = [b"all", b"together"];
                    let found = session.multi_get(ReadAt::Latest, space, &pair).expect("get");
                    assert_eq!(found.get(0), found.get(1), "half a batch");
                }
            });
        }
    });
    let left = memory.crash(Crash::Kill);
    for database in [database, open(Arc::new(left), self::clock(), false, tiny()).expect("open again")] {
        let mut session = Blocking::new(database.session());
        let mut get = |key: &[u8]| session.get(ReadAt::Latest, space, key).expect("get");
        assert_eq!(get(b"sum"), Some((THREADS * ROUNDS).to_le_bytes().to_vec()));
        assert_eq!(get(b"all"), get(b"together"));
        for thread in 0..THREADS {
            let mut rng = fastrand::Rng::with_seed(thread);
            let mut last = vec![None; KEYS as usize];
            for round in 0..ROUNDS {
                last[..20].fill(Some(round));
                (0..20).for_each(|_| last[rng.u64(20..KEYS) as usize] = Some(round));
            }
            for (number, round) in (0..KEYS).zip(last) {
                let expected = round.map(|round| round.to_le_bytes().repeat(20));
                let key = (number * THREADS + thread).to_le_bytes();
                assert_eq!(get(&key), expected, "{thread}, {number}");
            }
        }
    }
}

/// Threads put records in front of one chain without a pause, alone and in batches: none is lost,
/// and the chain stays in the order of addresses (which the engine asserts).
#[test]
fn batches_keep_others_from_their_chains() {
    const THREADS: usize = 3;
    const ROUNDS: usize = 1500;
    let memory = Memory::new();
    let database = open(Arc::new(memory.clone()), Arc::new(SystemClock::new()), true, tiny()).expect("open");
    let settings =
        KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..KeyspaceSettings::default() };
    let space = database.create_keyspace("append", settings).expect("a keyspace");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let database = &database;
            scope.spawn(move || {
                let mut session = Blocking::new(database.session());
                for _ in 0..ROUNDS {
                    let mut batch = Batch::new();
                    (0..10_u8).for_each(|number| _ = batch.put(space, &[thread as u8, number], &[1]));
                    batch.merge(space, b"key", b"b");
                    session.write(&batch, PROCESS).expect("write");
                    (0..4).for_each(|_| _ = session.merge(space, b"key", b"m", PROCESS).expect("merge"));
                }
            });
        }
    });
    let left = memory.crash(Crash::Kill);
    for database in [database, open(Arc::new(left), clock(), false, tiny()).expect("open again")] {
        let mut session = Blocking::new(database.session());
        let found = session.get(ReadAt::Latest, space, b"key").expect("get").expect("a value");
        let count = |letter| found.iter().filter(|byte| **byte == letter).count();
        assert_eq!((count(b'b'), count(b'm')), (THREADS * ROUNDS, 4 * THREADS * ROUNDS));
    }
}
