//! Relief that waits elsewhere while writers are about to stop: which jobs before it are waited
//! for, and which not.

use std::time::Duration;

use firn_jobs::{Error, ErrorKind, Executor, Fallback, JobHandle, JobSpec, Patience, Ran};

use crate::elsewhere::{Elsewhere, PATIENCE, Scene, Way, answer};

#[test]
fn relief_that_waits_for_others_is_done_here_before_writers_stop() {
    let scene = Scene::new(Way::Vanish);
    let fallback = scene.fallback(false);
    assert!(scene.spec("relief").is_relief());
    let (waits, begun) = (scene.spec("waits"), scene.spec("begun"));
    let [waits, begun] = [waits, begun].map(|spec| fallback.submit(spec).unwrap());
    scene.elsewhere.kept.lock().unwrap()[0].0.set_waiting(true);
    scene.clock.advance(Duration::from_millis(1_500));
    scene.let_it_look();
    assert!(waits.poll().is_none(), "writers have time");
    fallback.urge(Some(Duration::from_secs(8)));
    scene.accept("waits", &answer(&waits).unwrap());
    assert!(begun.poll().is_none(), "somebody is about to end it");
    let late = fallback.submit(scene.spec("late")).unwrap();
    scene.elsewhere.kept.lock().unwrap()[2].0.set_waiting(true);
    scene.clock.advance(Duration::from_millis(900));
    scene.let_it_look();
    assert!(late.poll().is_none(), "it may be begun at once");
    scene.clock.advance(Duration::from_millis(200));
    scene.accept("late", &answer(&late).unwrap());
    assert!(!fallback.fallbacks().is_away());
}

/// A database whose writers stand still, and of which the times of jobs elsewhere are known.
struct Known {
    scene: Scene,
    fallback: Fallback,
}

impl Known {
    /// They take so many seconds, and so many run at a time as far as is said.
    fn new(seconds: u64, width: Option<usize>) -> Self {
        let mut scene = Scene::new(Way::Vanish);
        scene.elsewhere = Elsewhere::of_width(&scene.storage, Way::Vanish, width);
        let fallback = scene.fallback_with(false, Patience { least: Duration::from_secs(3600), ..PATIENCE });
        let known = Self { scene, fallback };
        let job = known.submit("known");
        known.end_first(&job, seconds);
        known.fallback.urge(Some(Duration::ZERO));
        known
    }

    fn submit(&self, stem: &str) -> JobHandle {
        self.fallback.submit(self.scene.spec(stem)).unwrap()
    }

    /// Of the jobs that were given away and have not ended, the one with this number is said to
    /// wait, or not to.
    fn set_waiting(&self, number: usize, is_waiting: bool) {
        self.scene.elsewhere.kept.lock().unwrap()[number].0.set_waiting(is_waiting);
    }

    fn set_trouble(&self, number: usize) {
        self.scene.elsewhere.kept.lock().unwrap()[number].0.set_trouble("the store is full".to_owned());
    }

    /// The job that was given away first is `job`, and ends.
    fn end_first(&self, job: &JobHandle, seconds: u64) {
        let (finisher, result) = self.scene.elsewhere.kept.lock().unwrap().remove(0);
        finisher.finish_ran(Ok(result), Ran { ran: Duration::from_secs(seconds), ..Ran::by("w") });
        answer(job).unwrap();
    }

    fn pass(&self, ms: u64) {
        self.scene.clock.advance(Duration::from_millis(ms));
        self.scene.let_it_look();
    }

    /// `job` is done here after `to` ms, and not after `from`.
    fn is_done_between(&self, (from, to): (u64, u64), job: &JobHandle, stem: &str) {
        // The watching thread may miss a step, and not all.
        (0..from / 400).for_each(|_| self.pass(400));
        self.pass(from % 400);
        assert!(job.poll().is_none(), "{stem}: before {from} ms");
        // Nothing may be left then that is looked at.
        self.scene.clock.advance(Duration::from_millis(to - from));
        self.scene.accept(stem, &answer(job).unwrap());
    }
}

#[test]
fn relief_waits_while_relief_of_the_same_database_runs_wherever_it_may() {
    for width in [1, 2] {
        let known = Known::new(3, Some(width));
        let running: Vec<JobHandle> = ["one", "two"][..width].iter().map(|stem| known.submit(stem)).collect();
        let waits = known.submit("waits");
        known.set_waiting(width, true);
        (0..14).for_each(|_| known.pass(400));
        assert!(waits.poll().is_none(), "5.6 s of 6 that those before it may take");
        known.end_first(&running[0], 3);
        known.is_done_between((800, 1_050), &waits, "waits");
        known.scene.elsewhere.kept.lock().unwrap().pop();
        running[1..].iter().for_each(|job| known.end_first(job, 3));
        // The workers there have time for one more job, and give it to another database.
        let _begun: Vec<JobHandle> = (1..width).map(|_| known.submit("begun")).collect();
        let last = known.submit("last");
        known.set_waiting(width - 1, true);
        known.is_done_between((800, 1_050), &last, "last");
    }
}

/// Of two jobs the second one waits for the first, which is `done` something with, and is done here
/// within such a time.
fn waits_for(seconds: u64, width: Option<usize>, done: impl FnOnce(&Known, &JobHandle), within: (u64, u64)) {
    let known = Known::new(seconds, width);
    let first = known.submit("first");
    let waits = known.submit("waits");
    known.set_waiting(1, true);
    done(&known, &first);
    known.is_done_between(within, &waits, "waits");
}

#[test]
fn relief_waits_for_nothing_that_takes_longer_than_was_expected() {
    waits_for(3, Some(1), |_, _| {}, (5_900, 7_050));
    // However long it was expected to take, writers stand still.
    waits_for(30, Some(1), |_, _| {}, (9_900, 11_050));
}

#[test]
fn relief_waits_for_nothing_that_is_said_to_fail_or_to_wait_as_well() {
    waits_for(3, None, |_, _| {}, (800, 1_050));
    waits_for(3, Some(1), |known, _| known.set_trouble(0), (800, 1_050));
    // What has failed waits for something else than for those before it.
    waits_for(3, Some(1), |known, _| known.set_trouble(1), (800, 1_050));
    // It is not said at once.
    let told_late = |known: &Known, _: &JobHandle| {
        known.pass(500);
        known.set_waiting(0, true);
    };
    waits_for(3, Some(1), told_late, (300, 550));
    let failed = |known: &Known, _: &JobHandle| {
        known.pass(500);
        let (finisher, _) = known.scene.elsewhere.kept.lock().unwrap().remove(0);
        finisher.finish(Err(Error::new(ErrorKind::Invalid, "the job is none")));
    };
    waits_for(3, Some(1), failed, (300, 550));
}

#[test]
fn relief_waits_for_no_bulk_work() {
    let known = Known::new(3, Some(1));
    let JobSpec::Compact(mut bulk) = known.scene.spec("bulk") else { panic!("a compaction") };
    bulk.inputs.iter_mut().for_each(|input| input.level += 1);
    let _bulk = known.fallback.submit(bulk.into()).unwrap();
    let waits = known.submit("waits");
    known.set_waiting(1, true);
    known.is_done_between((800, 1_050), &waits, "waits");
}

#[test]
fn relief_waits_for_whoever_has_just_ended_relief_of_the_same_database() {
    // Though no begin was reported.
    let ended = |known: &Known, first: &JobHandle| {
        known.pass(500);
        known.end_first(first, 3);
    };
    waits_for(3, Some(1), ended, (800, 1_050));
}

#[test]
fn relief_waits_no_longer_because_what_is_before_it_was_begun_again() {
    let begun_again = |known: &Known, _: &JobHandle| {
        known.set_waiting(0, true);
        known.pass(500);
        known.set_waiting(0, false);
        (0..10).for_each(|_| known.pass(400));
        known.set_waiting(0, true);
        known.scene.let_it_look();
        known.set_waiting(0, false);
        known.scene.let_it_look();
    };
    waits_for(3, Some(1), begun_again, (1_900, 3_050));
}
