//! What a backend must do whose files are objects: written once, there as a whole or not at all,
//! never changed.

use std::sync::Arc;

use super::{
    content, fails, lengths_that_are_known_are_checked, names_are_checked_for, of_two_publishers_one_wins,
    open, publications, put,
};
use crate::{ErrorKind, Storage};

/// Holds backends of objects to what is left of the contract of [`Storage`] for them, one fresh and
/// empty backend from `make` for each rule. An object of `large_bytes` is large enough for the
/// backend to write it in parts.
///
/// # Panics
/// Where a backend differs, saying how.
pub fn check_objects(make: &dyn Fn() -> Arc<dyn Storage>, large_bytes: usize) {
    check_objects_whose_parts_stay(make, large_bytes);
    parts_take_no_name(&*make(), large_bytes);
}

/// As [`check_objects`], of a store that has no way to remove the parts of a file that was dropped
/// unfinished. While they are there, it may answer that a file of that name which is written in one
/// request is there.
///
/// # Panics
/// Where a backend differs, saying how.
pub fn check_objects_whose_parts_stay(make: &dyn Fn() -> Arc<dyn Storage>, large_bytes: usize) {
    files_are_whole_or_missing(&*make(), large_bytes);
    files_are_written_once_and_in_order(&*make());
    what_is_dropped_unfinished_leaves_nothing(&*make(), large_bytes);
    names_are_checked_for(&*make());
    ranges_are_read(&*make(), large_bytes);
    lengths_that_are_known_are_checked(&*make());
    publications(&*make());
    what_is_published_again_is_the_publishers_own(&*make());
    of_two_publishers_one_wins(&*make());
    removed_files_are_gone(&*make());
    what_objects_cannot_do_is_refused(&*make());
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

fn files_are_whole_or_missing(backend: &dyn Storage, large_bytes: usize) {
    assert_eq!(backend.list().expect("list"), [], "a new backend is empty");
    for (name, bytes) in [("1.table", 0), ("2.table", 5), ("3.table", large_bytes)] {
        let file = backend.create(name).expect("create");
        let expected = pattern(bytes);
        for (index, piece) in expected.chunks(100_000).enumerate() {
            file.write_at(index as u64 * 100_000, piece).expect("write");
        }
        fails(backend.open_read(name), ErrorKind::NotFound, "reading what is not whole yet");
        file.sync().expect("sync");
        file.sync().expect("sync again");
        assert_eq!(content(backend, name), expected, "{name}");
    }
    let expected = [("1.table", 0), ("2.table", 5), ("3.table", large_bytes as u64)];
    assert_eq!(backend.list().expect("list"), expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    for (bytes, what) in [(3, "a small one"), (large_bytes, "a large one")] {
        let file = backend.create("2.table").expect("create");
        file.write_at(0, &vec![9; bytes]).expect("write");
        fails(file.sync(), ErrorKind::Exists, &format!("{what} whose name is taken"));
        fails(file.sync(), ErrorKind::Exists, "what failed is final");
    }
    assert_eq!(content(backend, "2.table"), pattern(5), "nothing is overwritten");
}

fn files_are_written_once_and_in_order(backend: &dyn Storage) {
    let file = backend.create("a").expect("create");
    file.allocate(1 << 20).expect("allocate");
    file.write_at(0, b"one").expect("write");
    file.write_back(0, 3).expect("write back");
    file.set_len(3).expect("the length it has");
    fails(file.set_len(2), ErrorKind::Invalid, "another length");
    fails(file.write_at(4, b"gap"), ErrorKind::Invalid, "a gap");
    let file = backend.create("b").expect("create");
    file.write_at(0, b"one").expect("write");
    file.sync().expect("sync");
    fails(file.write_at(3, b"two"), ErrorKind::Invalid, "writing after the sync");
    assert_eq!(content(backend, "b"), b"one");
}

fn what_is_dropped_unfinished_leaves_nothing(backend: &dyn Storage, large_bytes: usize) {
    for (name, bytes) in [("a", 10), ("b", large_bytes)] {
        drop_unfinished(backend, name, bytes);
        assert_eq!(backend.list().expect("list"), []);
        fails(backend.open_read(name), ErrorKind::NotFound, "reading what is not there");
        let expected = pattern(bytes);
        put(backend, name, &expected);
        assert_eq!(content(backend, name), expected, "the name is free");
        backend.remove(name).expect("remove");
    }
}

fn parts_take_no_name(backend: &dyn Storage, large_bytes: usize) {
    drop_unfinished(backend, "a", large_bytes);
    put(backend, "a", b"now");
    assert_eq!(content(backend, "a"), b"now", "the name is free");
}

fn drop_unfinished(backend: &dyn Storage, name: &str, bytes: usize) {
    let file = backend.create(name).expect("create");
    file.write_at(0, &vec![1; bytes]).expect("write");
}

fn ranges_are_read(backend: &dyn Storage, bytes: usize) {
    let expected = pattern(bytes);
    put(backend, "a.table", &expected);
    let file = open(backend, "a.table");
    assert_eq!(file.len(), bytes as u64);
    let asked = [(0, 1), (1, 70_000), (bytes / 2, bytes / 2), (bytes - 1, 1), (bytes, 0)];
    for ahead in [false, true] {
        for (offset, len) in asked {
            if ahead {
                file.will_need(offset as u64, len as u64 + 10);
            }
            let mut out = vec![0; len];
            file.read_at(offset as u64, &mut out).expect("read");
            assert_eq!(out, expected[offset..offset + len], "{len} bytes from {offset}");
        }
    }
    for (offset, len) in [(0, bytes + 1), (bytes, 1), (usize::MAX, 2)] {
        let error = file.read_at(offset as u64, &mut vec![0; len]).expect_err("a read beyond the end");
        assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Corrupt, "a.table"), "{error}");
    }
}

fn what_is_published_again_is_the_publishers_own(backend: &dyn Storage) {
    backend.publish("1.manifest", b"mine").expect("publish");
    backend.publish("1.manifest", b"mine").expect("an answer that was lost");
    fails(backend.publish("1.manifest", b"yours"), ErrorKind::Exists, "another one");
}

fn removed_files_are_gone(backend: &dyn Storage) {
    put(backend, "a", b"bytes");
    let file = open(backend, "a");
    backend.remove("a").expect("remove");
    assert_eq!(backend.list().expect("list"), []);
    fails(backend.open_read("a"), ErrorKind::NotFound, "reading a removed file");
    assert!(file.read_at(0, &mut [0; 5]).is_err(), "what is open is gone too");
}

fn what_objects_cannot_do_is_refused(backend: &dyn Storage) {
    put(backend, "a", b"bytes");
    fails(backend.open_write("a"), ErrorKind::Invalid, "writing to an object");
    fails(backend.rename("a", "b"), ErrorKind::Invalid, "renaming an object");
    let nowhere = std::path::Path::new("nowhere");
    fails(backend.link_into(&["a".to_owned()], nowhere), ErrorKind::Invalid, "linking an object");
    let lock = backend.lock(true).expect("lock");
    drop(backend.lock(true).expect("a lock that excludes nothing"));
    drop(lock);
    backend.sync_dir().expect("sync the directory");
    assert_eq!(backend.free_bytes().expect("ask for free space"), None);
    assert!(!backend.describe().is_empty());
}
