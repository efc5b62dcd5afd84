//! A worker with a device that takes its time to make durable what was written.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn::{Db, Settings};
use firn_engine::Semantics;
use firn_job_service::control::pool::Limits;
use firn_job_service::proto::job_row::State;
use firn_job_service::{Backends, ControlPlane, ControlPlaneOptions, SharedToken, Worker, WorkerOptions};
use firn_storage::backend::{Effect, Fault, Faulty, Local, LocalOptions, Operation, When};
use firn_storage::{Clock, Storage};

use crate::hanging::Gate;
use crate::scene::{Scene, any_port, check, done_by, settings, url, write};

/// How long the first sync of a directory takes.
const SYNC: Duration = Duration::from_secs(10);

/// Directories in which the first sync takes [`SYNC`] on this clock.
#[derive(Debug)]
struct Slow(Arc<dyn Clock>);

impl Backends for Slow {
    fn open(&self, name: &str) -> firn_storage::Result<Arc<dyn Storage>> {
        let backend = Local::open(Path::new(name), LocalOptions { create: false })?;
        let slow = Faulty::with_clock(Arc::new(backend), Arc::clone(&self.0));
        let (on, file) = (Operation::Sync, "*".to_owned());
        slow.inject(Fault { on, file, when: When::Once { after: 0 }, effect: Effect::Delay(SYNC) });
        Ok(Arc::new(slow))
    }
}

/// A control plane that gives workers `progress` for all that is no sync.
fn plane(scene: &Scene, progress: Duration) -> ControlPlane {
    let options = ControlPlaneOptions {
        address: any_port(),
        token: SharedToken::none(),
        tls: None,
        connections_max: 100,
        limits: Limits { progress, ..Limits::default() },
        seed: 7,
    };
    ControlPlane::start(&options, Arc::clone(&scene.clock), &scene.spawn).unwrap()
}

/// A worker of `plane` with a device that is slow on `clock`, called "slow".
fn slow_worker(scene: &mut Scene, plane: SocketAddr, clock: Arc<dyn Clock>) -> Worker {
    let mut options = WorkerOptions::new(vec![url(plane)], "slow", scene.draw());
    options.beat = Duration::from_millis(200);
    let (backends, clock) = (Arc::new(Slow(clock)), Arc::clone(&scene.clock));
    Worker::start(options, backends, Arc::new(Semantics::new()), clock, &scene.spawn).unwrap()
}

/// A database that takes nothing back that waits at `plane`.
fn open(scene: &mut Scene, plane: SocketAddr) -> Db {
    scene.builder(&[plane]).settings(Settings { idle_threads: 0, ..settings() }).open().unwrap()
}

#[test]
fn a_worker_that_drains_amid_a_job_does_it_and_no_other() {
    let mut scene = Scene::new();
    let plane = plane(&scene, Limits::default().progress);
    let at = [plane.address()];
    // Its first sync ends when it is let go.
    let gate = Arc::new(Gate::default());
    let worker = slow_worker(&mut scene, at[0], Arc::clone(&gate) as _);
    let db = open(&mut scene, at[0]);
    let (mut model, random) = (vec![None; 1000], &mut fastrand::Rng::with_seed(6));
    let begun = scene.clock.now();
    while gate.sleepers() == 0 {
        write(&db, &mut model, random, 500);
        assert!(scene.clock.now() - begun < Duration::from_secs(60), "nothing is synced");
    }
    // Of jobs that it has ended, and that it runs.
    let of_it = |scene: &Scene| {
        let rows = scene.look(at[0]).jobs;
        [State::Done, State::Running].map(|state| {
            let rows = rows.iter().filter(|row| row.state() == state && row.worker == "slow");
            rows.map(|row| row.key.clone().unwrap().number).collect::<BTreeSet<u64>>()
        })
    };
    worker.drain();
    // What was given to it until it is known that it takes no more it does.
    scene.wait_until(|| scene.look(at[0]).workers.iter().any(|row| row.is_draining));
    let [before, held] = of_it(&scene);
    assert!(!held.is_empty() && !worker.is_drained(), "{held:?}");
    gate.open();
    write(&db, &mut model, &mut fastrand::Rng::with_seed(7), 2000);
    scene.wait_until(|| worker.is_drained());
    // What waited there its database may have taken back.
    let done: BTreeSet<u64> = of_it(&scene)[0].difference(&before).copied().collect();
    assert!(!done.is_empty() && done.is_subset(&held), "{done:?} of {held:?}");
    drop(worker);
    check(&db, &model);
    db.close().unwrap();
}

#[test]
fn a_worker_that_waits_for_a_sync_keeps_its_job() {
    let mut scene = Scene::new();
    let plane = plane(&scene, SYNC * 2 / 5);
    let at = [plane.address()];
    let clock = Arc::clone(&scene.clock);
    let _worker = slow_worker(&mut scene, at[0], clock);
    let db = open(&mut scene, at[0]);
    let mut model = vec![None; 1000];
    write(&db, &mut model, &mut fastrand::Rng::with_seed(4), 2000);
    scene.wait_until(|| !done_by(&scene.look(at[0])).is_empty());
    db.wait_idle().unwrap();
    assert_eq!(plane.watch().figures().counts.expired_stuck, 0);
    check(&db, &model);
    db.close().unwrap();
}
