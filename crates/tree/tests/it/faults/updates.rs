//! T9: many threads that update one key, each trying until it is the first: one starves, and the
//! log is held for nothing.
//!
//! Neighbours: separated values; sessions that do not wait; a session that locked the key; a
//! function that updates its own key.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use firn_engine::{
    Change, Completion, Engine, KEYSPACE_DEFAULT, Ordered, OrderedSession, Outcome, WriteOptions,
};
use firn_tree::Tree;

use crate::support::in_time::in_time;
use crate::support::world::{World, get, put, session, tiny};

const KEY: &[u8] = b"counter";

/// Adds one to a counter of `bytes` bytes.
fn add_one(value: Option<&[u8]>, bytes: usize) -> Vec<u8> {
    let mut value = value.map_or_else(|| vec![0; bytes], <[u8]>::to_vec);
    let count = u64::from_le_bytes(value[..8].try_into().unwrap()) + 1;
    value[..8].copy_from_slice(&count.to_le_bytes());
    value
}

fn count(tree: &Tree) -> u64 {
    let value = get(&mut session(tree), KEY).unwrap();
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Has `threads` threads add one each, `rounds` times. Answers how often functions were called, and
/// how many updates the last thread had done when the first had done all of its own.
fn contend(tree: &Tree, (threads, rounds, bytes): (usize, u64, usize)) -> (u64, u64) {
    let (calls, barrier) = (Arc::new(AtomicU64::new(0)), Barrier::new(threads));
    let done: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let (least, is_over) = (AtomicU64::new(rounds), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for mine in &done {
            scope.spawn(|| {
                let mut session = session(tree);
                barrier.wait();
                for _ in 0..rounds {
                    let calls = Arc::clone(&calls);
                    let add = move |value: Option<&[u8]>| {
                        calls.fetch_add(1, Ordering::SeqCst);
                        // Others come to stand in line meanwhile, however few processors there are.
                        std::thread::yield_now();
                        (Change::Put(add_one(value, bytes)), ())
                    };
                    session.update(KEYSPACE_DEFAULT, KEY, WriteOptions::default(), add).unwrap();
                    mine.fetch_add(1, Ordering::SeqCst);
                }
                if !is_over.swap(true, Ordering::SeqCst) {
                    let so_far = done.iter().map(|done| done.load(Ordering::SeqCst)).min();
                    least.store(so_far.unwrap(), Ordering::SeqCst);
                }
            });
        }
    });
    (calls.load(Ordering::SeqCst), least.into_inner())
}

/// Each update is computed once, for no other comes between, and no thread is left behind.
#[test]
fn t9_updates_of_one_key_take_turns() {
    let apart = tiny().with_engine(|tree| tree.separate_bytes = 256);
    for settings in [tiny(), apart] {
        let tree = World::new(settings).open_threads();
        let (threads, rounds) = (16, 300);
        let (calls, least) = contend(&tree, (threads, rounds, 1000));
        assert_eq!(count(&tree), threads as u64 * rounds);
        assert_eq!(calls, threads as u64 * rounds, "an update was computed in vain");
        assert!(least >= rounds / 4, "one thread had written {least} when another had written {rounds}");
        tree.close().unwrap();
    }
}

/// Puts take no turns: an update with a put in between is computed again, and the put stays.
#[test]
fn t9_updates_among_puts_lose_nothing() {
    let tree = World::new(tiny()).open_threads();
    put(&mut session(&tree), KEY, &[0; 16]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = session(&tree);
            // The count and which put it goes on from, which updates keep.
            for generation in 1_u64.. {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                put(&mut session, KEY, &[[0; 8], generation.to_le_bytes()].concat());
                std::thread::yield_now();
                let value = get(&mut session, KEY).unwrap();
                assert_eq!(value[8..], generation.to_le_bytes(), "a put was undone");
            }
        });
        contend(&tree, (4, 200, 16));
        is_over.store(true, Ordering::SeqCst);
    });
    tree.close().unwrap();
}

/// Locks that sessions ask for are others than those of updates: a session may update what it
/// locked.
#[test]
fn t9_a_session_updates_what_it_has_locked() {
    let tree = World::new(tiny()).open_threads();
    let mut owner = session(&tree);
    let locks = owner.lock(&[(KEYSPACE_DEFAULT, KEY)]).unwrap();
    let others = Arc::clone(&tree);
    in_time("updates of others", move || contend(&others, (2, 10, 16)));
    let add = |value: Option<&[u8]>| (Change::Put(add_one(value, 16)), ());
    owner.update(KEYSPACE_DEFAULT, KEY, WriteOptions::default(), add).unwrap();
    drop(locks);
    assert_eq!(count(&tree), 21);
    drop(owner);
    tree.close().unwrap();
}

/// More sessions than the pool has threads, none of which waits: all their updates come through.
#[test]
fn t9_sessions_that_do_not_wait_take_turns() {
    let tree = World::new(tiny()).open_threads();
    let mut sessions: Vec<Box<dyn OrderedSession>> = (0..32).map(|_| tree.ordered_session()).collect();
    let mut owed = 0_u64;
    for _ in 0..10 {
        for session in &mut sessions {
            let add = Box::new(|value: Option<&[u8]>| {
                // Others of the pool begin meanwhile.
                (0..20).for_each(|_| std::thread::yield_now());
                Change::Put(add_one(value, 16))
            });
            let outcome = session.update(KEYSPACE_DEFAULT, KEY, add, WriteOptions::default()).unwrap();
            owed += u64::from(matches!(outcome, Outcome::Pending(_)));
        }
    }
    let mut written = 320 - owed;
    for session in &mut sessions {
        while session.wait(None) {
            session.poll(&mut |_, completion| {
                assert!(matches!(completion, Completion::Written(_)), "{completion:?}");
                written += 1;
            });
        }
    }
    assert_eq!((written, count(&tree)), (320, 320));
    drop(sessions);
    tree.close().unwrap();
}

/// A function that writes breaks its contract. Where it updates its own key, once, it is slow and
/// no deadlock.
#[test]
#[ignore = "long form: cargo x faults"]
fn t9_a_function_that_updates_its_own_key_ends() {
    let tree = World::new(tiny()).open_threads();
    let (inner, mut is_first) = (Arc::clone(&tree), true);
    let add = move |value: Option<&[u8]>| {
        if std::mem::take(&mut is_first) {
            contend(&inner, (1, 1, 16));
        }
        (Change::Put(add_one(value, 16)), ())
    };
    session(&tree).update(KEYSPACE_DEFAULT, KEY, WriteOptions::default(), add).unwrap();
    assert_eq!(count(&tree), 2);
    tree.close().unwrap();
}
