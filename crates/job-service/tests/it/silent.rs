//! A control plane that falls silent, as its workers see it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::Semantics;
use firn_job_service::{Backends, Worker, WorkerOptions};
use firn_storage::backend::{Effect, Fault, Faulty, Local, LocalOptions, Operation, When};
use firn_storage::{Clock, Storage};

use crate::scene::{Scene, any_port, check, url, write};

/// Directories in which each write takes a second.
#[derive(Debug)]
struct Slow(Arc<dyn Clock>);

impl Backends for Slow {
    fn open(&self, name: &str) -> firn_storage::Result<Arc<dyn Storage>> {
        let backend = Local::open(Path::new(name), LocalOptions { create: false })?;
        let slow = Faulty::with_clock(Arc::new(backend), Arc::clone(&self.0));
        let (on, file) = (Operation::Write, "*".to_owned());
        let effect = Effect::Delay(Duration::from_secs(1));
        slow.inject(Fault { on, file, when: When::Always { after: 0 }, effect });
        Ok(Arc::new(slow))
    }
}

/// Seconds until `done`, at most 60.
fn until(clock: &dyn Clock, what: &str, done: impl Fn() -> bool) -> Duration {
    let begun = clock.now();
    while !done() {
        assert!(clock.now() - begun < Duration::from_secs(60), "{what}: not in a minute");
        clock.sleep(Duration::from_millis(10));
    }
    clock.now() - begun
}

#[test]
fn what_a_silent_control_plane_gave_is_stopped() {
    let mut scene = Scene::new();
    let (silent, other) = (scene.plane(any_port()), scene.plane(any_port()));
    let mut options =
        WorkerOptions::new(vec![url(silent.address()), url(other.address())], "slow", scene.draw());
    (options.beat, options.lease) = (Duration::from_millis(200), Duration::from_secs(2));
    let (backends, clock) = (Arc::new(Slow(Arc::clone(&scene.clock))), Arc::clone(&scene.clock));
    let worker = Worker::start(options, backends, Arc::new(Semantics::new()), clock, &scene.spawn).unwrap();
    let db = scene.open(&[silent.address()]);
    let mut model = vec![None; 1000];
    write(&db, &mut model, &mut fastrand::Rng::with_seed(3), 2000);
    until(&*scene.clock, "a job", || worker.job_count() > 0);
    // The end of what it has now, or gets before that is noticed, cannot be told; it would be kept
    // for ten minutes.
    drop(silent);
    let took = until(&*scene.clock, "the end of all it gave", || worker.job_count() == 0);
    assert!(took < Duration::from_secs(20), "a lease of 2 s, a beat, and a write: {took:?}");
    assert!(!worker.troubles().contains_key(&url(other.address())), "{:?}", worker.troubles());
    check(&db, &model);
    db.close().unwrap();
}

#[test]
fn a_worker_that_names_a_control_plane_twice_drains_where_that_is_gone() {
    let mut scene = Scene::new();
    let gone = scene.plane(any_port());
    let worker = scene.worker("one", &[gone.address(), gone.address()], Semantics::new());
    drop(gone);
    until(&*scene.clock, "its trouble", || !worker.troubles().is_empty());
    worker.drain();
    until(&*scene.clock, "its end", || worker.is_drained());
    let figures = worker.watch().figures().unwrap();
    assert_eq!((figures.control_planes_heard, figures.control_planes_silent), (0, 2));
}
