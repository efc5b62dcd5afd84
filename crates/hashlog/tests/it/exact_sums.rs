//! Sums that several threads add to are exact, whatever happens to the log meanwhile: in the open
//! database, after a kill, and after a close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::blocking::Blocking;
use firn_engine::{
    Durability, Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, ReadAt, Rmw, RmwAnswer, WriteOptions,
};
use firn_hashlog::HashLog;
use firn_storage::backend::{Crash, Memory};
use firn_storage::{ManualClock, SystemClock};

use crate::support::{open, repeated_for, tiny};

const THREADS: u64 = 3;
/// Additions of each thread, at least.
const ADDITIONS: u64 = 20_000;
const FEW: u64 = 3;
const MANY: u64 = 5000;
/// Rounds of what happens meanwhile.
const ROUNDS: u64 = 30;

/// What happens while threads add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    /// Pages turn every few records.
    Turns,
    /// The slot of all sums grows.
    Growth,
    Compaction,
    Checkpoints,
    Snapshots,
}

use Meanwhile::{Checkpoints, Compaction, Growth, Snapshots, Turns};

impl Meanwhile {
    /// Once more; `keyspace` has the sums.
    fn happen(self, database: &HashLog, keyspace: KeyspaceId, round: u64) {
        let mut session = Blocking::new(database.session());
        let mut put = |keyspace, key: &[u8], value: &[u8]| {
            session.put(keyspace, key, value, WriteOptions::default()).expect("put");
        };
        match self {
            // Five of them fill a page; what is overwritten is read-only by then.
            Turns => (0..20).for_each(|large| {
                let large = (round * 20 + large) % 60;
                put(KEYSPACE_DEFAULT, format!("large {large}").as_bytes(), &[7; 100_000]);
            }),
            Growth => (0..500).for_each(|key| {
                put(keyspace, &[round, key].map(u64::to_le_bytes).concat(), b"");
            }),
            // Of each segment some keys live, and most do not.
            Compaction => {
                let keys = (0..3000).map(|key| key * (1 + round % 3));
                keys.for_each(|key| put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &[1; 200]));
                database.flush().expect("flush");
            }
            Checkpoints => database.flush().expect("flush"),
            Snapshots => drop(database.snapshot().expect("snapshot")),
        }
    }

    /// Otherwise nothing was shown.
    fn has_happened(self, database: &HashLog) -> bool {
        let stats = database.stats().hash.expect("it is a hashed engine");
        match self {
            Turns => stats.flush_write_bytes_total > ROUNDS * 20 * 90_000,
            Growth => stats.index_bytes > ROUNDS * 500 * 9,
            Compaction => stats.compaction_copy_bytes_total > 0,
            Checkpoints => stats.checkpoint_count >= ROUNDS,
            Snapshots => true,
        }
    }
}

/// Counts that something is no longer under way when it is dropped, by a panic too.
struct Ended<'u>(&'u AtomicU64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds to `keys` sums from several threads while all of `meanwhile` happen at once; answers how
/// many additions that were.
fn sums_are_exact(keys: u64, meanwhile: &[Meanwhile], durability: Durability) -> u64 {
    let memory = Memory::new();
    let database = open(Arc::new(memory.clone()), Arc::new(SystemClock::new()), true, tiny()).expect("open");
    let settings = KeyspaceSettings { in_one_slot: true, ..KeyspaceSettings::default() };
    let keyspace = database.create_keyspace("sums", settings).expect("create");
    let under_way = AtomicU64::new(meanwhile.len() as u64);
    let add = |thread: u64| {
        let mut session = Blocking::new(database.session());
        let options = WriteOptions { durability: Some(durability), ..WriteOptions::default() };
        let mut seen = vec![0; keys as usize];
        let mut additions = 0;
        while additions < ADDITIONS || under_way.load(Ordering::Relaxed) > 0 {
            // Each thread goes through the keys from another one on.
            let key = (additions + thread * 7) % keys;
            let answer = session.rmw(keyspace, &key.to_le_bytes(), Rmw::Add(1), options).expect("rmw");
            let RmwAnswer::Sum(sum) = answer else { panic!("{answer:?}") };
            assert!(sum > seen[key as usize], "the sum of key {key} was {} and is {sum}", seen[key as usize]);
            seen[key as usize] = sum;
            additions += 1;
        }
        additions
    };
    let additions = std::thread::scope(|scope| {
        let add = &add;
        let adding: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || add(thread))).collect();
        for what in meanwhile {
            let (database, under_way) = (&database, &under_way);
            scope.spawn(move || {
                let _ended = Ended(under_way);
                (0..ROUNDS).for_each(|round| what.happen(database, keyspace, round));
            });
        }
        adding.into_iter().map(|thread| thread.join().expect("a thread that adds")).sum::<u64>()
    });
    database.wait_idle().expect("idle");
    for what in meanwhile {
        assert!(what.has_happened(&database), "{what:?} did not happen: {:?}", database.stats());
    }
    let sum = |database: &HashLog| {
        let mut session = Blocking::new(database.session());
        let one = |key: u64| {
            let found = session.get(ReadAt::Latest, keyspace, &key.to_le_bytes()).expect("get");
            let found = found.unwrap_or_else(|| panic!("key {key} is not there"));
            u64::from_le_bytes(found.try_into().expect("a number"))
        };
        (0..keys).map(one).sum::<u64>()
    };
    let what = format!("{keys} keys, {meanwhile:?}, {durability:?}");
    assert_eq!(sum(&database), additions, "{what}");
    if durability > Durability::Checkpoint {
        let killed = memory.crash(Crash::Kill);
        let killed = open(Arc::new(killed), Arc::new(ManualClock::new(1)), true, tiny()).expect("open");
        assert_eq!(sum(&killed), additions, "{what}, after a kill");
    }
    database.close().expect("close");
    drop(database);
    let database = open(Arc::new(memory), Arc::new(ManualClock::new(1)), true, tiny()).expect("open again");
    assert_eq!(sum(&database), additions, "{what}, after reopening");
    additions
}

/// On few keys and on many.
fn on_few_and_many(meanwhile: &[Meanwhile]) {
    for keys in [FEW, MANY] {
        sums_are_exact(keys, meanwhile, Durability::Process);
    }
}

#[test]
fn while_nothing_else_happens() {
    on_few_and_many(&[]);
}

#[test]
fn while_snapshots_are_taken() {
    on_few_and_many(&[Snapshots]);
}

#[test]
fn while_checkpoints_are_taken() {
    on_few_and_many(&[Checkpoints]);
}

#[test]
fn while_the_log_turns_its_pages() {
    on_few_and_many(&[Turns]);
}

#[test]
fn while_their_slot_grows() {
    on_few_and_many(&[Growth]);
}

#[test]
fn while_the_log_is_compacted() {
    on_few_and_many(&[Compaction]);
}

const ALL: [Meanwhile; 4] = [Turns, Growth, Compaction, Checkpoints];

#[test]
fn while_all_of_that_happens_at_once() {
    on_few_and_many(&ALL);
}

/// Again and again, with each durability; says how many additions that were.
fn for_long(meanwhile: &[Meanwhile], seconds: u64) {
    let durabilities = [Durability::Process, Durability::Checkpoint, Durability::Disk];
    let (mut additions, mut databases) = (0, 0);
    repeated_for("FIRN_SECONDS", seconds, |round| {
        let keys = if round % 2 == 0 { FEW } else { MANY };
        additions += sums_are_exact(keys, meanwhile, durabilities[round as usize / 2 % 3]);
        databases += 1;
    });
    println!("{meanwhile:?}: {additions} additions to sums of {databases} databases, all exact");
}

#[test]
#[ignore = "minutes: the soak runs it"]
fn all_at_once_for_long() {
    for_long(&ALL, 600);
}

#[test]
#[ignore = "minutes: the soak runs it"]
fn each_alone_for_long() {
    ALL.into_iter().for_each(|what| for_long(&[what], 120));
}
