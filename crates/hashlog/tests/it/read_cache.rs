//! Reads of what lies on the device are answered from memory the next time, and never wrongly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_engine::blocking::Blocking;
use firn_engine::settings::MIB;
use firn_engine::{Engine, KEYSPACE_DEFAULT, ReadAt, Rmw, RmwAnswer, Session, WriteOptions};
use firn_hashlog::{HashLog, Settings};
use firn_storage::SystemClock;
use firn_storage::backend::Memory;

use crate::support::{Over, open, tiny};

/// Keys whose records are four times what the log has in memory.
const KEYS: u64 = 100_000;

fn settings(read_cache_bytes: u64) -> Settings {
    tiny().with_engine(|hash| hash.read_cache_bytes = read_cache_bytes)
}

fn value(key: u64, round: u64) -> Vec<u8> {
    let mut value = vec![round as u8; 200];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value[8..16].copy_from_slice(&round.to_le_bytes());
    value
}

fn loaded(read_cache_bytes: u64) -> Arc<HashLog> {
    let (storage, clock) = (Arc::new(Memory::new()), Arc::new(SystemClock::new()));
    let database = open(storage, clock, true, settings(read_cache_bytes)).expect("open");
    let mut session = Blocking::new(database.session());
    for key in 0..KEYS {
        put(&mut session, key, 0);
    }
    drop(session);
    database.flush().expect("flush");
    database.wait_idle().expect("idle");
    database
}

fn put(session: &mut Blocking<dyn Session>, key: u64, round: u64) {
    let options = WriteOptions::default();
    session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, round), options).expect("put");
}

fn get(session: &mut Blocking<dyn Session>, key: u64) -> Option<Vec<u8>> {
    session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get")
}

/// Reads `keys` in `rounds`; answers how many reads went to the device.
fn misses(database: &HashLog, keys: impl Iterator<Item = u64> + Clone, rounds: u64) -> u64 {
    let mut session = Blocking::new(database.session());
    let before = database.stats().read_miss_count;
    for _ in 0..rounds {
        for key in keys.clone() {
            assert!(get(&mut session, key) == Some(value(key, 0)), "key {key}");
        }
    }
    database.stats().read_miss_count - before
}

#[test]
fn what_is_read_again_is_read_from_memory() {
    let few = 0..2000;
    let without = misses(&loaded(0), few.clone(), 10);
    assert!(without >= 20_000, "{without} reads of the device");
    let database = loaded(2 * MIB);
    let with = misses(&database, few.clone(), 10);
    // Of chains with two keys only one has a copy, and while the cache grows some find no page.
    assert!((2000..6000).contains(&with), "{with} reads of the device");
    // Keys of which a few are read most.
    let mut random = fastrand::Rng::with_seed(3);
    let skewed: Vec<u64> = (0..400_000).map(|_| (KEYS as f64).powf(random.f64()) as u64 % KEYS).collect();
    let skewed = misses(&database, skewed.into_iter(), 1);
    assert!(skewed < 160_000, "{skewed} of 400 000 reads went to the device");
    // Others pass through the cache, and what is read between stays.
    let hot = (0..50_000).flat_map(|key| [key % 500, 10_000 + key]);
    let mixed = misses(&database, hot, 1);
    assert!(mixed < 60_000, "{mixed} reads of the device, of 50 000 that must and 50 000 that need not");
}

/// Writers change what is in the cache while it turns over; no reader sees an older value than it
/// has seen, and sums are exact.
#[test]
fn copies_are_never_older_than_what_was_written() {
    const HOT: u64 = 300;
    const ROUNDS: u64 = 15;
    let database = loaded(MIB);
    let acknowledged: Vec<AtomicU64> = (0..HOT).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2_u64 {
            let (database, acknowledged, is_over) = (&database, &acknowledged, &is_over);
            scope.spawn(move || {
                let mut session = Blocking::new(database.session());
                let mut random = fastrand::Rng::with_seed(reader);
                while !is_over.load(Ordering::Relaxed) {
                    let key = random.u64(..HOT);
                    let least = acknowledged[key as usize].load(Ordering::Acquire);
                    let found = get(&mut session, key).expect("it is never deleted");
                    let round = u64::from_le_bytes(found[8..16].try_into().expect("8 bytes"));
                    assert!(round >= least && found == value(key, round), "key {key}: {round} after {least}");
                    get(&mut session, HOT + random.u64(..KEYS - HOT)).expect("it is there");
                }
            });
        }
        let _over = Over(&is_over);
        let mut session = Blocking::new(database.session());
        for round in 1..ROUNDS {
            for key in 0..HOT {
                put(&mut session, key, round);
                acknowledged[key as usize].store(round, Ordering::Release);
            }
            // Out of memory with them, so that the next reads are copied.
            for key in KEYS..KEYS + 40_000 {
                put(&mut session, key, round);
            }
        }
    });
    let mut session = Blocking::new(database.session());
    assert!((0..HOT).all(|key| get(&mut session, key) == Some(value(key, ROUNDS - 1))));
    // A number that is read from its copy is added to where it lies.
    for round in 0..3_u64 {
        let answer =
            session.rmw(KEYSPACE_DEFAULT, b"number", Rmw::Add(1), WriteOptions::default()).expect("rmw");
        assert_eq!(answer, RmwAnswer::Sum(round as i64 + 1));
        for key in KEYS..KEYS + 40_000 {
            put(&mut session, key, round);
        }
        for _ in 0..2 {
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"number").expect("get");
            assert_eq!(found.as_deref(), Some(&(round + 1).to_le_bytes()[..]));
        }
    }
}
