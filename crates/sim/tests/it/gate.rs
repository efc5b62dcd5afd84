//! The scripts, cuts and batches of the gate, and every run that ever failed.

use firn_sim::corpus;
use firn_sim::world::{TreeWorld, world};
use firn_sim::{crash, metamorphic};

#[test]
fn what_failed_once_does_not_fail_again() {
    for (name, case) in corpus::Case::load(&corpus::folder()).unwrap() {
        let world = world(&case.world).unwrap();
        assert_eq!(case.run(&*world), Ok(()), "corpus/{name}");
    }
}

#[test]
fn metamorphic_seeds() {
    for seed in 0..50 {
        if let Err(failure) = metamorphic::check_seed(&TreeWorld, seed) {
            panic!("{}\n{}\n{}", failure.what, failure.command, failure.case);
        }
    }
}

#[test]
fn crash_cuts() {
    for seed in 0..8 {
        if let Err(failure) = crash::check_seed(&TreeWorld, seed, 125) {
            panic!("{}\n{}\n{}", failure.what, failure.command, failure.case);
        }
    }
}
