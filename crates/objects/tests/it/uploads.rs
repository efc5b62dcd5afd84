//! Uploads in parts that were begun and are never ended.

use std::sync::Arc;
use std::time::Duration;

use firn_objects::{ObjectBackend, ObjectOptions};
use firn_s3_server::{Condition, Faults, Grant, S3Server, ServerOptions, User};
use firn_storage::backend::{Limits, Throttle, UnfinishedUpload};
use firn_storage::{Clock, ErrorKind, ManualClock, Storage};
use object_store::aws::AmazonS3Builder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;

use crate::lying::Lying;
use crate::refusals::{backend_of, backend_saying};
use crate::world::{BUCKET, PART_BYTES, World, runtime};

/// Begins an upload of the object `key` and leaves it.
fn leave(world: &World, key: &str) -> String {
    let [endpoint, region, access_key, secret] = world.server.settings().map(|(_, value)| value);
    let builder =
        AmazonS3Builder::new().with_bucket_name(BUCKET).with_endpoint(endpoint).with_allow_http(true);
    let builder = builder.with_region(region).with_access_key_id(access_key).with_secret_access_key(secret);
    let store = builder.build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.create_multipart(&Path::from(key))).unwrap()
}

fn names(uploads: &[UnfinishedUpload]) -> Vec<&str> {
    uploads.iter().map(|upload| upload.name.as_str()).collect()
}

/// The world's server again, for others too.
fn serve(world: &mut World, options: ServerOptions) {
    world.server = S3Server::start(world.directory.path(), options).unwrap();
}

#[test]
fn uploads_of_a_backend_are_listed_page_by_page_and_aborted_one_by_one() {
    let mut world = World::new();
    serve(&mut world, ServerOptions { uploads_page_max: 2, ..ServerOptions::default() });
    let backend = world.backend("a");
    assert_eq!(backend.unfinished_uploads().unwrap(), []);
    let ids = ["a/1.table", "a/2.table", "a/1.table", "a/b/3.table", "a/4.blobs", "ab/5.table", "6.table"]
        .map(|key| leave(&world, key));
    backend.publish("2.table", b"whole").unwrap();
    let before = world.server.counts();
    let found = backend.unfinished_uploads().unwrap();
    assert_eq!(names(&found), ["1.table", "1.table", "2.table", "4.blobs"]);
    assert_eq!(world.server.counts().lists - before.lists, 2, "two of the four in this directory a page");
    backend.abort_upload(&found[1]).unwrap();
    backend.abort_upload(&found[2]).unwrap();
    let again = backend.abort_upload(&found[1]).unwrap_err();
    assert_eq!(again.kind, ErrorKind::NotFound, "{again}");
    assert_eq!(backend.unfinished_uploads().unwrap(), [found[0].clone(), found[3].clone()]);
    assert_eq!(backend.open_read("2.table").unwrap().len(), 5, "an object of the name stays");
    // Uploads of a whole bucket are uploads of keys in no directory of it.
    let mut options = world.options("");
    options.url = format!("s3://{BUCKET}");
    let all = ObjectBackend::open(&options, &world.runtime).unwrap();
    assert_eq!(
        all.unfinished_uploads().unwrap(),
        [UnfinishedUpload { name: "6.table".to_owned(), id: ids[6].clone() }]
    );
}

#[test]
fn a_file_of_many_parts_is_an_upload_while_it_is_written() {
    let world = World::new();
    let backend = world.backend("a");
    let write = || {
        let file = backend.create("1.table").unwrap();
        file.write_at(0, &vec![1; 2 * PART_BYTES + 1]).unwrap();
        file
    };
    let file = write();
    let found = backend.unfinished_uploads().unwrap();
    assert_eq!(names(&found), ["1.table"]);
    backend.abort_upload(&found[0]).unwrap();
    // Its writer fails, and another writer does not.
    let error = file.sync().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    let file = write();
    file.sync().unwrap();
    assert_eq!(backend.unfinished_uploads().unwrap(), []);
    assert_eq!(backend.list().unwrap(), [("1.table".to_owned(), 2 * PART_BYTES as u64 + 1)]);
}

/// A user that may do `actions` with the prefix `a`, and list uploads of the whole bucket.
fn user(access_key: &str, actions: &[&str]) -> User {
    let grant = |action: &&str| Grant {
        action: (*action).to_owned(),
        resource: match action.contains("List") {
            true => format!("arn:aws:s3:::{BUCKET}"),
            false => format!("arn:aws:s3:::{BUCKET}/a/*"),
        },
        condition: (*action == "s3:ListBucket").then(|| Condition::Prefix("a/*".to_owned())),
    };
    let grants = actions.iter().map(grant).collect();
    User { access_key: access_key.to_owned(), secret_key: "secret".to_owned(), grants }
}

#[test]
fn who_may_not_ask_for_uploads_is_told_so_and_that_is_no_failure_that_passes() {
    let mut world = World::new();
    let users = [
        user("none", &["s3:ListBucket", "s3:DeleteObject"]),
        user("lists", &["s3:ListBucketMultipartUploads"]),
        user("both", &["s3:ListBucketMultipartUploads", "s3:AbortMultipartUpload"]),
    ];
    serve(&mut world, ServerOptions { users: users.to_vec(), ..ServerOptions::default() });
    leave(&world, "a/1.table");
    let backend = |user: &User, prefix: &str| {
        let mut options = world.options(prefix);
        let settings = world.server.settings_of(user);
        options.settings.extend(settings.map(|(name, value)| (name.to_owned(), value)));
        ObjectBackend::open(&options, &world.runtime).unwrap()
    };
    let denied = |error: firn_storage::Error| {
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("check the credentials and what they allow"), "{error}");
    };
    denied(backend(&users[0], "a").unfinished_uploads().unwrap_err());
    let found = backend(&users[1], "a").unfinished_uploads().unwrap();
    denied(backend(&users[1], "a").abort_upload(&found[0]).unwrap_err());
    backend(&users[2], "a").abort_upload(&found[0]).unwrap();
    assert_eq!(world.backend("a").unfinished_uploads().unwrap(), []);
}

#[test]
fn a_store_that_lists_no_uploads_is_told_from_one_that_fails_for_a_time() {
    let upload = UnfinishedUpload { name: "1.table".to_owned(), id: "1".to_owned() };
    for (status, code, kind) in [
        (501, "NotImplemented", ErrorKind::Invalid),
        (405, "MethodNotAllowed", ErrorKind::Invalid),
        (400, "InvalidArgument", ErrorKind::Invalid),
        (403, "AccessDenied", ErrorKind::Invalid),
        (400, "ExpiredToken", ErrorKind::Refused),
        (403, "RequestTimeTooSkewed", ErrorKind::Refused),
        (404, "NoSuchBucket", ErrorKind::Refused),
        (500, "InternalError", ErrorKind::Refused),
        (429, "TooManyRequests", ErrorKind::Refused),
    ] {
        let error = backend_of([(status, code)]).unfinished_uploads().unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(code) && !error.to_string().contains("secret"), "{error}");
    }
    for (status, code, kind) in [
        (405, "MethodNotAllowed", ErrorKind::Invalid),
        (403, "AccessDenied", ErrorKind::Invalid),
        (404, "NoSuchUpload", ErrorKind::NotFound),
        (429, "TooManyRequests", ErrorKind::Refused),
    ] {
        let error = backend_of([(status, code)]).abort_upload(&upload).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
    // What has no end is no list.
    let marker = "<NextKeyMarker>a/1.table</NextKeyMarker>";
    for answer in [
        "all is well".to_owned(),
        "<Result><IsTruncated>true</IsTruncated></Result>".to_owned(),
        format!("<Result><IsTruncated>true</IsTruncated>{marker}</Result>"),
    ] {
        let error = backend_saying([(200, answer)]).unfinished_uploads().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
    // Other stores have no such request here.
    let options = ObjectOptions::new("lying");
    let other = ObjectBackend::over(Lying::new(&[]), Path::from("db"), &options, &runtime());
    assert_eq!(other.unfinished_uploads().unwrap(), []);
    assert_eq!(other.abort_upload(&upload).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn answers_about_uploads_that_are_lost_may_pass() {
    let world = World::new();
    leave(&world, "a/1.table");
    let options = ObjectOptions { retries_max: 1, ..world.options("a") };
    let backend = ObjectBackend::open(&options, &world.runtime).unwrap();
    let found = backend.unfinished_uploads().unwrap();
    let lost = Faults { lost_per_mille: 1000, ..Faults::default() };
    for faults in [lost.clone(), Faults { refused_per_mille: 1000, ..Faults::default() }] {
        world.server.set_faults(faults);
        let before = world.server.counts();
        let error = backend.unfinished_uploads().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert_eq!(world.server.counts().lists - before.lists, 2, "and once more");
    }
    // It is done, and there is no answer.
    world.server.set_faults(lost);
    let error = backend.abort_upload(&found[0]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    world.server.set_faults(Faults::default());
    assert_eq!(backend.unfinished_uploads().unwrap(), []);
}

#[test]
fn lists_of_uploads_count_as_lists_and_aborts_as_removals() {
    let world = World::new();
    let ids = [1, 2].map(|_| leave(&world, "a/1.table"));
    let clock = Arc::new(ManualClock::new(0));
    clock.advance(Duration::from_secs(10));
    let limits = Limits { lists_per_second: Some(1), removals_per_second: Some(2), ..Limits::default() };
    let throttle = Throttle::new(&limits, Arc::clone(&clock) as Arc<dyn Clock>);
    let options = ObjectOptions { throttle: Some(Arc::new(throttle)), ..world.options("a") };
    let backend = ObjectBackend::open(&options, &world.runtime).unwrap();
    let waits = |ask: &dyn Fn()| {
        let before = clock.now();
        ask();
        (clock.now() - before).as_millis()
    };
    let list = || drop(backend.unfinished_uploads().unwrap());
    assert_eq!([waits(&list), waits(&list), waits(&|| drop(backend.list().unwrap()))], [0, 1000, 1000]);
    let abort = |id: &String| {
        let upload = UnfinishedUpload { name: "1.table".to_owned(), id: id.clone() };
        waits(&|| backend.abort_upload(&upload).unwrap())
    };
    let removal = || drop(backend.remove("2.table"));
    assert_eq!([abort(&ids[0]), abort(&ids[1]), waits(&removal)], [0, 0, 500]);
}
