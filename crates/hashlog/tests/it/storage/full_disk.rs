//! The disk is full, or fails: what cannot be written is refused, reads go on, and nothing that was
//! acknowledged is lost.

use std::sync::Arc;

use firn_engine::{Engine, Error, ErrorKind};
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

/// A store that refuses one of twenty calls: what is refused is tried again, and all is there.
#[test]
fn a_storage_that_refuses_now_and_then() {
    for seed in 1..=10 {
        let (faulty, mut run) = faulty();
        run.open().expect("open");
        let mut rng = fastrand::Rng::with_seed(seed);
        for on in [Operation::Write, Operation::Create, Operation::Publish, Operation::Remove] {
            let mut after = 0;
            for _ in 0..20 {
                after += rng.u64(1..40);
                let effect = Effect::Fail(firn_storage::ErrorKind::Refused);
                faulty.inject(Fault { on, file: "*".to_owned(), when: When::Once { after }, effect });
            }
        }
        let mut refused = 0;
        for step in steps(seed, STEPS) {
            // Until it is done.
            while let Err(error) = run.play(std::slice::from_ref(&step)) {
                let what = format!("seed {seed}, {step:?}");
                refused += 1;
                assert!(refused < 500, "{what}: {error:?}");
                while !run.is_open() {
                    // It refuses, too.
                    let _refused = run.open();
                }
                look(&mut run, &what, &error);
            }
        }
        assert!(refused > 0, "seed {seed}: nothing was refused");
        end(&run, &format!("seed {seed}"));
    }
}
