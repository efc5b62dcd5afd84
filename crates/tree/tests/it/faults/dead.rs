//! P2 and C1: a queue from whose end record after record is taken, while each look at the end
//! passes all that were taken before. Neighbours: both directions; the records in memtable, runs
//! and tables; a snapshot held meanwhile; expired records. A range delete; one key with very many
//! versions; writes into a range that was passed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    BatchLimit, Direction, Engine, KEYSPACE_DEFAULT, Ordered, ReadAt, ScanBatch, ScanRange, Snapshot,
    WriteOptions,
};
use firn_format::datatype::slot::crc16;
use firn_storage::Clock;
use firn_tree::Tree;

use crate::support::world::{World, delete_range, get, put, rows, session, settle, tiny};

/// Times that a dead record is passed at most, and once more after a reopening.
const PASSES: u64 = 4;

fn key(number: u32) -> Vec<u8> {
    [b"queue:", &number.to_be_bytes()[..]].concat()
}

fn delete(session: &mut OrderedBlocking, key: &[u8]) {
    session.delete(KEYSPACE_DEFAULT, key, WriteOptions::default()).unwrap();
}

/// Records that scans have passed without giving them.
fn passed(tree: &Tree) -> u64 {
    tree.stats().tree.expect("a tree").scan_dead_passed_count
}

/// The key at one end.
fn first(session: &mut OrderedBlocking, direction: Direction) -> Option<Vec<u8>> {
    let range = ScanRange { direction, ..ScanRange::with_prefix(b"queue:") };
    let mut scan = session.session().scan(ReadAt::Latest, KEYSPACE_DEFAULT, range).unwrap();
    let mut batch = ScanBatch::new();
    while batch.is_empty() && !batch.is_finished() {
        session.next_batch(&mut *scan, BatchLimit { records: 1, bytes: 1 << 20 }, &mut batch).unwrap();
    }
    batch.get(0).map(|(key, _)| key.to_vec())
}

/// Takes the key at one end.
fn pop(session: &mut OrderedBlocking, direction: Direction) -> Option<Vec<u8>> {
    let found = first(session, direction)?;
    delete(session, &found);
    Some(found)
}

fn fill(session: &mut OrderedBlocking, count: u32) {
    (0..count).for_each(|number| {
        put(session, &key(number), b"v");
    });
}

/// Takes `count` keys, which are there, from one end.
#[track_caller]
fn pop_all(session: &mut OrderedBlocking, count: u32, direction: Direction) {
    for number in 0..count {
        let expected = match direction {
            Direction::Forward => number,
            Direction::Backward => count - 1 - number,
        };
        assert_eq!(pop(session, direction), Some(key(expected)));
    }
    assert_eq!(pop(session, direction), None);
}

#[test]
fn p2_all_are_popped_one_by_one() {
    let count = 4000;
    for direction in [Direction::Forward, Direction::Backward] {
        for is_flushed in [false, true] {
            let tree = World::new(tiny()).open().unwrap();
            let mut session = session(&tree);
            fill(&mut session, count);
            if is_flushed {
                tree.flush().unwrap();
            }
            pop_all(&mut session, count, direction);
            // Of each key the record and the delete of it are passed.
            let dead = 2 * u64::from(count);
            assert!(passed(&tree) <= PASSES * dead, "{} passed, {direction:?}, {is_flushed}", passed(&tree));
            assert!(passed(&tree) >= dead, "the test counts something");
        }
    }
}

#[test]
fn p2_a_steady_queue_stays_flat() {
    let tree = World::new(tiny()).open().unwrap();
    let mut session = session(&tree);
    fill(&mut session, 50);
    let rounds = 5000;
    let mut before = 0;
    for round in 0..rounds {
        if round == rounds / 2 {
            before = passed(&tree);
        }
        put(&mut session, &key(50 + round), b"v");
        assert_eq!(pop(&mut session, Direction::Forward), Some(key(round)));
    }
    let (first, second) = (before, passed(&tree) - before);
    assert!(second <= first + first / 10, "{first} passed, then {second}");
    assert!(passed(&tree) <= PASSES * 2 * u64::from(rounds), "{} passed", passed(&tree));
}

/// A key in a slot, as the server has them: names that differ little lie in a few regions.
fn scattered(number: u32) -> Vec<u8> {
    let name = format!("key:{number}");
    let slot = crc16(name.as_bytes());
    [b"queue:", &(slot % 16_384).to_be_bytes()[..], name.as_bytes()].concat()
}

/// Looks at the first keys, as a step of `SCAN` does: 32 of them.
fn look_at_first(session: &mut OrderedBlocking) {
    let mut scan =
        session.session().scan(ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::with_prefix(b"queue:")).unwrap();
    let (mut batch, mut found) = (ScanBatch::new(), 0);
    while found < 32 {
        let limit = BatchLimit { records: 32 - found, bytes: 1 << 20 };
        session.next_batch(&mut *scan, limit, &mut batch).unwrap();
        found += batch.len();
        assert!(!batch.is_finished(), "there are more");
    }
}

/// Learns of gaps whose ends take more memory than gaps may.
fn learn_elsewhere(session: &mut OrderedBlocking) {
    for number in 0..5 * 600_u32 {
        let key = [b"other:", &number.to_be_bytes()[..], &[7; 4000]].concat();
        put(session, &key, b"v");
        if number % 5 > 0 {
            delete(session, &key);
        }
    }
    let found = rows(session, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::with_prefix(b"other:"));
    assert_eq!(found.len(), 600);
}

/// Each new key comes amid dead ones, of which some are looked at seldom.
#[test]
fn p2_keys_that_come_and_go_in_any_order() {
    for is_full in [false, true] {
        let tree = World::new(tiny()).open().unwrap();
        let mut session = session(&tree);
        if is_full {
            learn_elsewhere(&mut session);
        }
        let (live, rounds, elsewhere) = (50, 25_000, passed(&tree));
        (0..live).for_each(|number| {
            put(&mut session, &scattered(number), b"v");
        });
        for round in 0..rounds {
            put(&mut session, &scattered(live + round), b"v");
            delete(&mut session, &scattered(round));
            look_at_first(&mut session);
        }
        let (passed, dead) = (passed(&tree) - elsewhere, 2 * u64::from(rounds));
        assert!(passed <= 2 * dead, "{passed} passed of {dead} dead records, {is_full}");
    }
}

/// A scan's range ends before a live key, behind which all is known to be dead. The live key lies
/// in a table that the scan has nothing to look for in.
#[test]
fn p2_a_scan_learns_nothing_beyond_its_range() {
    for direction in [Direction::Forward, Direction::Backward] {
        let tree = World::new(tiny()).open().unwrap();
        let mut at = session(&tree);
        put(&mut at, b"m", b"live");
        tree.flush().unwrap();
        // Ten dead keys beyond the live one, and one on this side.
        let (near, beyond) = if direction == Direction::Forward { (b'c', b'x') } else { (b'x', b'c') };
        for key in (0..10).map(|number| vec![beyond, number]).chain([vec![near]]) {
            put(&mut at, &key, b"v");
            delete(&mut at, &key);
        }
        let mut scan = |start: &[u8], end: Option<&[u8]>| {
            let (start, end) = (start.to_vec(), end.map(<[u8]>::to_vec));
            let range = ScanRange { start, end, direction, ..ScanRange::all() };
            rows(&mut at, ReadAt::Latest, KEYSPACE_DEFAULT, range).len()
        };
        let (above, below) = ((&b"n"[..], None), (&b""[..], Some(&b"l"[..])));
        let (known, up_to_it) = match direction {
            Direction::Forward => (above, (&b""[..], Some(&b"m"[..]))),
            Direction::Backward => (below, (&b"m\0"[..], None)),
        };
        assert_eq!(scan(known.0, known.1), 0, "it is learnt that all beyond is dead");
        assert_eq!(scan(up_to_it.0, up_to_it.1), 0);
        assert_eq!(scan(b"", None), 1, "{direction:?}: a scan up to the live key has hidden it");
    }
}

#[test]
fn p2_after_deletes_flush_compaction_and_reopening() {
    let count = 10_000;
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut at = session(&tree);
    fill(&mut at, count);
    tree.flush().unwrap();
    (0..count - 1).for_each(|number| delete(&mut at, &key(number)));
    let look = |at: &mut OrderedBlocking, tree: &Tree, what: &str, allowed: u64| {
        let before = passed(tree);
        for _ in 0..20 {
            assert_eq!(first(at, Direction::Forward), Some(key(count - 1)), "{what}");
            assert_eq!(first(at, Direction::Backward), Some(key(count - 1)), "{what}");
        }
        let passed = passed(tree) - before;
        assert!(passed <= allowed, "{what}: {passed} passed, {allowed} allowed");
    };
    let dead = 2 * u64::from(count);
    look(&mut at, &tree, "deleted", dead);
    look(&mut at, &tree, "looked at before", 0);
    tree.freeze().unwrap();
    settle(&tree);
    look(&mut at, &tree, "frozen", 0);
    tree.flush().unwrap();
    look(&mut at, &tree, "flushed", 0);
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    look(&mut at, &tree, "compacted", 0);
    drop(at);
    tree.close().unwrap();
    drop(tree);
    let tree = world.open().unwrap();
    let mut at = session(&tree);
    look(&mut at, &tree, "reopened", dead);
    look(&mut at, &tree, "reopened, and looked at before", 0);
}

#[test]
fn p2_a_snapshot_is_held() {
    let count = 3000;
    let tree = World::new(tiny()).open().unwrap();
    let mut session = session(&tree);
    fill(&mut session, count);
    let snapshot = tree.snapshot().unwrap();
    pop_all(&mut session, count, Direction::Forward);
    assert!(passed(&tree) <= PASSES * 2 * u64::from(count), "{} passed", passed(&tree));
    let all = rows(&mut session, ReadAt::Snapshot(&snapshot), KEYSPACE_DEFAULT, ScanRange::all());
    assert_eq!(all.len(), count as usize, "the snapshot shows what was there");
    // A point at which all are dead uses what was learnt, and so do later ones.
    let later = tree.snapshot().unwrap();
    put(&mut session, &key(7), b"again");
    for (snapshot, expected) in [(&later, 0), (&snapshot, count as usize)] {
        let range = ScanRange::with_prefix(b"queue:");
        assert_eq!(rows(&mut session, ReadAt::Snapshot(snapshot), KEYSPACE_DEFAULT, range).len(), expected);
    }
    assert_eq!(first(&mut session, Direction::Forward), Some(key(7)));
}

#[test]
fn p2_expired_and_range_deleted_records_are_passed_once() {
    let count = 3000;
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    let expiring = WriteOptions { expires_at_ms: world.clock.unix_ms() + 1000, ..WriteOptions::default() };
    for number in 0..count {
        session.put(KEYSPACE_DEFAULT, &key(number), b"v", expiring).unwrap();
    }
    put(&mut session, &key(2 * count), b"v");
    for number in count..2 * count {
        put(&mut session, &key(number), b"v");
    }
    assert_eq!(first(&mut session, Direction::Forward), Some(key(0)), "they have not expired yet");
    world.clock.advance(std::time::Duration::from_secs(2));
    delete_range(&tree, KEYSPACE_DEFAULT, &key(count), &key(2 * count)).unwrap();
    for _ in 0..20 {
        assert_eq!(first(&mut session, Direction::Forward), Some(key(2 * count)));
    }
    assert!(passed(&tree) <= 2 * u64::from(count), "{} passed", passed(&tree));
}

#[test]
fn p2_versions_of_one_key_are_not_walked_over() {
    let tree = World::new(tiny()).open().unwrap();
    let mut session = session(&tree);
    put(&mut session, &key(0), b"v");
    put(&mut session, &key(2), b"v");
    (0..5000_u32).for_each(|round| {
        put(&mut session, &key(1), &round.to_be_bytes());
    });
    let expected =
        [(key(0), b"v".to_vec()), (key(1), 4999_u32.to_be_bytes().to_vec()), (key(2), b"v".to_vec())];
    for direction in [Direction::Forward, Direction::Backward] {
        let range = ScanRange { direction, ..ScanRange::all() };
        let mut found = rows(&mut session, ReadAt::Latest, KEYSPACE_DEFAULT, range);
        found.sort();
        assert_eq!(found, expected, "{direction:?}");
    }
    assert!(passed(&tree) <= 100, "{} passed", passed(&tree));
}

#[test]
fn p2_no_batch_passes_all_at_once() {
    let tree = World::new(tiny()).open().unwrap();
    let mut session = session(&tree);
    fill(&mut session, 20_000);
    (0..20_000).for_each(|number| delete(&mut session, &key(number)));
    for direction in [Direction::Forward, Direction::Backward] {
        let range = ScanRange { direction, ..ScanRange::all() };
        let mut scan = session.session().scan(ReadAt::Latest, KEYSPACE_DEFAULT, range).unwrap();
        let (mut batch, mut batches) = (ScanBatch::new(), 0);
        while !batch.is_finished() {
            let before = passed(&tree);
            session.next_batch(&mut *scan, BatchLimit::default(), &mut batch).unwrap();
            assert!(passed(&tree) - before < 5000, "{} passed by one call", passed(&tree) - before);
            assert!(batch.is_empty());
            batches += 1;
        }
        match direction {
            Direction::Forward => assert!(batches >= 9, "{batches}"),
            Direction::Backward => assert_eq!(batches, 1, "the other walk has learnt them"),
        }
    }
}

/// What a drawn history has made of the keys at one point.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Numbers drawn by xorshift.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as u32 % bound
    }
}

/// Both directions of some range show the model.
#[track_caller]
fn same(session: &mut OrderedBlocking, at: ReadAt<'_>, model: &Model, draw: &mut Draw, what: &str) {
    let (a, b) = (draw.below(64), draw.below(66));
    let end = (b < 64).then(|| key(b));
    let is_inside = |key: &&Vec<u8>| end.as_ref().is_none_or(|end| *key < end);
    let start = key(a);
    let expected: Vec<_> = model
        .range(start.clone()..)
        .filter(|(key, _)| is_inside(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let range = ScanRange { start, end, ..ScanRange::default() };
    let mut backward = rows(session, at, KEYSPACE_DEFAULT, range.clone().backward());
    backward.reverse();
    assert_eq!(rows(session, at, KEYSPACE_DEFAULT, range), expected, "{what}: forward from {a} to {b}");
    assert_eq!(backward, expected, "{what}: backward to {a} from {b}");
}

/// A live key between two deleted ones in each deeper place, snapshots before and after, and
/// writers amid a pass: drawn.
#[test]
fn p2_drawn_histories_show_what_the_model_shows() {
    for seed in 1..=30_u64 {
        let what = format!("seed {seed}");
        let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let world = World::new(tiny());
        let mut tree = world.open().unwrap();
        let mut session = session(&tree);
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..400_u32 {
            match draw.below(40) {
                0 => tree.flush().unwrap(),
                1 => tree.compact_range(KEYSPACE_DEFAULT, &key(draw.below(32)), None).unwrap(),
                2 | 3 => {
                    tree.freeze().unwrap();
                    tree.step().unwrap();
                }
                4 | 5 => snapshots.push((tree.snapshot().unwrap(), model.clone())),
                6 => snapshots.truncate(1),
                7 => {
                    let (a, b) = (draw.below(64), draw.below(64));
                    if a < b {
                        delete_range(&tree, KEYSPACE_DEFAULT, &key(a), &key(b)).unwrap();
                        model.retain(|at, _| *at < key(a) || *at >= key(b));
                    }
                }
                8 if draw.below(8) == 0 => {
                    snapshots.clear();
                    tree.close().unwrap();
                    drop(session);
                    drop(tree);
                    tree = world.open().unwrap();
                    session = crate::support::world::session(&tree);
                }
                9..=14 => {
                    let at = key(draw.below(64));
                    put(&mut session, &at, &step.to_be_bytes());
                    model.insert(at, step.to_be_bytes().to_vec());
                }
                15..=30 => {
                    let at = key(draw.below(64));
                    delete(&mut session, &at);
                    model.remove(&at);
                }
                31 | 32 => amid_a_pass(&mut session, &mut model, &mut draw, step, &what),
                _ => {
                    same(&mut session, ReadAt::Latest, &model, &mut draw, &what);
                    if let Some((snapshot, model)) = snapshots.last() {
                        same(&mut session, ReadAt::Snapshot(snapshot), model, &mut draw, &what);
                    }
                }
            }
        }
        same(&mut session, ReadAt::Latest, &model, &mut draw, &what);
        for (snapshot, model) in &snapshots {
            same(&mut session, ReadAt::Snapshot(snapshot), model, &mut draw, &what);
        }
        for (key, value) in &model {
            assert_eq!(get(&mut session, key).as_ref(), Some(value), "{what}");
        }
    }
}

/// Writes between two batches of a walk, which shows what was there when it began.
fn amid_a_pass(session: &mut OrderedBlocking, model: &mut Model, draw: &mut Draw, step: u32, what: &str) {
    let direction = [Direction::Forward, Direction::Backward][draw.below(2) as usize];
    let range = ScanRange { direction, ..ScanRange::all() };
    let mut scan = session.session().scan(ReadAt::Latest, KEYSPACE_DEFAULT, range).unwrap();
    let (mut batch, mut found) = (ScanBatch::new(), Model::new());
    let began = model.clone();
    while !batch.is_finished() {
        session.next_batch(&mut *scan, BatchLimit { records: 3, bytes: 1 << 20 }, &mut batch).unwrap();
        found.extend(batch.records().map(|(key, value)| (key.to_vec(), value.to_vec())));
        let at = key(draw.below(64));
        if draw.below(3) == 0 {
            put(session, &at, &step.to_be_bytes());
            model.insert(at, step.to_be_bytes().to_vec());
        } else {
            delete(session, &at);
            model.remove(&at);
        }
    }
    assert_eq!(found, began, "{what}: a walk amid which others wrote");
}

/// Threads that write into a range, each of which looks whether it finds its own write, while
/// others learn that the range is dead.
#[test]
fn p2_writers_are_not_missed_by_those_who_learn() {
    let tree = World::new(tiny()).open_threads();
    let is_over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let scanners: Vec<_> = (0..2)
            .map(|index| {
                let (tree, is_over) = (Arc::clone(&tree), Arc::clone(&is_over));
                scope.spawn(move || {
                    let mut session = session(&tree);
                    let direction = [Direction::Forward, Direction::Backward][index];
                    let mut scans = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        first(&mut session, direction);
                        scans += 1;
                    }
                    scans
                })
            })
            .collect();
        let writers: Vec<_> = (0..2_u32)
            .map(|writer| {
                let tree = Arc::clone(&tree);
                scope.spawn(move || {
                    let mut session = session(&tree);
                    for round in 0..3000_u32 {
                        let own = key(2 * (round % 40) + writer);
                        put(&mut session, &own, &round.to_be_bytes());
                        let range = ScanRange::between(&key(0), &[own.as_slice(), &[0]].concat()).backward();
                        let mut scan = session.scan(ReadAt::Latest, KEYSPACE_DEFAULT, range).unwrap();
                        let found =
                            scan.next_record().unwrap().map(|(key, value)| (key.to_vec(), value.to_vec()));
                        assert_eq!(
                            found,
                            Some((own.clone(), round.to_be_bytes().to_vec())),
                            "writer {writer}"
                        );
                        drop(scan);
                        delete(&mut session, &own);
                    }
                })
            })
            .collect();
        // A writer that missed its record ends the scanners too.
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        written.into_iter().for_each(|writer| writer.unwrap());
        assert!(scanners.into_iter().map(|scanner| scanner.join().unwrap()).sum::<u32>() > 0);
    });
}
