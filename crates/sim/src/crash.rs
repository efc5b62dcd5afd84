//! The machine stops at every operation of its storage, and what is left is opened again.
//!
//! A script runs once to count its operations (writes, syncs, renames, …, those of background work
//! included). Then it runs again for every one of them, or for some that are spread over all, and
//! is cut there. The process dies, the last write perhaps torn, or power is lost. What is left must
//! be the promised prefix. Some more steps are run on it, and it is crashed once more.

use std::collections::BTreeSet;

use fastrand::Rng;
use firn_format::file_name::{FileName, parse};
use firn_storage::backend::{Crash, Memory};

use crate::corpus::{Case, Cut, Failure};
use crate::gc_counts::GcCounts;
use crate::generate::{Profile, script};
use crate::ops::Script;
use crate::runner::{Runner, Stop, caught};
use crate::shrink::shrink;
use crate::world::{Knobs, World};

/// What was done, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Scripts.
    pub seed_count: u64,
    /// Cuts by a kill.
    pub kill_count: u64,
    /// Cuts by a power loss.
    pub power_loss_count: u64,
    /// Cuts at an operation on values that a job or an ingestion put together.
    pub amid_count: u64,
    /// GCs of blob segments, before and after the cuts.
    pub gcs: GcCounts,
}

/// A cut that was survived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survived {
    /// Whether the machine stopped at an operation on values that a job or an ingestion put
    /// together.
    pub is_amid: bool,
    /// GCs before and after.
    pub gcs: GcCounts,
}

impl Totals {
    /// All cuts.
    pub fn cut_count(&self) -> u64 {
        self.kill_count + self.power_loss_count
    }
}

/// Cuts the script of `seed` at every operation. Or, so that there are about `cuts_max` cuts, at
/// some that are evenly spread, and at one on values that a job or an ingestion puts together.
///
/// At each operation: a kill (the last write whole, torn or not begun, in turn), and a power loss
/// with a seed of its own. Steps whose first word is in `skip` are left out.
pub fn check_seed(
    world: &dyn World,
    seed: u64,
    cuts_max: u64,
    skip: &[String],
) -> Result<Totals, Box<Failure>> {
    let script = script(seed, Profile::Short).without(skip);
    let knobs = settings(seed);
    let mut totals = Totals { seed_count: 1, ..Totals::default() };
    let operations = match operations_of(world, &script, knobs) {
        Ok(operations) => operations,
        Err(what) => return Err(Box::new(uncut_failure(world, seed, knobs, what, &script))),
    };
    let mut rng = Rng::with_seed(seed ^ 0x6375_7473);
    for operation in chosen(&operations, cuts_max, &mut rng) {
        let torn_bytes = match operation % 3 {
            0 => 0,
            1 => rng.usize(0..64),
            _ => rng.usize(0..8192),
        };
        let kill = Cut { operation, torn_bytes, crash: Crash::Kill, tail: rng.u64(0..1 << 32) };
        let crash = Crash::PowerLoss { seed: rng.u64(0..1 << 32) };
        let power_loss = Cut { crash, tail: rng.u64(0..1 << 32), ..kill };
        for cut in [kill, power_loss] {
            match attempt(world, &script, knobs, cut) {
                Ok(Survived { is_amid, gcs }) => {
                    totals.amid_count += u64::from(is_amid);
                    totals.gcs += gcs;
                }
                Err(what) => return Err(Box::new(failure(world, seed, knobs, cut, what, &script))),
            }
        }
        totals.kill_count += 1;
        totals.power_loss_count += 1;
    }
    Ok(totals)
}

/// Which of the operations a script is cut at; one behind the last among them is its end.
fn chosen(operations: &[String], cuts_max: u64, rng: &mut Rng) -> BTreeSet<u64> {
    let made: Vec<u64> =
        (0..).zip(operations).filter(|(_, it)| is_on_made_values(it)).map(|(at, _)| at).collect();
    let count = operations.len() as u64;
    let aimed = if cuts_max > count * 2 { None } else { rng.choice(made) };
    let spread_max = cuts_max.saturating_sub(if aimed.is_some() { 2 } else { 0 });
    let stride = (count * 2).div_ceil(spread_max.max(1)).max(1);
    let first = rng.u64(0..stride);
    let spread = (first..=count).step_by(usize::try_from(stride).unwrap_or(usize::MAX));
    spread.chain(aimed).collect()
}

/// Seed of the settings a script runs under: the plainest for every fourth.
fn settings(seed: u64) -> u64 {
    if seed.is_multiple_of(4) { 0 } else { seed }
}

/// Runs the script of `seed` and cuts it at one operation only.
pub fn check_cut(world: &dyn World, seed: u64, cut: Cut) -> Result<(), String> {
    let knobs = settings(seed);
    attempt(world, &script(seed, Profile::Short), knobs, cut).map(drop)
}

/// Runs `script`, cut as `cut` says, then recovers, goes on, crashes and recovers again.
pub fn attempt(world: &dyn World, script: &Script, knobs: u64, cut: Cut) -> Result<Survived, String> {
    caught(|| {
        let mut rng = Rng::with_seed(cut.tail);
        let memory = Memory::new();
        memory.cut_write_at(cut.operation, cut.torn_bytes);
        let mut runner = Runner::new(world, Knobs::draw(knobs).stepped(), memory.clone(), script.seed)?;
        match runner.run(script) {
            Ok(()) | Err(Stop::Gone) => {}
            Err(Stop::Violation(what)) => return Err(Stop::Violation(at_cut(&memory, &what))),
        }
        let is_amid = memory.cut_operation().is_some_and(|operation| is_on_made_values(&operation));
        let explain = |stop: Stop| match stop {
            Stop::Violation(what) => Stop::Violation(at_cut(&memory, &what)),
            Stop::Gone => Stop::Violation("the machine is gone though it was started again".to_owned()),
        };
        if rng.u8(0..4) == 0 {
            // The machine stops again while it recovers.
            runner.interrupt(cut.crash, rng.u64(0..30)).map_err(explain)?;
        }
        let again = Knobs::draw(rng.u64(0..64)).stepped();
        runner.recover(cut.crash, again).map_err(explain)?;
        let tail = crate::generate::script(cut.tail, Profile::Tail);
        runner.run(&tail).map_err(explain)?;
        let crash = if rng.bool() { Crash::Kill } else { Crash::PowerLoss { seed: rng.u64(0..1 << 32) } };
        runner.recover(crash, Knobs::draw(knobs).stepped()).map_err(explain)?;
        Ok(Survived { is_amid, gcs: runner.end().map_err(explain)? })
    })
}

/// Whether the operation, in words, names a blob segment that a job or an ingestion puts together.
fn is_on_made_values(operation: &str) -> bool {
    operation.split_whitespace().any(|word| matches!(parse(word), Some(FileName::CollectedBlobs { .. })))
}

fn at_cut(memory: &Memory, what: &str) -> String {
    let operation = memory.cut_operation().unwrap_or("the end of the script".to_owned());
    format!("cut at `{operation}`: {what}")
}

/// What `script` does to its storage, operation by operation, in words.
fn operations_of(world: &dyn World, script: &Script, knobs: u64) -> Result<Vec<String>, String> {
    caught(|| {
        let memory = Memory::new();
        memory.keep_journal();
        let mut runner = Runner::new(world, Knobs::draw(knobs).stepped(), memory.clone(), script.seed)?;
        runner.run(script)?;
        Ok(memory.journal())
    })
}

fn uncut_failure(world: &dyn World, seed: u64, knobs: u64, what: String, script: &Script) -> Failure {
    let small = shrink(script, &mut |script| operations_of(world, script, knobs).is_err());
    let case = Case { world: world.name().to_owned(), knobs, cut: None, script: small };
    Failure { what, case, command: format!("cargo x sim crash --world {} --seed {seed}", world.name()) }
}

fn failure(world: &dyn World, seed: u64, knobs: u64, cut: Cut, what: String, script: &Script) -> Failure {
    // A shorter script has its operations elsewhere: every cut near the old distance from the end
    // is tried.
    let mut best_cut = cut;
    let mut fails = |script: &Script| {
        let found = failing_cut(world, script, knobs, best_cut);
        best_cut = found.unwrap_or(best_cut);
        found.is_some()
    };
    let small = shrink(script, &mut fails);
    let case = Case { world: world.name().to_owned(), knobs, cut: Some(best_cut), script: small };
    let power = match cut.crash {
        Crash::Kill => String::new(),
        Crash::PowerLoss { seed } => format!(" --power {seed}"),
    };
    let Cut { operation, torn_bytes, tail, .. } = cut;
    let command = format!(
        "cargo x sim crash --world {} --seed {seed} --cut {operation} --torn {torn_bytes} --tail {tail}{power}",
        world.name()
    );
    Failure { what, case, command }
}

/// A cut of `script` that fails as `cut` did: the same operation, or one of up to forty before the
/// end.
fn failing_cut(world: &dyn World, script: &Script, knobs: u64, cut: Cut) -> Option<Cut> {
    let operations = operations_of(world, script, knobs).ok()?.len() as u64;
    let candidates = std::iter::once(cut.operation).chain((0..=operations).rev().take(40));
    let mut cuts =
        candidates.filter(|operation| *operation <= operations).map(|operation| Cut { operation, ..cut });
    cuts.find(|cut| attempt(world, script, knobs, *cut).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Fault;
    use crate::replay::replay;
    use crate::world::ReferenceWorld;

    #[test]
    fn the_reference_survives_every_cut() {
        let mut cuts = 0;
        for seed in 0..12 {
            match check_seed(&ReferenceWorld::default(), seed, u64::MAX, &[]) {
                Ok(totals) => cuts += totals.cut_count(),
                Err(failure) => panic!("{failure:#?}"),
            }
        }
        assert!(cuts > 800, "{cuts} cuts are too few to mean anything");
    }

    /// Canaries: engines that acknowledge too early, tear or reorder are caught.
    #[test]
    fn broken_engines_are_caught() {
        for fault in
            [Fault::SkipSync, Fault::LateJournal(1), Fault::HalfBatch, Fault::SwapLast, Fault::LoseWrite(5)]
        {
            let world = ReferenceWorld { fault: Some(fault) };
            let failure = (0..50).find_map(|seed| check_seed(&world, seed, 100, &[]).err());
            let failure = failure.unwrap_or_else(|| panic!("{fault:?} went unnoticed in 50 seeds"));
            println!("{fault:?}: {}\n{}\n{}", failure.what, failure.command, failure.case);
            assert!(replay(&failure.case, &world).is_err(), "{fault:?}: the short script fails too");
            let reparsed: Case = failure.case.to_string().parse().unwrap();
            assert_eq!(reparsed, failure.case);
        }
    }
}
