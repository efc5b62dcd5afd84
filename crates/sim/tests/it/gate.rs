//! The scripts, cuts, batches and kills of the gate, and every run that ever failed.

use std::process::Command;

use firn_sim::corpus::Failure;
use firn_sim::gc_counts::GcCounts;
use firn_sim::lying::{Lie, LyingWorld};
use firn_sim::replay::replay;
use firn_sim::world::{HashWorld, TreeWorld, World, world};
use firn_sim::{batches, corpus, crash, metamorphic};

#[track_caller]
fn complain(failure: &Failure) -> ! {
    panic!("{}\n{}\nmade small:\n{}", failure.what, failure.command, failure.case);
}

#[test]
fn what_failed_once_does_not_fail_again() {
    for (name, case) in corpus::Case::load(&corpus::folder()).unwrap() {
        let world = world(&case.world).unwrap();
        assert_eq!(replay(&case, &*world), Ok(()), "corpus/{name}");
    }
}

#[test]
fn two_hundred_scripts_have_one_history_each() {
    let mut gcs = GcCounts::default();
    for seed in 1..=200 {
        match metamorphic::check_seed(&TreeWorld, seed, &[]) {
            Ok(totals) => gcs += totals.gcs,
            Err(failure) => complain(&failure),
        }
    }
    println!("{gcs}");
    all_kinds_occurred(&gcs);
}

/// Otherwise nothing was shown of what did not.
#[track_caller]
fn all_kinds_occurred(gcs: &GcCounts) {
    let GcCounts { count, elsewhere_count, passed_on_count, spoiled_count } = *gcs;
    let counts = [count, elsewhere_count, passed_on_count, spoiled_count];
    assert!(counts.iter().all(|count| *count > 0), "{gcs}");
}

/// Cuts of each script: few, so that there are many scripts.
const CUTS_PER_SCRIPT: u64 = 8;

#[test]
fn a_thousand_cuts_leave_what_was_promised() {
    let (mut cut_count, mut amid_count, mut gcs) = (0, 0, GcCounts::default());
    let mut seeds = 1..;
    while cut_count < 1000 {
        let seed = seeds.next().expect("a seed");
        match crash::check_seed(&TreeWorld, seed, CUTS_PER_SCRIPT, &[]) {
            Ok(totals) => {
                cut_count += totals.cut_count();
                amid_count += totals.amid_count;
                gcs += totals.gcs;
            }
            Err(failure) => complain(&failure),
        }
    }
    println!("{cut_count} cuts, {amid_count} amid values put together, {gcs}");
    assert!(seeds.start > 100, "{} scripts are too few", seeds.start - 1);
    assert!(amid_count > 30, "{amid_count} cuts amid GCs are too few");
    all_kinds_occurred(&gcs);
}

#[test]
fn batches_are_whole() {
    let totals = batches::check(&TreeWorld, 1, 3000, &mut |_| {}).unwrap();
    assert!(totals.kill_count > 0 && totals.power_loss_count > 0, "{totals:?}");
}

#[test]
fn scripts_have_one_history_each_on_the_hashed_engine() {
    for seed in 1..=30 {
        metamorphic::check_seed(&HashWorld, seed, &[]).unwrap_or_else(|failure| complain(&failure));
    }
}

#[test]
fn cuts_of_the_hashed_engine_leave_what_was_promised() {
    let mut cut_count = 0;
    for seed in 1..=40 {
        let checked = crash::check_seed(&HashWorld, seed, CUTS_PER_SCRIPT, &[]);
        cut_count += checked.unwrap_or_else(|failure| complain(&failure)).cut_count();
    }
    assert!(cut_count > 200, "{cut_count} cuts are too few");
}

#[test]
fn batches_of_the_hashed_engine_are_whole() {
    let totals = batches::check(&HashWorld, 1, 1000, &mut |_| {}).unwrap();
    assert!(totals.kill_count > 0 && totals.power_loss_count > 0, "{totals:?}");
}

fn kill(world: &str) -> (bool, String) {
    let program = env!("CARGO_BIN_EXE_firn-sim");
    let arguments = ["--world", world, "kill", "--rounds", "3"];
    let output = Command::new(program).args(arguments).output().expect("the program runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn killed_processes_lose_nothing() {
    let (is_good, said) = kill("tree");
    assert!(is_good, "{said}");
}

#[test]
fn killed_processes_of_the_hashed_engine_lose_nothing() {
    let (is_good, said) = kill("hash");
    assert!(is_good, "{said}");
}

/// Canary: a process that loses its newest write is noticed.
#[test]
fn a_killed_process_that_loses_a_write_is_noticed() {
    let (is_good, said) = kill("broken");
    assert!(!is_good && said.contains("1 violation"), "{said}");
}

/// Canary: on a storage that lies no engine can keep its promises, and that is noticed.
fn lies_are_noticed<W: World + Copy>(world: W, lies: &[Lie]) {
    for lie in lies.iter().copied() {
        let world = LyingWorld { world, lie };
        let is_noticed = (1..50).any(|seed| crash::check_seed(&world, seed, 60, &[]).is_err());
        assert!(is_noticed, "{lie:?} went unnoticed in 50 scripts");
    }
}

#[test]
fn lies_of_the_storage_are_noticed() {
    lies_are_noticed(TreeWorld, &[Lie::Sync, Lie::SyncDir, Lie::Write(5)]);
}

/// All files but values that lie alone, which short scripts have none of, are made before an edit
/// is published. That syncs the directory, too.
#[test]
fn lies_of_the_storage_are_noticed_on_the_hashed_engine() {
    lies_are_noticed(HashWorld, &[Lie::Sync, Lie::Write(5)]);
}
