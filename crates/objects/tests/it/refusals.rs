//! What people do wrong, and what they are told.

use firn_objects::ObjectPlace;
use firn_s3_server::Faults;
use firn_storage::{ErrorKind, Storage};

use crate::world::{World, clock};

/// A publication fails with `kind`, and its message has `words`.
pub(crate) fn refuses(place: &dyn Storage, kind: ErrorKind, words: &[&str]) {
    let error = place.publish("1.manifest", b"edit").unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "expected {word:?} in: {error}");
    }
}

#[test]
fn a_missing_bucket_is_named() {
    let world = World::new();
    let mut options = world.options("a");
    options.url = "s3://no-such-bucket/a".to_owned();
    let place = ObjectPlace::open(&options, &world.runtime, clock()).unwrap();
    refuses(&place, ErrorKind::Invalid, &["s3://no-such-bucket/a", "the bucket does not exist; create it"]);
    let error = place.list().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
}

#[test]
fn wrong_credentials_are_said_to_be_so_and_not_shown() {
    let world = World::new();
    let mut options = world.options("a");
    options.settings.insert("AWS_SECRET_ACCESS_KEY".to_owned(), "not-the-secret".to_owned());
    options.retries_max = 0;
    let place = ObjectPlace::open(&options, &world.runtime, clock()).unwrap();
    refuses(&place, ErrorKind::Refused, &["check the credentials"]);
    let error = place.publish("1.manifest", b"edit").unwrap_err();
    assert!(!error.to_string().contains("not-the-secret"), "{error}");
}

#[test]
fn a_store_that_is_read_only_or_full_says_so_and_goes_on_afterwards() {
    let world = World::new();
    let mut options = world.options("a");
    options.retries_max = 1;
    let place = ObjectPlace::open(&options, &world.runtime, clock()).unwrap();
    world.server.set_faults(Faults { is_read_only: true, ..Faults::default() });
    refuses(&place, ErrorKind::Refused, &["check the credentials and what they allow"]);
    world.server.set_faults(Faults { is_full: true, ..Faults::default() });
    refuses(&place, ErrorKind::Full, &["the store is full; make room there"]);
    world.server.set_faults(Faults::default());
    place.publish("1.manifest", b"edit").unwrap();
}

#[test]
fn a_server_that_is_gone_is_waited_for_as_long_as_it_is_said() {
    let world = World::new();
    let mut options = world.options("a");
    options.retry_timeout = std::time::Duration::from_millis(300);
    options.retries_max = 3;
    let place = ObjectPlace::open(&options, &world.runtime, clock()).unwrap();
    place.publish("1.manifest", b"edit").unwrap();
    drop(world.server);
    let error = place.open_read("1.manifest").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    let error = place.publish("2.manifest", b"edit").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Undecided, "{error}");
}
