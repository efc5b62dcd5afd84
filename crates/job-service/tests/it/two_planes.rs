//! A worker with one slot that works for two control planes, each with a database of its own.

use std::time::Duration;

use firn_jobs::{ErrorKind, Executor};
use firn_storage::backend::Operation;

use crate::hanging::{OFTEN, OTHER, SELDOM, SLOW, patient_plane, submit, worker};
use crate::scene::{Scene, any_port};

#[test]
fn l0_work_of_one_control_plane_takes_the_place_of_deep_work_of_another() {
    let mut scene = Scene::new();
    let planes = [patient_plane(&mut scene), patient_plane(&mut scene)];
    let at = [planes[0].address(), planes[1].address()];
    let (_worker, gate) = worker(&mut scene, &at, SELDOM, Operation::Read);
    let [one, other] = at.map(|plane| scene.remote(&[plane]));
    let deep = submit(&one, SLOW, 1);
    scene.wait_until(|| gate.sleepers() == 1);
    let begun = scene.clock.now();
    other.urge(Some(Duration::from_secs(1)));
    let l0 = submit(&other, OTHER, 0);
    scene.wait_until(|| l0.poll().is_some());
    let took = scene.clock.now() - begun;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(l0.wait().unwrap_err().kind, ErrorKind::Corrupt, "it was begun");
    // Which is no failure of the worker or the job, and is done again.
    scene.wait_until(|| deep.poll().is_some());
    assert_eq!((deep.wait().unwrap_err().kind, deep.trouble()), (ErrorKind::Corrupt, None));
    for plane in at {
        assert_eq!(scene.look(plane).workers[0].failing, "");
    }
    assert_eq!(gate.sleepers(), 1, "the first attempt still hangs");
    gate.open();
}

#[test]
fn what_a_worker_has_no_slot_for_is_not_begun() {
    let mut scene = Scene::new();
    let planes = [scene.plane(any_port()), scene.plane(any_port())];
    let at = [planes[0].address(), planes[1].address()];
    let (_worker, gate) = worker(&mut scene, &at, OFTEN, Operation::Read);
    let [one, other] = at.map(|plane| scene.remote(&[plane]));
    // L0 work gives way to nothing.
    let runs = submit(&one, SLOW, 0);
    scene.wait_until(|| gate.sleepers() == 1 && !runs.is_waiting());
    other.urge(Some(Duration::from_secs(1)));
    let waits = submit(&other, OTHER, 0);
    scene.wait_until(|| waits.is_waiting());
    // Its control plane would have said so by the next question but one, and there are several in
    // this time.
    let begun = scene.clock.now();
    while scene.clock.now() - begun < Duration::from_millis(1200) {
        assert!(waits.is_waiting() && waits.poll().is_none());
        scene.clock.sleep(Duration::from_millis(10));
    }
    gate.open();
    for job in [runs, waits] {
        scene.wait_until(|| job.poll().is_some());
        assert_eq!(job.wait().unwrap_err().kind, ErrorKind::Corrupt);
    }
}
