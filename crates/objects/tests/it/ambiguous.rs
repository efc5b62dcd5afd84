//! Answers that do not arrive, or that are about an earlier try.

use std::sync::Arc;

use firn_objects::{ObjectBackend, ObjectOptions};
use firn_storage::{ErrorKind, Storage};
use object_store::path::Path;

use crate::lying::{Answer, Lying};
use crate::world::runtime;

fn backend(store: &Arc<Lying>) -> ObjectBackend {
    let options = ObjectOptions { part_bytes: 10, ..ObjectOptions::new("lying") };
    ObjectBackend::over(Arc::clone(store) as _, Path::from("db"), &options, &runtime())
}

fn content(backend: &ObjectBackend, name: &str) -> Vec<u8> {
    let file = backend.open_read(name).unwrap();
    let mut out = vec![0; file.len() as usize];
    file.read_at(0, &mut out).unwrap();
    out
}

#[test]
fn what_is_there_decides_where_an_answer_does_not() {
    for answer in [Answer::DoneAndLost, Answer::DoneTwice] {
        let store = Lying::new(&[answer]);
        let backend = backend(&store);
        backend.publish("1.manifest", b"mine").unwrap();
        assert_eq!(content(&backend, "1.manifest"), b"mine", "{answer:?}");
        let error = backend.publish("1.manifest", b"yours").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Exists, "{answer:?}: {error}");
    }
    // Another writer's object is there, and the answer to this one is lost.
    let store = Lying::new(&[]);
    let backend = backend(&store);
    backend.publish("1.manifest", b"theirs").unwrap();
    store.answer_next(Answer::Lost);
    let error = backend.publish("1.manifest", b"mine").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Exists, "{error}");
    // Nothing is there, but it may still arrive.
    store.answer_next(Answer::Lost);
    let error = backend.publish("2.manifest", b"mine").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Undecided, "{error}");
    assert!(error.to_string().contains("not known whether that was done"), "{error}");
}

#[test]
fn what_cannot_be_looked_at_is_undecided_and_what_is_refused_is_not() {
    for answer in [Answer::DoneAndLost, Answer::DoneTwice, Answer::Lost] {
        let store = Lying::new(&[answer]);
        let backend = backend(&store);
        store.set_unreadable(true);
        let error = backend.publish("1.manifest", b"mine").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Undecided, "{answer:?}: {error}");
        store.set_unreadable(false);
        assert_eq!(backend.list().unwrap().len(), usize::from(answer != Answer::Lost));
    }
    let store = Lying::new(&[Answer::Denied]);
    let backend = backend(&store);
    let error = backend.publish("1.manifest", b"mine").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("check the credentials"), "{error}");
}

#[test]
fn a_file_whose_answer_is_lost_is_there_once() {
    let answers = [(Answer::DoneAndLost, true), (Answer::DoneTwice, true), (Answer::Lost, false)];
    // In one request, and in parts.
    for (bytes, answers) in [(5, &answers[..]), (20, &[answers[0], answers[2]])] {
        for (answer, is_there) in answers {
            let store = Lying::new(&[*answer]);
            let backend = backend(&store);
            let file = backend.create("a.table").unwrap();
            file.write_at(0, &vec![1; bytes]).unwrap();
            let synced = file.sync();
            assert_eq!(synced.is_ok(), *is_there, "{bytes} bytes, {answer:?}: {synced:?}");
            let expected: &[(String, u64)] =
                if *is_there { &[("a.table".to_owned(), bytes as u64)] } else { &[] };
            assert_eq!(backend.list().unwrap(), expected, "{bytes} bytes, {answer:?}");
            assert_eq!(file.sync().is_ok(), *is_there, "what failed is final");
        }
    }
}

/// The mark of an object in parts names its owner, and not its length.
#[test]
fn an_object_of_somebody_else_that_is_as_long_is_not_taken_for_ones_own() {
    let store = Lying::new(&[Answer::Another]);
    let backend = backend(&store);
    let file = backend.create("a.table").unwrap();
    file.write_at(0, &[1; 25]).unwrap();
    let error = file.sync().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Exists, "{error}");
}

/// A writer that tries again under another name meets neither: the database goes on.
#[test]
fn parts_that_are_gone_and_answers_that_nobody_can_explain_may_pass() {
    for answer in [Answer::Gone, Answer::DoneOutOfSight] {
        let store = Lying::new(&[answer]);
        let backend = backend(&store);
        let file = backend.create("a.table").unwrap();
        file.write_at(0, &[1; 25]).unwrap();
        let error = file.sync().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{answer:?}: {error}");
    }
}
