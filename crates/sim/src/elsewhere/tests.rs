use firn_engine::Result as EngineResult;
use firn_storage::backend::Memory;

use super::*;
use crate::gc_counts::GcCounts;
use crate::generate::{Profile, script};
use crate::runner::{Runner, Stop};
use crate::world::{Knobs, Opened, TreeWorld, World};

/// The ordered engine, with workers that do the same with every job.
#[derive(Debug)]
struct Always(Fate);

impl World for Always {
    fn name(&self) -> &'static str {
        "always"
    }

    fn open(&self, storage: Arc<dyn Storage>, knobs: &Knobs, clock: Arc<dyn Clock>) -> EngineResult<Opened> {
        let workers = Elsewhere::new(Arc::clone(&storage), Arc::clone(&clock), knobs.seed, knobs.has_threads);
        workers.lock().fate = Some(self.0);
        TreeWorld.open_with(storage, knobs, clock, Some(workers))
    }

    fn check(&self, storage: Arc<dyn Storage>) -> std::result::Result<(), String> {
        TreeWorld.check(storage)
    }
}

fn run(fate: Fate, seed: u64) -> std::result::Result<GcCounts, Stop> {
    let plain = Knobs { buffer_bytes: 0, memtable_bytes: 4 << 10, steps_max: 4, ..Knobs::draw(0) };
    let world = Always(fate);
    let mut runner = Runner::new(&world, plain, Memory::new(), seed)?;
    runner.run(&script(seed, Profile::Everything))?;
    runner.end()
}

/// GCs of some scripts, whatever becomes of every job.
#[track_caller]
fn gcs(fate: Fate) -> GcCounts {
    let mut all = GcCounts::default();
    for seed in 3..=6 {
        match run(fate, seed) {
            Ok(gcs) => all += gcs,
            Err(stop) => panic!("{fate:?}, seed {seed}: {stop:?}"),
        }
    }
    println!("{fate:?}: {all}");
    all
}

#[test]
fn gcs_are_done_elsewhere_where_they_are_served() {
    let all = gcs(Fate::Serve);
    assert!(all.elsewhere_count > 0, "{all}");
    assert_eq!(all.passed_on_count, 0, "{all}");
}

#[test]
fn what_comes_to_nothing_elsewhere_is_done_here() {
    let fates = [Fate::GoAway, Fate::GarbleSpec, Fate::GarbleResult, Fate::Silent, Fate::Late];
    let refusals = fate::REFUSALS.map(Fate::Refuse);
    for fate in fates.into_iter().chain(refusals).chain(fate::FAILURES.map(Fate::Fail)) {
        let all = gcs(fate);
        // A worker that stands still while the script goes on may answer before it is given up.
        assert!(all.elsewhere_count == 0 || fate == Fate::Late, "{fate:?}: {all}");
        assert!(all.passed_on_count > 0, "{fate:?}: {all}");
    }
}

/// The runs themselves complain where one is believed.
#[test]
fn no_fault_of_a_gc_is_believed() {
    for spoil in Spoil::ALL {
        let all = gcs(Fate::Spoil(spoil));
        assert!(all.spoiled_count > 0, "{spoil:?}: {all}");
        assert!(all.passed_on_count > 0, "{spoil:?}: {all}");
    }
}

/// A worker that stood still writes to a directory that another process has opened since, which
/// removes that when it is opened again.
#[test]
fn workers_outlive_their_database() {
    let text = "
        one - put:0:1:700:3:0
        flush
        one - put:0:1:700:4:0
        flush
        compact 0 - -
        kill
        ";
    let of_workers = |runner: &Runner<'_>| {
        let names = runner.memory().list().unwrap().into_iter().map(|(name, _)| name);
        names.filter(|name| name.contains("-e")).collect::<Vec<_>>()
    };
    let world = Always(Fate::Late);
    let mut found = 0;
    for seed in 0..8 {
        let knobs = Knobs { seed, steps_max: 0, ..Knobs::draw(0) };
        let mut runner = Runner::new(&world, knobs, Memory::new(), seed).unwrap();
        assert_eq!(runner.run(&format!("{text}\n{}", "get - 0 1\n".repeat(40)).parse().unwrap()), Ok(()));
        found += of_workers(&runner).len();
        assert_eq!(runner.run(&"reopen 0\nverify".parse().unwrap()), Ok(()), "seed {seed}");
        assert!(of_workers(&runner).is_empty(), "seed {seed}");
    }
    assert!(found > 0, "nobody wrote anything late");
}

#[test]
fn a_run_with_workers_is_a_function_of_its_seed() {
    for seed in 1..=4 {
        let operations = || {
            let knobs = Knobs { elsewhere: true, ..Knobs::draw(seed) }.stepped();
            let mut runner = Runner::new(&TreeWorld, knobs, Memory::new(), seed).unwrap();
            assert_eq!(runner.run(&script(seed, Profile::Short)), Ok(()), "seed {seed}");
            (runner.memory().operations(), runner.end())
        };
        assert_eq!(operations(), operations(), "seed {seed}");
    }
}
