//! One script, many settings, one history.
//!
//! Every run is compared with the model step by step, so runs that end well had the same history.
//! Settings vary sizes, compression, durability and background work; see [`Knobs::draw`].

use firn_storage::backend::Memory;

use crate::corpus::{Case, Failure};
use crate::gc_counts::GcCounts;
use crate::generate::{Profile, script};
use crate::ops::Script;
use crate::runner::{Runner, caught};
use crate::shrink::shrink;
use crate::world::{Knobs, World};

/// How many settings each script runs under: the plainest, then drawn ones.
pub const VARIANTS: u64 = 4;

/// What was done, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Scripts.
    pub seed_count: u64,
    /// Runs of scripts.
    pub run_count: u64,
    /// Steps of scripts, all runs.
    pub step_count: u64,
    /// GCs of blob segments, all runs.
    pub gcs: GcCounts,
}

/// Runs the script of `seed` under each of its settings; steps whose first word is in `skip` are
/// left out.
pub fn check_seed(world: &dyn World, seed: u64, skip: &[String]) -> Result<Totals, Box<Failure>> {
    let script = script(seed, Profile::Everything).without(skip);
    let mut totals = Totals { seed_count: 1, ..Totals::default() };
    for variant in 0..VARIANTS {
        let knobs = if variant == 0 { 0 } else { seed * VARIANTS + variant };
        match attempt(world, &script, knobs) {
            Ok(gcs) => totals.gcs += gcs,
            Err(what) => return Err(Box::new(failure(world, seed, knobs, what, &script))),
        }
        totals.run_count += 1;
        totals.step_count += script.ops.len() as u64;
    }
    Ok(totals)
}

/// Runs `script` under the settings of seed `knobs`; a panic counts as a violation. The GCs
/// in its course.
pub fn attempt(world: &dyn World, script: &Script, knobs: u64) -> Result<GcCounts, String> {
    caught(|| {
        let mut runner = Runner::new(world, Knobs::draw(knobs), Memory::new(), script.seed)?;
        runner.run(script)?;
        runner.end()
    })
}

fn failure(world: &dyn World, seed: u64, knobs: u64, what: String, script: &Script) -> Failure {
    let command = format!("cargo x sim metamorphic --world {} --seed {seed}", world.name());
    // Before it is made small: that takes long, and a run with threads may never fail again.
    eprintln!("settings {knobs}: {what}\n{command}");
    let mut fails = |script: &Script| (0..repeats(knobs)).any(|_| attempt(world, script, knobs).is_err());
    let small = shrink(script, &mut fails);
    let case = Case { world: world.name().to_owned(), knobs, cut: None, script: small };
    Failure { what, case, command }
}

/// A run with threads may need several attempts to fail again.
fn repeats(knobs: u64) -> u32 {
    if Knobs::draw(knobs).has_threads { 3 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Fault;
    use crate::replay::replay;
    use crate::world::ReferenceWorld;

    #[test]
    fn the_reference_has_one_history() {
        for seed in 0..20 {
            let checked = check_seed(&ReferenceWorld::default(), seed, &[]);
            assert!(checked.is_ok(), "{checked:?}");
        }
    }

    /// Canaries: an engine that breaks a promise is caught, and its script is made short.
    #[test]
    fn broken_engines_are_caught_and_their_scripts_made_short() {
        let faults = [
            Fault::LoseWrite(11),
            Fault::FirstOperationWins,
            Fault::UnlockedUpdate,
            Fault::LeakySnapshot,
            Fault::LeakyReopen,
            Fault::NoExpiry,
            Fault::InclusiveRange,
            Fault::MergeReplaces,
            Fault::InclusiveScan,
            Fault::ShortBackwardScan,
            Fault::ForgetLast,
            Fault::SwapLast,
            Fault::SkipSync,
            Fault::LateJournal(1),
            Fault::HalfBatch,
            Fault::StaleCopy,
            Fault::EarlyIngestion,
        ];
        for fault in faults {
            let world = ReferenceWorld { fault: Some(fault) };
            let failure = (0..200).find_map(|seed| check_seed(&world, seed, &[]).err());
            let failure = failure.unwrap_or_else(|| panic!("{fault:?} went unnoticed in 200 seeds"));
            println!("{fault:?}: {}\n{}", failure.what, failure.case);
            // Eleven writes, of which ingestions take two steps, and keyspaces for them.
            assert!(failure.case.script.ops.len() <= 20, "{fault:?}: not short: {}", failure.case);
            assert!(replay(&failure.case, &world).is_err(), "{fault:?}: the short script fails too");
            let reparsed: Case = failure.case.to_string().parse().unwrap();
            assert_eq!(reparsed, failure.case);
        }
    }
}
