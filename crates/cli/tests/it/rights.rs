//! Databases and workers that may do in a bucket what the guide's policies say, and nothing else.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use firn_objects::{ObjectBackend, ObjectOptions, Runtime};
use firn_s3_server::{Condition, Grant, ServerOptions, User};
use firn_storage::{ErrorKind, Storage, ThreadSpawn};
use object_store::ObjectStoreExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use serde_json::Value;

use crate::bad_store::{done_elsewhere, status};
use crate::job_service::{BUCKET, Scene};
use crate::parts::{self, Written, is_of_attempt};
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

/// The condition of a statement, if it has one.
fn condition(statement: &Value) -> Option<Condition> {
    let condition = statement.get("Condition")?;
    let all = condition.as_object().expect("operators");
    let (operator, of) = all.iter().next().expect("an operator");
    let (key, value) = of.as_object().and_then(|of| of.iter().next()).expect("a key and its value");
    assert_eq!((all.len(), of.as_object().map(serde_json::Map::len)), (1, Some(1)), "{condition}");
    let value = value.as_str().expect("a text");
    Some(match (operator.as_str(), key.as_str(), value) {
        ("StringLike", "s3:prefix", prefix) => Condition::Prefix(prefix.to_owned()),
        ("Null", "s3:if-none-match", "false") => Condition::IfNoneMatch,
        ("Bool", "s3:ObjectCreationOperation", "false") => Condition::NoObjectCreation,
        _ => panic!("what is {condition}?"),
    })
}

/// What a policy of the guide allows, in the place of these tests.
fn grants(policy: &str) -> Vec<Grant> {
    let policy = policy.replace("BUCKET", BUCKET).replace("PREFIX", "db");
    let policy: Value = serde_json::from_str(&policy).expect("a policy is JSON");
    let mut grants = Vec::new();
    for statement in policy["Statement"].as_array().expect("statements") {
        assert_eq!(statement["Effect"], "Allow");
        for action in texts(&statement["Action"]) {
            for resource in texts(&statement["Resource"]) {
                let (action, condition) = (action.clone(), condition(statement));
                grants.push(Grant { action, resource, condition });
            }
        }
    }
    grants
}

/// The users of the guide: a database, a worker, and a worker that may create and not replace.
fn users() -> [User; 3] {
    let guide =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/security.md"));
    let guide = guide.expect("it is read");
    let policies: Vec<&str> =
        guide.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(policies.len(), 3, "one of a database, then two of a worker");
    let user = |name: &str, policy: &str| User {
        access_key: name.to_owned(),
        secret_key: format!("secret-of-{name}"),
        grants: grants(policy),
    };
    [user("database", policies[0]), user("worker", policies[1]), user("creator", policies[2])]
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

/// Where the server has the objects of `scene`.
fn place(scene: &Scene) -> PathBuf {
    PathBuf::from(scene.path("shared")).join(BUCKET).join("db")
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
        let reason = status(client, "jobs_passed_on_reason");
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
    let [database, worker, _] = users();
    // As the guide had it before databases aborted uploads.
    let mut older = User { access_key: "older".to_owned(), ..database.clone() };
    older.grants.retain(|grant| grant.action != "s3:ListBucketMultipartUploads");
    let users = vec![database.clone(), worker.clone(), older.clone()];
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
    let place = place(&scene);
    std::fs::write(place.join(left), b"half of it").expect("it is left");
    let upload = leave_upload(&scene, &worker, left);
    let second = scene.worker("two");
    let enough = done_elsewhere(&mut client) + 3;
    write_while(&scene, &mut client, &mut model, |client| done_elsewhere(client) < enough);
    rounds::check(&mut client, &model, "as it goes on");
    serving.end();
    drop(second);
    let again = scene.serve();
    rounds::check(&mut rounds::connect(&again.address), &model, "after another opening");
    again.end();
    // No process has asked for anything that its user may not do.
    assert_eq!(scene.store().denied(), [""; 0]);
    assert!(!place.join(left).exists(), "{left} is still there");
    let is_there =
        |scene: &Scene, id: &str| scene.store().unfinished_uploads().iter().any(|upload| upload.id == *id);
    assert!(!is_there(&scene, &upload), "its upload is still there");
    let data = scene.path("data");
    let verified =
        call_as(&scene, &database, &["verify", "--shared", &scene.location, "--dir", &data]).ended(0);
    assert!(!verified.contains("no manifest edit names it"), "{verified}");
    // A server whose user may not list uploads serves as well, and leaves them.
    let upload = leave_upload(&scene, &worker, left);
    scene.settings = scene.store().settings_of(&older).into();
    scene.serve().end();
    let of_uploads = scene.store().denied();
    assert_eq!(of_uploads, [format!("older s3:ListBucketMultipartUploads arn:aws:s3:::{BUCKET} db/")]);
    assert!(is_there(&scene, &upload));
    scene.settings = scene.store().settings_of(&database).into();
    scene.serve().end();
    assert!(!is_there(&scene, &upload));
    // And a worker may not do what a database does.
    let mut files = std::fs::read_dir(&place).expect("objects").flatten();
    let manifest = files
        .find_map(|file| file.file_name().into_string().ok().filter(|name| name.starts_with("manifest-")));
    let manifest = manifest.expect("an edit");
    let denied = call_as(&scene, &worker, &["inspect", "--shared", &scene.location, &manifest]);
    denied.complained(1, &["check the credentials and what they allow"]);
    let elsewhere = scene.path("elsewhere");
    let taken = ["put", "--shared", &scene.location, "--take-over", "--dir", &elsewhere, "k", "v"];
    let taken = call_as(&scene, &worker, &taken);
    assert!(taken.code != 0 && taken.complaint.contains("check the credentials"), "{taken:?}");
    assert!(scene.store().denied().len() > of_uploads.len());
}

/// Names of objects in `place` that attempts at jobs have made.
fn made_by_attempts(place: &std::path::Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(place).expect("objects").flatten();
    names.filter_map(|file| file.file_name().into_string().ok()).filter(|name| is_of_attempt(name)).collect()
}

/// Whether attempts have made a table of parts, and a blob segment in one request.
fn has_both_forms(scene: &Scene, place: &std::path::Path) -> bool {
    let of_parts = scene.store().completed_uploads();
    let is_one = |name: &String| !of_parts.contains(&format!("{BUCKET}/db/{name}"));
    of_parts.iter().any(|key| key.ends_with(".table") && is_of_attempt(key))
        && made_by_attempts(place).iter().any(|name| name.ends_with(".blobs") && is_one(name))
}

/// A client of the store with the credentials of `user` that is none of Firn's programs.
fn client(scene: &Scene, user: &User) -> AmazonS3 {
    // The process has one provider; the first one is as good.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let [endpoint, region, key, secret] = scene.store().settings_of(user).map(|(_, value)| value);
    AmazonS3Builder::new()
        .with_bucket_name(BUCKET)
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_region(region)
        .with_access_key_id(key)
        .with_secret_access_key(secret)
        .build()
        .expect("a client")
}

/// Begins an upload of the object `name` as `user`, and leaves it; its id.
fn leave_upload(scene: &Scene, user: &User, name: &str) -> String {
    let (store, path) = (client(scene, user), Path::from(format!("db/{name}")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(store.create_multipart(&path)).expect("an upload begins")
}

/// What becomes of the object `name` where a foreign program with the credentials of `user`
/// replaces it: in one request, and in parts.
fn replace(scene: &Scene, user: &User, name: &str) -> [object_store::Result<()>; 2] {
    let (store, path) = (client(scene, user), Path::from(format!("db/{name}")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let whole = store.put(&path, "forged".into()).await.map(drop);
        let in_parts = async {
            let mut upload = store.put_multipart(&path).await.expect("an upload begins");
            upload.put_part("forged".into()).await.expect("a part is taken");
            upload.complete().await.map(drop)
        };
        [whole, in_parts.await]
    })
}

#[test]
#[ignore = "minutes; the full tier runs it"]
fn a_worker_that_may_create_and_not_replace_does_its_work_and_replaces_nothing() {
    let [database, worker, creator] = users();
    let users = vec![database.clone(), worker.clone(), creator.clone()];
    let mut scene = Scene::with_store(Some(ServerOptions { users, ..ServerOptions::default() }));
    std::fs::write(scene.path("settings.toml"), parts::SETTINGS).expect("written");
    scene.of_databases = vec!["--memory-bytes".to_owned(), "128M".to_owned()];
    scene.settings_of_workers = Some(scene.store().settings_of(&creator).into());
    scene.settings = scene.store().settings_of(&database).into();
    let _plane = scene.plane();
    let one = scene.worker("one");
    let serving = scene.serve();
    let (mut client, mut written, place) =
        (rounds::connect(&serving.address), Written::new(1), place(&scene));
    let end = Instant::now() + Duration::from_secs(400);
    while done_elsewhere(&mut client) < 5 || !has_both_forms(&scene, &place) {
        let reason = status(&mut client, "jobs_passed_on_reason");
        assert!(Instant::now() < end, "{reason} {:?}", scene.store().denied());
        written.write(&mut client);
    }
    written.check(&mut client, "as it goes on");
    serving.end();
    drop(one);
    // What attempts left is gone after another opening, and what there is is the database's.
    let again = scene.serve();
    written.check(&mut rounds::connect(&again.address), "after another opening");
    again.end();
    assert_eq!(scene.store().denied(), [""; 0]);
    // What is there is replaced neither by Firn's programs, nor by others that have the worker's
    // credentials.
    let name = made_by_attempts(&place).pop_first().expect("an output");
    let bytes = || std::fs::read(place.join(&name)).expect("it is there");
    let before = bytes();
    let mut options = ObjectOptions::new(scene.location.clone());
    options
        .settings
        .extend(scene.store().settings_of(&creator).map(|(name, value)| (name.to_owned(), value)));
    let runtime = Runtime::start(&ThreadSpawn::new()).expect("a thread");
    let own = ObjectBackend::open(&options, &runtime).expect("a backend");
    assert_eq!(own.publish(&name, b"forged").expect_err("it is there").kind, ErrorKind::Exists);
    assert_eq!(scene.store().denied(), [""; 0]);
    for replaced in replace(&scene, &creator, &name) {
        let error = replaced.expect_err("it is there");
        assert!(matches!(error, object_store::Error::PermissionDenied { .. }), "{error}");
    }
    let denied = scene.store().denied();
    assert!(
        denied.len() == 2 && denied.iter().all(|it| it.starts_with("creator s3:PutObject ")),
        "{denied:?}"
    );
    assert!(bytes() == before, "{name} was replaced");
    let data = scene.path("data");
    call_as(&scene, &database, &["verify", "--shared", &scene.location, "--dir", &data]).ended(0);
    // The other policy does not prevent that.
    for replaced in replace(&scene, &worker, &name) {
        replaced.expect("it is done");
        assert!(bytes() == b"forged");
    }
}
