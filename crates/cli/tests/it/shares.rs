//! Shares of workers, and how often a store is asked, as the command line says.

use std::time::{Duration, Instant};

use crate::job_service::Scene;
use crate::program::firn;
use crate::rounds;
use crate::service_http::{samples, sum};

#[test]
fn a_tenant_and_its_weight_reach_the_control_plane() {
    let mut scene = Scene::new(false);
    scene.of_planes = ["--http-port", "0"].map(str::to_owned).into();
    scene.of_databases = ["--tenant", "team-a", "--weight", "2.5"].map(str::to_owned).into();
    let plane = scene.plane();
    let _worker = scene.worker("one");
    let serving = scene.serve();
    let mut client = rounds::connect(&serving.address);
    let rows = |scene: &Scene| -> Vec<String> {
        let listed = scene.jobs(&["list"]).ended(0);
        listed.lines().filter(|line| line.starts_with("done ")).map(str::to_owned).collect()
    };
    let mut round = 0;
    while rows(&scene).is_empty() {
        rounds::put(&mut client, 0..2000, round);
        round += 1;
        assert!(round < 100, "no job is done");
    }
    for row in rows(&scene) {
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[words.len() - 2..], ["2.5", "team-a"], "{row}");
    }
    let leased =
        sum(&samples(&plane), "firn_control_plane_tenant_leased_bytes_total", &["tenant=\"team-a\""]);
    assert!(leased > 0.0, "{leased}");
    serving.end();
}

/// What is written in so long a time is far more than the rates let through.
const LOADED: Duration = Duration::from_secs(4);

#[test]
fn a_database_writes_to_its_store_as_often_as_it_may() {
    let mut scene = Scene::new(true);
    scene.of_databases = ["--store-rates", "writes=5"].map(str::to_owned).into();
    let _plane = scene.plane();
    let began = Instant::now();
    let serving = scene.serve();
    let mut client = rounds::connect(&serving.address);
    let mut round = 0;
    while began.elapsed() < LOADED {
        rounds::put(&mut client, 0..300, round);
        round += 1;
    }
    let (writes, seconds) = (scene.store().counts().writes as f64, began.elapsed().as_secs_f64());
    // A second's worth goes at once, and what is counted here may have passed a moment later.
    let most = 5.0 * (seconds + 1.5);
    assert!((10.0..=most).contains(&writes), "{writes} writes in {seconds} s, at most {most}");
}

#[test]
fn a_worker_reads_from_its_stores_as_much_as_it_may() {
    let mut scene = Scene::new(true);
    let said = ["--http-port", "0", "--store-rates", "read-bytes=1M"];
    scene.of_workers = said.map(str::to_owned).into();
    let _plane = scene.plane();
    let began = Instant::now();
    let worker = scene.worker("one");
    let serving = scene.serve();
    let mut client = rounds::connect(&serving.address);
    let (mut round, mut read) = (0, 0.0);
    // What was read of a job is told once it has ended.
    while began.elapsed() < LOADED || read == 0.0 {
        rounds::put(&mut client, 0..300, round);
        round += 1;
        read = sum(&samples(&worker), "firn_worker_read_bytes_total", &[]);
        assert!(began.elapsed() < Duration::from_secs(60), "no job has ended");
    }
    let most = 1e6 * 1.05 * (began.elapsed().as_secs_f64() + 1.5);
    assert!(read <= most, "{read} read in {:?}, at most {most}", began.elapsed());
}

#[test]
fn shares_and_rates_that_cannot_be_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (dir, shared) = (path("db"), path("shared"));
    let serve = |words: &[&str]| firn(&[&["serve", "--dir", &dir, "--port", "0"], words].concat());
    for (words, said) in [
        (["--weight", "0"], "0.001 to 1000"),
        (["--weight=-1", "--pin-threads=no"], "0.001 to 1000"),
        (["--tenant", ""], "1 to 256 bytes"),
        (["--store-rates", "reads=-1"], "1 to 1M requests"),
        (["--store-rates", "write-bytes=0"], "1M to 1T bytes"),
        (["--store-rates", "puts=1"], "there are reads, writes, lists"),
        (["--store-rates", "reads=1"], "say --shared"),
    ] {
        let answer = serve(&words);
        assert!(answer.code == 2 && answer.complaint.contains(said), "{words:?}: {answer:?}");
    }
    serve(&["--shared", &shared, "--store-rates", "reads=1"])
        .complained(1, &["is a directory, which nothing limits"]);
    let worker = ["worker", "--control-plane", "http://127.0.0.1:9", "--store-rates", "reads=1"];
    firn(&[&worker[..], &["--within", &shared]].concat()).complained(2, &["no --within names one"]);
    let get = firn(&["get", "--dir", &dir, "--store-rates", "reads=1", "k"]);
    assert!(get.code == 2 && get.complaint.contains("--shared"), "{get:?}");
}
