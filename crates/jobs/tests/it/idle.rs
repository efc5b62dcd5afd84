//! What would wait elsewhere is done on idle processors here, as long as that is sooner.

use std::sync::Arc;
use std::time::Duration;

use firn_jobs::{Error, ErrorKind, Executor, Fallback, JobHandle, JobResult, JobSpec, Patience, Ran};

use crate::elsewhere::{Elsewhere, PATIENCE, Scene, Way, answer, let_it_look, tables, until};

/// Nobody is late.
const LONG: Patience = Patience { least: Duration::from_secs(3600), ..PATIENCE };

/// A worker that does one job at a time and processors here that idle, both of which answer when they are told to.
struct Both {
    scene: Scene,
    idle: Arc<Elsewhere>,
    fallback: Fallback,
}

impl Both {
    fn new() -> Self {
        let mut scene = Scene::new(Way::Vanish);
        scene.elsewhere = Elsewhere::of_width(&scene.storage, Way::Vanish, 1);
        let idle = Elsewhere::of_width(&scene.storage, Way::Vanish, 1);
        let fallback = scene.fallback_with(false, LONG).with_idle(Arc::clone(&idle) as _);
        Self { scene, idle, fallback }
    }

    /// As [`new`](Self::new), when it is known that the worker takes a second for a job, and it has one that it does not end.
    fn with_a_busy_worker() -> (Self, JobHandle) {
        let both = Self::new();
        let known = both.submit("known");
        both.worker_ends(&known);
        let before = both.submit("before");
        assert_eq!((both.scene.asked(), both.taken()), (2, 0));
        (both, before)
    }

    fn submit(&self, stem: &str) -> JobHandle {
        self.fallback.submit(self.scene.spec(stem)).unwrap()
    }

    /// The worker ends the job that it was given first, which is `handle`'s, and says that it took a second.
    fn worker_ends(&self, handle: &JobHandle) -> JobResult {
        let (finisher, result) = self.scene.elsewhere.kept.lock().unwrap().remove(0);
        finisher.finish_ran(Ok(result), Ran { ran: Duration::from_secs(1), ..Ran::by("w") });
        answer(handle).unwrap()
    }

    fn idle_ends(&self) {
        let (finisher, result) = self.idle.kept.lock().unwrap().remove(0);
        finisher.finish(Ok(result));
    }

    /// Jobs that idle processors have and have not ended.
    fn taken(&self) -> usize {
        self.idle.kept.lock().unwrap().len()
    }

    /// Idle processors have the job called `stem` for so long and end it.
    fn do_idly(&self, stem: &str, seconds: u64) -> JobHandle {
        let handle = self.submit(stem);
        assert_eq!(self.taken(), 1, "{stem}");
        self.scene.clock.advance(Duration::from_secs(seconds));
        self.idle_ends();
        answer(&handle).unwrap();
        handle
    }
}

#[test]
fn what_would_wait_is_done_here_and_nothing_else() {
    let both = Both::new();
    let handles: Vec<JobHandle> = ["a", "b"].iter().map(|stem| both.submit(stem)).collect();
    assert_eq!((both.scene.asked(), both.taken()), (2, 0), "nothing is known of what a job takes");
    for handle in &handles {
        both.worker_ends(handle);
    }
    let first = both.submit("first");
    assert_eq!((both.scene.asked(), both.taken()), (3, 0), "it does not wait there");
    let second = both.submit("second");
    assert_eq!((both.scene.asked(), both.taken()), (3, 1), "it would");
    let third = both.submit("third");
    assert_eq!((both.scene.asked(), both.taken()), (4, 1), "here it would wait too");

    both.scene.clock.advance(Duration::from_millis(700));
    both.idle_ends();
    let result = answer(&second).unwrap();
    both.scene.accept("second", &result);
    assert!(tables(&result)[0].file.starts_with("second-i-"));
    assert_eq!(second.ran(), Some(Ran { ran: Duration::from_millis(700), ..Ran::default() }));
    for handle in [first, third] {
        both.worker_ends(&handle);
    }
    let fallbacks = both.fallback.fallbacks();
    assert_eq!((fallbacks.idle(), fallbacks.count(), fallbacks.reason()), ((1, 0), 0, None));
}

#[test]
fn relief_does_not_wait_for_bulk_work_so_that_it_is_given_away() {
    let both = Both::new();
    let known = both.submit("known");
    both.worker_ends(&known);
    let JobSpec::Compact(mut bulk) = both.scene.spec("bulk") else { panic!("a compaction") };
    bulk.inputs.iter_mut().for_each(|input| input.level += 1);
    let _bulk = both.fallback.submit(bulk.into()).unwrap();
    let _relief = both.submit("relief");
    assert_eq!((both.scene.asked(), both.taken()), (3, 0));
    let _after = both.submit("after");
    assert_eq!((both.scene.asked(), both.taken()), (3, 1), "after the other relief");
}

#[test]
fn where_less_idles_fewer_jobs_are_done_here() {
    let (both, before) = Both::with_a_busy_worker();
    // Two seconds here, and two there: one of them for the job before.
    both.do_idly("slow", 2);
    let away = both.submit("away");
    assert_eq!((both.scene.asked(), both.taken()), (3, 0), "it is no sooner here");
    // With two before it it would be.
    both.do_idly("again", 2);
    both.worker_ends(&before);
    both.worker_ends(&away);
    let before = both.submit("then");
    let away = both.submit("away2");
    assert_eq!((both.scene.asked(), both.taken()), (5, 0));
    both.worker_ends(&before);
    // What idled ten seconds ago says nothing of now.
    both.scene.clock.advance(Duration::from_secs(10));
    both.submit("anew");
    assert_eq!((both.scene.asked(), both.taken()), (5, 1));
    both.worker_ends(&away);
}

#[test]
fn what_takes_too_long_here_is_given_away_after_all() {
    let (both, before) = Both::with_a_busy_worker();
    let late = both.submit("late");
    let is_stopped = || both.idle.kept.lock().unwrap()[0].0.control().is_cancelled();
    // Three times the two seconds that it would have taken there.
    both.scene.clock.advance(Duration::from_millis(5_900));
    let_it_look();
    assert!(!both.scene.files("late").is_empty() && !is_stopped());
    both.scene.clock.advance(Duration::from_millis(200));
    until("it is asked to stop", is_stopped);
    let (finisher, _) = both.idle.kept.lock().unwrap().remove(0);
    finisher.finish(Err(Error::new(ErrorKind::Cancelled, "as was asked")));
    until("the worker has it", || both.scene.asked() == 3);
    both.worker_ends(&before);
    let result = both.worker_ends(&late);
    both.scene.accept("late", &result);
    assert!(tables(&result)[0].file.starts_with("late-e-"));
    let fallbacks = both.fallback.fallbacks();
    assert_eq!((fallbacks.idle(), fallbacks.count(), fallbacks.reason()), ((0, 1), 0, None));
    both.submit("then");
    both.submit("next");
    assert_eq!((both.scene.asked(), both.taken()), (5, 0), "six seconds here are more than two there");
}

#[test]
fn what_fails_here_or_is_refused_is_given_away_and_leaves_nothing() {
    let (both, before) = Both::with_a_busy_worker();
    let failing = both.submit("failing");
    let (finisher, _) = both.idle.kept.lock().unwrap().remove(0);
    finisher.finish(Err(Error::new(ErrorKind::Storage, "the disk is full")));
    until("the worker has it", || both.scene.asked() == 3);
    both.worker_ends(&before);
    both.scene.accept("failing", &both.worker_ends(&failing));
    assert_eq!(both.fallback.fallbacks().idle(), (0, 0), "it says nothing of what idles");

    let before = both.submit("then");
    both.idle.go(Way::Refuse);
    let refused = both.submit("refused");
    assert_eq!(both.scene.asked(), 5);
    both.worker_ends(&before);
    both.scene.accept("refused", &both.worker_ends(&refused));
}

#[test]
fn a_job_that_nobody_wants_any_more_ends_here_too() {
    for is_closed in [false, true] {
        let (both, _before) = Both::with_a_busy_worker();
        let unwanted = both.submit("unwanted");
        let Both { scene, idle, fallback } = both;
        // Closed, it cancels what it has; open, it passes the cancellation on.
        let open = (!is_closed).then_some(fallback);
        if open.is_some() {
            unwanted.cancel();
        }
        until("it is asked to stop", || idle.kept.lock().unwrap()[0].0.control().is_cancelled());
        drop(idle.kept.lock().unwrap().remove(0));
        assert_eq!(answer(&unwanted).unwrap_err().kind, ErrorKind::Cancelled);
        assert_eq!((scene.asked(), scene.files("unwanted")), (2, vec![]));
        drop(open);
    }
}
