//! What others answered is looked at, and what they left is removed, while no other thread waits
//! for the backend.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use firn_jobs::{Cause, ErrorKind, Executor, ExecutorChain, JobHandle, Patience};
use firn_storage::backend::{Effect, Fault, Faulty, Operation, When};
use firn_storage::{Clock, Storage};

use crate::elsewhere::{Elsewhere, PATIENCE, Scene, Way, answer, causes, tables, until};

/// A clock on which each sleeping thread waits until the gate is opened.
#[derive(Debug, Default)]
struct Gate {
    /// Whether it is open, and how many have come to it.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    fn waiting(&self) -> usize {
        self.state.lock().unwrap().1
    }
}

impl Clock for Gate {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, _time: Duration) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        while !state.0 {
            state = self.changed.wait(state).unwrap();
        }
    }
}

/// A backend of which some operations wait at a gate, and executors that are not held up by it.
struct Gated {
    scene: Scene,
    faulty: Faulty,
    gate: Arc<Gate>,
    chain: ExecutorChain,
}

impl Gated {
    fn new(patience: Patience) -> Self {
        let scene = Scene::new(Way::Serve);
        let gate = Arc::new(Gate::default());
        let faulty = Faulty::with_clock(Arc::clone(&scene.storage), Arc::clone(&gate) as _);
        let second: Arc<dyn Executor> = Elsewhere::new(&scene.storage, Way::Serve);
        let both = [Arc::clone(&scene.elsewhere) as _, second];
        let backend: Arc<dyn Storage> = Arc::new(faulty.clone());
        let clock = Arc::clone(&scene.clock) as _;
        let chain = ExecutorChain::threads(both, backend, clock, patience, 1, &scene.spawn).unwrap();
        Self { scene, faulty, gate, chain }
    }

    /// Operations `on` files called `file` wait from now on.
    fn hold(&self, on: Operation, file: &str) {
        let (file, when) = (file.to_owned(), When::Always { after: 0 });
        self.faulty.inject(Fault { on, file, when, effect: Effect::Delay(Duration::from_secs(1)) });
    }

    fn submit(&self, stem: &str) -> JobHandle {
        self.chain.submit(self.scene.spec(stem)).unwrap()
    }

    /// A job whose answer is being looked at, and whose look does not end.
    fn submit_held(&self, stem: &str) -> JobHandle {
        self.hold(Operation::OpenRead, &format!("{stem}-*"));
        let before = self.gate.waiting();
        let handle = self.submit(stem);
        until("it is looked at", || self.gate.waiting() > before);
        assert!(handle.poll().is_none());
        handle
    }

    fn ends(self) {
        self.gate.open();
        drop(self.chain);
        assert!(self.scene.spawn.join_all().is_empty());
    }
}

#[test]
fn other_jobs_end_are_late_and_are_cancelled_while_an_answer_is_looked_at() {
    let gated = Gated::new(PATIENCE);
    let held = gated.submit_held("held");
    gated.scene.accept("ends", &answer(&gated.submit("ends")).unwrap());
    gated.scene.go(Way::Vanish);
    let (late, cancelled) = (gated.submit("late"), gated.submit("cancelled"));
    cancelled.cancel();
    until("it is asked to stop", || gated.scene.is_cancelled(1));
    gated.scene.clock.advance(Duration::from_secs(6));
    assert_eq!(answer(&cancelled).unwrap_err().kind, ErrorKind::Cancelled);
    assert!(!tables(&answer(&late).unwrap())[0].file.contains("-e"));
    gated.scene.leaves("cancelled", &[]);
    assert!(held.poll().is_none());
    gated.gate.open();
    gated.scene.accept("held", &answer(&held).unwrap());
    gated.ends();
}

#[test]
fn a_job_that_nobody_wants_any_more_is_answered_while_it_is_looked_at() {
    for is_closed in [false, true] {
        let gated = Gated::new(PATIENCE);
        // One more than there are threads that look.
        let mut handles = vec![gated.submit_held("one"), gated.submit_held("two")];
        gated.hold(Operation::OpenRead, "three-*");
        handles.push(gated.submit("three"));
        let Gated { scene, gate, chain, .. } = gated;
        let open = (!is_closed).then_some(chain);
        if open.is_some() {
            handles.iter().for_each(JobHandle::cancel);
        }
        for handle in &handles {
            assert_eq!(answer(handle).unwrap_err().kind, ErrorKind::Cancelled);
        }
        gate.open();
        drop(open);
        assert!(scene.spawn.join_all().is_empty());
        for stem in ["one", "two", "three"] {
            assert_eq!(scene.files(stem), [""; 0]);
        }
    }
}

#[test]
fn what_cannot_be_looked_at_is_done_here_and_so_is_what_waits_for_that() {
    let gated = Gated::new(PATIENCE);
    // As many jobs as there are threads that look, and one job more that waits for them.
    let mut held = vec![gated.submit_held("one"), gated.submit_held("two")];
    gated.hold(Operation::OpenRead, "three-e*");
    held.push(gated.submit("three"));
    // Its time begins once its answer is there.
    gated.scene.let_it_look();
    gated.scene.clock.advance(PATIENCE.check_max - Duration::from_secs(1));
    gated.scene.let_it_look();
    assert!(held.iter().all(|handle| handle.poll().is_none()));
    gated.scene.clock.advance(Duration::from_secs(1));
    for handle in &held {
        assert!(!tables(&answer(handle).unwrap())[0].file.contains("-e"));
    }
    let status = gated.chain.status();
    assert_eq!(status.reason().as_deref(), Some("its files could not be looked at in 100.0 s"));
    assert_eq!((causes(&status), status.is_away()), (vec![(Cause::Unseen, 3)], true));
    gated.gate.open();
    for (stem, handle) in ["one", "two", "three"].iter().zip(&held) {
        gated.scene.accept(stem, &answer(handle).unwrap());
    }
    assert_eq!(gated.gate.waiting(), 2, "nobody looks at what nobody waits for");
    gated.ends();
}

#[test]
fn what_is_large_may_be_looked_at_for_longer_and_so_may_what_waits_for_that() {
    let bytes = Scene::new(Way::Serve).spec("job").input_bytes();
    // Each takes as long as its bytes, and the limit beside that.
    let gated = Gated::new(Patience { bytes_per_second: bytes.div_ceil(50), ..PATIENCE });
    let held = [gated.submit_held("one"), gated.submit_held("two"), gated.submit("three")];
    gated.scene.let_it_look();
    let mut at = 0;
    for (seconds, ended) in [(148, 0), (150, 1), (197, 1), (200, 2), (245, 2), (250, 3)] {
        gated.scene.clock.advance(Duration::from_secs(seconds - at));
        at = seconds;
        if ended < held.len() {
            gated.scene.let_it_look();
        }
        let count = || held.iter().filter(|handle| handle.poll().is_some()).count();
        until("as many as have taken too long", || count() >= ended);
        assert_eq!(count(), ended, "after {seconds} s");
    }
    gated.ends();
}

#[test]
fn nobody_waits_for_what_is_removed() {
    let gated = Gated::new(PATIENCE);
    gated.scene.go(Way::Lie);
    gated.hold(Operation::Remove, "lie-*");
    let lie = gated.submit("lie");
    assert!(!tables(&answer(&lie).unwrap())[0].file.contains("-e"));
    until("it is removed", || gated.gate.waiting() == 1);
    gated.scene.go(Way::Serve);
    gated.scene.clock.advance(Duration::from_secs(60));
    for stem in ["next", "other"] {
        gated.scene.accept(stem, &answer(&gated.submit(stem)).unwrap());
    }
    assert!(gated.scene.files("lie").iter().any(|name| name.starts_with("lie-e-")));
    gated.gate.open();
    gated.scene.accept("lie", &answer(&lie).unwrap());
    gated.ends();
}

#[test]
fn what_is_compared_is_believed_once_writers_are_about_to_stop() {
    let gated = Gated::new(Patience { reexecuted_share: 1.0, ..PATIENCE });
    // The first executor's tables are opened as they are believed, and again as they are compared.
    let whole = tables(&answer(&gated.submit("whole")).unwrap()).len() as u64;
    let when = When::Always { after: whole };
    let effect = Effect::Delay(Duration::from_secs(1));
    gated.faulty.inject(Fault { on: Operation::OpenRead, file: "job-e-*".to_owned(), when, effect });
    let job = gated.submit("job");
    until("it is compared", || gated.gate.waiting() == 1);
    assert!(job.poll().is_none());
    gated.chain.urge(Some(Duration::from_secs(5)));
    let result = answer(&job).unwrap();
    gated.gate.open();
    gated.scene.accept("job", &result);
    assert!(tables(&result)[0].file.starts_with("job-e-"));
    assert_eq!(gated.chain.status().reexecuted(), (1, 0), "the one before");
    gated.ends();
}
