//! A worker whose device takes its time to make durable what was written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::Semantics;
use firn_job_service::control::pool::Limits;
use firn_job_service::{ControlPlane, ControlPlaneOptions, Places, SharedToken, Worker, WorkerOptions};
use firn_storage::place::{Effect, Fault, Faulty, Local, LocalOptions, Operation, When};
use firn_storage::{Clock, Storage};

use crate::scene::{Scene, any_port, check, done_by, url, write};

/// Directories whose first sync takes four seconds.
#[derive(Debug)]
struct Slow(Arc<dyn Clock>);

impl Places for Slow {
    fn open(&self, name: &str) -> firn_storage::Result<Arc<dyn Storage>> {
        let place = Local::open(Path::new(name), LocalOptions { create: false })?;
        let slow = Faulty::with_clock(Arc::new(place), Arc::clone(&self.0));
        let (on, file) = (Operation::Sync, "*".to_owned());
        let effect = Effect::Delay(Duration::from_secs(4));
        slow.inject(Fault { on, file, when: When::Once { after: 0 }, effect });
        Ok(Arc::new(slow))
    }
}

#[test]
fn a_worker_that_waits_for_a_sync_keeps_its_job() {
    let mut scene = Scene::new();
    let options = ControlPlaneOptions {
        address: any_port(),
        token: SharedToken::none(),
        tls: None,
        connections_max: 100,
        limits: Limits { progress: Duration::from_secs(1), ..Limits::default() },
        seed: 7,
    };
    let plane = ControlPlane::start(&options, Arc::clone(&scene.clock), &scene.spawn).unwrap();
    let at = [plane.address()];
    let mut options = WorkerOptions::new(vec![url(at[0])], "slow", scene.draw());
    options.beat = Duration::from_millis(200);
    let (places, clock) = (Arc::new(Slow(Arc::clone(&scene.clock))), Arc::clone(&scene.clock));
    let _worker = Worker::start(options, places, Arc::new(Semantics::new()), clock, &scene.spawn).unwrap();
    let db = scene.open(&at);
    let mut model = vec![None; 1000];
    write(&db, &mut model, &mut fastrand::Rng::with_seed(4), 2000);
    scene.wait_until(|| !done_by(&scene.look(at[0])).is_empty());
    db.wait_idle().unwrap();
    assert_eq!(plane.watch().figures().counts.expired_stuck, 0);
    check(&db, &model);
    db.close().unwrap();
}
