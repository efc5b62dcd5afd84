use firn_jobs::{CompactSpec, JobSpec};
use firn_storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{Storage, SystemClock};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::scoped::Scoped;

/// A clock that goes on when it is told to.
#[derive(Debug, Default)]
struct Hand(Mutex<Duration>);

impl Hand {
    fn go(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn unix_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, time: Duration) {
        self.go(time);
    }
}

/// What a worker with so many slots has, its clock, and what it reports.
struct Scene {
    holdings: Arc<Holdings>,
    clock: Arc<Hand>,
    reports: UnboundedSender<AttemptReport>,
    reported: UnboundedReceiver<AttemptReport>,
}

impl Scene {
    fn new(slots: usize) -> Self {
        let clock = Arc::new(Hand::default());
        let (reports, reported) = unbounded_channel();
        let holdings = Arc::new(Holdings::new(slots, Arc::<Hand>::clone(&clock)));
        Self { holdings, clock, reports, reported }
    }

    /// A job of the control plane `plane`, submitted `waited` ago.
    fn accept(&self, plane: usize, token: u64, lane: Lane, waited: Duration) {
        let key = JobKey { client: plane as u128, number: token };
        let (location, spec, token) = (String::new(), Vec::new(), Token(token));
        self.holdings.accept(plane, Lease { key, token, location, spec, lane, waited }, self.reports.clone());
    }

    fn deep(&self, plane: usize, token: u64) {
        self.accept(plane, token, Lane::Deep, Duration::ZERO);
    }

    fn l0(&self, plane: usize, token: u64) {
        self.accept(plane, token, Lane::L0, Duration::ZERO);
    }

    /// What the thread `thread` begins, which must not be nothing.
    fn next(&self, thread: usize) -> (u64, Control) {
        let task = self.holdings.next(thread).unwrap();
        (task.lease.token.0, task.control)
    }

    /// Tokens of what `plane` hears that waits, and how many slots it has not.
    fn waiting(&self, plane: usize) -> (Vec<u64>, u32) {
        let status = self.holdings.status(plane);
        let waiting = status.held.iter().filter(|held| held.is_waiting).map(|held| held.token.0);
        (waiting.collect(), status.elsewhere.slots)
    }

    fn stop(&self, token: u64) {
        self.holdings.stop([Token(token)]);
    }

    fn ended(&self, token: u64) -> bool {
        self.holdings.ended(Token(token))
    }

    /// What was reported since the last call: tokens of jobs that were cancelled.
    fn cancelled(&mut self) -> Vec<u64> {
        let mut tokens = Vec::new();
        while let Ok(report) = self.reported.try_recv() {
            assert!(
                matches!(&report.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Cancelled)
            );
            tokens.push(report.token.0);
        }
        tokens
    }
}

#[test]
fn a_control_plane_hears_what_others_have_and_what_of_its_own_waits() {
    let scene = Scene::new(2);
    scene.deep(0, 1);
    assert_eq!(
        (scene.waiting(0), scene.waiting(1)),
        ((vec![], 0), (vec![], 1)),
        "a thread takes it any moment"
    );
    scene.deep(1, 2);
    scene.deep(1, 3);
    assert_eq!((scene.waiting(0), scene.waiting(1)), ((vec![], 2), (vec![3], 1)));
    assert_eq!((scene.next(0).0, scene.next(1).0), (1, 2));
    assert_eq!((scene.waiting(0), scene.waiting(1)), ((vec![], 2), (vec![3], 1)));
    let status = scene.holdings.status(1);
    assert_eq!(status.elsewhere.gives_way, [Duration::ZERO], "the one of the other");
    // What has ended takes no slot, even if that is not told yet.
    assert!(scene.ended(1));
    assert_eq!((scene.waiting(0), scene.waiting(1)), ((vec![], 2), (vec![], 0)));
    assert_eq!(scene.next(0).0, 3);
    // What was stopped takes a slot from every control plane until it ends.
    scene.stop(3);
    assert_eq!((scene.waiting(0), scene.waiting(1)), ((vec![], 2), (vec![], 1)));
    assert!(!scene.ended(3), "nobody is told");
    assert_eq!((scene.waiting(0), scene.waiting(1)), ((vec![], 1), (vec![], 0)));
    assert_eq!(scene.holdings.count(), 2, "the one whose end is not told, and the one that runs");
}

#[test]
fn who_tells_hears_of_news_and_progress_is_none() {
    let scene = Scene::new(1);
    let mut changes = scene.holdings.changes();
    let before = scene.holdings.status(1).news();
    scene.deep(0, 1);
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    let queued = scene.holdings.status(1).news();
    assert_ne!(queued, before);
    scene.next(0);
    let begun = scene.holdings.status(1).news();
    assert_ne!(begun, queued, "it gives way from now on");
    scene.clock.go(Duration::from_secs(1));
    assert_eq!(scene.holdings.status(1).news(), begun);
    assert!(scene.ended(1) && changes.has_changed().unwrap());
    assert_eq!(scene.holdings.status(1).news(), before);
}

#[test]
fn l0_work_begins_before_deep_work_and_in_its_place_where_that_is_anothers() {
    let mut scene = Scene::new(2);
    scene.deep(0, 1);
    let (_, first) = scene.next(0);
    scene.clock.go(Duration::from_secs(9));
    scene.deep(0, 2);
    let (_, second) = scene.next(1);
    scene.deep(1, 3);
    // Their own control plane has decided what is stopped for its L0 work.
    scene.l0(0, 4);
    assert!(!first.is_cancelled() && !second.is_cancelled());
    scene.l0(1, 5);
    assert!(!first.is_cancelled() && second.is_cancelled(), "what has run for less");
    assert_eq!(scene.waiting(1), (vec![3, 5], 2));
    assert!(scene.ended(2), "its control plane hears that it was given back");
    assert_eq!((scene.next(1).0, scene.waiting(1)), (4, (vec![3, 5], 2)), "which came before");
    assert!(scene.ended(4));
    assert_eq!((scene.next(1).0, scene.waiting(1)), (5, (vec![3], 1)));
    assert_eq!(scene.cancelled(), [], "whoever runs it tells that");
}

#[test]
fn what_was_submitted_long_ago_gives_way_to_nobody() {
    let scene = Scene::new(1);
    scene.accept(0, 1, Lane::Deep, Duration::from_secs(149));
    let (_, control) = scene.next(0);
    assert_eq!(scene.holdings.status(1).elsewhere.gives_way.len(), 1);
    scene.clock.go(Duration::from_secs(1));
    assert_eq!(scene.holdings.status(1).elsewhere.gives_way.len(), 0);
    scene.l0(1, 2);
    assert!(!control.is_cancelled());
    assert_eq!(scene.waiting(1), (vec![2], 1));
}

#[test]
fn one_that_hangs_loses_its_slot_and_as_many_may_as_there_are_slots() {
    let mut scene = Scene::new(1);
    scene.deep(0, 1);
    assert_eq!(scene.next(0).0, 1);
    scene.stop(1);
    scene.deep(0, 2);
    scene.clock.go(END_MAX);
    // A thread for each slot waits for that.
    assert_eq!((scene.next(1).0, scene.holdings.count(), scene.holdings.left_count()), (2, 1, 1));
    assert_eq!(scene.waiting(0), (vec![], 0), "it takes no slot any more");
    // One more hangs, and keeps its slot.
    scene.stop(2);
    scene.clock.go(END_MAX);
    scene.deep(0, 3);
    assert_eq!(scene.waiting(0), (vec![3], 1));
    assert_eq!((scene.holdings.count(), scene.holdings.left_count()), (2, 1));
    // Whatever becomes of it is not told. Its thread has a slot to do again: that of the other one.
    assert!(!scene.ended(1));
    assert_eq!((scene.next(0).0, scene.holdings.count(), scene.holdings.left_count()), (3, 1, 1));
    assert!(!scene.ended(2) && scene.holdings.left_count() == 0);
    assert!(scene.ended(3));
    scene.holdings.forget(Token(3));
    assert_eq!((scene.holdings.count(), scene.waiting(1)), (0, (vec![], 0)));
    assert_eq!(scene.cancelled(), []);
}

#[test]
fn what_is_here_is_not_begun_again() {
    let scene = Scene::new(2);
    scene.deep(0, 1);
    scene.deep(0, 1);
    let (_, control) = scene.next(0);
    // Whichever control plane gives it, and by whatever name.
    scene.l0(1, 1);
    assert_eq!((scene.waiting(0), scene.waiting(1)), ((vec![], 0), (vec![], 1)));
    assert!(!control.is_cancelled());
    // Nor is what hangs and was left, of which nothing else is here.
    scene.stop(1);
    scene.clock.go(END_MAX);
    scene.deep(0, 2);
    assert_eq!((scene.next(1).0, scene.holdings.left_count()), (2, 1));
    scene.deep(0, 1);
    assert_eq!((scene.waiting(0), scene.holdings.count()), ((vec![], 0), 1));
    // What has ended and is not told yet is told, and not done again.
    assert!(scene.ended(2));
    scene.deep(0, 2);
    assert_eq!((scene.waiting(0), scene.holdings.count()), ((vec![], 0), 1));
}

#[test]
fn what_gives_way_and_hangs_is_told_once() {
    let mut scene = Scene::new(1);
    scene.deep(0, 1);
    let (_, control) = scene.next(0);
    scene.l0(1, 2);
    assert!(control.is_cancelled());
    assert_eq!(scene.holdings.status(0).held.len(), 1, "it is not given back yet");
    scene.clock.go(END_MAX);
    assert_eq!((scene.next(1).0, scene.cancelled()), (2, vec![1]));
    assert!(scene.holdings.is_wanted(Token(1)) && !scene.ended(1));
    assert_eq!(scene.cancelled(), []);
}

#[test]
fn a_worker_that_stops_gives_back_what_waits_and_what_runs() {
    let mut scene = Scene::new(1);
    scene.deep(0, 1);
    let (_, control) = scene.next(0);
    scene.deep(1, 2);
    scene.holdings.cancel_all();
    assert!(control.is_cancelled() && scene.cancelled() == [2]);
    assert!(scene.ended(1));
    // What a silent control plane gave is wanted no more.
    scene.deep(1, 3);
    assert_eq!(scene.next(0).0, 3);
    scene.holdings.stop_plane(1);
    assert!(!scene.ended(3) && scene.holdings.count() == 1);
    scene.holdings.close();
    assert!(scene.holdings.next(0).is_none());
}

#[test]
fn what_is_written_and_synced_is_progress_as_what_is_read_is() {
    let scene = Scene::new(1);
    scene.deep(0, 3);
    scene.next(0);
    let holdings = &scene.holdings;
    let spec: JobSpec = CompactSpec { output_stem: "out".to_owned(), ..Default::default() }.into();
    let backend = Scoped::new(Arc::new(Memory::new()), &spec, Arc::new(SystemClock::new()));
    holdings.runs(Token(3), backend.progress());
    let bytes = || holdings.status(0).held.iter().map(|held| (held.done_bytes, held.moved_bytes)).next();
    assert_eq!(bytes(), Some((0, 0)));
    let file = backend.create("out-000000.table").unwrap();
    file.write_at(0, &[1; 10]).unwrap();
    assert_eq!(bytes(), Some((0, 10)));
    for _ in 0..2 {
        file.sync().unwrap();
        assert_eq!(bytes(), Some((0, 20)), "what was synced before is no news");
    }
    backend.open_read("out-000000.table").unwrap().read_at(0, &mut [0; 4]).unwrap();
    assert_eq!(bytes(), Some((0, 24)), "what is read back is none of the inputs");
}

/// A clock on which a sleeping thread looks instead at the status of the attempt.
#[derive(Debug)]
struct Look {
    holdings: Arc<Holdings>,
    syncing: Mutex<Vec<bool>>,
}

impl Clock for Look {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, _time: Duration) {
        let syncing = self.holdings.status(0).held.iter().map(|held| held.is_syncing).collect::<Vec<_>>();
        self.syncing.lock().unwrap().extend(syncing);
    }
}

#[test]
fn it_is_told_that_an_attempt_waits_for_a_sync() {
    let scene = Scene::new(1);
    scene.deep(0, 3);
    scene.next(0);
    let holdings = &scene.holdings;
    let look = Arc::new(Look { holdings: Arc::clone(holdings), syncing: Mutex::default() });
    let faulty = Faulty::with_clock(Arc::new(Memory::new()), Arc::clone(&look) as _);
    for on in [Operation::Write, Operation::Sync, Operation::SyncDir] {
        let (file, when) = ("*".to_owned(), When::Always { after: 0 });
        faulty.inject(Fault { on, file, when, effect: Effect::Delay(Duration::from_secs(1)) });
    }
    let spec: JobSpec = CompactSpec { output_stem: "out".to_owned(), ..Default::default() }.into();
    let backend = Scoped::new(Arc::new(faulty), &spec, Arc::new(SystemClock::new()));
    holdings.runs(Token(3), backend.progress());
    let file = backend.create("out-000000.table").unwrap();
    file.write_at(0, &[1; 10]).unwrap();
    file.sync().unwrap();
    backend.sync_dir().unwrap();
    file.write_at(10, &[1; 10]).unwrap();
    assert_eq!(*look.syncing.lock().unwrap(), [false, true, true, false]);
}
