//! Schedules of the index: `RUSTFLAGS="--cfg loom" cargo test -p firn-hashlog --test loom_index`.
//!
//! The index is private to its crate, so this test takes it in by its path.
#![cfg(loom)]
#![expect(dead_code, unused_imports, reason = "each test of a private module uses a part of it")]

#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/waits.rs"]
mod waits;
#[path = "../src/epoch.rs"]
mod epoch;
#[path = "../src/index/mod.rs"]
mod index;

use std::sync::Arc;

use epoch::Epochs;
use index::{Index, Inserted, KeyHash};
use loom::thread;
use waits::Waits;

/// Schedules with more switches than this between threads that could go on are not tried.
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(f);
}

/// A key of slot 0: those of several numbers below 8 part as soon as a bucket is split.
fn hash(number: u16) -> KeyHash {
    KeyHash::of(0, number << 13)
}

/// Inserts `address`, or puts it in front of the chain that is there; answers what it replaced.
fn put(index: &Index, number: u16, address: u64) -> u64 {
    loop {
        match index.insert(hash(number), address) {
            Inserted::New => return 0,
            Inserted::Existing(place, entry) => {
                if index.lead_to(place, entry, address) {
                    return entry.target();
                }
            }
            Inserted::Full => panic!("there is room"),
        }
    }
}

/// Two threads insert one tag at once: both are in one chain.
#[test]
fn two_insertions_of_one_tag_make_one_entry() {
    model(|| {
        let epochs = Epochs::new(None);
        let index = Arc::new(Index::new(16, Arc::clone(&epochs), Waits::timed_by(None)).unwrap());
        let threads: Vec<_> = [16, 24]
            .into_iter()
            .map(|address| {
                let (index, mut participant) = (Arc::clone(&index), epochs.join().unwrap());
                thread::spawn(move || {
                    let _inside = participant.enter();
                    put(&index, 5, address)
                })
            })
            .collect();
        let mut replaced: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        replaced.push(index.find(hash(5)).expect("two threads have put it").1.target());
        replaced.sort_unstable();
        assert_eq!(replaced, [0, 16, 24], "one was first, the other came in front of it");
    });
}

/// A slot grows while another thread changes and inserts: nothing is lost, nothing is there twice.
#[test]
fn a_slot_that_grows_keeps_its_entries() {
    model(|| {
        let epochs = Epochs::new(None);
        let index = Arc::new(Index::new(32, Arc::clone(&epochs), Waits::timed_by(None)).unwrap());
        for number in 0..6 {
            put(&index, number, 8 + u64::from(number));
        }
        let other = {
            let (index, mut participant) = (Arc::clone(&index), epochs.join().unwrap());
            thread::spawn(move || {
                let _inside = participant.enter();
                assert_eq!(put(&index, 1, 101), 9);
            })
        };
        {
            let mut participant = epochs.join().unwrap();
            for number in 6..8 {
                let _inside = participant.enter();
                put(&index, number, 8 + u64::from(number));
            }
        }
        other.join().unwrap();
        for number in 0..8 {
            let expected = if number == 1 { 101 } else { 8 + u64::from(number) };
            assert_eq!(index.find(hash(number)).expect("it was put").1.target(), expected, "key {number}");
        }
    });
}

/// An entry goes, and its place is taken, while two threads insert one tag: they make one entry, as
/// they would anywhere.
#[test]
fn a_place_that_becomes_free_amid_two_insertions_makes_no_second_entry() {
    model(|| {
        let epochs = Epochs::new(None);
        let index = Arc::new(Index::new(16, Arc::clone(&epochs), Waits::timed_by(None)).unwrap());
        put(&index, 1, 8);
        let threads: Vec<_> = [Some(16), None]
            .into_iter()
            .map(|address| {
                let (index, mut participant) = (Arc::clone(&index), epochs.join().unwrap());
                thread::spawn(move || {
                    let _inside = participant.enter();
                    match address {
                        Some(address) => put(&index, 5, address),
                        None => {
                            let (place, entry) = index.find(hash(1)).expect("no other thread removes it");
                            assert!(index.free_entry(hash(1), place, entry));
                            0
                        }
                    }
                })
            })
            .collect();
        let mut replaced = vec![{
            let mut participant = epochs.join().unwrap();
            let _inside = participant.enter();
            put(&index, 5, 24)
        }];
        replaced.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        assert!(index.find(hash(1)).is_none());
        replaced.push(index.find(hash(5)).expect("two threads have put it").1.target());
        replaced.sort_unstable();
        assert_eq!(replaced, [0, 0, 16, 24], "one was first, the other came in front of it");
    });
}
