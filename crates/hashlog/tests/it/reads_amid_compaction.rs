//! Keys are read while the log is compacted and truncated under them without a pause: none is
//! missed, and no value is older than one that was acknowledged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_engine::blocking::Blocking;
use firn_engine::settings::MIB;
use firn_engine::{
    BatchLimit, Engine, HashBatch, HashCursor, HashScan, Hashed, KEYSPACE_DEFAULT, ReadAt, Session,
    WriteOptions,
};
use firn_format::file_name::cold_segment;
use firn_format::hybrid::COLD_MIN;
use firn_hashlog::HashLog;
use firn_storage::backend::Memory;
use firn_storage::{Storage, SystemClock};

use crate::support::{Over, open, repeated_for, tiny};

/// Keys that are written once.
const FIXED: u64 = 3000;
/// Keys that are written again and again.
const WRITTEN: u64 = 75_000;

/// What `key` has after so many rounds.
fn value(key: u64, round: u64) -> Vec<u8> {
    let mut value = vec![key as u8; 200];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value[8..16].copy_from_slice(&round.to_le_bytes());
    value
}

fn put(session: &mut Blocking<dyn Session>, key: u64, round: u64) {
    let options = WriteOptions::default();
    session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, round), options).expect("put");
}

/// Reads one after the other until it is over; answers how many that were.
fn read_fixed(database: &HashLog, first: u64, is_over: &AtomicBool) -> u64 {
    let mut session = Blocking::new(database.session());
    let mut reads = 0;
    while !is_over.load(Ordering::Relaxed) {
        let key = (first + reads) % FIXED;
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
        assert!(found == Some(value(key, 0)), "key {key} has {found:?}");
        reads += 1;
    }
    reads
}

/// The same for keys that are written, whose acknowledged rounds are in `rounds`.
fn read_written(database: &HashLog, rounds: &[AtomicU64], is_over: &AtomicBool) -> u64 {
    let mut session = Blocking::new(database.session());
    let mut random = fastrand::Rng::with_seed(1);
    let mut reads = 0;
    while !is_over.load(Ordering::Relaxed) {
        let key = FIXED + random.u64(..WRITTEN);
        let least = rounds[(key - FIXED) as usize].load(Ordering::Acquire);
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
        let Some(found) = found else {
            assert!(least == 0, "key {key} is missed after round {least}");
            continue;
        };
        let round = u64::from_le_bytes(found[8..16].try_into().expect("8 bytes"));
        assert!(round >= least && found == value(key, round), "key {key}: round {round} after {least}");
        reads += 1;
    }
    reads
}

/// The same for many keys at once, of both kinds.
fn read_together(database: &HashLog, rounds: &[AtomicU64], is_over: &AtomicBool) -> u64 {
    let mut session = Blocking::new(database.session());
    let mut random = fastrand::Rng::with_seed(2);
    let mut reads = 0;
    while !is_over.load(Ordering::Relaxed) {
        let count = random.usize(2..100);
        let keys: Vec<u64> = (0..count)
            .map(|index| if index % 2 == 0 { random.u64(..FIXED) } else { FIXED + random.u64(..WRITTEN) })
            .collect();
        let least = |key: u64| match key.checked_sub(FIXED) {
            Some(written) => rounds[written as usize].load(Ordering::Acquire),
            None => 0,
        };
        let leasts: Vec<u64> = keys.iter().map(|key| least(*key)).collect();
        let bytes: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let slices: Vec<&[u8]> = bytes.iter().map(|key| key.as_slice()).collect();
        let found = session.multi_get(ReadAt::Latest, KEYSPACE_DEFAULT, &slices).expect("multi_get");
        assert_eq!(found.len(), count);
        for ((key, least), found) in keys.into_iter().zip(leasts).zip(found.iter()) {
            let Some(found) = found else {
                assert!(key >= FIXED && least == 0, "key {key} is missed after round {least}");
                continue;
            };
            let round = u64::from_le_bytes(found[8..16].try_into().expect("8 bytes"));
            let is_new = round >= least && (key >= FIXED || round == 0);
            assert!(is_new && found == value(key, round), "key {key}: round {round} after {least}");
        }
        reads += count as u64;
    }
    reads
}

/// The same as of snapshots, each of which keeps the log for a moment.
fn read_snapshots(database: &HashLog, is_over: &AtomicBool) -> u64 {
    let mut session = Blocking::new(database.session());
    let mut reads = 0;
    while !is_over.load(Ordering::Relaxed) {
        let snapshot = database.snapshot().expect("snapshot");
        for _ in 0..200 {
            let key = reads * 31 % FIXED;
            let at = ReadAt::Snapshot(&snapshot);
            let found = session.get(at, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
            assert!(found == Some(value(key, 0)), "key {key} has {found:?} in a snapshot");
            reads += 1;
        }
    }
    reads
}

/// Scans all keys until it is over: each scan has every fixed one.
fn scan_all(database: &Arc<HashLog>, is_over: &AtomicBool) -> u64 {
    let mut session = Blocking::new(Arc::clone(database).hashed_session());
    let (mut scans, mut batch) = (0, HashBatch::new());
    while !is_over.load(Ordering::Relaxed) {
        let (mut found, mut next) = (BTreeSet::new(), Some(HashCursor::START));
        while let Some(from) = next {
            let limit = BatchLimit::default();
            let scan = HashScan { keyspace: KEYSPACE_DEFAULT, from, limit, has_values: false };
            session.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("scan");
            let number = |key: &[u8]| u64::from_le_bytes(key.try_into().expect("8 bytes"));
            found.extend(batch.records().records().map(|(key, _)| number(key)));
            next = batch.next();
        }
        let missed: Vec<u64> = (0..FIXED).filter(|key| !found.contains(key)).collect();
        assert!(missed.is_empty(), "a scan misses {missed:?}");
        scans += 1;
    }
    scans
}

/// Overwrites keys until the log has been truncated often; answers how many reads and scans there
/// were meanwhile.
fn all_is_found(writes: u64) -> [u64; 2] {
    let memory = Memory::new();
    // Of these keys the index is full, so the first ones become cold.
    let settings = tiny().with_engine(|hash| hash.index_bytes_max = MIB / 4 * 5);
    let database =
        open(Arc::new(memory.clone()), Arc::new(SystemClock::new()), true, settings).expect("open");
    let mut session = Blocking::new(database.session());
    (0..FIXED).for_each(|key| put(&mut session, key, 0));
    let rounds: Vec<AtomicU64> = (0..WRITTEN).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        let (database, rounds, is_over) = (&database, rounds.as_slice(), &is_over);
        // Each of them ends the others when it panics.
        let readers = [
            scope.spawn(move || (Over(is_over), read_fixed(database, 0, is_over)).1),
            scope.spawn(move || (Over(is_over), read_fixed(database, FIXED / 2, is_over)).1),
            scope.spawn(move || (Over(is_over), read_written(database, rounds, is_over)).1),
            scope.spawn(move || (Over(is_over), read_together(database, rounds, is_over)).1),
            scope.spawn(move || (Over(is_over), read_snapshots(database, is_over)).1),
        ];
        let scanner = scope.spawn(move || (Over(is_over), scan_all(database, is_over)).1);
        let over = Over(is_over);
        for written in 0..writes {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let (key, round) = (written % WRITTEN, 1 + written / WRITTEN);
            put(&mut session, FIXED + key, round);
            rounds[key as usize].store(round, Ordering::Release);
            // What a checkpoint has is not changed in place any more.
            if written % 2000 == 0 {
                database.flush().expect("flush");
            }
        }
        drop(over);
        let reads = readers.into_iter().map(|reader| reader.join().expect("a reader")).sum();
        [reads, scanner.join().expect("a scanner")]
    });
    drop(session);
    database.flush().expect("flush");
    database.wait_idle().expect("idle");
    let names = memory.list().expect("list").into_iter().map(|(name, _)| name);
    let first = names.filter(|name| name.ends_with(".hybrid")).min();
    assert!(first.is_some_and(|name| !name.starts_with("0000000000000000")), "nothing went");
    let stats = database.stats().hash.expect("it is a hashed engine");
    assert!(stats.compaction_copy_bytes_total > FIXED * 200, "what is read was not moved: {stats:?}");
    let names = memory.list().expect("list").into_iter().map(|(name, _)| name);
    let first = names.filter(|name| name.ends_with(".cold")).min();
    assert!(first.is_some_and(|name| name != cold_segment(COLD_MIN)), "nothing cold went: {stats:?}");
    assert!(stats.cold.run_write_bytes_total > 0, "nothing was spilled: {stats:?}");
    done
}

#[test]
fn nothing_is_missed_and_nothing_stale() {
    let [reads, scans] = all_is_found(400_000);
    assert!(reads > 10_000 && scans > 3, "{reads} reads, {scans} scans");
}

#[test]
#[ignore = "minutes: the soak runs it"]
fn nothing_is_missed_and_nothing_stale_for_long() {
    let (mut reads, mut scans, mut databases) = (0, 0, 0);
    repeated_for("FIRN_SECONDS", 120, |_| {
        let [more_reads, more_scans] = all_is_found(1_000_000);
        (reads, scans, databases) = (reads + more_reads, scans + more_scans, databases + 1);
    });
    println!("{reads} reads and {scans} scans amid compactions of {databases} databases: nothing missed");
}
