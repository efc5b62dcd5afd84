//! Schedules of the log's tail and of its pages:
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-hashlog --test loom_log`.
//!
//! The log is private to its crate, so this test takes it in by its path.
#![cfg(loom)]
#![expect(dead_code, unused_imports, reason = "each test of a private module uses a part of it")]

#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/waits.rs"]
mod waits;
#[path = "../src/epoch.rs"]
mod epoch;
#[path = "../src/tasks.rs"]
mod tasks;
#[path = "../src/log/mod.rs"]
mod log;

use std::sync::Arc;

use epoch::Epochs;
use firn_format::hybrid::Shape;
use log::{Log, Parts, Room};
use loom::sync::atomic::Ordering;
use loom::thread;

const PAGE_BITS: u32 = 3;
const PAGE: u64 = 1 << PAGE_BITS;
/// As many as the ring has, so that a page comes to lie where the one of so many before lay.
const PAGES: u64 = 16;
const FIRST: u64 = PAGES * PAGE;
const KEY: &[u8] = b"key";

/// Schedules with more switches than this between threads that could go on are not tried.
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(f);
}

fn log() -> Log {
    Log::new((FIRST, FIRST), PAGES * PAGE, PAGE_BITS).unwrap()
}

fn parts(value: &[u8]) -> Parts<'_> {
    let shape = Shape { key_bytes: KEY.len(), value_bytes: value.len(), ..Shape::default() }.fitted();
    Parts { shape, keyspace: 0, key: KEY, value, expires_at_ms: 0 }
}

/// Reserves room for a record with a number, and fills it; `None` if there is no room.
fn put(log: &Log, number: u64) -> Option<u64> {
    let (value, words) = (number.to_le_bytes(), parts(&[0; 8]).shape.words());
    let (Room::At(address) | Room::Turned(address)) = log.tail.reserve(words as u64) else { return None };
    let reserved = log.reserved(address, words);
    reserved.fill(&parts(&value), 0);
    Some(address)
}

fn number(log: &Log, address: u64) -> u64 {
    let mut value = Vec::new();
    log.record(address).read(&mut value);
    u64::from_le_bytes(value.try_into().unwrap())
}

/// What threads reserve lies apart and within a page, and one of them turns each page.
#[test]
fn reservations_lie_apart_and_each_page_is_turned_once() {
    model(|| {
        let log = Arc::new(log());
        let reserve = |log: &Log| [log.tail.reserve(3), log.tail.reserve(3)];
        let other = {
            let log = Arc::clone(&log);
            thread::spawn(move || reserve(&log))
        };
        let mut rooms = reserve(&log).to_vec();
        rooms.extend(other.join().unwrap());
        let address = |room: &Room| match room {
            Room::At(address) | Room::Turned(address) => *address,
            Room::Full(_) => panic!("there is room"),
        };
        rooms.sort_unstable_by_key(address);
        // Two in each page, and the rest of two words stays.
        let expected = [
            Room::Turned(FIRST),
            Room::At(FIRST + 3),
            Room::Turned(FIRST + PAGE),
            Room::At(FIRST + PAGE + 3),
        ];
        assert_eq!(rooms, expected);
    });
}

/// A record below the safe read-only address is written to a device: no change comes after that.
#[test]
fn what_is_safe_to_be_written_out_is_not_changed() {
    model(|| {
        let (log, epochs) = (Arc::new(log()), Epochs::new(None));
        let address = put(&log, 1).unwrap();
        let writer = {
            let (log, mut participant) = (Arc::clone(&log), epochs.join().unwrap());
            thread::spawn(move || {
                let _inside = participant.enter();
                if address >= log.read_only() {
                    log.record(address).latch().unwrap().put_number(2);
                }
            })
        };
        // All pages but the newest ones become read-only.
        log.turn(&epochs, FIRST + PAGES * PAGE);
        let is_safe = log.markers.safe_read_only.load(Ordering::Acquire) > address;
        let written = is_safe.then(|| number(&log, address));
        writer.join().unwrap();
        epochs.run_due();
        assert!(log.markers.safe_read_only.load(Ordering::Acquire) > address, "it never becomes safe");
        let found = number(&log, address);
        assert!(written.is_none_or(|written| written == found), "{written:?} was written, and it is {found}");
    });
}

/// The memory of a page goes to a new one once no operation reads the old one, and is zero then.
#[test]
fn a_page_is_taken_away_when_no_operation_reads_it() {
    model(|| {
        let (log, epochs) = (Arc::new(log()), Epochs::new(None));
        let address = put(&log, 1).unwrap();
        for _ in 1..PAGES {
            // Nothing is on the device yet: more of the ring is lent.
            log.evict(&epochs);
            assert!(matches!(log.tail.reserve(PAGE), Room::Turned(_)));
        }
        assert!(matches!(log.tail.reserve(PAGE), Room::Full(_)), "the ring is full");
        log.markers.flushed.store(log.tail.next(), Ordering::Release);
        let reader = {
            let (log, mut participant) = (Arc::clone(&log), epochs.join().unwrap());
            thread::spawn(move || {
                let _inside = participant.enter();
                if address >= log.head() {
                    let record = log.record(address);
                    assert!(record.is_of(0, KEY), "another record than the one that was there");
                    assert_eq!(number(&log, address), 1);
                }
            })
        };
        let writer = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let words = parts(&[0; 8]).shape.words();
                let (Room::At(new) | Room::Turned(new)) = log.tail.reserve(words as u64) else { return };
                assert_eq!(new, address + PAGES * PAGE, "where the first record lay");
                assert!(log.record(new).filled_shape().is_none(), "the page is not zero");
                log.reserved(new, words).fill(&parts(&[9; 8]), 0);
            })
        };
        log.evict(&epochs);
        reader.join().unwrap();
        writer.join().unwrap();
        log.evict(&epochs);
        assert!(log.tail.limit() > FIRST + PAGES * PAGE, "the page is never given to the tail");
    });
}
