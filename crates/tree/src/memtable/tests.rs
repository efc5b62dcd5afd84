#![cfg(not(loom))]

use super::*;
use firn_arena::{Region, Reservation};
use firn_format::Kind;
use firn_format::key::{Entry, Position, Sequence, key_hash};
use firn_format::log::record_bytes;
use firn_jobs::Cursor;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

mod tombstones;

/// Bytes of a frame before its record; here every frame holds one.
const HEADER_BYTES: usize = 16;

/// A log of one segment: frames of one record, positions from 0.
struct Log(Region);

impl Records for Log {
    fn record(&self, position: Position) -> Option<Record<'_>> {
        Record::at(self.0.read_from(position.0 as usize))
    }
}

impl Log {
    fn new(bytes: usize) -> Self {
        Self(Region::anonymous(bytes).unwrap())
    }

    /// What readers see now.
    fn watermark(&self) -> Sequence {
        Position(self.0.published() as u64).sequence()
    }

    /// Copies, indexes and publishes; `false` once the log is full.
    fn write(&self, memtable: &Memtable, key: &[u8], value: &[u8], kind: Kind) -> bool {
        let Some(frame) = self.copy(key, value, kind) else { return false };
        index(memtable, hash_of(key), key, &frame, kind);
        self.publish(frame);
        true
    }

    /// Copies a record into the log; `None` once that is full.
    fn copy(&self, key: &[u8], value: &[u8], kind: Kind) -> Option<Reservation<'_>> {
        let bytes = HEADER_BYTES + record_bytes(key.len(), value.len(), false);
        let mut frame = self.0.reserve(bytes).ok()?;
        let record = Record { keyspace: 0, kind, expires_at_ms: 0, key, value };
        record.encode(&mut frame.bytes_mut()[HEADER_BYTES - 8..]).unwrap();
        Some(frame)
    }

    fn publish(&self, frame: Reservation<'_>) {
        let bytes = frame.len() as u64;
        frame.publish(bytes);
        self.0.advance();
    }

    /// Every record below `before`, from the log's own bytes.
    fn model(&self, before: Sequence) -> Model {
        let (mut model, mut offset) = (Model::new(), 0);
        while offset < before.position().0 as usize {
            let bytes = u32::from_le_bytes(self.0.read(offset, 4).unwrap().try_into().unwrap()) as usize;
            let position = Position((offset + HEADER_BYTES) as u64);
            let record = self.record(position).unwrap();
            model.insert(
                (record.key.to_vec(), Reverse(position.sequence())),
                (record.kind, record.value.to_vec()),
            );
            offset += bytes;
        }
        assert_eq!(offset as u64, before.position().0);
        model
    }
}

type Model = BTreeMap<(Vec<u8>, Reverse<Sequence>), (Kind, Vec<u8>)>;
type Row = ((Vec<u8>, Reverse<Sequence>), (Kind, Vec<u8>));

fn index(memtable: &Memtable, hash: u32, key: &[u8], frame: &Reservation<'_>, kind: Kind) {
    let sequence = Position((frame.offset() + HEADER_BYTES) as u64).sequence();
    memtable.insert(hash, key, Trailer::new(sequence, kind));
}

fn hash_of(key: &[u8]) -> u32 {
    (key_hash(key) >> 32) as u32
}

fn row(entry: Entry<'_>) -> Row {
    ((entry.key.to_vec(), Reverse(entry.sequence)), (entry.kind, entry.value.to_vec()))
}

/// Compares all that can be asked at `before` with the model.
fn check(memtable: &Memtable, log: &Arc<Log>, before: Sequence, strange_keys: &[Vec<u8>]) {
    let model = log.model(before);
    let mut cursor = memtable.cursor(before, Arc::clone(log));
    assert!(cursor.entry().is_none());
    let mut rows = model.iter();
    cursor.seek_first().unwrap();
    while let Some(entry) = cursor.entry() {
        let (key, value) = rows.next().expect("an entry too many");
        assert_eq!(row(entry), (key.clone(), value.clone()));
        cursor.next().unwrap();
    }
    assert_eq!(rows.next(), None, "an entry too few");
    cursor.seek_last().unwrap();
    let mut rows = model.iter().rev();
    while let Some(entry) = cursor.entry() {
        let (key, value) = rows.next().expect("an entry too many, backward");
        assert_eq!(row(entry), (key.clone(), value.clone()));
        cursor.prev().unwrap();
    }
    assert_eq!(rows.next(), None, "an entry too few, backward");
    for key in model.keys().map(|(key, _)| key).chain(strange_keys) {
        let bound = (key.clone(), Reverse(Sequence::MAX));
        let newest = model.range(bound.clone()..).next().filter(|((found, _), _)| found == key);
        let found = memtable.newest(hash_of(key), key, before, &**log);
        let found = found.map(|(trailer, record)| (trailer.sequence(), record.key, record.value));
        assert_eq!(found, newest.map(|((key, sequence), value)| (sequence.0, &key[..], &value.1[..])));
        cursor.seek(key).unwrap();
        assert_eq!(
            cursor.entry().map(row).as_ref().map(|row| &row.0),
            model.range(bound.clone()..).next().map(|row| row.0)
        );
        cursor.seek_before(key).unwrap();
        assert_eq!(
            cursor.entry().map(row).as_ref().map(|row| &row.0),
            model.range(..bound).next_back().map(|row| row.0)
        );
    }
}

fn check_freeze(memtable: &Memtable, log: &Log) {
    let model = log.model(log.watermark());
    let frozen = memtable.freeze_entries(log);
    assert_eq!((frozen.entries.len(), frozen.hashes.len()), (model.len(), model.len()));
    for ((entry, hash), ((key, sequence), (kind, _))) in frozen.entries.iter().zip(&frozen.hashes).zip(&model)
    {
        assert_eq!(entry.trailer, Trailer::new(sequence.0, *kind));
        assert_eq!((*hash, entry.prefix), (hash_of(key), crate::buffer::prefix_word(key, &frozen.prefix)));
    }
}

/// Keys of 0 to 40 bytes; many share a prefix, some repeat, some lie outside of it.
fn random_key(random: &mut fastrand::Rng) -> Vec<u8> {
    match random.u8(..16) {
        0 => (0..random.usize(..=40)).map(|_| random.u8(..)).collect(),
        1 => b"common/prefix/"[..random.usize(..=14)].to_vec(),
        2 => [&b"common/prefix/"[..], &[0; 26][..random.usize(..=26)]].concat(),
        3 => [&b"common/prefix/"[..], &[0xff; 26][..random.usize(..=26)]].concat(),
        4 => format!("common/prefix/same8byt{:02}", random.u8(..20)).into_bytes(),
        5..10 => format!("common/prefix/{}", random.u8(..50)).into_bytes(),
        _ => format!("common/prefix/{:016}", random.u32(..)).into_bytes(),
    }
}

fn random_kind(random: &mut fastrand::Rng) -> Kind {
    [Kind::Put, Kind::Put, Kind::Delete, Kind::Merge][random.usize(..4)]
}

#[test]
fn answers_are_the_models_at_every_watermark() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        println!("seed {seed}");
        let common = [&b""[..], b"common/prefix/", b"common/prefix/0000", b"nobody's"][random.usize(..4)];
        let memtable = Memtable::with_expected_entries(common, 1, Arc::default());
        let log = Arc::new(Log::new(1 << 20));
        let mut watermarks = vec![Sequence(0)];
        for _ in 0..random.usize(..8) {
            for _ in 0..random.usize(..300) {
                let value = vec![random.u8(..); random.usize(..20)];
                assert!(log.write(&memtable, &random_key(&mut random), &value, random_kind(&mut random)));
            }
            watermarks.push(log.watermark());
            let strange: Vec<_> = (0..20).map(|_| random_key(&mut random)).collect();
            let before = watermarks[random.usize(..watermarks.len())];
            check(&memtable, &log, before, &strange);
            check(&memtable, &log, log.watermark(), &strange);
        }
        check_freeze(&memtable, &log);
    }
}

/// A walk in random directions is a walk over the model.
#[test]
fn a_cursor_turns_anywhere() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        println!("seed {seed}");
        let (memtable, log) = (Memtable::new(b"common/prefix/"), Arc::new(Log::new(1 << 20)));
        for step in 0..200 {
            log.write(&memtable, &random_key(&mut random), b"", Kind::Put);
            if step % 9 == 0 {
                // Many small arrays.
                drop(memtable.cursor(log.watermark(), Arc::clone(&log)));
            }
        }
        let before = Sequence(random.u64(1..=log.watermark().0));
        let rows: Vec<_> = log.model(log.watermark()).into_iter().filter(|row| row.0.1.0 < before).collect();
        let mut cursor = memtable.cursor(before, Arc::clone(&log));
        cursor.seek_first().unwrap();
        let mut place = 0;
        while place < rows.len() {
            assert_eq!(cursor.entry().map(row).as_ref(), Some(&rows[place]));
            if place > 0 && random.u8(..10) < 4 {
                cursor.prev().unwrap();
                place -= 1;
            } else {
                cursor.next().unwrap();
                place += 1;
            }
        }
        for _ in 0..2 {
            assert!(cursor.entry().is_none(), "past the end it stays");
            cursor.next().unwrap();
        }
    }
}

/// Writers race; whatever the moment, a reader at its watermark sees exactly the log below it.
#[test]
fn scans_and_reads_under_writers_see_exactly_their_watermark() {
    for seed in 0..8 {
        println!("seed {seed}");
        let memtable = Memtable::with_expected_entries(b"common/prefix/", 1 << seed, Arc::default());
        let log = Arc::new(Log::new(400 << 10));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let (memtable, log) = (&memtable, &log);
                    scope.spawn(move || {
                        let mut random = fastrand::Rng::with_seed(seed * 10 + writer);
                        while log.write(memtable, &random_key(&mut random), &[7; 9], random_kind(&mut random))
                        {
                            if random.u8(..8) == 0 {
                                thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            for reader in 0..2 {
                let (memtable, log, done) = (&memtable, &log, &done);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed * 10 + 5 + reader);
                    while !done.load(Ordering::Acquire) {
                        let now = log.watermark();
                        let strange = [random_key(&mut random)];
                        check(memtable, log, now, &strange);
                    }
                });
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Release);
        });
        assert!(memtable.len() > 2000, "{} entries", memtable.len());
        check(&memtable, &log, log.watermark(), &[]);
        check_freeze(&memtable, &log);
        for (_, sequences) in memtable.groups() {
            assert!(sequences.is_sorted_by(|a, b| a > b), "versions by falling sequence");
        }
    }
}

/// A reader never gets a version older than the newest one published before it asked.
#[test]
fn overwriting_shows_no_stale_version() {
    let (memtable, log) = (Memtable::new(b""), Log::new(1 << 20));
    let done = AtomicBool::new(false);
    assert!(log.write(&memtable, b"key", &0u64.to_le_bytes(), Kind::Put));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = Sequence(0);
                while !done.load(Ordering::Acquire) {
                    let before = log.watermark();
                    let (trailer, _) = memtable.newest(hash_of(b"key"), b"key", before, &log).unwrap();
                    assert!(trailer.sequence() >= last && trailer.sequence() < before);
                    last = trailer.sequence();
                    // One record a frame: the newest is the last of the prefix.
                    let bytes = (HEADER_BYTES + record_bytes(3, 8, false)) as u64;
                    assert_eq!(last.position().0 + bytes - HEADER_BYTES as u64, before.position().0);
                }
            });
        }
        let writers =
            [1, 2].map(|_| scope.spawn(|| while log.write(&memtable, b"key", &[1; 8], Kind::Put) {}));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
    });
}

#[test]
fn an_empty_memtable_freezes_to_nothing() {
    let (memtable, log) = (Memtable::new(b"x"), Arc::new(Log::new(4096)));
    assert!(memtable.is_empty());
    assert_eq!(memtable.common_prefix(), b"x", "what its keys would begin with is not forgotten");
    check(&memtable, &log, Sequence(0), &[b"x".to_vec()]);
    check(&memtable, &log, Sequence::MAX.min(log.watermark()), &[]);
    let frozen = memtable.freeze_entries(&*log);
    assert!(frozen.entries.is_empty() && frozen.hashes.is_empty());
    assert!(memtable.range_deletes(Sequence::MAX).is_empty());
}

/// A batch far beyond what was expected fills several tables and stays fast.
#[test]
fn a_memtable_outgrows_what_was_expected() {
    let (memtable, log) = (Memtable::with_expected_entries(b"", 1, Arc::default()), Log::new(64 << 20));
    let count = 300_000u64;
    for number in 0..count {
        assert!(log.write(
            &memtable,
            &number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(),
            b"",
            Kind::Put
        ));
    }
    assert_eq!(memtable.len() as u64, count);
    for number in 0..count {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        assert!(memtable.newest(hash_of(&key), &key, log.watermark(), &log).is_some(), "{number}");
        let key = [&key[..], b"!"].concat();
        assert!(memtable.newest(hash_of(&key), &key, log.watermark(), &log).is_none());
    }
    assert!(memtable.freeze_entries(&log).entries.is_sorted_by_key(|entry| entry.prefix));
    assert!(memtable.memory_bytes() < count as usize * 64, "{} bytes", memtable.memory_bytes());
}

/// Keys whose hashes agree are distinguished by the record.
#[test]
fn colliding_hashes_are_told_apart() {
    let (memtable, log) = (Memtable::new(b""), Log::new(1 << 16));
    for key in [&b"a"[..], b"b", b"a", b"c", b"b"] {
        let frame = log.copy(key, b"", Kind::Put).unwrap();
        index(&memtable, 7, key, &frame, Kind::Put);
        log.publish(frame);
    }
    let newest = |key: &[u8]| {
        memtable.newest(7, key, log.watermark(), &log).map(|(trailer, _)| trailer.sequence().0 * 8)
    };
    assert_eq!(
        [newest(b"a"), newest(b"b"), newest(b"c"), newest(b"d")],
        [Some(96), Some(176), Some(136), None]
    );
}

/// Writers that have indexed and not published neither show nor block, whatever order they came in.
/// Their bytes are not looked at, though their words are equal to those of others.
#[test]
fn writers_at_work_do_not_show() {
    let (memtable, log) = (Memtable::new(b""), Arc::new(Log::new(1 << 16)));
    assert!(log.write(&memtable, b"same word 1", b"old", Kind::Put));
    let before = log.watermark();
    let frames = [b"same word 2", b"same word 1", b"same word 1", b"same word 2"]
        .map(|key| (key, log.copy(key, b"new", Kind::Put).unwrap()));
    for place in [2, 3, 0, 1] {
        let (key, frame) = &frames[place];
        index(&memtable, hash_of(*key), *key, frame, Kind::Put);
        check(&memtable, &log, before, &[key.to_vec()]);
        assert_eq!(log.watermark(), before);
    }
    let groups = memtable.groups();
    assert!(groups.iter().all(|(_, sequences)| sequences.is_sorted_by(|a, b| a > b)), "{groups:?}");
    for (_, frame) in frames {
        log.publish(frame);
        check(&memtable, &log, log.watermark(), &[]);
        check(&memtable, &log, before, &[]);
    }
    check_freeze(&memtable, &log);
}

/// Entries of writers at work are passed over by a view that is extended, not taken.
#[test]
fn a_view_takes_only_what_is_published() {
    let (memtable, log) = (Memtable::new(b""), Arc::new(Log::new(1 << 16)));
    for _ in 0..2 {
        let published = log.copy(b"key", b"", Kind::Put).unwrap();
        let frames = [b"key", b"key"].map(|key| log.copy(key, b"", Kind::Put).unwrap());
        index(&memtable, hash_of(b"key"), b"key", &published, Kind::Put);
        log.publish(published);
        frames.iter().for_each(|frame| index(&memtable, hash_of(b"key"), b"key", frame, Kind::Put));
        // Sorting would have to compare the keys of the two that are not published.
        check(&memtable, &log, log.watermark(), &[]);
        frames.into_iter().for_each(|frame| log.publish(frame));
        check(&memtable, &log, log.watermark(), &[]);
    }
}

/// A log as an older reader knows it: its last segments began later.
struct Older {
    log: Arc<Log>,
    end: Position,
}

impl Records for Older {
    fn record(&self, position: Position) -> Option<Record<'_>> {
        if position < self.end { self.log.record(position) } else { None }
    }
}

/// A view that a newer reader has extended holds entries of segments that an older one does not
/// know.
#[test]
fn an_older_reader_reads_no_record_that_came_later() {
    let mut random = fastrand::Rng::with_seed(7);
    let (memtable, log) = (Memtable::new(b""), Arc::new(Log::new(1 << 20)));
    // Of one word, so that only their records distinguish them.
    let key_of = |number: u32| format!("one-word/{number:02}").into_bytes();
    let write = |number| assert!(log.write(&memtable, &key_of(number), b"", Kind::Put));
    for _ in 0..20 {
        (0..10).for_each(|_| write(random.u32(0..40)));
        let before = log.watermark();
        // Some keys have newer versions then, and some are only there for the newer reader.
        (0..30).for_each(|_| write(random.u32(0..60)));
        drop(memtable.cursor(log.watermark(), Arc::clone(&log)));
        let older = Arc::new(Older { log: Arc::clone(&log), end: before.position() });
        let (model, mut cursor) = (log.model(before), memtable.cursor(before, older));
        for key in (0..60).map(key_of) {
            let bound = (key.clone(), Reverse(Sequence::MAX));
            cursor.seek(&key).unwrap();
            let at = model.range(&bound..).next().map(|(key, value)| (key.clone(), value.clone()));
            assert_eq!(cursor.entry().map(row), at, "forward from {key:?}");
            cursor.prev().unwrap();
            let before = model.range(..&bound).next_back().map(|(key, value)| (key.clone(), value.clone()));
            assert!(at.is_none() || cursor.entry().map(row) == before, "turned before {key:?}");
            cursor.seek_before(&key).unwrap();
            assert_eq!(cursor.entry().map(row), before, "backward from {key:?}");
        }
    }
}

#[test]
fn a_successor_knows_what_its_predecessor_learnt() {
    let (memtable, log) = (Memtable::new(b""), Log::new(1 << 22));
    for number in 0..20_000 {
        assert!(log.write(&memtable, format!("user/{number:05}").as_bytes(), b"", Kind::Put));
    }
    memtable.charge(1000);
    memtable.charge(24);
    let next = memtable.successor();
    assert_eq!(
        (next.freeze_entries(&log).prefix, next.len(), next.record_bytes()),
        (b"user/".to_vec(), 0, 0)
    );
    assert_eq!(memtable.record_bytes(), 1024);
}
