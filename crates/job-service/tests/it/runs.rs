//! Jobs go to workers and come back.

use std::time::Duration;

use firn_engine::Semantics;
use firn_jobs::{CompactSpec, Executor};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::scene::{Scene, any_port, check, done_by, url, write};

#[test]
fn a_database_has_its_jobs_done_by_all_workers_and_none_here() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let workers = ["one", "two"].map(|name| scene.worker(name, &at, Semantics::new()));
    let db = scene.open(&at);
    let (mut model, random) = (vec![None; 3000], &mut fastrand::Rng::with_seed(1));
    for _ in 0..4 {
        write(&db, &mut model, random, 3000);
        db.wait_idle().unwrap();
        check(&db, &model);
    }
    let stats = db.stats();
    let list = scene.look(at[0]);
    let done = done_by(&list);
    assert_eq!(stats.jobs_passed_on_count, 0, "{stats:?}");
    assert!(
        stats.tree.as_ref().expect("a tree").blobs.gc_count > 0,
        "{:?}",
        stats.tree.as_ref().expect("a tree").blobs
    );
    assert!(done.values().sum::<u32>() > 10 && done.len() == 2, "{done:?}");
    assert!(list.workers.iter().all(|row| row.jobs_done > 0), "{list:?}");
    assert!(list.jobs.iter().all(|row| row.tenant == scene.shared_name() && row.input_bytes > 0), "{list:?}");
    db.close().unwrap();
    // What ended is told, and then forgotten.
    while workers.iter().any(|worker| worker.job_count() > 0) {
        scene.clock.sleep(Duration::from_millis(10));
    }
    drop(db);
    let db = scene.open(&at);
    check(&db, &model);
}

#[test]
fn a_database_learns_how_many_do_its_jobs() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let workers = ["one", "two", "three"].map(|name| scene.worker(name, &at, Semantics::new()));
    while scene.look(at[0]).workers.len() < 3 {
        scene.clock.sleep(Duration::from_millis(10));
    }
    let slots: u32 = scene.look(at[0]).workers.iter().map(|row| row.slots).sum();
    let (remote, other) = (scene.remote(&at), scene.remote(&at));
    assert_eq!(remote.width(), Some(1), "nobody was asked");
    let job = || CompactSpec { output_stem: "job".to_owned(), ..CompactSpec::default() }.into();
    let _ended = remote.submit(job()).unwrap().wait();
    assert_eq!(remote.width(), Some(slots as usize));
    workers[0].drain();
    while !workers[0].is_drained() {
        scene.clock.sleep(Duration::from_millis(1));
    }
    let _ended = other.submit(job()).unwrap().wait();
    assert_eq!(other.width(), Some(slots as usize * 2 / 3), "who takes no more jobs does not count");
}

#[test]
fn a_worker_that_drains_ends_what_it_has_and_takes_nothing_more() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let first = scene.worker("first", &at, Semantics::new());
    let db = scene.open(&at);
    let (mut model, random) = (vec![None; 3000], &mut fastrand::Rng::with_seed(2));
    write(&db, &mut model, random, 4000);
    first.drain();
    let second = scene.worker("second", &at, Semantics::new());
    while !first.is_drained() {
        scene.clock.sleep(Duration::from_millis(1));
    }
    let rows = scene.look(at[0]).workers;
    assert!(rows.iter().any(|row| row.name == "first" && row.is_draining), "it is known: {rows:?}");
    let before = done_by(&scene.look(at[0]));
    write(&db, &mut model, random, 6000);
    db.wait_idle().unwrap();
    let after = done_by(&scene.look(at[0]));
    assert_eq!(before.get("first"), after.get("first"), "{before:?}, {after:?}");
    assert!(after.get("second") > before.get("second"), "{before:?}, {after:?}");
    check(&db, &model);
    drop(second);
}

#[test]
fn a_control_plane_says_that_it_is_well_to_whoever_asks_as_grpc_does() {
    let mut scene = Scene::new();
    scene.token = firn_job_service::SharedToken::new("secret").unwrap();
    let plane = scene.plane(any_port());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let channel =
            tonic::transport::Endpoint::from_shared(url(plane.address())).unwrap().connect().await.unwrap();
        let request = HealthCheckRequest { service: "firn.jobs.v1.Workers".to_owned() };
        HealthClient::new(channel).check(request).await.unwrap().into_inner().status()
    });
    assert_eq!(status, tonic_health::pb::health_check_response::ServingStatus::Serving);
}
