//! Schedules of the memtable's index:
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-tree --test loom_memtable`.
//!
//! The memtable is private to its crate, so this test takes it in by its path.
#![cfg(loom)]
#![expect(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test of a private module uses a part of it"
)]

#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/records.rs"]
mod records;
#[path = "../src/buffer"]
mod buffer {
    mod entry;
    pub(crate) use entry::{RunEntry, prefix_word};
}
#[path = "../src/memtable/mod.rs"]
mod memtable;

use firn_format::Kind;
use firn_format::key::{Position, Sequence, Trailer};
use firn_format::log::Record;
use firn_jobs::Cursor;
use loom::thread;
use memtable::{KeyRange, Memtable, Passed};
use records::Records;
use std::sync::Arc;

/// A log in which every position holds the key that its sequence modulo 2 names.
struct Log;

fn key_of(sequence: u64) -> &'static [u8] {
    if sequence % 2 == 0 { b"even" } else { b"odd" }
}

impl Records for Log {
    fn record(&self, position: Position) -> Option<Record<'_>> {
        let key = key_of(position.sequence().0);
        Some(Record { keyspace: 0, kind: Kind::Put, expires_at_ms: 0, key, value: b"" })
    }
}

fn insert(memtable: &Memtable, hash: u32, sequence: u64) {
    memtable.insert(hash, key_of(sequence), Trailer::new(Sequence(sequence), Kind::Put));
}

fn newest(memtable: &Memtable, hash: u32, sequence_of_key: u64, before: u64) -> Option<u64> {
    let found = memtable.newest(hash, key_of(sequence_of_key), Sequence(before), &Log);
    found.map(|(trailer, _)| trailer.sequence().0)
}

/// A model on which threads share a memtable.
fn model(test: impl Fn(Arc<Memtable>) + Sync + Send + 'static) {
    loom::model(move || test(Arc::new(Memtable::with_expected_entries(b"", 4, Arc::default()))));
}

fn spawn(memtable: &Arc<Memtable>, run: impl FnOnce(&Memtable) + 'static) -> thread::JoinHandle<()> {
    let memtable = Arc::clone(memtable);
    thread::spawn(move || run(&memtable))
}

/// Writers of one hash: one group, newest first, nothing lost.
#[test]
fn versions_of_one_hash_stay_in_order() {
    model(|memtable| {
        let writers = [5, 3].map(|sequence| spawn(&memtable, move |memtable| insert(memtable, 1, sequence)));
        insert(&memtable, 1, 4);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(memtable.groups(), [(1, vec![Sequence(5), Sequence(4), Sequence(3)])]);
        assert_eq!(newest(&memtable, 1, 1, 9), Some(5));
        assert_eq!(newest(&memtable, 1, 1, 5), Some(3));
        assert_eq!(newest(&memtable, 1, 0, 9), Some(4), "another key with the same hash");
    });
}

/// Writers into the middle of a group that exists.
#[test]
fn late_writers_find_their_place() {
    model(|memtable| {
        insert(&memtable, 1, 9);
        insert(&memtable, 1, 1);
        let writer = spawn(&memtable, |memtable| insert(memtable, 1, 3));
        insert(&memtable, 1, 5);
        writer.join().unwrap();
        assert_eq!(memtable.groups(), [(1, [9, 5, 3, 1].map(Sequence).to_vec())]);
    });
}

/// Writers of different hashes into one bucket: each hash has one group.
#[test]
fn hashes_of_one_bucket_have_one_group_each() {
    model(|memtable| {
        let writers = [(1, 3), (5, 5)]
            .map(|(hash, sequence)| spawn(&memtable, move |memtable| insert(memtable, hash, sequence)));
        insert(&memtable, 5, 7);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut groups = memtable.groups();
        groups.sort();
        assert_eq!(groups, [(1, vec![Sequence(3)]), (5, vec![Sequence(7), Sequence(5)])]);
    });
}

/// Neighbours in time that lie in different tables are found, the newest of them first.
#[test]
fn versions_in_two_tables_are_both_found() {
    loom::model(|| {
        let memtable = Arc::new(Memtable::with_expected_entries(b"", 1, Arc::default()));
        let writer = spawn(&memtable, |memtable| insert(memtable, 1, 3));
        insert(&memtable, 1, 5);
        writer.join().unwrap();
        assert_eq!(memtable.groups().len(), 2);
        assert_eq!((newest(&memtable, 1, 1, 9), newest(&memtable, 1, 1, 5)), (Some(5), Some(3)));
    });
}

/// What was inserted before a publication is found after it, whatever else is going on.
#[test]
fn what_is_published_is_found() {
    use loom::sync::atomic::{AtomicU64, Ordering};
    loom::model(|| {
        let memtable = Arc::new(Memtable::with_expected_entries(b"", 2, Arc::default()));
        let watermark = loom::sync::Arc::new(AtomicU64::new(0));
        let publisher = {
            let watermark = loom::sync::Arc::clone(&watermark);
            spawn(&memtable, move |memtable| {
                insert(memtable, 1, 3);
                watermark.store(4, Ordering::Release);
            })
        };
        let straggler = spawn(&memtable, |memtable| insert(memtable, 1, 7));
        let before = watermark.load(Ordering::Acquire);
        assert_eq!(newest(&memtable, 1, 1, before), (before == 4).then_some(3));
        let mut cursor = memtable.cursor(Sequence(before), Arc::new(Log));
        cursor.seek_first().unwrap();
        assert_eq!(cursor.entry().map(|entry| entry.sequence.0), (before == 4).then_some(3));
        publisher.join().unwrap();
        straggler.join().unwrap();
        // What the first view had to leave is in the next.
        let mut cursor = memtable.cursor(Sequence(9), Arc::new(Log));
        cursor.seek_first().unwrap();
        assert_eq!(cursor.entry().map(|entry| entry.sequence.0), Some(7));
        cursor.next().unwrap();
        assert_eq!(cursor.entry().map(|entry| entry.sequence.0), Some(3));
        cursor.next().unwrap();
        assert!(cursor.entry().is_none());
    });
}

/// A scan at 3 that met no live record learns that of all keys of `gaps_of`, looking for writers
/// among the entries of `entries_of`. Both are one memtable, except where the order of writers is
/// wrong on purpose.
fn learn(gaps_of: &Memtable, entries_of: &Memtable) -> bool {
    let cursor = entries_of.cursor(Sequence(3), Arc::new(Log));
    let passed = Passed { start: b"a".to_vec(), end: None, through: Sequence(3), as_of_ms: 0, keys: 100 };
    gaps_of.gaps().learn(passed, || {
        let range = KeyRange { start: b"a", end: None };
        entries_of.may_have_live(range, Some(&cursor), (Sequence(3), &Log))
    })
}

/// Whether readers of everything would seek past `key`.
fn is_in_gap(memtable: &Memtable, key: &[u8]) -> bool {
    let list = memtable.gaps().list();
    let gap = list.as_ref().and_then(|list| list.first_after(key, Sequence::MAX, 0));
    gap.is_some_and(|gap| gap.start() <= key)
}

/// A writer beside a scan that learns a gap, where there are gaps already or not: the record is in
/// none afterwards.
#[test]
fn a_writer_is_not_missed_by_who_learns_a_gap() {
    for has_gaps in [false, true] {
        model(move |memtable| {
            if has_gaps {
                let (start, end) = (b"0".to_vec(), Some(b"1".to_vec()));
                let passed = Passed { start, end, through: Sequence(1), as_of_ms: 0, keys: 100 };
                assert!(memtable.gaps().learn(passed, || false));
            }
            let writer = spawn(&memtable, |memtable| insert(memtable, 1, 5));
            learn(&memtable, &memtable);
            writer.join().unwrap();
            assert!(!is_in_gap(&memtable, key_of(5)), "a live record lies in a gap");
        });
    }
}

/// Two scans learn the same beside a writer.
#[test]
fn a_writer_is_not_missed_by_two_who_learn() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let memtable = Arc::new(Memtable::with_expected_entries(b"", 4, Arc::default()));
        let writer = spawn(&memtable, |memtable| insert(memtable, 1, 5));
        let other = spawn(&memtable, |memtable| {
            learn(memtable, memtable);
        });
        learn(&memtable, &memtable);
        writer.join().unwrap();
        other.join().unwrap();
        assert!(!is_in_gap(&memtable, key_of(5)), "a live record lies in a gap");
    });
}

/// The order that is wrong: loom finds out a writer that looks for gaps before its entry is there.
#[test]
#[should_panic(expected = "a live record lies in a gap")]
fn a_writer_that_looks_first_is_found_out() {
    loom::model(|| {
        // The entry goes where no gaps are looked for.
        let gaps_of = Arc::new(Memtable::with_expected_entries(b"", 4, Arc::default()));
        let entries_of = Arc::new(Memtable::with_expected_entries(b"", 4, Arc::default()));
        let writer = {
            let entries_of = Arc::clone(&entries_of);
            spawn(&gaps_of, move |gaps_of| {
                gaps_of.gaps().note_write(key_of(5));
                insert(&entries_of, 1, 5);
            })
        };
        learn(&gaps_of, &entries_of);
        writer.join().unwrap();
        assert!(!is_in_gap(&gaps_of, key_of(5)), "a live record lies in a gap");
    });
}
