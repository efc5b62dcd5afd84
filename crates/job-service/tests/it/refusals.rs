//! What is refused, and that nothing is lost by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{KeyspaceSettings, MergeOperator, Semantics, Stats};
use firn_job_service::{ControlPlane, SharedToken, proto};
use firn_jobs::{ErrorKind, Executor, JobSpec};

use crate::scene::{Scene, any_port, check, done_by, url, write};

/// A job that no worker is ever given.
fn some_job() -> JobSpec {
    firn_jobs::CompactSpec { output_stem: "s".to_owned(), ..Default::default() }.into()
}

/// Why jobs were done by the database.
fn causes(stats: &Stats) -> Vec<&'static str> {
    stats.jobs.passed_on.iter().filter(|(_, count)| *count > 0).map(|(cause, _)| *cause).collect()
}

#[test]
fn a_wrong_token_is_refused_with_what_to_do_and_the_database_serves_on() {
    let mut scene = Scene::new();
    scene.token = SharedToken::new("right").unwrap();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    for (token, expected) in
        [(SharedToken::new("wrong").unwrap(), "is not this"), (SharedToken::none(), "wants a token")]
    {
        scene.token = token;
        let error = scene.remote(&at).submit(some_job()).unwrap().wait().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(
            error.message.contains(expected) && error.message.contains("--control-plane-token-file"),
            "{error}"
        );
        let worker = scene.worker("stranger", &at, Semantics::new());
        scene.wait_until(|| !worker.troubles().is_empty());
        assert!(worker.troubles()[&url(at[0])].contains(expected), "{:?}", worker.troubles());
        let db = scene.open(&at);
        let mut model = vec![None; 500];
        write(&db, &mut model, &mut fastrand::Rng::with_seed(1), 3000);
        db.wait_idle().unwrap();
        check(&db, &model);
        assert_eq!(causes(&db.stats()), ["away"]);
        db.close().unwrap();
        drop(db);
        std::fs::remove_dir_all(scene.place.path().join("db")).unwrap();
        std::fs::remove_dir_all(scene.place.path().join("shared")).unwrap();
    }
    assert!(SharedToken::new("").is_none() && SharedToken::new("with blank").is_none());
    assert_eq!(format!("{:?}", SharedToken::new("secret").unwrap()), "SharedToken(..)");
}

#[test]
fn who_speaks_another_version_is_told_which_one_is_expected() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = |versions: Option<proto::Versions>| {
        let at = url(plane.address());
        runtime.block_on(async move {
            let mut client = {
                let channel = tonic::transport::Endpoint::from_shared(at).unwrap().connect().await.unwrap();
                proto::jobs_client::JobsClient::new(channel)
            };
            let key = Some(proto::JobKey { client: vec![7; 16].into(), number: 1 });
            client.submit(proto::SubmitRequest { versions, key, ..Default::default() }).await
        })
    };
    let of = |min, max| Some(proto::Versions { min, max });
    assert_eq!(ask(of(1, 1)).unwrap().into_inner().version, 1);
    assert_eq!(ask(of(1, 7)).unwrap().into_inner().version, 1, "an old one with a new one");
    let refused = ask(of(2, 7)).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert!(refused.message().contains("from 1 to 1, this one speaks 2 to 7"), "{refused:?}");
    for wrong in [None, of(0, 0)] {
        assert!(ask(wrong).is_err(), "{wrong:?}");
    }
    // Workers are told the same.
    let at = url(plane.address());
    let refused = runtime.block_on(async move {
        let channel = tonic::transport::Endpoint::from_shared(at).unwrap().connect().await.unwrap();
        let worker = Some(proto::Worker { id: vec![9; 16].into(), slots: 1, ..Default::default() });
        let request = proto::PullRequest { versions: of(2, 7), worker, ..Default::default() };
        proto::workers_client::WorkersClient::new(channel).pull(request).await.unwrap_err()
    });
    assert!(refused.message().contains("from 1 to 1, this one speaks 2 to 7"), "{refused:?}");
}

#[test]
fn nobody_there_is_said_soon_and_jobs_are_done_here() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let error = scene.remote(&at).submit(some_job()).unwrap().wait().unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unavailable, "no worker is there"));
    drop(plane);
    let error = scene.remote(&at).submit(some_job()).unwrap().wait().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        error.message.contains("no control plane answers") && error.message.contains("refused"),
        "{error}"
    );
    let db = scene.open(&at);
    let mut model = vec![None; 500];
    write(&db, &mut model, &mut fastrand::Rng::with_seed(1), 2000);
    check(&db, &model);
}

#[test]
fn who_comes_back_among_many_who_are_gone_is_asked() {
    let mut scene = Scene::new();
    let planes: Vec<_> = (0..6).map(|_| scene.plane(any_port())).collect();
    let at: Vec<_> = planes.iter().map(ControlPlane::address).collect();
    drop(planes);
    let remote = scene.remote(&at);
    let ask = || remote.submit(some_job()).unwrap().wait().unwrap_err().message;
    let message = ask();
    assert!(message.contains("no control plane answers"), "{message}");
    // While nothing was asked no control plane was silent.
    let back = scene.plane(at[3]);
    assert_eq!(ask(), "no worker is there");
    drop(back);
}

/// Adds numbers in decimal.
#[derive(Debug)]
struct Sum;

impl MergeOperator for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
        let all = base.into_iter().chain(operands.iter().copied()).map(number);
        all.sum::<Option<u64>>().map(|sum| sum.to_string().into_bytes())
    }
}

#[test]
fn a_worker_without_the_operator_gets_no_such_job_and_one_with_it_does_them() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let lacking = scene.worker("lacking", &at, Semantics::new());
    let db = scene.builder(&at).merge_operator(Arc::new(Sum)).open().unwrap();
    let settings = KeyspaceSettings { merge_operator: Some("sum".to_owned()), ..KeyspaceSettings::default() };
    let sums = db.create_keyspace("sums", settings).unwrap();
    let mut model = vec![0_u64; 500];
    let random = &mut fastrand::Rng::with_seed(1);
    let mut add = |count: usize| {
        for step in 0..count {
            let key = random.usize(0..model.len());
            model[key] += step as u64;
            db.in_keyspace(sums).merge(key.to_be_bytes(), step.to_string()).unwrap();
            if step % 500 == 499 {
                db.flush().unwrap();
            }
        }
        db.wait_idle().unwrap();
        for (key, sum) in model.iter().enumerate() {
            let found = db.in_keyspace(sums).get(key.to_be_bytes()).unwrap();
            let found = found.map_or(0, |bytes| String::from_utf8(bytes).unwrap().parse().unwrap());
            assert_eq!(found, *sum, "key {key}");
        }
    };
    add(5000);
    let stats = db.stats();
    assert!(causes(&stats).contains(&"lacking"), "{stats:?}");
    let reason = stats.jobs_passed_on_reason.unwrap();
    assert!(reason.contains("merge:sum"), "{reason}");
    assert_eq!(done_by(&scene.look(at[0])), BTreeMap::new());
    let having = scene.worker("having", &at, Semantics::new().with_merge_operator(Arc::new(Sum)));
    // An executor that refused is left alone for a while.
    let mut rounds = 0;
    while done_by(&scene.look(at[0])).is_empty() {
        add(1000);
        rounds += 1;
        scene.clock.sleep(std::time::Duration::from_millis(100));
        assert!(rounds < 600, "{:?}", db.stats().jobs_passed_on_reason);
    }
    assert_eq!(done_by(&scene.look(at[0])).keys().collect::<Vec<_>>(), ["having"]);
    drop((lacking, having));
}
