//! Databases and workers of other builds, which read and write specs of other versions.

use std::time::Duration;

use firn_engine::Semantics;
use firn_job_service::proto::jobs_client::JobsClient;
use firn_job_service::proto::workers_client::WorkersClient;
use firn_job_service::proto::{self, failure::Kind};
use firn_jobs::JobSpec;
use tonic::transport::{Channel, Endpoint};

use crate::scene::{Scene, any_port, check, done_by, url, write};

/// A worker of another build that takes what it is given and never answers: what it was given.
pub(crate) struct Other {
    runtime: tokio::runtime::Runtime,
    workers: WorkersClient<Channel>,
    jobs: JobsClient<Channel>,
}

impl Other {
    pub(crate) fn at(plane: std::net::SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let channel =
            runtime.block_on(async { Endpoint::from_shared(url(plane)).unwrap().connect().await.unwrap() });
        Self { runtime, workers: WorkersClient::new(channel.clone()), jobs: JobsClient::new(channel) }
    }

    /// Says that a worker is there that reads specs up to `version`, as builds of before say it,
    /// and hears what it is to do.
    pub(crate) fn pull(&mut self, version: u32, hold_ms: u32) -> Vec<proto::Lease> {
        let worker = proto::Worker {
            id: vec![9; 16].into(),
            name: "other".to_owned(),
            slots: 4,
            spec_version_max: version,
            ..Default::default()
        };
        let versions = Some(proto::Versions { min: 1, max: 1 });
        let request = proto::PullRequest { versions, worker: Some(worker), held: vec![], hold_ms };
        self.runtime.block_on(self.workers.pull(request)).unwrap().into_inner().leases
    }

    /// Says that it has `lease`, and whether that waits for a sync.
    pub(crate) fn beat(&mut self, lease: &proto::Lease, is_syncing: bool) {
        let (key, token) = (lease.key.clone(), lease.token);
        let held = vec![proto::Held { key, token, is_syncing, ..Default::default() }];
        let request = proto::BeatRequest { worker: vec![9; 16].into(), held, ..Default::default() };
        assert!(self.runtime.block_on(self.workers.beat(request)).unwrap().into_inner().known);
    }

    /// Says that `lease` came to nothing.
    pub(crate) fn fail(&mut self, lease: &proto::Lease, kind: Kind, why: &str) {
        let failure = proto::Failure { kind: kind.into(), message: why.to_owned() };
        let outcome = proto::Outcome { is: Some(proto::outcome::Is::Failure(failure)) };
        let request = proto::FinishRequest {
            worker: vec![9; 16].into(),
            key: lease.key.clone(),
            token: lease.token,
            outcome: Some(outcome),
            ..Default::default()
        };
        assert!(self.runtime.block_on(self.workers.finish(request)).unwrap().into_inner().taken);
    }

    /// What the client of `lease` hears of it within `hold`, which `attempts` listens to.
    pub(crate) fn follow(
        &mut self,
        lease: &proto::Lease,
        attempts: Option<proto::Attempts>,
        hold: Duration,
    ) -> proto::FollowReply {
        let key = lease.key.clone().unwrap();
        let (client, waiting, hold_ms) = (key.client, vec![key.number], hold.as_millis() as u32);
        let request = proto::FollowRequest { client, waiting, hold_ms, attempts, ..Default::default() };
        self.runtime.block_on(self.jobs.follow(request)).unwrap().into_inner()
    }

    /// Hands a job of version `version` in, and waits for its end.
    fn submit(&mut self, version: u32) -> proto::Outcome {
        let client: Vec<u8> = vec![8; 16];
        let request = proto::SubmitRequest {
            versions: Some(proto::Versions { min: 1, max: 1 }),
            key: Some(proto::JobKey { client: client.clone().into(), number: u64::from(version) }),
            location: "/nowhere".to_owned(),
            spec: vec![1, 2, 3].into(),
            spec_version: version,
            ..Default::default()
        };
        self.runtime.block_on(self.jobs.submit(request)).unwrap();
        let waiting = vec![u64::from(version)];
        let request =
            proto::FollowRequest { client: client.into(), waiting, hold_ms: 20_000, ..Default::default() };
        let answer = self.runtime.block_on(self.jobs.follow(request)).unwrap().into_inner();
        answer.ended.into_iter().next().unwrap().outcome.unwrap()
    }
}

#[test]
fn jobs_of_a_newer_database_are_not_given_to_older_workers_and_are_done_by_others_or_here() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let mut old = Other::at(at[0]);
    assert_eq!(old.pull(JobSpec::VERSION - 1, 0), []);
    let db = scene.open(&at);
    let (mut model, random) = (vec![None; 2000], &mut fastrand::Rng::with_seed(4));
    let (sender, is_over) = std::sync::mpsc::channel::<()>();
    // It is there for as long as the database works.
    let pulls = std::thread::Builder::new().spawn(move || {
        let mut given = Vec::new();
        while is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            given.extend(old.pull(JobSpec::VERSION - 1, 100));
        }
        given
    });
    write(&db, &mut model, random, 3000);
    db.wait_idle().unwrap();
    check(&db, &model);
    let stats = db.stats();
    let here: u64 = stats.jobs.kinds.iter().map(|kind| kind.here_count).sum();
    assert!(here > 0 && stats.jobs.last.iter().all(|row| row.place() == "here"), "{:?}", stats.jobs);
    let reason = stats.jobs_passed_on_reason.unwrap();
    assert!(reason.contains(&format!("reads specs of version {}", JobSpec::VERSION)), "{reason}");
    assert!(!stats.jobs.is_executor_away, "one that is too old says nothing of the service");
    // One of this build comes beside it.
    let _worker = scene.worker("new", &at, Semantics::new());
    let begun = scene.clock.now();
    while done_by(&scene.look(at[0])).is_empty() {
        assert!(scene.clock.now() - begun < Duration::from_secs(60), "{:?}", db.stats());
        write(&db, &mut model, random, 1000);
        db.wait_idle().unwrap();
    }
    check(&db, &model);
    assert_eq!(done_by(&scene.look(at[0])).into_keys().collect::<Vec<_>>(), ["new"]);
    drop(sender);
    assert_eq!(pulls.unwrap().join().unwrap(), [], "it was given what it cannot read");
}

#[test]
fn workers_are_given_specs_of_their_version_and_no_others() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let worker = scene.worker("this", &at, Semantics::new());
    let mut other = Other::at(at[0]);
    let mut failure = |version: u32| match other.submit(version).is {
        Some(proto::outcome::Is::Failure(failure)) => failure,
        other => panic!("{other:?}"),
    };
    // Of a newer or an older database: not even tried.
    for (version, advice) in
        [(JobSpec::VERSION + 1, "; upgrade them"), (JobSpec::VERSION - 1, "; upgrade the database")]
    {
        let failure = failure(version);
        let expected = format!("none of 1 workers reads specs of version {version}");
        assert!(failure.kind() == Kind::Rejected && failure.message.contains(&expected), "{failure:?}");
        assert!(failure.message.ends_with(advice), "{failure:?}");
    }
    // Of this one: it is the worker that says that these are no specs.
    let failure = failure(JobSpec::VERSION);
    assert!(failure.message.contains("this worker cannot read the job"), "{failure:?}");
    drop(worker);
}
