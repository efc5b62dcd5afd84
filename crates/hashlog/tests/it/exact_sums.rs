//! Sums that several threads add to are exact, whatever happens to the log meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::{Engine, KEYSPACE_DEFAULT, Outcome, ReadAt, Rmw, RmwAnswer, Session, WriteOptions};
use firn_storage::backend::Memory;
use firn_storage::{ManualClock, SystemClock};

use crate::support::{open, tiny};

const THREADS: u64 = 3;
const ADDITIONS: u64 = 30_000;

fn add(session: &mut dyn Session, key: &[u8]) {
    let answer = session.rmw(KEYSPACE_DEFAULT, key, Rmw::Add(1), WriteOptions::default()).expect("rmw");
    assert!(matches!(answer, Outcome::Done((_, RmwAnswer::Sum(_)))), "an inline session never waits");
}

/// Adds to `keys` counters from several threads while `meanwhile` goes on, and looks at the sums,
/// also after reopening.
fn sums_are_exact(keys: u64, meanwhile: impl Fn(&dyn Engine) + Sync) {
    let memory = Memory::new();
    let database = open(Arc::new(memory.clone()), Arc::new(SystemClock::new()), true, tiny()).expect("open");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut session = database.session();
                session.set_inline(true);
                scope.spawn(move || {
                    for addition in 0..ADDITIONS {
                        // Each thread goes through the keys from another one on.
                        let key = (addition + thread * 7) % keys;
                        add(&mut *session, &key.to_le_bytes());
                    }
                })
            })
            .collect();
        let (database, is_over) = (&database, &is_over);
        let meanwhile = &meanwhile;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                meanwhile(&**database);
            }
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        is_over.store(true, Ordering::Relaxed);
    });
    let sum = |database: &dyn Engine| {
        let mut session = database.session();
        session.set_inline(true);
        let mut value = Vec::new();
        (0..keys)
            .map(|key| {
                let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes(), &mut value);
                assert_eq!(found.expect("get"), Outcome::Done(true), "key {key}");
                u64::from_le_bytes(value.as_slice().try_into().expect("a number"))
            })
            .sum::<u64>()
    };
    assert_eq!(sum(&*database), THREADS * ADDITIONS);
    drop(database);
    let clock = Arc::new(ManualClock::new(1));
    let database = open(Arc::new(memory), clock, true, tiny()).expect("open again");
    assert_eq!(sum(&*database), THREADS * ADDITIONS, "after reopening");
}

#[test]
fn few_keys() {
    sums_are_exact(3, |_| std::thread::yield_now());
}

#[test]
fn many_keys() {
    sums_are_exact(5000, |_| std::thread::yield_now());
}

#[test]
fn while_snapshots_are_taken() {
    sums_are_exact(40, |database| drop(database.snapshot().expect("snapshot")));
}

#[test]
fn while_checkpoints_are_taken() {
    sums_are_exact(40, |database| database.flush().expect("flush"));
}

#[test]
fn while_the_log_turns_its_pages() {
    let value = vec![7; 100_000];
    sums_are_exact(40, |database| {
        let mut session = database.session();
        session.set_inline(true);
        let put = session.put(KEYSPACE_DEFAULT, b"large", &value, WriteOptions::default()).expect("put");
        assert!(matches!(put, Outcome::Done(_)));
    });
}
