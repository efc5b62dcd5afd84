//! Jobs that panic.

use std::sync::Arc;

use firn_engine::{KeyspaceSettings, MergeOperator, Semantics};

use crate::scene::{Scene, any_port, check, done_by, write};

/// Keeps the newest operand, or cannot.
#[derive(Debug)]
struct Newest {
    is_able: bool,
}

impl MergeOperator for Newest {
    fn name(&self) -> &str {
        "newest"
    }

    fn merge(&self, _key: &[u8], _base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        assert!(self.is_able, "no luck today");
        operands.last().map(|operand| operand.to_vec())
    }
}

#[test]
fn a_job_that_panics_fails_and_its_worker_goes_on_and_ends() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let unable = Semantics::new().with_merge_operator(Arc::new(Newest { is_able: false }));
    let worker = scene.worker("clumsy", &at, unable);
    let db = scene.builder(&at).merge_operator(Arc::new(Newest { is_able: true })).open().unwrap();
    let settings =
        KeyspaceSettings { merge_operator: Some("newest".to_owned()), ..KeyspaceSettings::default() };
    let keyspace = db.create_keyspace("newest", settings).unwrap();
    let mut log = Vec::new();
    let mut step = 0_u32;
    // More than it has slots.
    while log.len() < 5 {
        for key in 0..100_u32 {
            db.in_keyspace(keyspace).merge(key.to_be_bytes(), step.to_be_bytes()).unwrap();
        }
        db.flush().unwrap();
        log.extend(worker.take_log());
        step += 1;
        assert!(step < 2000, "{log:?}, {:?}", db.stats().jobs_passed_on_reason);
    }
    let line = &log[0];
    assert!(line.starts_with("job ") && line.ends_with("worker clumsy panicked: no luck today"), "{line}");
    assert!(line.contains(&scene.shared_name()), "{line}");
    let tried = scene.look(at[0]).jobs;
    let failed = tried.iter().filter(|row| row.failure.contains("no luck today"));
    assert!(failed.clone().count() > 0 && failed.clone().all(|row| row.attempts == 1), "{tried:?}");
    db.wait_idle().unwrap();
    for key in 0..100_u32 {
        let newest = db.in_keyspace(keyspace).get(key.to_be_bytes()).unwrap();
        assert_eq!(newest.as_deref(), Some(&(step - 1).to_be_bytes()[..]));
    }
    // It does what does not panic.
    let (mut model, random) = (vec![None; 1000], &mut fastrand::Rng::with_seed(1));
    let mut rounds = 0;
    while done_by(&scene.look(at[0])).is_empty() {
        write(&db, &mut model, random, 1000);
        rounds += 1;
        assert!(rounds < 600, "{:?}", db.stats().jobs_passed_on_reason);
    }
    check(&db, &model);
    db.close().unwrap();
    worker.drain();
    scene.wait_until(|| worker.is_drained());
}
