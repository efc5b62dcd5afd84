//! Databases on storage that several machines reach.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use firn_engine::blocking::Blocking;
use firn_engine::{Durability, Engine, ErrorKind, KEYSPACE_DEFAULT, ReadAt, Result, WriteOptions};
use firn_format::file_name::{FileName, parse};
use firn_hashlog::{HashLog, HashOptions, Settings};
use firn_storage::backend::{Crash, Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{ManualClock, Storage};

use crate::interrupted::Interrupted;
use crate::script::{Dress, Run, Step, churned, steps};
use crate::support::{open, tiny};

const SHARED: WriteOptions = WriteOptions { durability: Some(Durability::Shared), expires_at_ms: 0 };
const HERE: WriteOptions = WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes of a value that lies alone.
const ALONE_BYTES: usize = 132_000;

/// What a machine with the directory `local` sees of a database on `shared`.
fn divided(local: &Memory, shared: Arc<dyn Storage>, home: u128) -> Arc<dyn Storage> {
    Arc::new(Divided::open(Arc::new(local.clone()), shared, home).expect("both parts"))
}

/// Opens the database on `shared` from the directory `local`, taking it over.
fn open_on(local: &Memory, shared: Arc<dyn Storage>, home: u128) -> Result<Arc<HashLog>> {
    open_with(local, shared, home, tiny())
}

fn open_with(
    local: &Memory,
    shared: Arc<dyn Storage>,
    home: u128,
    settings: Settings,
) -> Result<Arc<HashLog>> {
    open(divided(local, shared, home), Arc::new(ManualClock::new(1)), false, settings)
}

fn session(hash: &Arc<HashLog>) -> Blocking {
    Blocking::new(hash.session())
}

/// Writes under `prefix`; what was acknowledged as shared is in the model, even if something fails
/// later.
fn work(hash: &Arc<HashLog>, prefix: u8, model: &mut Model) -> Result<()> {
    let mut session = session(hash);
    for round in 0..3_u8 {
        for key in 0..3_u8 {
            let bytes = if (round, key) == (1, 1) { ALONE_BYTES } else { 40 };
            let (key, value) = (vec![prefix, key], vec![key ^ round; bytes]);
            session.put(KEYSPACE_DEFAULT, &[prefix, 99], &[round], HERE)?;
            let written = session.put(KEYSPACE_DEFAULT, &key, &value, SHARED);
            if written.is_err() {
                // Overwritten or not: neither was promised.
                model.remove(&key);
            }
            written?;
            model.insert(key, value);
        }
        if round == 1 {
            hash.flush()?;
            while hash.step()? {}
        }
    }
    Ok(())
}

fn compare(hash: &Arc<HashLog>, model: &Model, what: &str) {
    let mut session = session(hash);
    for (key, value) in model {
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key);
        let found = found.unwrap_or_else(|error| panic!("{what}: {key:?}: {error:?}"));
        let is_right = found.as_ref() == Some(value);
        assert!(is_right, "{what}: {key:?} has {:?} bytes", found.map(|found| found.len()));
    }
}

/// What all machines share once those that have it open are lost.
fn lost<T>(shared: &Memory, opened: T) -> Memory {
    let left = shared.crash(Crash::Kill);
    drop(opened);
    left
}

/// More than memory, so that segments are sealed. What is written by the first call alone comes to
/// the cold log with later ones.
fn fill(hash: &Arc<HashLog>, model: &mut Model) {
    let mut session = session(hash);
    for number in 0..if model.contains_key(&b"alone"[..]) { 0 } else { 400_u32 } {
        let (key, value) = ([&[201_u8][..], &number.to_be_bytes()].concat(), vec![number as u8; 20]);
        session.put(KEYSPACE_DEFAULT, &key, &value, HERE).expect("put");
        model.insert(key, value);
    }
    for number in 0..300_u32 {
        let key = [&[200_u8][..], &number.to_be_bytes()].concat();
        let value = vec![number as u8; 60_000];
        session.put(KEYSPACE_DEFAULT, &key, &value, HERE).expect("put");
        model.insert(key, value);
        while number % 16 == 15 && hash.step().expect("work") {}
    }
    let value = vec![77; ALONE_BYTES];
    session.put(KEYSPACE_DEFAULT, b"alone", &value, HERE).expect("put");
    model.insert(b"alone".to_vec(), value);
    hash.flush().expect("flush");
    while hash.step().expect("work") {}
}

fn names(backend: &Memory) -> Vec<FileName> {
    backend.list().expect("list").iter().filter_map(|(name, _)| parse(name)).collect()
}

#[test]
fn what_was_acknowledged_survives_the_machine() {
    let (shared, mut model) = (Memory::new(), Model::new());
    let hash = open_on(&Memory::new(), Arc::new(shared.clone()), 7).expect("open");
    (0..3).for_each(|_| fill(&hash, &mut model));
    work(&hash, 0, &mut model).expect("work");
    session(&hash).put(KEYSPACE_DEFAULT, b"here", b"alone", HERE).expect("put");
    let cold = hash.stats().hash.expect("a hashed engine").cold;
    assert!(cold.segment_count > 0, "{cold:?}");
    let left = lost(&shared, hash);
    let hash = open_on(&Memory::new(), Arc::new(left.clone()), 8).expect("take over");
    compare(&hash, &model, "on a second machine");
    let found = session(&hash).get(ReadAt::Latest, KEYSPACE_DEFAULT, b"here").expect("get");
    assert_eq!(found, None, "it was promised to survive the process, not the machine");
    work(&hash, 1, &mut model).expect("work");
    let hash = open_on(&Memory::new(), Arc::new(lost(&left, hash)), 9).expect("take over");
    compare(&hash, &model, "on a third machine");
}

#[test]
fn a_machine_that_comes_back_has_what_it_wrote_and_what_others_did() {
    let (shared, local, mut model) = (Memory::new(), Memory::new(), Model::new());
    let hash = open_on(&local, Arc::new(shared.clone()), 7).expect("open");
    work(&hash, 0, &mut model).expect("work");
    session(&hash).put(KEYSPACE_DEFAULT, b"here", b"1", HERE).expect("put");
    model.insert(b"here".to_vec(), b"1".to_vec());
    // Killed, and opened again where it was.
    let (shared, local) = (shared.crash(Crash::Kill), local.crash(Crash::Kill));
    drop(hash);
    let hash = open_on(&local, Arc::new(shared.clone()), 7).expect("open again");
    compare(&hash, &model, "on the same machine");
    // Another one has it for a while: what was written here only is given up.
    let (shared, local) = (shared.crash(Crash::Kill), local.crash(Crash::Kill));
    drop(hash);
    model.remove(&b"here"[..]);
    let other = open_on(&Memory::new(), Arc::new(shared.clone()), 8).expect("take over");
    fill(&other, &mut model);
    work(&other, 1, &mut model).expect("work");
    let shared = lost(&shared, other);
    let hash = open_on(&local, Arc::new(shared), 7).expect("take over again");
    compare(&hash, &model, "where it was first");
}

#[test]
fn a_second_opener_is_refused_or_fences_the_first() {
    let (shared, mut model) = (Memory::new(), Model::new());
    let hash = open_on(&Memory::new(), Arc::new(shared.clone()), 7).expect("open");
    work(&hash, 0, &mut model).expect("work");
    let options = |local: &Memory, take_over, create| HashOptions {
        storage: divided(local, Arc::new(shared.clone()), 8),
        settings: tiny(),
        semantics: firn_engine::conformance::semantics(),
        clock: Arc::new(ManualClock::new(1)),
        background: firn_hashlog::Background::Manual,
        seed: 3,
        create,
        take_over,
    };
    let error = HashLog::open(&options(&Memory::new(), false, true)).expect_err("it is another machine's");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert!(error.to_string().contains("take it over"), "{error:?}");
    work(&hash, 0, &mut model).expect("it goes on");
    let second = HashLog::open(&options(&Memory::new(), true, false)).expect("take over");
    compare(&second, &model, "on the second machine");
    let late = session(&hash).put(KEYSPACE_DEFAULT, b"late", b"", SHARED).expect_err("it has ended");
    assert_eq!(late.kind(), ErrorKind::Closed, "{late:?}");
    work(&second, 1, &mut model).expect("work");
    compare(&second, &model, "on the second machine");
}

#[test]
fn files_of_another_database_are_not_touched() {
    // A database of its own in the directory.
    let own = Memory::new();
    let hash = open(Arc::new(own.clone()), Arc::new(ManualClock::new(1)), false, tiny()).expect("open");
    session(&hash).put(KEYSPACE_DEFAULT, b"k", b"v", HERE).expect("put");
    hash.close().expect("close");
    let before = own.list().expect("list");
    let error = open_on(&own, Arc::new(Memory::new()), 7).expect_err("it has a database");
    assert!(error.to_string().contains("another database"), "{error:?}");
    assert_eq!(own.list().expect("list").len(), before.len() + 1, "nothing but its identity");
    // The directory of another database on shared storage.
    let (shared, other, local) = (Memory::new(), Memory::new(), Memory::new());
    open_on(&local, Arc::new(shared), 7).expect("open").close().expect("close");
    let settings = Settings { memory_bytes: 16 << 20, ..tiny() };
    let fill = open_with(&Memory::new(), Arc::new(other.clone()), 8, settings).expect("open");
    drop(fill);
    let manifest_of_another = HashOptions {
        storage: divided(&local, Arc::new(Memory::new()), 7),
        settings: tiny(),
        semantics: firn_engine::conformance::semantics(),
        clock: Arc::new(ManualClock::new(1)),
        background: firn_hashlog::Background::Manual,
        seed: 12,
        create: true,
        take_over: true,
    };
    let error = HashLog::open(&manifest_of_another).expect_err("it has another one's redo logs");
    assert!(error.to_string().contains("another database"), "{error:?}");
    // The shared part alone.
    let error = open(Arc::new(other), Arc::new(ManualClock::new(1)), false, tiny()).expect_err("refused");
    assert!(error.to_string().contains("the shared part of a database"), "{error:?}");
}

#[test]
fn sealed_segments_leave_the_directory_and_are_read_from_shared_storage() {
    let (shared, local, mut model) = (Memory::new(), Memory::new(), Model::new());
    let faulty = Faulty::new(Arc::new(shared.clone()));
    let settings = tiny().with_engine(|hash| hash.local_bytes_max = 0);
    let hash = open_with(&local, Arc::new(faulty.clone()), 7, settings.clone()).expect("open");
    fill(&hash, &mut model);
    let count = |backend: &Memory, is_it: fn(&FileName) -> bool| {
        names(backend).iter().filter(|name| is_it(name)).count()
    };
    let segments = |name: &FileName| matches!(name, FileName::HybridSegment(_) | FileName::ColdSegment(_));
    assert!(count(&local, segments) <= 2, "{:?}", names(&local));
    assert_eq!(count(&local, |name| matches!(name, FileName::Value(_))), 0);
    assert!(count(&shared, |name| matches!(name, FileName::Extent(_))) > 5, "{:?}", names(&shared));
    let before = faulty.counters().of(Operation::Read).operations;
    compare(&hash, &model, "with nothing here");
    assert!(faulty.counters().of(Operation::Read).operations > before + 100, "they are read there");
    // Compaction reads there, too, and what it leaves goes from there.
    fill(&hash, &mut model);
    fill(&hash, &mut model);
    compare(&hash, &model, "after compaction");
    assert!(hash.stats().hash.is_some_and(|stats| stats.cold.segment_count > 0));
    let stats = hash.stats().hash.expect("a hashed engine");
    let there = (stats.segment_count + stats.cold.segment_count) as usize;
    let extents = count(&shared, |name| matches!(name, FileName::Extent(_)));
    assert!(extents <= there + 16, "{extents} extents of {there} segments: {:?}", names(&shared));
    // A copy has them all.
    let copy = std::path::Path::new("copy");
    hash.copy_to(copy).expect("copy");
    let copied = local.directory(copy).expect("a directory");
    let copied = open(Arc::new(copied), Arc::new(ManualClock::new(1)), false, tiny()).expect("open the copy");
    compare(&copied, &model, "in a copy");
    hash.close().expect("close");
    let hash = open_with(&local, Arc::new(faulty), 7, settings).expect("open again");
    compare(&hash, &model, "opened again");
}

/// Puts a database on shared storage before a run's memory; its directory is `local`.
fn on(local: Memory, home: u128) -> Dress {
    Arc::new(move |shared: Memory| divided(&local, Arc::new(shared), home))
}

/// Stops the store before `operation`, and looks at what another machine finds, and this one.
fn cut(seed: u64, operation: u64, has_cold: bool) -> Option<u64> {
    let (shared, local) = (Memory::new(), Memory::new());
    shared.cut_write_at(operation, [0, 7, 500, 5000][(operation % 4) as usize]);
    let mut run = Run::dressed(shared.clone(), on(local.clone(), 7)).shared();
    let mut steps_of_run = steps(seed, 24);
    if has_cold {
        (run, steps_of_run) = (run.with_few_entries(), churned(seed, 24));
    }
    let played = run.open().and_then(|()| run.play(&steps_of_run));
    if let (Err(error), None) = (&played, shared.cut_operation()) {
        panic!("seed {seed}: {error:?}");
    }
    let at = shared.cut_operation().unwrap_or_default();
    let what = format!("seed {seed}, cut before {operation} `{at}`");
    let failed = |error: String| panic!("{what}: {error}");
    // This machine is killed, and has all that was acknowledged.
    // After a loss of power it has what was acknowledged as shared, at least.
    for crash in [Crash::Kill, Crash::PowerLoss { seed: operation }] {
        let here = run.after(crash, shared.crash(Crash::Kill));
        let mut here = here.redressed(on(local.crash(crash), 7));
        here.recover(crash).unwrap_or_else(failed);
        here.play(&steps(operation, 4)).unwrap_or_else(|error| failed(format!("{error:?}")));
    }
    // Another one has all that was acknowledged as shared; it is lost, too, while it takes over.
    let power = Crash::PowerLoss { seed: operation };
    let mut other = run.after(power, shared.crash(Crash::Kill)).redressed(on(Memory::new(), 8));
    if operation.is_multiple_of(3) {
        other.memory.cut_at(operation % 11);
        let _gone = other.open();
        let left = other.memory.crash(Crash::Kill);
        other = run.after(power, left).redressed(on(Memory::new(), 9));
    }
    other.recover(power).unwrap_or_else(failed);
    if has_cold {
        other.play(&[Step::Churn]).unwrap_or_else(|error| failed(format!("{error:?}")));
    }
    other.play(&steps(operation, 6)).unwrap_or_else(|error| failed(format!("{error:?}")));
    let third = other.after(power, other.memory.crash(Crash::Kill));
    third.redressed(on(Memory::new(), 10)).recover(power).unwrap_or_else(failed);
    // What could not be removed is no error.
    (played.is_ok() && shared.cut_operation().is_none()).then(|| shared.operations())
}

fn cuts(seeds: std::ops::RangeInclusive<u64>, stride: usize, has_cold: bool) -> u64 {
    let mut cuts = 0;
    for seed in seeds {
        let operations = cut(seed, u64::MAX, has_cold).expect("nothing is cut");
        for operation in (seed % stride as u64..operations).step_by(stride) {
            assert_eq!(cut(seed, operation, has_cold), None, "seed {seed}, cut before {operation}");
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
    cuts
}

#[test]
fn what_was_promised_survives_machines_that_stop_at_some_operations_of_the_store() {
    assert!(cuts(1..=6, 4, false) > 120);
}

#[test]
#[ignore = "minutes: every operation"]
fn what_was_promised_survives_machines_that_stop_at_each_operation_of_the_store() {
    assert!(cuts(1..=40, 1, false) > 3000);
}

#[test]
fn what_is_cold_survives_machines_that_stop_at_some_operations_of_the_store() {
    assert!(cuts(1..=4, 11, true) > 60);
}

#[test]
fn a_machine_that_is_taken_over_anywhere_has_acknowledged_nothing_that_the_other_lacks() {
    for at in 0.. {
        let (shared, locals, mut model) = (Memory::new(), [Memory::new(), Memory::new()], Model::new());
        let begun = open_on(&locals[0], Arc::new(shared.clone()), 7).expect("open");
        work(&begun, 0, &mut model).expect("work");
        begun.close().expect("close");
        let taken = Arc::new(Mutex::new(None));
        let backend = {
            let (taken, local, backend) = (Arc::clone(&taken), locals[1].clone(), shared.clone());
            Interrupted::before(&shared, at, move || {
                let mut theirs = Model::new();
                let hash = open_on(&local, Arc::new(backend), 8).expect("take over");
                work(&hash, 2, &mut theirs).expect("work");
                *taken.lock().expect("no panic") = Some((hash, theirs));
            })
        };
        let what = format!("before operation {at}");
        let first = open_on(&locals[0], backend, 7);
        let worked = first.as_ref().map_err(Clone::clone).and_then(|hash| work(hash, 1, &mut model));
        let Some((second, theirs)) = taken.lock().expect("no panic").take() else {
            worked.expect("work");
            assert!(at > 60, "{at} operations");
            return;
        };
        model.extend(theirs);
        // Where it was opened after the other one had begun, it has taken over in its turn.
        if let Err(error) = &worked {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::Closed | ErrorKind::Conflict), "{what}: {error:?}");
            compare(&second, &model, &what);
        }
        let left = shared.crash(Crash::Kill);
        drop((first, second));
        let third = open_on(&Memory::new(), Arc::new(left), 9).expect("take over");
        compare(&third, &model, &format!("{what}, on a third machine, {worked:?}"));
    }
}

#[test]
fn a_machine_that_takes_over_has_what_is_acknowledged_meanwhile() {
    for at in 0.. {
        let (shared, mut model) = (Memory::new(), Model::new());
        let first = open_on(&Memory::new(), Arc::new(shared.clone()), 7).expect("open");
        work(&first, 1, &mut model).expect("work");
        let written = Arc::new(Mutex::new(None));
        let backend = {
            let (written, first) = (Arc::clone(&written), Arc::clone(&first));
            Interrupted::before(&shared, at, move || {
                let mut model = Model::new();
                let worked = (0..2).try_for_each(|_| work(&first, 2, &mut model));
                *written.lock().expect("no panic") = Some((model, worked));
            })
        };
        let what = format!("before operation {at}");
        let second = open_on(&Memory::new(), backend, 8).unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let Some((acknowledged, worked)) = written.lock().expect("no panic").take() else {
            assert!(at > 10, "{at} operations");
            return;
        };
        if let Err(error) = &worked {
            assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {error:?}");
        }
        model.extend(acknowledged);
        compare(&second, &model, &format!("{what}, {worked:?}"));
        let late = session(&first).put(KEYSPACE_DEFAULT, b"late", b"", SHARED).expect_err("it has ended");
        assert_eq!(late.kind(), ErrorKind::Closed, "{what}: {late:?}");
        let third = open_on(&Memory::new(), Arc::new(lost(&shared, (first, second))), 9).expect("take over");
        compare(&third, &model, &format!("{what}, on a third machine"));
    }
}

/// Tries each step until it is done.
fn one_call_in_twenty_fails(kind: firn_storage::ErrorKind, seed: u64) -> u64 {
    const ON: [Operation; 7] = [
        Operation::Create,
        Operation::Write,
        Operation::Publish,
        Operation::Remove,
        Operation::List,
        Operation::Read,
        Operation::OpenRead,
    ];
    let (shared, local) = (Memory::new(), Memory::new());
    let faulty = Faulty::new(Arc::new(shared.clone()));
    let backend = faulty.clone();
    let dress = move |_memory: Memory| divided(&local, Arc::new(backend.clone()), 7);
    let settings = tiny().with_engine(|hash| hash.local_bytes_max = 1 << 20);
    let mut run = Run::dressed(shared.clone(), Arc::new(dress)).shared().with_settings(settings);
    run.open().expect("open");
    let mut failed = 0;
    for (number, step) in (0..).zip(steps(seed, 24)) {
        if matches!(step, Step::Reopen) {
            continue;
        }
        for (of, on) in (0..).zip(ON) {
            let when = When::OneIn { calls: 20, seed: seed << 16 | number << 4 | of };
            faulty.inject(Fault { on, file: "*".to_owned(), when, effect: Effect::Fail(kind) });
        }
        while let Err(error) = run.play(std::slice::from_ref(&step)) {
            let what = format!("seed {seed}, {step:?}");
            failed += 1;
            assert!(failed < 500, "{what}: {error:?}");
            assert_eq!(error.kind(), ErrorKind::Retry, "{what}: {error:?}");
            run.settle(false).unwrap_or_else(|found| panic!("{what}, after {error:?}: {found}"));
        }
        faulty.clear_faults();
    }
    let power = Crash::PowerLoss { seed };
    let other = run.after(power, shared.crash(Crash::Kill)).redressed(on(Memory::new(), 8));
    let mut other = other;
    other.recover(power).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    failed
}

#[test]
fn a_store_that_refuses_one_call_in_twenty_loses_nothing() {
    for seed in 1..=12 {
        one_call_in_twenty_fails(firn_storage::ErrorKind::Refused, seed);
    }
}

#[test]
fn a_store_that_is_away_is_reported_and_what_was_written_goes_there_later() {
    let (shared, local, mut model) = (Memory::new(), Memory::new(), Model::new());
    let faulty = Faulty::new(Arc::new(shared.clone()));
    let hash = open_on(&local, Arc::new(faulty.clone()), 7).expect("open");
    work(&hash, 0, &mut model).expect("work");
    let (effect, file) = (Effect::Fail(firn_storage::ErrorKind::Refused), "*".to_owned());
    for on in [Operation::Create, Operation::Publish] {
        faulty.inject(Fault { on, file: file.clone(), when: When::Always { after: 0 }, effect });
    }
    let error = session(&hash).put(KEYSPACE_DEFAULT, b"away", b"1", SHARED).expect_err("it is away");
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error:?}");
    // Others go on.
    session(&hash).put(KEYSPACE_DEFAULT, b"here", b"2", HERE).expect("put");
    faulty.clear_faults();
    session(&hash).put(KEYSPACE_DEFAULT, b"back", b"3", SHARED).expect("put");
    for (key, value) in [(b"away", b"1"), (b"here", b"2"), (b"back", b"3")] {
        model.insert(key.to_vec(), value.to_vec());
    }
    let hash = open_on(&Memory::new(), Arc::new(lost(&shared, hash)), 8).expect("take over");
    compare(&hash, &model, "on a second machine");
}

/// Overwrites 20 keys, and takes a checkpoint of each mebibyte; answers the first error of those.
fn overwrite(hash: &Arc<HashLog>, rounds: u8) -> Result<()> {
    let mut first = Ok(());
    for round in 0..rounds {
        for key in 0..20_u8 {
            session(hash).put(KEYSPACE_DEFAULT, &[202, key], &vec![key ^ round; 60_000], HERE)?;
        }
        while hash.step()? {}
        first = first.and(hash.flush());
    }
    first
}

/// Extents on shared storage that no edit names: the next opening removes them.
fn orphans(hash: Arc<HashLog>, shared: &Memory, dressed: &Arc<dyn Storage>) -> Vec<String> {
    let extents = || {
        let files = shared.list().expect("list").into_iter().map(|(name, _)| name);
        files.filter(|name| matches!(parse(name), Some(FileName::Extent(_)))).collect::<Vec<_>>()
    };
    hash.close().expect("close");
    drop(hash);
    let before = extents();
    assert!(!before.is_empty());
    open(Arc::clone(dressed), Arc::new(ManualClock::new(1)), false, tiny()).expect("open again");
    let after = extents();
    before.into_iter().filter(|name| !after.contains(name)).collect()
}

#[test]
fn a_local_segment_that_cannot_be_removed_leaves_no_extents_behind() {
    let (shared, faulty) = (Memory::new(), Faulty::new(Arc::new(Memory::new())));
    let dressed: Arc<dyn Storage> =
        Arc::new(Divided::open(Arc::new(faulty.clone()), Arc::new(shared.clone()), 7).expect("both parts"));
    let hash = open(Arc::clone(&dressed), Arc::new(ManualClock::new(1)), false, tiny()).expect("open");
    overwrite(&hash, 4).expect("work");
    let when = When::Always { after: 0 };
    let effect = Effect::Fail(firn_storage::ErrorKind::Refused);
    faulty.inject(Fault { on: Operation::Remove, file: "*.hybrid".to_owned(), when, effect });
    let error = overwrite(&hash, 12).expect_err("a segment cannot be removed");
    assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
    faulty.clear_faults();
    overwrite(&hash, 2).expect("work");
    assert_eq!(orphans(hash, &shared, &dressed), Vec::<String>::new());
}

#[test]
fn an_opening_removes_what_lost_openings_have_left() {
    let (shared, mut model) = (Memory::new(), Model::new());
    let hash = open_on(&Memory::new(), Arc::new(shared.clone()), 7).expect("open");
    work(&hash, 0, &mut model).expect("work");
    let left = lost(&shared, hash);
    let (files, alone) = (left.list().expect("list").len(), "0000000000000007.value");
    let extent = "0000000000000001-0000000000000009-0000000000000001.hybrid";
    for name in [alone, extent, "0000000000000005.coldrun"] {
        left.create(name).expect("create");
    }
    let hash = open_on(&Memory::new(), Arc::new(left.clone()), 8).expect("take over");
    compare(&hash, &model, "on a second machine");
    let found: Vec<String> = left.list().expect("list").into_iter().map(|(name, _)| name).collect();
    assert!(found.iter().all(|name| name != alone && name != extent), "{found:?}");
    assert!(found.len() <= files + 2, "its fence, and its edit: {found:?}");
}

#[test]
fn a_database_in_one_directory_has_no_shared_writes() {
    let memory = Memory::new();
    let hash = open(Arc::new(memory), Arc::new(ManualClock::new(1)), false, tiny()).expect("open");
    let error = session(&hash).put(KEYSPACE_DEFAULT, b"k", b"v", SHARED).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    assert!(error.to_string().contains("other machines reach"), "{error:?}");
    let found = session(&hash).get(ReadAt::Latest, KEYSPACE_DEFAULT, b"k").expect("get");
    assert_eq!(found, None, "nothing was changed");
}
