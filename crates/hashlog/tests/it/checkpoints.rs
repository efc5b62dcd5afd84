//! What was written at `checkpoint` survives as the first writes of each session.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use firn_engine::blocking::Blocking;
use firn_engine::{Batch, Durability, Engine, KEYSPACE_DEFAULT, ReadAt, Session, WriteOptions};
use firn_storage::backend::{Crash, Memory};
use firn_storage::{ManualClock, SystemClock};

use crate::support::{open, repeated_for, tiny};

const CHECKPOINT: WriteOptions = WriteOptions { durability: Some(Durability::Checkpoint), expires_at_ms: 0 };

fn key(session: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&session.to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Writes of one session, at most.
const WRITES_MAX: usize = 20_000;

#[test]
fn each_session_recovers_its_first_writes() {
    recover_first_writes();
}

#[test]
#[ignore = "minutes: the soak runs it"]
fn each_session_recovers_its_first_writes_for_long() {
    let mut databases = 0;
    repeated_for("FIRN_SECONDS", 60, |_| {
        recover_first_writes();
        databases += 4;
    });
    println!("{databases} databases, of each session exactly its first writes");
}

/// Sessions of different speeds write while checkpoints are taken; the process dies. Of each what
/// the last checkpoint has is there: what it wrote before a position, and nothing after.
fn recover_first_writes() {
    const SESSIONS: u64 = 3;
    for round in 0..4 {
        let memory = Memory::new();
        let database =
            open(Arc::new(memory.clone()), Arc::new(SystemClock::new()), true, tiny()).expect("open");
        let is_over = AtomicBool::new(false);
        let written: Vec<AtomicU64> = (0..SESSIONS).map(|_| AtomicU64::new(0)).collect();
        let barrier = Barrier::new(SESSIONS as usize + 1);
        let (crashed, [least, most], positions) = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..SESSIONS)
                .map(|number| {
                    let (database, is_over, written, barrier) = (&database, &is_over, &written, &barrier);
                    scope.spawn(move || {
                        let mut session = Blocking::new(database.session());
                        let mut positions = Vec::new();
                        barrier.wait();
                        while !is_over.load(Ordering::Relaxed) {
                            let next = positions.len() as u64;
                            if positions.len() == WRITES_MAX {
                                std::thread::yield_now();
                                continue;
                            }
                            positions.push(write(&mut session, number, next).0);
                            written[number as usize].store(next + 1, Ordering::Relaxed);
                            // The last one is slow.
                            if number == SESSIONS - 1 {
                                std::thread::yield_now();
                            }
                        }
                        positions
                    })
                })
                .collect();
            barrier.wait();
            for _ in 0..=round {
                while written.iter().any(|written| written.load(Ordering::Relaxed) < 50 * (round + 1)) {
                    std::thread::yield_now();
                }
                database.flush().expect("a checkpoint");
            }
            let reported = || database.checkpointed().expect("it takes checkpoints").0;
            let least = reported();
            let crashed = memory.crash(Crash::Kill);
            let most = reported();
            is_over.store(true, Ordering::Relaxed);
            let positions: Vec<Vec<u64>> =
                writers.into_iter().map(|writer| writer.join().expect("a writer")).collect();
            (crashed, [least, most], positions)
        });
        let again =
            open(Arc::new(crashed), Arc::new(ManualClock::new(1)), false, tiny()).expect("open again");
        // What the opening reports is what is there, write for write.
        let safe = again.checkpointed().expect("it takes checkpoints").0;
        assert!((least..=most).contains(&safe), "{safe} of {least} to {most}");
        let mut session = Blocking::new(again.session());
        for (number, positions) in positions.iter().enumerate() {
            let mut is_there = |next: u64| {
                let found =
                    session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key(number as u64, next)).expect("get");
                assert!(found.as_deref().is_none_or(|value| value == next.to_le_bytes()));
                found.is_some()
            };
            let count = (0..positions.len() as u64).take_while(|next| is_there(*next)).count();
            assert!(
                (count as u64..positions.len() as u64).all(|next| !is_there(next)),
                "a write behind a gap"
            );
            let before = |end: u64| positions.iter().filter(|position| **position < end).count();
            assert_eq!(count, before(safe), "session {number}");
            assert!(before(least) > 0, "a checkpoint came after it had begun");
        }
    }
}

/// Writes number `next` of a session; every seventh by a batch with a key of all.
fn write(session: &mut Blocking<dyn Session>, number: u64, next: u64) -> firn_engine::Position {
    let (key, value) = (key(number, next), next.to_le_bytes());
    if !next.is_multiple_of(7) {
        return session.put(KEYSPACE_DEFAULT, &key, &value, CHECKPOINT).expect("put");
    }
    let mut batch = Batch::new();
    batch.put(KEYSPACE_DEFAULT, &key, &value);
    batch.put(KEYSPACE_DEFAULT, b"all", &value);
    session.write(&batch, CHECKPOINT).expect("write")
}

/// What waits for a checkpoint gets one in time, and what the redo log knows is there besides.
#[test]
fn a_checkpoint_comes_in_time() {
    let memory = Memory::new();
    let settings = tiny().with_engine(|hash| hash.checkpoint_interval_ms = 100);
    let database =
        open(Arc::new(memory.clone()), Arc::new(SystemClock::new()), true, settings).expect("open");
    let mut session = Blocking::new(database.session());
    let written = session.put(KEYSPACE_DEFAULT, b"a", b"1", CHECKPOINT).expect("put");
    let end = std::time::Duration::from_secs(60);
    let begun = SystemClock::new();
    while database.checkpointed().is_none_or(|position| position <= written) {
        assert!(firn_storage::Clock::now(&begun) < end, "no checkpoint");
        std::thread::yield_now();
    }
    // At `process` a later write of the same key survives by itself.
    session.put(KEYSPACE_DEFAULT, b"a", b"2", WriteOptions::default()).expect("put");
    session.put(KEYSPACE_DEFAULT, b"b", b"3", WriteOptions::default()).expect("put");
    let crashed = memory.crash(Crash::Kill);
    let again = open(Arc::new(crashed), Arc::new(ManualClock::new(1)), true, tiny()).expect("open again");
    let mut session = Blocking::new(again.session());
    for (key, expected) in [(b"a", b"2"), (b"b", b"3")] {
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).expect("get");
        assert_eq!(found.as_deref(), Some(&expected[..]));
    }
}
