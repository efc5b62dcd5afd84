//! Jobs that were given up and that hang in a request to their store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_job_service::control::pool::JobState;
use firn_job_service::{AdminClient, Worker, WorkerFigures};
use firn_jobs::ErrorKind;
use firn_storage::backend::{Local, LocalOptions, Operation};

use crate::hanging::{OFTEN, OTHER, SELDOM, SLOW, patient_plane, submit, worker, worker_at};
use crate::scene::{Scene, any_port, check, url, write};
use crate::second::{Took, Watch, within_a_second};

fn figures(worker: &Worker) -> WorkerFigures {
    worker.watch().figures().unwrap()
}

/// Cancels a job that hangs at its first operation of the kind; how long it keeps its slot after
/// that.
fn cancelled_at(on: Operation) -> Took {
    let mut scene = Scene::new();
    let plane = patient_plane(&mut scene);
    let at = [plane.address()];
    let (worker, gate) = worker(&mut scene, &at, SELDOM, on);
    let remote = scene.remote(&at);
    let hangs = submit(&remote, SLOW, 1);
    scene.wait_until(|| gate.sleepers() == 1);
    let watch = Watch::begin(&scene.clock);
    hangs.cancel();
    scene.wait_until(|| worker.job_count() == 0);
    let took = watch.end();
    // The only slot serves others meanwhile.
    let other = submit(&remote, OTHER, 1);
    scene.wait_until(|| other.poll().is_some());
    assert_eq!(other.wait().unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!((gate.sleepers(), figures(&worker).hanging), (1, 1), "{on:?}");
    gate.open();
    scene.wait_until(|| figures(&worker).hanging == 0);
    // What it read last may have come.
    let attempts = figures(&worker).attempts["compact"];
    let failed = attempts.failed;
    assert_eq!((attempts.done, failed.cancelled + failed.corrupt, failed.storage), (0, 2, 0), "{on:?}");
    let list = scene.look(at[0]);
    assert_eq!((list.workers[0].failing.as_str(), list.workers[0].running), ("", 0), "{on:?}");
    took
}

#[test]
fn a_job_that_is_cancelled_while_its_store_hangs_leaves_its_slot_within_a_second() {
    for on in [Operation::OpenRead, Operation::Read] {
        within_a_second(|| cancelled_at(on));
    }
}

#[test]
fn what_hangs_for_a_control_plane_that_is_gone_leaves_its_slot_to_another() {
    let mut scene = Scene::new();
    let (gone, there) = (scene.plane(any_port()), scene.plane(any_port()));
    // What is gone is missed once it has not answered for a lease.
    let (worker, gate) = worker(&mut scene, &[gone.address(), there.address()], OFTEN, Operation::Read);
    let [one, other] = [&gone, &there].map(|plane| scene.remote(&[plane.address()]));
    let _hangs = submit(&one, SLOW, 0);
    scene.wait_until(|| gate.sleepers() == 1);
    drop(gone);
    let waits = submit(&other, OTHER, 1);
    scene.wait_until(|| waits.poll().is_some());
    assert_eq!(waits.wait().unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!((gate.sleepers(), figures(&worker).hanging), (1, 1));
    gate.open();
}

/// Cancels a job that hangs in a sync, by hand; how long it keeps its slot after that.
fn cancelled_in_a_sync() -> Took {
    let mut scene = Scene::new();
    let plane = patient_plane(&mut scene);
    let at = [plane.address()];
    let here = Local::open(Path::new(&scene.shared_name()), LocalOptions { create: true }).unwrap();
    let (worker, gate) = worker_at(&mut scene, &at, SELDOM, Arc::new(here), (Operation::Sync, "*"));
    let db = scene.open(&at);
    let (mut model, random) = (vec![None; 1000], &mut fastrand::Rng::with_seed(8));
    let opened = scene.clock.now();
    while gate.sleepers() == 0 {
        write(&db, &mut model, random, 500);
        assert!(scene.clock.now() - opened < Duration::from_secs(60), "nothing is synced");
    }
    let rows = plane.watch().rows(100).jobs;
    let hangs = rows.iter().find(|row| row.state == JobState::Running).expect("it hangs");
    let client = AdminClient::at(&url(at[0]), &scene.token, &scene.tls, &scene.spawn).unwrap();
    let (begun, watch) = (scene.clock.now(), Watch::begin(&scene.clock));
    assert!(client.cancel(hangs.key).unwrap());
    scene.wait_until(|| figures(&worker).hanging == 1);
    let took = watch.end();
    // Its database does that itself, and others there.
    let done = || figures(&worker).attempts.values().map(|kind| kind.done).sum::<u64>();
    let before = done();
    while done() == before {
        write(&db, &mut model, random, 500);
        assert!(scene.clock.now() - begun < Duration::from_secs(60), "the slot is lost");
    }
    assert_eq!(gate.sleepers(), 1);
    gate.open();
    scene.wait_until(|| figures(&worker).hanging == 0);
    db.wait_idle().unwrap();
    check(&db, &model);
    db.close().unwrap();
    took
}

#[test]
fn a_sync_that_hangs_keeps_no_slot_and_its_database_loses_nothing() {
    within_a_second(cancelled_in_a_sync);
}
