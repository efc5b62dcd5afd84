//! A backend that keeps something else than was written, and says that all is well.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::Semantics;
use firn_job_service::control::pool::ByFailure;
use firn_job_service::{Backends, Worker, WorkerOptions};
use firn_storage::Storage;
use firn_storage::backend::{Effect, Fault, Faulty, Local, LocalOptions, Operation, When};

use crate::scene::{Scene, any_port, check, url, write};

/// Directories in which the first write to a table has a bit turned.
#[derive(Debug)]
struct Turning;

impl Backends for Turning {
    fn open(&self, name: &str) -> firn_storage::Result<Arc<dyn Storage>> {
        let turning = Faulty::new(Arc::new(Local::open(Path::new(name), LocalOptions { create: false })?));
        let (on, file) = (Operation::Write, "*.table".to_owned());
        turning.inject(Fault { on, file, when: When::Once { after: 0 }, effect: Effect::Turn });
        Ok(Arc::new(turning))
    }
}

#[test]
fn a_table_that_lies_there_otherwise_than_it_was_written_is_no_result() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let mut options = WorkerOptions::new(vec![url(at[0])], "turning", scene.draw());
    options.slots = 1;
    let (backends, clock) = (Arc::new(Turning), Arc::clone(&scene.clock));
    let worker = Worker::start(options, backends, Arc::new(Semantics::new()), clock, &scene.spawn).unwrap();
    let db = scene.open(&at);
    let (mut model, random) = (vec![None; 1000], &mut fastrand::Rng::with_seed(11));
    // Whether this worker or its database does that job then depends on which is idle.
    let begun = scene.clock.now();
    let failed = loop {
        write(&db, &mut model, random, 500);
        match worker.watch().figures().unwrap().attempts.get("compact") {
            Some(attempts) if attempts.failed != ByFailure::default() => break attempts.failed,
            _ => assert!(scene.clock.now() - begun < Duration::from_secs(60), "nothing was found wrong"),
        }
    };
    assert_eq!(failed, ByFailure { storage: 1, ..ByFailure::default() });
    drop(worker);
    check(&db, &model);
    db.close().unwrap();
}
