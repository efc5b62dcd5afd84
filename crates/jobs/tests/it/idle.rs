//! What waits elsewhere is done on idle processors here, as long as that is sooner.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firn_jobs::{Error, ErrorKind, Executor, ExecutorChain, JobHandle, JobResult, JobSpec, Patience, Ran};
use firn_storage::Load;

use crate::elsewhere::{Elsewhere, PATIENCE, Scene, Way, answer, tables, until};

/// No job is late elsewhere.
const LONG: Patience = Patience { least: Duration::from_secs(3600), ..PATIENCE };

/// One processor, of which so much was taken.
#[derive(Debug, Default)]
struct Taken(AtomicU64);

impl Load for Taken {
    fn used(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn processors(&self) -> f64 {
        1.0
    }
}

/// A worker that does one job at a time and a processor here, both of which answer when they are
/// told to.
struct Both {
    scene: Scene,
    idle: Arc<Elsewhere>,
    taken: Arc<Taken>,
    chain: ExecutorChain,
}

impl Both {
    fn new() -> Self {
        let mut scene = Scene::new(Way::Vanish);
        scene.elsewhere = Elsewhere::of_width(&scene.storage, Way::Vanish, 1);
        let idle = Elsewhere::of_width(&scene.storage, Way::Vanish, 2);
        let taken = Arc::new(Taken::default());
        let load = Arc::clone(&taken) as _;
        let chain = scene.chain_with(false, LONG).with_idle(Arc::clone(&idle) as _, load);
        Self { scene, idle, taken, chain }
    }

    /// As [`new`](Self::new), when it is known that the worker takes a second for a job.
    fn knowing() -> Self {
        Self::knowing_of(Duration::ZERO)
    }

    /// The same, when so much of that second is `opened` in.
    fn knowing_of(opened: Duration) -> Self {
        let both = Self::new();
        let known = both.submit("known");
        both.worker_ends_after(opened, &known);
        both
    }

    fn submit(&self, stem: &str) -> JobHandle {
        self.chain.submit(self.scene.spec(stem)).unwrap()
    }

    /// As [`submit`](Self::submit), of what takes nothing out of level 0.
    fn submit_deep(&self, stem: &str) -> JobHandle {
        let JobSpec::Compact(mut deep) = self.scene.spec(stem) else { panic!("a compaction") };
        deep.inputs.iter_mut().for_each(|input| input.level += 1);
        self.chain.submit(deep.into()).unwrap()
    }

    /// The worker ends the job that it was given first, which is `handle`'s, and says that it took
    /// a second.
    fn worker_ends(&self, handle: &JobHandle) -> JobResult {
        self.worker_ends_after(Duration::ZERO, handle)
    }

    fn worker_ends_after(&self, opened: Duration, handle: &JobHandle) -> JobResult {
        let (finisher, result) = self.scene.elsewhere.kept.lock().unwrap().remove(0);
        finisher.finish_ran(Ok(result), Ran { opened, ran: Duration::from_secs(1), ..Ran::by("w") });
        answer(handle).unwrap()
    }

    /// So much time goes by, of which others in this process take the `busy` part.
    fn pass(&self, ms: u64, busy: f64) {
        self.scene.let_it_look();
        self.taken.0.fetch_add((ms as f64 * busy) as u64, Ordering::SeqCst);
        self.scene.clock.advance(Duration::from_millis(ms));
        self.scene.let_it_look();
    }

    /// Jobs that are being done here.
    fn here(&self) -> usize {
        self.idle.kept.lock().unwrap().len()
    }

    /// The worker stops what it was asked to stop, which is the job that it was given last.
    fn worker_stops_the_last(&self) {
        let number = self.scene.elsewhere.kept.lock().unwrap().len() - 1;
        until("it is asked to stop", || self.scene.is_cancelled(number));
        drop(self.scene.elsewhere.kept.lock().unwrap().pop());
    }

    fn is_stopped_here(&self) -> bool {
        self.idle.kept.lock().unwrap()[0].0.control().is_cancelled()
    }

    /// What is done here comes to that.
    fn ends_here(&self, error: Option<ErrorKind>) {
        let (finisher, result) = self.idle.kept.lock().unwrap().remove(0);
        finisher.finish(error.map_or(Ok(result), |kind| Err(Error::new(kind, "so it came"))));
    }
}

#[test]
fn l0_work_that_waits_goes_before_deep_work_where_writers_are_about_to_stop() {
    for (stalls_in, is_l0) in [(None, false), (Some(Duration::ZERO), true)] {
        let both = Both::knowing();
        let _bulk = both.submit_deep("deep");
        let (_runs, _waits) = (both.submit("runs"), both.submit("waits"));
        let set_waiting = |number: usize| {
            both.scene.elsewhere.kept.lock().unwrap()[number].0.set_waiting(true);
        };
        set_waiting(0);
        set_waiting(2);
        both.chain.urge(stalls_in);
        both.pass(200, 0.0);
        both.pass(200, 0.0);
        until("one is done here", || both.here() == 1);
        let taken = if is_l0 { 2 } else { 0 };
        until("it is asked to stop", || both.scene.is_cancelled(taken));
        assert!(!both.scene.is_cancelled(1), "somebody does that");
    }
}

#[test]
fn what_waits_is_done_here_and_nothing_else() {
    let both = Both::new();
    let handles: Vec<JobHandle> = ["a", "b"].iter().map(|stem| both.submit(stem)).collect();
    both.pass(1000, 0.0);
    assert_eq!(both.here(), 0, "nothing is known of what a job takes");
    handles.iter().for_each(|handle| drop(both.worker_ends(handle)));

    let first = both.submit("first");
    both.pass(1000, 0.0);
    assert_eq!((both.here(), both.chain.status().here()), (0, 0), "it does not wait there");
    both.pass(150, 1.0);
    let (second, third) = (both.submit("second"), both.submit("third"));
    both.pass(150, 0.0);
    until("the third is done here", || both.here() == 1);
    until("it is told", || both.chain.status().here() == 1);
    both.worker_stops_the_last();
    both.pass(700, 1.0);
    assert_eq!(both.here(), 1, "there is one processor");
    both.ends_here(None);
    let result = answer(&third).unwrap();
    both.scene.accept("third", &result);
    assert!(tables(&result)[0].file.starts_with("third-i-"));
    let ran = Ran { queued: Duration::from_millis(150), ran: Duration::from_millis(700), ..Ran::default() };
    assert_eq!(third.ran(), Some(ran));

    until("the second is done here", || both.here() == 1);
    both.worker_stops_the_last();
    both.ends_here(None);
    both.scene.accept("second", &answer(&second).unwrap());
    both.worker_ends(&first);
    let status = both.chain.status();
    assert_eq!((status.idle(), status.count(), status.reason()), ((2, 0), 0, None));
    assert_eq!(both.chain.given_up_count(), 2, "attempts that may leave something behind");
}

#[test]
fn nothing_is_taken_from_those_who_work_here() {
    let both = Both::knowing();
    // Those before the last take longer there than it would here, even so.
    let stems = ["a", "b", "c", "d", "e", "f", "g"];
    let jobs: Vec<JobHandle> = stems.iter().map(|stem| both.submit(stem)).collect();
    for _ in 0..3 {
        both.pass(150, 0.8);
    }
    assert_eq!(both.here(), 0, "a fifth of a processor");
    both.pass(50, 0.0);
    assert_eq!(both.here(), 0, "that is no look");
    jobs.iter().for_each(|job| drop(both.worker_ends(job)));
}

#[test]
fn where_half_idles_a_job_is_expected_to_take_twice_as_long() {
    let both = Both::knowing();
    let jobs: Vec<JobHandle> = ["a", "b"].iter().map(|stem| both.submit(stem)).collect();
    both.pass(150, 0.5);
    both.pass(150, 0.5);
    assert_eq!(both.here(), 0, "two seconds here are no sooner than two there");
    let third = both.submit("third");
    until("it would wait for two", || both.here() == 1);
    both.worker_stops_the_last();
    both.pass(2_000, 1.0);
    both.ends_here(None);
    answer(&third).unwrap();
    both.pass(150, 0.0);
    assert_eq!(both.here(), 0, "it has just taken two seconds");
    jobs.iter().for_each(|job| drop(both.worker_ends(job)));
}

#[test]
fn where_the_worker_mostly_opens_files_a_job_is_done_here_on_half_a_processor() {
    let both = Both::knowing_of(Duration::from_millis(900));
    let first = both.submit("first");
    both.pass(150, 0.5);
    both.pass(150, 0.5);
    assert_eq!(both.here(), 0, "it does not wait there");
    let second = both.submit("second");
    until("1.1 s here are sooner than two there", || both.here() == 1);
    both.worker_stops_the_last();
    both.ends_here(None);
    answer(&second).unwrap();
    both.worker_ends(&first);
}

#[test]
fn a_job_that_finds_out_whether_the_worker_is_back_is_left_to_it() {
    let both = Both::knowing();
    let before: Vec<JobHandle> = ["a", "b"].iter().map(|stem| both.submit(stem)).collect();
    let failing = both.submit("failing");
    let (finisher, _) = both.scene.elsewhere.kept.lock().unwrap().pop().unwrap();
    finisher.finish(Err(Error::new(ErrorKind::Unavailable, "nobody is there")));
    answer(&failing).unwrap();
    assert!(both.chain.status().is_away());
    both.pass(150, 1.0);
    let probe = both.submit_deep("probe");
    assert_eq!(both.scene.asked(), 5);
    // Two that it had before make it believed again, while the probe is on its way.
    before.iter().for_each(|handle| drop(both.worker_ends(handle)));
    assert!(!both.chain.status().is_away());
    let l0 = both.submit("l0");
    both.pass(150, 0.0);
    assert_eq!((both.here(), both.scene.is_cancelled(0)), (0, false), "it is deep work, and waits");
    both.worker_ends(&probe);
    both.worker_ends(&l0);
}

#[test]
fn deep_work_is_taken_back_before_l0_work() {
    let both = Both::knowing();
    let deep = both.submit_deep("deep");
    let l0 = both.submit("l0");
    both.pass(150, 0.0);
    until("it is done here", || both.here() == 1);
    assert!(both.scene.is_cancelled(0) && !both.scene.is_cancelled(1), "l0 goes first there");
    drop(both.scene.elsewhere.kept.lock().unwrap().remove(0));
    both.ends_here(None);
    assert!(tables(&answer(&deep).unwrap())[0].file.starts_with("deep-i-"));
    both.worker_ends(&l0);
}

#[test]
fn what_takes_too_long_here_is_given_away_again() {
    let both = Both::knowing();
    let (before, late) = (both.submit("before"), both.submit("late"));
    both.pass(150, 0.0);
    until("it is done here", || both.here() == 1);
    both.worker_stops_the_last();
    // Twice the second that it takes there.
    both.pass(1_900, 1.0);
    assert!(!both.is_stopped_here());
    both.pass(200, 1.0);
    until("it is asked to stop", || both.is_stopped_here());
    both.ends_here(Some(ErrorKind::Cancelled));
    until("the worker has it", || both.scene.elsewhere.kept.lock().unwrap().len() == 2);
    let next = both.submit("next");
    both.pass(150, 0.0);
    assert_eq!(both.here(), 0, "a look takes longer now");
    both.pass(100, 0.0);
    until("another job is tried", || both.here() == 1);
    both.worker_stops_the_last();
    both.ends_here(None);
    both.scene.accept("next", &answer(&next).unwrap());
    both.worker_ends(&before);
    let result = both.worker_ends(&late);
    both.scene.accept("late", &result);
    assert!(tables(&result)[0].file.starts_with("late-e1-"), "{}", tables(&result)[0].file);
    let status = both.chain.status();
    assert_eq!((status.idle(), status.count(), status.reason()), ((1, 1), 0, None));
}

#[test]
fn what_has_less_left_here_than_all_of_it_takes_there_stays() {
    let both = Both::knowing();
    let (before, slow) = (both.submit("before"), both.submit("slow"));
    let JobSpec::Compact(spec) = both.scene.spec("counted") else { panic!("a compaction") };
    let all: u64 = spec.inputs.iter().map(|input| input.table.entry_count).sum();
    both.pass(150, 0.0);
    until("it is done here", || both.here() == 1);
    both.worker_stops_the_last();
    let gone_over = |entries| both.idle.kept.lock().unwrap()[0].0.control().pass(entries);
    // After 2.1 seconds 0.9 are left, and all of it would take one there; it has twice as long for
    // them.
    gone_over(all * 7 / 10);
    both.pass(2_100, 1.0);
    assert!(!both.is_stopped_here());
    both.pass(1_700, 1.0);
    assert!(!both.is_stopped_here());
    // Since then it has got nowhere, as when clients have the processors again.
    both.pass(200, 1.0);
    until("it is asked to stop", || both.is_stopped_here());
    both.ends_here(None);
    both.scene.accept("slow", &answer(&slow).unwrap());
    both.worker_ends(&before);
}

#[test]
fn what_fails_here_or_is_refused_is_given_away_again_and_leaves_nothing() {
    for way in [Way::Vanish, Way::Refuse] {
        let both = Both::knowing();
        both.idle.go(way);
        let (before, failing) = (both.submit("before"), both.submit("failing"));
        both.pass(150, 0.0);
        if let Way::Vanish = way {
            until("it is done here", || both.here() == 1);
            both.ends_here(Some(ErrorKind::Storage));
        }
        until("the worker has it again", || both.scene.asked() == 4);
        // What it was given first, and gave up.
        drop(both.scene.elsewhere.kept.lock().unwrap().remove(1));
        both.worker_ends(&before);
        both.scene.accept("failing", &both.worker_ends(&failing));
        assert_eq!(both.chain.status().idle(), (0, 0), "it says nothing of what idles");
    }
}

#[test]
fn a_job_that_nobody_wants_any_more_ends_here_too() {
    for is_closed in [false, true] {
        let both = Both::knowing();
        let (_before, unwanted) = (both.submit("before"), both.submit("unwanted"));
        both.pass(150, 0.0);
        until("it is done here", || both.here() == 1);
        both.worker_stops_the_last();
        let Both { scene, idle, chain, .. } = both;
        // Closed, it cancels what it has; open, it passes the cancellation on.
        let open = (!is_closed).then_some(chain);
        if open.is_some() {
            unwanted.cancel();
        }
        until("it is asked to stop", || idle.kept.lock().unwrap()[0].0.control().is_cancelled());
        drop(idle.kept.lock().unwrap().remove(0));
        assert_eq!(answer(&unwanted).unwrap_err().kind, ErrorKind::Cancelled);
        assert_eq!(scene.asked(), 3);
        scene.leaves("unwanted", &[]);
        drop(open);
    }
}
