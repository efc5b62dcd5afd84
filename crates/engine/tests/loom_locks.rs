//! Schedules of the locks on keys:
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-engine --test loom_locks`.
//!
//! The table is taken in by its path, with a session here that loom can wait for.
#![cfg(loom)]
#![expect(
    missing_docs,
    unreachable_pub,
    reason = "a private module with the crate around it played by the test"
)]

#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/completion/locks.rs"]
mod locks;

use std::sync::Arc;

use locks::{KeyLocks, LockTable};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

/// What [`LockTable`] needs of the crate around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

#[derive(Debug)]
pub enum Outcome<T> {
    Done(T),
    Pending(Ticket),
}

#[derive(Debug)]
pub enum Completion {
    Locked(KeyLocks),
}

#[derive(Clone, Debug, Default)]
pub struct CompletionSender(Arc<Session>);

#[derive(Debug, Default)]
struct Session {
    arrived: Mutex<Option<KeyLocks>>,
    changed: Condvar,
}

impl CompletionSender {
    pub fn send(&self, ticket: Ticket, completion: Completion) {
        assert_eq!(ticket, Ticket(7));
        let Completion::Locked(locks) = completion;
        let before = self.0.arrived.lock().unwrap().replace(locks);
        assert!(before.is_none(), "granted twice");
        self.0.changed.notify_one();
    }
}

/// Locks these hashes, or everything if there are none.
fn lock(table: &Arc<LockTable>, hashes: &[u64]) -> KeyLocks {
    let session = CompletionSender::default();
    let outcome = match hashes.is_empty() {
        true => table.lock_all(&session, || Ticket(7)),
        false => table.lock(hashes.iter().copied(), &session, || Ticket(7)),
    };
    match outcome {
        Outcome::Done(locks) => locks,
        Outcome::Pending(ticket) => {
            assert_eq!(ticket, Ticket(7));
            let mut arrived = session.0.arrived.lock().unwrap();
            loop {
                match arrived.take() {
                    Some(locks) => return locks,
                    None => arrived = session.0.changed.wait(arrived).unwrap(),
                }
            }
        }
    }
}

/// What the locks protect: a number that is read and written in two steps without any order of its
/// own.
struct Guarded {
    table: Arc<LockTable>,
    numbers: [AtomicUsize; 2],
}

impl Guarded {
    fn new() -> Arc<Self> {
        let numbers = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Arc::new(Self { table: LockTable::new(), numbers })
    }

    fn add(&self, hashes: &[u64]) {
        let _locks = lock(&self.table, hashes);
        for hash in if hashes.is_empty() { &[0, 1] } else { hashes } {
            let number = &self.numbers[*hash as usize];
            number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    fn totals(&self) -> [usize; 2] {
        // Locks make what was done under them visible.
        let _locks = lock(&self.table, &[0, 1]);
        [0, 1].map(|index| self.numbers[index].load(Ordering::Relaxed))
    }
}

fn check(preemption_bound: usize, workers: &'static [&'static [u64]], expected: [usize; 2]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemption_bound);
    model.check(move || {
        let guarded = Guarded::new();
        let (first, others) = workers.split_first().unwrap();
        let threads: Vec<_> = others
            .iter()
            .map(|hashes| {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || guarded.add(hashes))
            })
            .collect();
        guarded.add(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(guarded.totals(), expected);
    });
}

#[test]
fn two_on_one_key() {
    check(5, &[&[0], &[0]], [2, 0]);
}

#[test]
fn three_on_one_key() {
    check(4, &[&[0], &[0], &[0]], [3, 0]);
}

#[test]
fn two_on_two_keys() {
    check(4, &[&[0, 1], &[1, 0]], [2, 2]);
}

#[test]
fn one_of_two_keys_is_taken_in_between() {
    check(3, &[&[0, 1], &[1], &[0, 1]], [2, 3]);
}

#[test]
fn one_wants_everything() {
    check(3, &[&[], &[1], &[1, 0]], [2, 3]);
}

#[test]
fn who_was_first_in_line_is_served_first() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(|| {
        let table = LockTable::new();
        let held = lock(&table, &[0]);
        let first = CompletionSender::default();
        let outcome = table.lock([0].into_iter(), &first, || Ticket(7));
        assert!(matches!(outcome, Outcome::Pending(_)));
        let late = {
            let table = Arc::clone(&table);
            let first = first.clone();
            thread::spawn(move || {
                let locks = lock(&table, &[0]);
                assert!(first.0.arrived.lock().unwrap().is_none(), "who came later has passed");
                drop(locks);
            })
        };
        drop(held);
        let granted = first.0.arrived.lock().unwrap().take();
        drop(granted.expect("the first in line"));
        late.join().unwrap();
    });
}
