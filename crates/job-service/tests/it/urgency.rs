//! What a database says of its writers, at the control plane.

use std::sync::Arc;
use std::time::Duration;

use firn_job_service::control::pool::Limits;
use firn_job_service::{ControlPlane, ControlPlaneOptions, SharedToken};
use firn_jobs::{CompactSpec, Executor};

use crate::scene::{Scene, any_port};

/// Milliseconds until the stall that the control plane believes in, of each job that waits there, once that is so for all as `is_so` wants it.
fn until(scene: &Scene, plane: &ControlPlane, count: usize, is_so: impl Fn(Option<u64>) -> bool) {
    let begun = scene.clock.now();
    loop {
        let rows = scene.look(plane.address()).jobs;
        let found: Vec<Option<u64>> = rows.iter().map(|row| row.stalls_in_ms).collect();
        if found.len() == count && found.iter().all(|stalls_in_ms| is_so(*stalls_in_ms)) {
            return;
        }
        assert!(scene.clock.now() - begun < Duration::from_secs(20), "{found:?}");
        scene.clock.sleep(Duration::from_millis(20));
    }
}

#[test]
fn urgency_travels_with_jobs_and_again_while_they_wait() {
    let mut scene = Scene::new();
    // Nobody is there who could do anything.
    let limits = Limits { nobody: Duration::from_secs(600), ..Limits::default() };
    let options =
        ControlPlaneOptions { address: any_port(), token: SharedToken::none(), tls: None, limits, seed: 5 };
    let plane = ControlPlane::start(&options, Arc::clone(&scene.clock), &scene.spawn).unwrap();
    let remote = scene.remote(&[plane.address()]);
    let job = |stem: &str| CompactSpec { output_stem: stem.to_owned(), ..Default::default() }.into();
    remote.urge(Some(Duration::from_secs(50)));
    let _first = remote.submit(job("first")).unwrap();
    until(&scene, &plane, 1, |left| left.is_some_and(|left| (20_000..=50_000).contains(&left)));
    // It is said at most once a second; whoever works the figure out says it again and again.
    until(&scene, &plane, 1, |left| {
        remote.urge(Some(Duration::from_secs(5)));
        left.is_some_and(|left| left <= 5000)
    });
    let _second = remote.submit(job("second")).unwrap();
    until(&scene, &plane, 2, |left| left.is_some_and(|left| left <= 5000));
    until(&scene, &plane, 2, |left| {
        remote.urge(None);
        left.is_none()
    });
}
