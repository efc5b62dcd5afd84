//! What a database says of its writers, at the control plane.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_job_service::control::pool::Limits;
use firn_job_service::proto::jobs_server::{Jobs, JobsServer};
use firn_job_service::{ControlPlane, ControlPlaneOptions, SharedToken, proto};
use firn_jobs::{CompactSpec, Executor};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::scene::{Scene, any_port};

/// Milliseconds until the stall that the control plane believes in, of each job that waits there,
/// once `is_so` holds for all.
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
    // No worker is there that could do anything.
    let limits = Limits { no_worker: Duration::from_secs(600), ..Limits::default() };
    let options = ControlPlaneOptions {
        address: any_port(),
        token: SharedToken::none(),
        tls: None,
        connections_max: 100,
        limits,
        seed: 5,
    };
    let plane = ControlPlane::start(&options, Arc::clone(&scene.clock), &scene.spawn).unwrap();
    let remote = scene.remote(&[plane.address()]);
    let job = |stem: &str| CompactSpec { output_stem: stem.to_owned(), ..Default::default() }.into();
    remote.urge(Some(Duration::from_secs(50)));
    let first = remote.submit(job("first")).unwrap();
    until(&scene, &plane, 1, |left| left.is_some_and(|left| (20_000..=50_000).contains(&left)));
    // It is said at most once a second; a database works the figure out and says it again and
    // again.
    until(&scene, &plane, 1, |left| {
        remote.urge(Some(Duration::from_secs(5)));
        left.is_some_and(|left| left <= 5000)
    });
    let second = remote.submit(job("second")).unwrap();
    until(&scene, &plane, 2, |left| left.is_some_and(|left| left <= 5000));
    until(&scene, &plane, 2, |left| {
        remote.urge(None);
        left.is_none()
    });
    scene.wait_until(|| first.is_waiting() && second.is_waiting());
}

/// A control plane that takes every job, does none, and keeps what it was told of urgency.
#[derive(Debug, Default)]
struct Recorder {
    submitted: Mutex<Vec<Option<u64>>>,
    followed: Mutex<Vec<Option<Option<u64>>>>,
}

#[tonic::async_trait]
impl Jobs for Recorder {
    async fn submit(&self, request: Request<proto::SubmitRequest>) -> Answer<proto::SubmitReply> {
        self.submitted.lock().unwrap().push(request.into_inner().stalls_in_ms);
        Ok(Response::new(proto::SubmitReply { version: 1, slots: 0 }))
    }

    async fn follow(&self, request: Request<proto::FollowRequest>) -> Answer<proto::FollowReply> {
        let urgency = request.into_inner().urgency.map(|urgency| urgency.stalls_in_ms);
        self.followed.lock().unwrap().push(urgency);
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(Response::new(proto::FollowReply::default()))
    }

    async fn cancel(&self, _request: Request<proto::CancelRequest>) -> Answer<proto::CancelReply> {
        Ok(Response::new(proto::CancelReply { found: true }))
    }

    async fn list(&self, _request: Request<proto::ListRequest>) -> Answer<proto::ListReply> {
        Ok(Response::new(proto::ListReply::default()))
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[test]
fn each_submission_and_each_question_says_it() {
    let mut scene = Scene::new();
    let recorder = Arc::new(Recorder::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind(any_port())).unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let router = Server::builder().add_service(JobsServer::from_arc(Arc::clone(&recorder)));
    let serves = std::thread::spawn(move || {
        let over = async { drop(ended.await) };
        runtime.block_on(router.serve_with_incoming_shutdown(TcpIncoming::from(listener), over))
    });
    let remote = scene.remote(&[address]);
    remote.urge(Some(Duration::from_secs(50)));
    let job = |stem: &str| CompactSpec { output_stem: stem.to_owned(), ..Default::default() }.into();
    let is_it = |left: &Option<u64>| left.is_some_and(|left| (30_000..=50_000).contains(&left));
    for count in 1..=2 {
        let _job = remote.submit(job(&format!("job{count}"))).unwrap();
        let begun = scene.clock.now();
        while recorder.followed.lock().unwrap().len() < count {
            assert!(scene.clock.now() - begun < Duration::from_secs(20), "nobody asks");
            scene.clock.sleep(Duration::from_millis(10));
        }
    }
    let (submitted, followed) = (recorder.submitted.lock().unwrap(), recorder.followed.lock().unwrap());
    assert!(submitted.len() == 2 && submitted.iter().all(is_it), "{submitted:?}");
    assert!(followed.iter().all(|urgency| urgency.as_ref().is_some_and(is_it)), "{followed:?}");
    drop((submitted, followed, remote, end));
    serves.join().unwrap().unwrap();
}
