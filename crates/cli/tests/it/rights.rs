//! Databases and workers that may do in a bucket what the guide's policies say, and nothing else.

use std::time::{Duration, Instant};

use firn_s3_server::{Grant, ServerOptions, User};
use serde_json::Value;

use crate::bad_store::{done_elsewhere, told};
use crate::job_service::{BUCKET, Scene};
use crate::program::Answer;
use crate::rounds::{self, Model};

/// Keys, of some 1400 bytes each.
const KEYS: u32 = 2000;

/// It is asked so often in each round whether to go on.
const STEPS: u32 = 20;

/// The texts of one JSON value that is a text or several.
fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    all.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

/// What a policy of the guide allows, in the place of these tests.
fn grants(policy: &str) -> Vec<Grant> {
    let policy = policy.replace("BUCKET", BUCKET).replace("PREFIX", "db");
    let policy: Value = serde_json::from_str(&policy).expect("a policy is JSON");
    let mut grants = Vec::new();
    for statement in policy["Statement"].as_array().expect("statements") {
        assert_eq!(statement["Effect"], "Allow");
        let condition = &statement["Condition"];
        let prefix = condition["StringLike"]["s3:prefix"].as_str().map(str::to_owned);
        assert_eq!(condition.is_null(), prefix.is_none(), "{condition}");
        for action in texts(&statement["Action"]) {
            for resource in texts(&statement["Resource"]) {
                let (action, prefix) = (action.clone(), prefix.clone());
                grants.push(Grant { action, resource, prefix });
            }
        }
    }
    grants
}

/// The users of the guide: a database and a worker.
fn users() -> [User; 2] {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md"));
    let guide = guide.expect("it is read");
    let policies: Vec<&str> =
        guide.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(policies.len(), 2, "one of a database, then one of a worker");
    let user = |name: &str, policy: &str| User {
        access_key: name.to_owned(),
        secret_key: format!("secret-of-{name}"),
        grants: grants(policy),
    };
    [user("database", policies[0]), user("worker", policies[1])]
}

/// `firn` with what `user` is told of the store.
fn call_as(scene: &Scene, user: &User, words: &[&str]) -> Answer {
    let mut command = scene.command(words[0]);
    command.envs(scene.store().settings_of(user)).args(&words[1..]);
    let output = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Answer {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        complaint: text(output.stderr),
    }
}

/// Writes everything over and over for as long as `goes_on`, a minute and a half at most.
fn write_while(
    scene: &Scene,
    client: &mut redis::Connection,
    model: &mut Model,
    mut goes_on: impl FnMut(&mut redis::Connection) -> bool,
) {
    let end = Instant::now() + Duration::from_secs(90);
    let mut step = 0;
    let first = model.values().max().map_or(0, |last| last + 1);
    while goes_on(client) {
        let reason = told(client, "compaction_fallback_reason");
        assert!(Instant::now() < end, "{reason} {:?}", scene.store().denied());
        let (round, from) = (first + step / STEPS, step % STEPS * (KEYS / STEPS));
        let keys = from..from + KEYS / STEPS;
        rounds::put(client, keys.clone(), round);
        model.extend(keys.map(|key| (key, round)));
        step += 1;
    }
}

#[test]
fn databases_and_workers_need_no_more_rights_than_the_guide_gives_them() {
    let [database, worker] = users();
    let users = vec![database.clone(), worker.clone()];
    let mut scene = Scene::with_store(Some(ServerOptions { users, ..ServerOptions::default() }));
    scene.settings_of_workers = Some(scene.store().settings_of(&worker).into());
    scene.settings = scene.store().settings_of(&database).into();
    let _plane = scene.plane();
    let first = scene.worker("one");
    let serving = scene.serve();
    let (mut client, mut model) = (rounds::connect(&serving.address), Model::new());
    write_while(&scene, &mut client, &mut model, |client| done_elsewhere(client) < 5);
    // What a worker leaves that is killed amid a job is the database's to remove.
    drop(first);
    let left = "00000001-00000001-0123456789abcdef-000000.table";
    let place = std::path::PathBuf::from(scene.path("shared")).join(BUCKET).join("db");
    std::fs::write(place.join(left), b"half of it").expect("it is left");
    let second = scene.worker("two");
    let enough = done_elsewhere(&mut client) + 3;
    write_while(&scene, &mut client, &mut model, |client| done_elsewhere(client) < enough);
    rounds::check(&mut client, &model, "as it goes on");
    serving.end();
    drop(second);
    let again = scene.serve();
    rounds::check(&mut rounds::connect(&again.address), &model, "after another opening");
    again.end();
    // Nobody has asked for anything that he may not.
    assert_eq!(scene.store().denied(), [""; 0]);
    assert!(!place.join(left).exists(), "{left} is still there");
    let data = scene.path("data");
    let verified = call_as(&scene, &database, &["verify", "--shared", &scene.place, &data]).ended(0);
    assert!(!verified.contains("no manifest edit names it"), "{verified}");
    // And a worker may not do what a database does.
    let mut files = std::fs::read_dir(&place).expect("objects").flatten();
    let manifest = files
        .find_map(|file| file.file_name().into_string().ok().filter(|name| name.starts_with("manifest-")));
    let manifest = manifest.expect("an edit");
    let denied = call_as(&scene, &worker, &["inspect", "--shared", &scene.place, &manifest]);
    denied.complained(1, &["check the credentials and what they allow"]);
    let elsewhere = scene.path("elsewhere");
    let taken = ["put", "--shared", &scene.place, "--take-over", "--dir", &elsewhere, "k", "v"];
    let taken = call_as(&scene, &worker, &taken);
    assert!(taken.code != 0 && taken.complaint.contains("check the credentials"), "{taken:?}");
    assert!(!scene.store().denied().is_empty());
}
