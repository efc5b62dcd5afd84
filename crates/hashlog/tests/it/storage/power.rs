//! Power is lost, or the process killed, at every operation of the storage.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::{Change, Durability, Engine, ErrorKind, KEYSPACE_DEFAULT, ReadAt, WriteOptions};
use firn_hashlog::HashLog;
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{Clock, ManualClock, SystemClock};

use crate::script::{Run, Step, churned, steps};
use crate::support::{open, tiny};

const STEPS: usize = 36;

/// What each cut leaves: by a kill, by losses of power on file systems that keep the order of names
/// and on those that do not.
fn leavings(memory: &Memory, seed: u64) -> Vec<(Crash, Memory)> {
    let power = |seed| Crash::PowerLoss { seed };
    vec![
        (Crash::Kill, memory.crash(Crash::Kill)),
        (power(seed), memory.crash(power(seed))),
        (power(seed + 1), memory.crash(power(seed + 1))),
        (power(seed + 2), memory.crash_without_order(seed + 2)),
    ]
}

/// Cuts the steps of `seed` before `operation`, and looks at all that may be left; the number of
/// operations that there are if none was cut.
fn cut(seed: u64, operation: u64, has_cold: bool) -> Option<u64> {
    let memory = Memory::new();
    memory.cut_write_at(operation, [0, 7, 500, 5000][(operation % 4) as usize]);
    let mut run = Run::new(memory.clone());
    let mut steps_of_run = steps(seed, STEPS);
    if has_cold {
        (run, steps_of_run) = (run.with_few_entries(), churned(seed, STEPS));
    }
    let played = run.open().and_then(|()| run.play(&steps_of_run));
    if let (Err(error), None) = (&played, memory.cut_operation()) {
        panic!("seed {seed}: {error:?}");
    }
    if has_cold && played.is_ok() && run.is_open() {
        let stats = run.hash().stats().hash.unwrap_or_default();
        assert!(stats.cold.run_entry_count > 100, "seed {seed}: {stats:?}");
    }
    let at = memory.cut_operation().unwrap_or_default();
    for (crash, left) in leavings(&memory, seed << 20 | operation << 4) {
        let what = |error| panic!("seed {seed}, cut before {operation} `{at}`, {crash:?}: {error}");
        let mut after = run.after(crash, left);
        if operation.is_multiple_of(3) {
            // The machine stops again while it recovers.
            after.memory.cut_at(operation % 37);
            let _gone = after.open();
            let left = after.memory.crash(crash);
            after = run.after(crash, left);
        }
        after.recover(crash).unwrap_or_else(what);
        if has_cold {
            after.play(&[Step::Churn]).unwrap_or_else(|error| what(format!("{error:?}")));
        }
        after.play(&steps(operation, 6)).unwrap_or_else(|error| what(format!("{error:?}")));
        let again = Crash::PowerLoss { seed: operation };
        let left = after.memory.crash(again);
        after.after(again, left).recover(again).unwrap_or_else(what);
    }
    played.is_ok().then(|| memory.operations())
}

/// Cuts the steps of some seeds at every so many operations; how many cuts that were.
fn cuts(seeds: std::ops::RangeInclusive<u64>, stride: usize, has_cold: bool) -> u64 {
    let mut cuts = 0;
    for seed in seeds {
        let operations = cut(seed, u64::MAX, has_cold).expect("nothing is cut");
        for operation in (seed % stride as u64..operations).step_by(stride) {
            assert_eq!(cut(seed, operation, has_cold), None, "seed {seed}, cut before {operation}");
            cuts += 1;
        }
    }
    println!("{cuts} cuts, each left in four ways");
    cuts
}

#[test]
fn what_was_promised_survives_cuts() {
    assert!(cuts(1..=12, 24, false) > 120);
}

#[test]
#[ignore = "minutes: every operation"]
fn what_was_promised_survives_a_cut_at_each_operation() {
    assert!(cuts(1..=10, 1, false) > 2000);
}

/// Also what was promised of keys that are cold by then, cut amid moves, spills and truncations.
#[test]
fn what_is_cold_survives_cuts() {
    assert!(cuts(1..=3, 42, true) > 100);
}

#[test]
#[ignore = "minutes: very many operations"]
fn what_is_cold_survives_cuts_at_many_operations() {
    assert!(cuts(1..=10, 5, true) > 1000);
}

/// Writes values and lets power go at every moment of a checkpoint: what was acknowledged at `disk`
/// while it was under way survives, whichever generation of the redo log has it.
#[test]
fn a_write_at_disk_amid_a_checkpoint_survives() {
    let disk = WriteOptions { durability: Some(Durability::Disk), expires_at_ms: 0 };
    let process = WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };
    for seed in 0..8 {
        let memory = Memory::new();
        let faulty = Faulty::new(Arc::new(memory.clone()));
        let clock = || Arc::new(ManualClock::new(1));
        let hash = open(Arc::new(faulty.clone()), clock(), false, tiny()).expect("open");
        let mut session = Blocking::new(hash.session());
        session.put(KEYSPACE_DEFAULT, b"before", b"1", process).expect("put");
        // The checkpoint ends where its pages should be written, so that the redo logs have turned.
        let full = Effect::Fail(firn_storage::ErrorKind::Full);
        let file = "*.hybrid".to_owned();
        faulty.inject(Fault { on: Operation::Create, file, when: When::Always { after: 0 }, effect: full });
        let error = hash.flush().expect_err("no room");
        assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
        session.put(KEYSPACE_DEFAULT, b"amid", b"2", disk).expect("put");
        let left = memory.crash(Crash::PowerLoss { seed });
        let hash = open(Arc::new(left), clock(), false, tiny()).expect("open again");
        let mut session = Blocking::new(hash.session());
        for key in [&b"before"[..], b"amid"] {
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).expect("get");
            assert!(found.is_some(), "seed {seed}: {:?}", key.escape_ascii().to_string());
        }
    }
}

/// A key that was deleted at `checkpoint` is deleted again at `process`: that survives the process.
#[test]
fn a_delete_of_what_memory_alone_has_deleted_survives() {
    let at = |durability| WriteOptions { durability: Some(durability), expires_at_ms: 0 };
    for is_read_only in [false, true] {
        let memory = Memory::new();
        let clock = || Arc::new(ManualClock::new(1));
        let hash = open(Arc::new(memory.clone()), clock(), false, tiny()).expect("open");
        let mut session = Blocking::new(hash.session());
        for key in [b"deleted", b"changed"] {
            session.put(KEYSPACE_DEFAULT, key, b"1", at(Durability::Process)).expect("put");
            session.delete(KEYSPACE_DEFAULT, key, at(Durability::Checkpoint)).expect("delete");
        }
        let snapshot = is_read_only.then(|| hash.snapshot().expect("a snapshot"));
        session.delete(KEYSPACE_DEFAULT, b"deleted", at(Durability::Process)).expect("delete");
        let change = |value: Option<&[u8]>| (Change::Delete, value.is_some());
        let was_there = session.update(KEYSPACE_DEFAULT, b"changed", at(Durability::Process), change);
        assert!(!was_there.expect("update"));
        drop(snapshot);
        let hash = open(Arc::new(memory.crash(Crash::Kill)), clock(), false, tiny()).expect("open again");
        let mut session = Blocking::new(hash.session());
        for key in [b"deleted", b"changed"] {
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).expect("get");
            assert!(found.is_none(), "{}, read-only {is_read_only}", key.escape_ascii());
        }
    }
}

/// A clock that has a checkpoint begun when a delay is slept on it, which ends for want of room.
#[derive(Debug, Default)]
struct Checkpointing(Mutex<Weak<HashLog>>);

impl Clock for Checkpointing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_ms(&self) -> u64 {
        1
    }

    fn sleep(&self, _time: Duration) {
        let hash = std::mem::take(&mut *self.0.lock().expect("no panic")).upgrade();
        hash.expect("one delay").flush().expect_err("no room");
    }
}

/// The redo logs turn between the syncs of two of their files: what the second one had before
/// survives.
#[test]
fn a_sync_amid_which_a_checkpoint_begins_has_all_that_was_written_before() {
    let process = WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };
    for seed in 0..8 {
        let (memory, clock) = (Memory::new(), Arc::new(Checkpointing::default()));
        let faulty = Faulty::with_clock(Arc::new(memory.clone()), clock.clone());
        let hash = open(Arc::new(faulty.clone()), clock.clone(), false, tiny()).expect("open");
        // One after the other in each of the files.
        let mut sessions: Vec<_> = (0..8).map(|_| Blocking::new(hash.session())).collect();
        for (number, session) in sessions.iter_mut().enumerate() {
            session.put(KEYSPACE_DEFAULT, &[number as u8], b"1", process).expect("put");
        }
        *clock.0.lock().expect("no panic") = Arc::downgrade(&hash);
        let inject = |on, file: &str, when, effect| {
            faulty.inject(Fault { on, file: file.to_owned(), when, effect });
        };
        let full = Effect::Fail(firn_storage::ErrorKind::Full);
        inject(Operation::Create, "*.hybrid", When::Always { after: 0 }, full);
        let delay = Effect::Delay(Duration::from_millis(1));
        inject(Operation::Sync, "*.redo", When::Once { after: 0 }, delay);
        hash.sync().expect("synced");
        assert!(clock.0.lock().expect("no panic").upgrade().is_none(), "a checkpoint began meanwhile");
        let left = memory.crash(Crash::PowerLoss { seed });
        let hash = open(Arc::new(left), Arc::new(ManualClock::new(1)), false, tiny()).expect("open again");
        let mut session = Blocking::new(hash.session());
        for key in 0..8 {
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &[key]).expect("get");
            assert!(found.is_some(), "seed {seed}: key {key}");
        }
    }
}

/// What one session wrote at `process` survives loss of power as a prefix, also where the redo logs
/// have turned between.
#[test]
fn no_write_survives_an_earlier_one_of_its_session() {
    let process = WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };
    let memory = Memory::new();
    let faulty = Faulty::new(Arc::new(memory.clone()));
    let clock = || Arc::new(ManualClock::new(1));
    let hash = open(Arc::new(faulty.clone()), clock(), false, tiny()).expect("open");
    let mut session = Blocking::new(hash.session());
    session.put(KEYSPACE_DEFAULT, b"before", b"1", process).expect("put");
    let (file, effect) = ("*.hybrid".to_owned(), Effect::Fail(firn_storage::ErrorKind::Full));
    faulty.inject(Fault { on: Operation::Create, file, when: When::Always { after: 0 }, effect });
    hash.flush().expect_err("no room");
    session.put(KEYSPACE_DEFAULT, b"amid", b"2", process).expect("put");
    let mut found = [0; 3];
    for seed in 0..100 {
        let count = |left: Memory| {
            let hash = open(Arc::new(left), clock(), false, tiny()).expect("open again");
            let mut session = Blocking::new(hash.session());
            let mut is_there =
                |key: &[u8]| session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).expect("get").is_some();
            let (before, amid) = (is_there(b"before"), is_there(b"amid"));
            assert!(before || !amid, "seed {seed}: the later one alone");
            (usize::from(before) + usize::from(amid), hash)
        };
        let left = memory.crash(Crash::PowerLoss { seed });
        let (first, _open) = count(left.clone());
        found[first] += 1;
        // What an opening has not found does not come back.
        for again in 0..3 {
            let (second, _) = count(left.crash(Crash::PowerLoss { seed: seed << 8 | again }));
            assert!(second <= first, "seed {seed}, {again}: {second} after {first}");
        }
    }
    assert!(found.iter().all(|count| *count > 0), "{found:?}: each of them may be left");
}

/// An entry may survive loss of power where the value that it refers to does not: what the key had
/// before is found then.
#[test]
fn a_value_that_did_not_survive_is_not_referred_to() {
    let options = |durability| WriteOptions { durability: Some(durability), expires_at_ms: 0 };
    let memory = Memory::new();
    let clock = || Arc::new(ManualClock::new(1));
    let hash = open(Arc::new(memory.clone()), clock(), false, tiny()).expect("open");
    let mut session = Blocking::new(hash.session());
    session.put(KEYSPACE_DEFAULT, b"k", b"short", options(Durability::Disk)).expect("put");
    let value = vec![7; 200_000];
    session.put(KEYSPACE_DEFAULT, b"k", &value, options(Durability::Process)).expect("put");
    for seed in 0..40 {
        let left = memory.crash(Crash::PowerLoss { seed });
        let hash = open(Arc::new(left), clock(), false, tiny()).expect("open again");
        let mut session = Blocking::new(hash.session());
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"k").expect("get").expect("a value");
        assert!(found == b"short" || found == value, "seed {seed}: {} bytes", found.len());
    }
}

/// A caller that finds its value being synced by another one waits for that.
#[test]
fn a_sync_waits_for_the_values_that_another_one_syncs() {
    let memory = Memory::new();
    let faulty = Faulty::with_clock(Arc::new(memory.clone()), Arc::new(SystemClock::new()));
    let hash = open(Arc::new(faulty.clone()), Arc::new(ManualClock::new(1)), true, tiny()).expect("open");
    let mut session = Blocking::new(hash.session());
    let value = vec![7; 200_000];
    let process = WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };
    session.put(KEYSPACE_DEFAULT, b"k", &value, process).expect("put");
    let (file, effect) = ("*.value".to_owned(), Effect::Delay(Duration::from_millis(500)));
    faulty.inject(Fault { on: Operation::Sync, file, when: When::Always { after: 0 }, effect });
    std::thread::scope(|scope| {
        scope.spawn(|| hash.sync().expect("the first"));
        while faulty.struck_count() == 0 {
            std::thread::yield_now();
        }
        hash.sync().expect("the second");
        for seed in 0..8 {
            let left = memory.crash(Crash::PowerLoss { seed });
            let hash = open(Arc::new(left), Arc::new(ManualClock::new(1)), false, tiny()).expect("open");
            let mut session = Blocking::new(hash.session());
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"k").expect("get");
            assert!(found.is_some_and(|found| found == value), "seed {seed}");
        }
    });
}

/// Each file whose sync fails ends writing: what was acknowledged before survives, nothing is
/// acknowledged after, and reads go on.
#[test]
fn a_failed_sync_ends_writing() {
    let disk = WriteOptions { durability: Some(Durability::Disk), expires_at_ms: 0 };
    let cases: [(&str, Operation, &str); 5] = [
        ("a redo log", Operation::Sync, "*.redo"),
        ("a value", Operation::Sync, "*.value"),
        ("a segment", Operation::Sync, "*.hybrid"),
        ("the directory", Operation::SyncDir, "*"),
        ("an edit", Operation::Publish, "*"),
    ];
    for (what, on, file) in cases {
        for kind in [firn_storage::ErrorKind::Io, firn_storage::ErrorKind::Unsynced] {
            let memory = Memory::new();
            let faulty = Faulty::new(Arc::new(memory.clone()));
            let clock = || Arc::new(ManualClock::new(1));
            let hash = open(Arc::new(faulty.clone()), clock(), false, tiny()).expect("open");
            let mut session = Blocking::new(hash.session());
            session.put(KEYSPACE_DEFAULT, b"acknowledged", b"1", disk).expect("put");
            let effect = Effect::Fail(kind);
            let file = file.to_owned();
            faulty.inject(Fault { on, file, when: When::Once { after: 0 }, effect });
            let put = session.put(KEYSPACE_DEFAULT, b"large", &vec![3; 200_000], disk).map(|_| ());
            let flushed = put.and_then(|()| hash.flush());
            let error = flushed.expect_err("a sync fails");
            assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {error:?}");
            assert_eq!(faulty.struck_count(), 1, "{what}");
            for _ in 0..2 {
                let error = session.put(KEYSPACE_DEFAULT, b"later", b"2", disk).expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {error:?}");
                let error = hash.sync().expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {error:?}");
            }
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"acknowledged").expect("get");
            assert_eq!(found.as_deref(), Some(&b"1"[..]), "{what}");
            let stats = hash.stats();
            assert!(stats.write_failure.is_some(), "{what}: {stats:?}");
            hash.close().expect_err("what could not be written is told");
            for seed in 0..4 {
                let left = memory.crash(Crash::PowerLoss { seed });
                let hash = open(Arc::new(left), clock(), false, tiny()).expect("open again");
                let mut session = Blocking::new(hash.session());
                let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"acknowledged").expect("get");
                assert_eq!(found.as_deref(), Some(&b"1"[..]), "{what}, seed {seed}");
                let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, b"later").expect("get");
                assert_eq!(found, None, "{what}, seed {seed}: it was refused");
            }
        }
    }
}
