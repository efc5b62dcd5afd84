//! A control plane that has two names on a worker's command line.

use firn_jobs::ErrorKind;
use firn_storage::backend::{Operation, When};

use crate::hanging::{OTHER, SELDOM, SLOW, SOON, files, patient_plane, submit, wide_worker_at};
use crate::scene::Scene;

const COUNT: u64 = 20;

#[test]
fn a_worker_that_knows_a_control_plane_by_two_names_begins_each_job_once_and_has_its_slots_once() {
    let mut scene = Scene::new();
    let plane = patient_plane(&mut scene);
    let at = plane.address();
    let reads = (Operation::Read, SLOW, When::Once { after: 0 });
    let (worker, gate) = wide_worker_at(&mut scene, &[at, at], ("one", SELDOM, 2), files(), reads);
    let remote = scene.remote(&[at]);
    let hangs = submit(&remote, SLOW, 0);
    scene.wait_until(|| gate.sleepers() == 1);
    // Its other slot is there for others, whatever was said of the first one by which name.
    for number in 1..=COUNT {
        let begun = scene.clock.now();
        let job = submit(&remote, OTHER, 0);
        scene.wait_until(|| job.poll().is_some());
        let took = scene.clock.now() - begun;
        assert!(took < SOON, "job {number}: {took:?}");
        assert_eq!(job.wait().unwrap_err().kind, ErrorKind::Corrupt, "it was begun");
    }
    gate.open();
    scene.wait_until(|| hangs.poll().is_some());
    let counts = plane.watch().figures().counts;
    assert_eq!((counts.leased, counts.given_up.corrupt), (COUNT + 1, COUNT + 1), "{counts:?}");
    // Which is that of one worker for each name.
    scene.wait_until(|| {
        let rows = plane.watch().rows(0).workers;
        rows.len() == 2 && rows.iter().all(|row| row.name == "one")
    });
    worker.drain();
    scene.wait_until(|| worker.is_drained());
    let attempts = worker.watch().figures().unwrap().attempts["compact"];
    assert_eq!((attempts.done, attempts.failed.corrupt), (0, COUNT + 1), "{attempts:?}");
}
