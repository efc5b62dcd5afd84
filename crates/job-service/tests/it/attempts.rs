//! What databases hear of attempts at their jobs, before those have ended.

use std::time::Duration;

use firn_job_service::proto::failure::Kind;
use firn_job_service::{Remote, proto};
use firn_jobs::{CompactSpec, Executor, JobHandle, JobSpec};

use crate::scene::{Scene, any_port};
use crate::skew::Other;

/// A job that a worker has which does as it is told.
fn begun(scene: &mut Scene, plane: std::net::SocketAddr) -> (Remote, JobHandle, Other, proto::Lease) {
    let mut other = Other::at(plane);
    assert_eq!(other.pull(JobSpec::VERSION, 0), []);
    let remote = scene.remote(&[plane]);
    let spec = CompactSpec { output_stem: "job".to_owned(), ..Default::default() };
    let handle = remote.submit(spec.into()).unwrap();
    let lease = other.pull(JobSpec::VERSION, 10_000).pop().expect("the job");
    (remote, handle, other, lease)
}

/// Waits until `so`, for much less than a question is held.
#[track_caller]
fn soon(scene: &Scene, so: impl Fn() -> bool) {
    let begun = scene.clock.now();
    scene.wait_until(so);
    assert!(scene.clock.now() - begun < Duration::from_secs(10), "it was heard with something else");
}

#[test]
fn that_a_worker_waits_for_a_sync_is_heard_at_once_and_why_an_attempt_failed() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let (_remote, handle, mut other, lease) = begun(&mut scene, plane.address());
    for is_syncing in [true, false, true] {
        other.beat(&lease, is_syncing);
        soon(&scene, || handle.is_syncing() == is_syncing);
    }
    assert_eq!(handle.trouble(), None);
    other.fail(&lease, Kind::Storage, "the store is full");
    soon(&scene, || handle.trouble().as_deref() == Some("the store is full"));
    soon(&scene, || !handle.is_syncing());
    assert!(handle.poll().is_none(), "it is tried again");
}

#[test]
fn that_a_job_was_begun_and_waits_again_is_heard_at_once() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let (_remote, handle, mut other, lease) = begun(&mut scene, plane.address());
    scene.wait_until(|| handle.is_waiting());
    other.beat(&lease, false);
    soon(&scene, || !handle.is_waiting());
    // Its database asks again when all have ended, or after 20 s. The worker ends, or has others to
    // do.
    other.fail(&lease, Kind::Cancelled, "not now");
    soon(&scene, || handle.is_waiting());
    assert_eq!(handle.trouble(), None);
}

#[test]
fn who_does_not_listen_to_that_is_told_nothing_of_it() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let (remote, _handle, mut other, lease) = begun(&mut scene, plane.address());
    let clock = std::sync::Arc::clone(&scene.clock);
    // What is told, and whether the question was held for as long as it may be.
    let mut asked = |attempts: Option<proto::Attempts>, hold: Duration| {
        // The lease would end between the questions of a test that stands still.
        other.beat(&lease, true);
        let begun = clock.now();
        let reported = other.follow(&lease, attempts, hold).attempts;
        (reported, clock.now() - begun >= hold)
    };
    let (short, long) = (Duration::from_millis(500), Duration::from_secs(10));
    assert_eq!(asked(None, short), (None, true), "as builds of before ask");
    let syncs = proto::Attempts { syncing: vec![lease.key.clone().unwrap().number], ..Default::default() };
    assert_eq!(asked(Some(proto::Attempts::default()), long), (Some(syncs.clone()), false));
    assert_eq!(asked(Some(syncs.clone()), short), (Some(syncs), true), "it is known");
    drop(remote);
}
