//! A database on MinIO, compacted by workers, while MinIO is killed and started again.

use std::path::Path;
use std::time::Duration;

use firn_s3_server::Minio;

use crate::job_service::Scene;
use crate::rounds::{self, Model};

const BUCKET: &str = "firn-test";

/// Rounds of writing, each by a server of its own.
const ROUNDS: u32 = 4;

/// Batches of a round, and those after which MinIO is killed.
const BATCHES: u32 = 100;
const KILLED_AFTER: [u32; 3] = [15, 45, 80];

#[test]
#[ignore = "builds MinIO"]
fn a_database_on_minio_that_is_killed_keeps_everything() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = Minio::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("it is built");
    let mut minio = Minio::start(&program, &directory.path().join("minio"), BUCKET).expect("it starts");
    let location = format!("s3://{BUCKET}/db");
    let mut scene = Scene::over(directory, minio.settings().into(), location.clone());
    let _plane = scene.plane();
    let _workers = [scene.worker("one"), scene.worker("two")];
    let mut model = Model::new();
    for round in 0..ROUNDS {
        let mut serving = scene.serve();
        let mut client = rounds::connect(&serving.address);
        rounds::check(&mut client, &model, &format!("round {round}"));
        for batch in 0..BATCHES {
            rounds::write(&mut client, &mut model, (round, batch), 2000);
            if KILLED_AFTER.contains(&batch) {
                minio.kill().expect("it is killed");
                // Long enough for jobs to find it gone.
                std::thread::sleep(Duration::from_millis(500));
                minio.start_again().expect("it starts again");
            }
        }
        if round % 2 == 0 {
            serving.process.kill().expect("it is killed");
            serving.process.wait().expect("it ends");
        } else {
            serving.end();
        }
    }
    minio.start_again().expect("it starts again");
    let serving = scene.serve();
    rounds::check(&mut rounds::connect(&serving.address), &model, "at the end");
    serving.end();
    let doers = scene.doers();
    assert!(doers.contains("one") && doers.contains("two"), "only {doers:?} have done anything");
    let out = scene
        .command("verify")
        .args(["--shared", &location, "--dir", &scene.path("data")])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && said.contains("sound: "), "{out:?}");
    let (kills, sound) = (ROUNDS as usize * KILLED_AFTER.len() + 1, said.lines().last().unwrap_or_default());
    println!("{} keys hold what was written last; MinIO was killed {kills} times; {sound}", model.len());
}
