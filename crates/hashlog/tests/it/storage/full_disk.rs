//! The disk is full, or fails: what cannot be written is refused, reads go on, and nothing that was
//! acknowledged is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use firn_engine::{Engine, Error, ErrorKind};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Memory, Operation, When};

use crate::script::{Run, steps};

const STEPS: usize = 60;

/// A run whose storage fails on command.
fn faulty() -> (Faulty, Run) {
    let memory = Memory::new();
    let faulty = Faulty::new(Arc::new(memory.clone()));
    let dress = faulty.clone();
    (faulty, Run::dressed(memory, Arc::new(move |_| Arc::new(dress.clone()))))
}

/// After a refusal reads find what was so before the write, or after it.
fn look(run: &mut Run, what: &str, error: &Error) {
    run.settle(error.kind() == ErrorKind::Closed)
        .unwrap_or_else(|found| panic!("{what}, after {error:?}: {found}"));
}

/// The process is killed: everything that was acknowledged is there.
fn end(run: &Run, what: &str) {
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 3 }] {
        let mut after = run.after(crash, run.memory.crash(crash)).undressed();
        after.recover(crash).unwrap_or_else(|error| panic!("{what}, {crash:?}: {error}"));
    }
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let mut refused = 0;
    for seed in 1..=40 {
        let (faulty, mut run) = faulty();
        run.open().expect("open");
        let (before, after) = (seed as usize % 30, steps(seed, STEPS));
        run.play(&after[..before]).expect("there is room");
        faulty.limit_space(Some(seed * 211)).expect("a limit");
        for (index, step) in after[before..].iter().enumerate() {
            let what = format!("seed {seed}, step {}: {step:?}", before + index);
            let played = run.play(std::slice::from_ref(step));
            if let Err(error) = played {
                let is_passing = matches!(error.kind(), ErrorKind::Retry | ErrorKind::NotDurable);
                assert!(is_passing, "{what}: {error:?}");
                assert!(format!("{error:?}").contains("no space left"), "{what}: {error:?}");
                refused += 1;
                if !run.is_open() {
                    // A close that failed: the next opening has it all, once there is room.
                    faulty.limit_space(None).expect("room");
                    run.open().unwrap_or_else(|error| panic!("{what}: {error:?}"));
                }
                look(&mut run, &what, &error);
                end(&run, &what);
            }
            if index == 20 {
                faulty.limit_space(None).expect("room");
                run.play(std::slice::from_ref(step)).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            }
        }
        end(&run, &format!("seed {seed}"));
    }
    assert!(refused > 100, "{refused} refusals are too few");
}

/// One operation fails, each in turn: the database goes on, or says that it has ended.
fn one_fails(on: Operation, effects: &[Effect]) {
    let mut struck = 0;
    for after in 0.. {
        let mut has_struck = false;
        for effect in effects {
            let (faulty, mut run) = faulty();
            run.open().expect("open");
            let when = When::Once { after: after * 3 + after % 2 };
            faulty.inject(Fault { on, file: "*".to_owned(), when, effect: *effect });
            for (index, step) in steps(5, STEPS).iter().enumerate() {
                let what = format!("{on:?} {when:?} {effect:?}, step {index}: {step:?}");
                let Err(error) = run.play(std::slice::from_ref(step)) else { continue };
                assert_ne!(error.kind(), ErrorKind::Bug, "{what}: {error:?}");
                end(&run, &what);
                if !run.is_open() {
                    run.open().unwrap_or_else(|error| panic!("{what}: {error:?}"));
                }
                look(&mut run, &what, &error);
                if run.hash().stats().write_failure.is_some() {
                    let later = run.play(&steps(9, 5)).expect_err("writing has ended");
                    assert_eq!(later.kind(), ErrorKind::Closed, "{what}: {later:?}");
                    break;
                }
            }
            has_struck |= faulty.struck_count() > 0;
            end(&run, &format!("{on:?} {when:?} {effect:?}"));
        }
        if !has_struck {
            break;
        }
        struck += 1;
    }
    assert!(struck > 3, "{on:?} struck {struck} times");
}

const IO: firn_storage::ErrorKind = firn_storage::ErrorKind::Io;
const FULL: firn_storage::ErrorKind = firn_storage::ErrorKind::Full;

#[test]
fn writes_fail() {
    let short = Effect::ShortWrite { bytes: 5, kind: FULL };
    one_fails(Operation::Write, &[Effect::Fail(IO), Effect::FailAfter(IO), Effect::Fail(FULL), short]);
}

#[test]
fn creations_fail() {
    one_fails(Operation::Create, &[Effect::Fail(IO), Effect::Fail(FULL), Effect::FailAfter(FULL)]);
}

#[test]
fn syncs_fail() {
    one_fails(Operation::Sync, &[Effect::Fail(IO), Effect::FailAfter(IO), Effect::Fail(FULL)]);
    one_fails(Operation::SyncDir, &[Effect::Fail(IO)]);
}

#[test]
fn edits_fail() {
    one_fails(Operation::Publish, &[Effect::Fail(IO), Effect::Fail(FULL), Effect::FailAfter(IO)]);
}

#[test]
fn removals_and_lists_fail() {
    one_fails(Operation::Remove, &[Effect::Fail(IO), Effect::FailAfter(IO)]);
    one_fails(Operation::List, &[Effect::Fail(IO)]);
}

#[test]
fn reads_fail() {
    one_fails(Operation::Read, &[Effect::Fail(IO)]);
    one_fails(Operation::OpenRead, &[Effect::Fail(IO)]);
}

/// A store of which one call in so many fails, other ones from time to time.
#[derive(Clone, Default)]
struct Flaky {
    store: Arc<Mutex<Option<Faulty>>>,
    on: &'static [Operation],
    kind: Option<firn_storage::ErrorKind>,
    seed: Arc<AtomicU64>,
}

impl Flaky {
    /// A run on it. An opening makes hundreds of calls: of those fewer fail.
    fn run(&self) -> Run {
        let flaky = self.clone();
        let dress = move |memory: Memory| {
            let store = Faulty::new(Arc::new(memory));
            *flaky.store.lock().expect("no panic") = Some(store.clone());
            flaky.fail_one_in(2000);
            Arc::new(store) as Arc<dyn Storage>
        };
        Run::dressed(Memory::new(), Arc::new(dress))
    }

    /// From now on one call in so many fails.
    fn fail_one_in(&self, calls: u64) {
        let store = self.store.lock().expect("no panic");
        let (store, kind) = store.as_ref().zip(self.kind).expect("it was opened");
        store.clear_faults();
        for on in self.on {
            let seed = self.seed.fetch_add(1, Ordering::Relaxed);
            let (when, effect) = (When::OneIn { calls, seed }, Effect::Fail(kind));
            store.inject(Fault { on: *on, file: "*".to_owned(), when, effect });
        }
    }
}

/// Tries each step on such a store until it is done, opening the database again where it has ended;
/// answers how often something failed, and how often it has ended.
fn one_call_in_twenty_fails(on: &'static [Operation], kind: firn_storage::ErrorKind, seed: u64) -> [u64; 2] {
    let flaky =
        Flaky { on, kind: Some(kind), seed: Arc::new(AtomicU64::new(seed << 32)), ..Flaky::default() };
    let mut run = flaky.run();
    let opened = |run: &mut Run| {
        let fails = (0..500).take_while(|_| run.open().is_err()).count();
        assert!(fails < 500, "seed {seed}: it is never opened");
    };
    opened(&mut run);
    let [mut failed, mut ended] = [0, 0];
    for step in steps(seed, STEPS) {
        flaky.fail_one_in(20);
        let before = failed;
        while let Err(error) = run.play(std::slice::from_ref(&step)) {
            let what = format!("seed {seed}, {step:?}");
            failed += 1;
            assert!(failed < 500, "{what}: {error:?}");
            assert_ne!(error.kind(), ErrorKind::Bug, "{what}: {error:?}");
            end(&run, &what);
            if !run.is_open() || run.hash().stats().write_failure.is_some() {
                ended += u64::from(run.is_open());
                run = run.after(Crash::Kill, run.memory.crash(Crash::Kill));
                opened(&mut run);
            }
            run.settle(false).unwrap_or_else(|found| panic!("{what}, after {error:?}: {found}"));
            // The more openings, the more files wait for a sync: at last the store is well again.
            flaky.fail_one_in(if failed - before < 20 { 20 } else { u64::MAX });
        }
    }
    end(&run, &format!("seed {seed}"));
    [failed, ended]
}

/// Of all calls but syncs: nothing ends.
#[test]
fn a_storage_that_refuses_one_call_in_twenty() {
    const ON: [Operation; 8] = [
        Operation::Write,
        Operation::Create,
        Operation::OpenWrite,
        Operation::Publish,
        Operation::Remove,
        Operation::List,
        Operation::Read,
        Operation::OpenRead,
    ];
    for seed in 1..=20 {
        let [refused, ended] = one_call_in_twenty_fails(&ON, firn_storage::ErrorKind::Refused, seed);
        assert!(refused > 0 && ended == 0, "seed {seed}: {refused} refused, ended {ended} times");
    }
}

/// Of syncs, too, each of which ends writing when it fails: it goes on after an opening.
#[test]
fn a_storage_that_fails_one_call_in_twenty() {
    const ON: [Operation; 9] = [
        Operation::Write,
        Operation::Create,
        Operation::OpenWrite,
        Operation::Publish,
        Operation::Remove,
        Operation::List,
        Operation::Read,
        Operation::Sync,
        Operation::SyncDir,
    ];
    let ended: u64 = (1..=20).map(|seed| one_call_in_twenty_fails(&ON, IO, seed)[1]).sum();
    assert!(ended > 10, "ended {ended} times");
}
