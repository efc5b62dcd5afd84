//! Users that may read and create, but neither list nor remove.

use firn_objects::ObjectBackend;
use firn_s3_server::{Grant, S3Server, ServerOptions, User};
use firn_storage::{ErrorKind, Storage};

use crate::world::{BUCKET, PART_BYTES, World};

/// Reads tables of the prefix `a`, and creates those with an x in their names.
fn reader_and_writer() -> User {
    let grant = |action: &str, keys: &str| Grant {
        action: action.to_owned(),
        resource: format!("arn:aws:s3:::{BUCKET}/a/{keys}"),
        condition: None,
    };
    let grants = vec![
        grant("s3:GetObject", "*.table"),
        grant("s3:PutObject", "*x*.table"),
        grant("s3:AbortMultipartUpload", "*x*.table"),
    ];
    User { access_key: "limited".to_owned(), secret_key: "limited-secret".to_owned(), grants }
}

#[test]
fn objects_of_many_parts_are_created_without_the_right_to_list() {
    let mut world = World::new();
    let options = ServerOptions { users: vec![reader_and_writer()], ..ServerOptions::default() };
    world.server = S3Server::start(world.directory.path(), options).unwrap();
    let mut options = world.options("a");
    for (name, value) in world.server.settings_of(&reader_and_writer()) {
        options.settings.insert(name.to_owned(), value);
    }
    let backend = ObjectBackend::open(&options, &world.runtime).unwrap();
    let bytes: Vec<u8> = (0..PART_BYTES * 5 / 2).map(|at| (at % 251) as u8).collect();
    let write = |name: &str, bytes: &[u8]| {
        let file = backend.create(name)?;
        file.write_at(0, bytes)?;
        file.sync()
    };
    write("large-x.table", &bytes).unwrap();
    write("small-x.table", b"few").unwrap();
    let mut found = vec![0; bytes.len()];
    backend.open_read_known("large-x.table", bytes.len() as u64).unwrap().read_at(0, &mut found).unwrap();
    assert_eq!(found, bytes);
    // What is there is still found to be.
    assert_eq!(write("large-x.table", &bytes).unwrap_err().kind, ErrorKind::Exists);
    assert_eq!(world.server.denied(), [""; 0]);
    for denied in [
        write("large-y.table", &bytes),
        write("small-y.table", b"few"),
        backend.publish("manifest-1", b"edit"),
        backend.remove("small-x.table"),
        backend.list().map(drop),
    ] {
        let error = denied.unwrap_err();
        assert!(error.to_string().contains("check the credentials and what they allow"), "{error}");
    }
    assert_eq!(world.backend("a").list().unwrap().len(), 2);
    assert!(world.server.denied().len() >= 5, "{:?}", world.server.denied());
}

/// Creates anything of the prefix `a`, and may not even ask what is there.
fn writer() -> User {
    let grant = Grant {
        action: "s3:PutObject".to_owned(),
        resource: format!("arn:aws:s3:::{BUCKET}/a/*"),
        condition: None,
    };
    User { access_key: "blind".to_owned(), secret_key: "blind-secret".to_owned(), grants: vec![grant] }
}

#[test]
fn an_object_of_many_parts_replaces_none_that_its_writer_cannot_see() {
    let mut world = World::new();
    let options = ServerOptions { users: vec![writer()], ..ServerOptions::default() };
    world.server = S3Server::start(world.directory.path(), options).unwrap();
    let write = |backend: &ObjectBackend, byte: u8| {
        let file = backend.create("1.table")?;
        file.write_at(0, &vec![byte; PART_BYTES + 1])?;
        file.sync()
    };
    let backend = world.backend("a");
    write(&backend, 1).unwrap();
    let mut options = world.options("a");
    for (name, value) in world.server.settings_of(&writer()) {
        options.settings.insert(name.to_owned(), value);
    }
    let blind = ObjectBackend::open(&options, &world.runtime).unwrap();
    let error = write(&blind, 2).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    let mut found = vec![0; PART_BYTES + 1];
    backend.open_read("1.table").unwrap().read_at(0, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == 1), "it was replaced");
}
