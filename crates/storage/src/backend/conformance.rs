//! What every backend must do, as a suite that panics at the first difference.

mod objects;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{ASKED_MAX, FileToRead, PAGE_BYTES, RangeRead, read_together};
use crate::{ErrorKind, ReadFile, Result, Storage};

pub use objects::{check_objects, check_objects_whose_parts_stay};

const PAGE: usize = PAGE_BYTES as usize;

/// Holds backends to the contract of [`Storage`], one fresh and empty backend from `make` for each
/// rule.
///
/// # Panics
/// Where a backend differs from the contract, saying how.
pub fn check(make: &dyn Fn() -> Arc<dyn Storage>) {
    files_are_created_once_and_read_back(&*make());
    names_are_checked(&*make());
    writes_go_to_their_offsets(&*make());
    a_zeroing_write_touches_no_other_page(&*make());
    small_writes_are_there_at_once(&*make());
    small_writes_harm_nothing_behind_them(&*make());
    lengths_are_set_both_ways(&*make());
    reads_beyond_the_end_are_corrupt(&*make());
    lengths_that_are_known_are_checked(&*make());
    publications_are_whole_and_first_wins(&*make());
    of_two_publishers_one_wins(&*make());
    renames_replace_nothing(&*make());
    removed_files_stay_readable_where_open(&*make());
    advice_changes_nothing(&*make());
    ranges_read_together_are_as_one_by_one(&*make());
    writers_of_different_bytes_do_not_meet(&*make());
    locks_exclude(&*make());
}

/// Holds [`Storage::link_into`] to its contract: `backend` is fresh and empty, `path` a missing
/// directory that it may make.
///
/// # Panics
/// Where the backend differs from the contract, saying how.
pub fn check_links(backend: &dyn Storage, path: &Path) {
    backend.publish("1.manifest", b"edit").expect("publish");
    put(backend, "1.table", b"table");
    put(backend, "2.table", b"left out");
    let names = ["1.manifest".to_owned(), "1.table".to_owned()];
    fails(backend.link_into(&["3.table".to_owned()], path), ErrorKind::NotFound, "linking a missing file");
    let with_missing = ["1.table".to_owned(), "3.table".to_owned()];
    fails(
        backend.link_into(&with_missing, path),
        ErrorKind::NotFound,
        "linking a missing file after another",
    );
    let linked = backend.link_into(&names, path).expect("link into a missing directory");
    let expected = [("1.manifest".to_owned(), 4), ("1.table".to_owned(), 5)];
    assert_eq!(linked.list().expect("list the links"), expected);
    assert_eq!(content(&*linked, "1.table"), b"table");
    backend.remove("1.table").expect("remove the original");
    assert_eq!(content(&*linked, "1.table"), b"table", "a link outlives the original name");
    drop(linked.lock(true).expect("lock the new directory"));
    fails(backend.link_into(&names[..1], path), ErrorKind::Invalid, "linking into a directory with files");
    assert_eq!(linked.list().expect("list again"), expected, "a refused link changes nothing");
    names.iter().for_each(|name| linked.remove(name).expect("remove a link"));
    let again = backend.link_into(&names[..1], path).expect("link into a directory whose files were removed");
    assert_eq!(again.list().expect("list the new links"), expected[..1]);
}

fn files_are_created_once_and_read_back(backend: &dyn Storage) {
    assert_eq!(backend.list().expect("list"), [], "a new backend is empty");
    let bytes: Vec<u8> = (0..20_000u32).map(|at| (at % 253) as u8).collect();
    let file = backend.create("b.log").expect("create");
    fails(backend.create("b.log"), ErrorKind::Exists, "creating a file twice");
    file.write_at(0, &bytes).expect("write");
    file.sync().expect("sync");
    backend.create("a.log").expect("create another");
    backend.sync_dir().expect("sync the directory");
    assert_eq!(backend.list().expect("list"), [("a.log".to_owned(), 0), ("b.log".to_owned(), 20_000)]);
    assert_eq!(content(backend, "b.log"), bytes);
    assert_eq!(content(backend, "a.log"), b"");
    assert!(open(backend, "a.log").is_empty());
    fails(backend.open_read("c.log"), ErrorKind::NotFound, "reading a missing file");
    fails(backend.open_write("c.log"), ErrorKind::NotFound, "writing a missing file");
    let again = backend.open_write("b.log").expect("open for writing");
    again.write_at(20_000, b"more").expect("write more");
    assert_eq!(
        content(backend, "b.log"),
        [&bytes[..], b"more"].concat(),
        "opening for writing keeps the bytes"
    );
}

/// Names are checked whatever is done with them.
fn names_are_checked_for(backend: &dyn Storage) {
    let long = "x".repeat(101);
    for name in ["", ".", "..", ".a", "a/b", "../a", "a b", "ä", "LOCK", "a\0", long.as_str()] {
        fails(backend.create(name), ErrorKind::Invalid, &format!("creating {name:?}"));
        fails(backend.open_write(name), ErrorKind::Invalid, &format!("opening {name:?} for writing"));
        fails(backend.open_read(name), ErrorKind::Invalid, &format!("opening {name:?} for reading"));
        fails(backend.publish(name, b""), ErrorKind::Invalid, &format!("publishing {name:?}"));
        fails(backend.remove(name), ErrorKind::Invalid, &format!("removing {name:?}"));
    }
    put(backend, &long[1..], b"x");
    assert_eq!(content(backend, &long[1..]), b"x");
    backend.remove(&long[1..]).expect("remove");
}

fn names_are_checked(backend: &dyn Storage) {
    names_are_checked_for(backend);
    let long = "x".repeat(100);
    put(backend, &long, b"x");
    for name in ["", "LOCK", "a/b"] {
        fails(backend.rename(&long, name), ErrorKind::Invalid, &format!("renaming to {name:?}"));
    }
    put(backend, "A-z_0.9", b"y");
    assert_eq!(backend.list().expect("list").len(), 2);
}

fn writes_go_to_their_offsets(backend: &dyn Storage) {
    let file = backend.create("a").expect("create");
    file.write_at(10_000, b"end").expect("write beyond the end");
    file.write_at(4_090, b"across a page").expect("write between");
    file.write_at(4_092, b"ross").expect("write over");
    file.write_at(3, b"").expect("write nothing");
    let mut expected = vec![0; 10_003];
    expected[10_000..].copy_from_slice(b"end");
    expected[4_090..4_103].copy_from_slice(b"across a page");
    expected[4_092..4_096].copy_from_slice(b"ross");
    assert_eq!(content(backend, "a"), expected, "what no write reached is zeros");
}

fn a_zeroing_write_touches_no_other_page(backend: &dyn Storage) {
    let file = backend.create("a").expect("create");
    file.write_at(0, &[7; 3 * PAGE]).expect("write");
    file.write_zeroing(PAGE as u64 - 2, b"over the edge").expect("write over");
    file.write_zeroing(2 * PAGE as u64, &[9; PAGE]).expect("write a page");
    let found = content(backend, "a");
    let end = PAGE - 2 + b"over the edge".len();
    assert!(found[..PAGE - 2].iter().all(|byte| *byte == 7));
    assert_eq!(&found[PAGE - 2..end], b"over the edge");
    let rest = &found[end..2 * PAGE];
    assert!(rest == vec![0; rest.len()] || rest == vec![7; rest.len()], "zeros, or what was there");
    assert_eq!(found[2 * PAGE..], [9; PAGE]);

    let file = backend.create("b").expect("create");
    file.write_zeroing(10, b"end").expect("write");
    let found = content(backend, "b");
    assert_eq!(found[..13], *b"\0\0\0\0\0\0\0\0\0\0end");
    assert!(found.len() == 13 || found[13..] == [0; PAGE - 13], "{} bytes", found.len());
}

fn lengths_are_set_both_ways(backend: &dyn Storage) {
    let file = backend.create("a").expect("create");
    file.write_at(0, &[7; 9_000]).expect("write");
    file.set_len(5_000).expect("cut");
    assert_eq!(content(backend, "a"), [7; 5_000]);
    file.set_len(12_000).expect("extend");
    let expected = [vec![7; 5_000], vec![0; 7_000]].concat();
    assert_eq!(content(backend, "a"), expected, "what was cut does not come back");
    file.set_len(0).expect("empty");
    file.write_at(1, &[1]).expect("write");
    assert_eq!(content(backend, "a"), [0, 1]);
}

fn reads_beyond_the_end_are_corrupt(backend: &dyn Storage) {
    let file = backend.create("a.table").expect("create");
    file.write_at(0, b"0123456789").expect("write");
    let read = backend.open_read("a.table").expect("open");
    file.write_at(10, b"abc").expect("write more");
    assert_eq!(read.len(), 10, "the length is fixed at opening");
    for (offset, bytes) in [(0, 11), (10, 1), (11, 0), (u64::MAX, 2)] {
        let mut out = vec![0; bytes];
        let error = read.read_at(offset, &mut out).expect_err("a read beyond the end");
        let location = (error.kind, error.file.as_str(), error.offset);
        assert_eq!(location, (ErrorKind::Corrupt, "a.table", Some(offset)), "{error}");
    }
    let mut out = [0; 4];
    read.read_at(6, &mut out).expect("read the end");
    assert_eq!(&out, b"6789");
    read.read_at(10, &mut []).expect("read nothing at the end");
}

/// Publications are whole, and the first one wins.
fn publications(backend: &dyn Storage) {
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 249) as u8).collect();
    backend.publish("1.manifest", &bytes).expect("publish");
    fails(backend.publish("1.manifest", b"other"), ErrorKind::Exists, "publishing twice");
    assert_eq!(content(backend, "1.manifest"), bytes);
    put(backend, "2.manifest", b"created");
    fails(backend.publish("2.manifest", b"other"), ErrorKind::Exists, "publishing what is created");
    assert_eq!(content(backend, "2.manifest"), b"created");
    backend.publish("3.manifest", b"").expect("publish nothing");
    assert_eq!(content(backend, "3.manifest"), b"");
    let names: Vec<String> = backend.list().expect("list").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["1.manifest", "2.manifest", "3.manifest"], "leftovers are not listed");
}

fn publications_are_whole_and_first_wins(backend: &dyn Storage) {
    publications(backend);
    fails(backend.create("1.manifest"), ErrorKind::Exists, "creating what is published");
}

fn of_two_publishers_one_wins(backend: &dyn Storage) {
    for round in 0..20 {
        let name = format!("{round}.manifest");
        let winners = AtomicUsize::new(0);
        let winner = AtomicUsize::new(usize::MAX);
        std::thread::scope(|scope| {
            for publisher in 0..4usize {
                let (name, winners, winner) = (&name, &winners, &winner);
                scope.spawn(move || match backend.publish(name, &[publisher as u8; 5_000]) {
                    Ok(()) => {
                        winners.fetch_add(1, Ordering::SeqCst);
                        winner.store(publisher, Ordering::SeqCst);
                    }
                    Err(error) => assert_eq!(error.kind, ErrorKind::Exists, "{error}"),
                });
            }
        });
        assert_eq!(winners.into_inner(), 1, "publishers told that they won");
        assert_eq!(content(backend, &name), [winner.into_inner() as u8; 5_000], "the bytes are the winner's");
    }
    assert_eq!(backend.list().expect("list").len(), 20);
}

fn renames_replace_nothing(backend: &dyn Storage) {
    put(backend, "a", b"first");
    put(backend, "b", b"second");
    fails(backend.rename("a", "b"), ErrorKind::Exists, "renaming onto a file");
    fails(backend.rename("c", "d"), ErrorKind::NotFound, "renaming a missing file");
    backend.rename("a", "c").expect("rename");
    backend.sync_dir().expect("sync the directory");
    assert_eq!((content(backend, "b"), content(backend, "c")), (b"second".to_vec(), b"first".to_vec()));
    fails(backend.open_read("a"), ErrorKind::NotFound, "reading the old name");
}

fn removed_files_stay_readable_where_open(backend: &dyn Storage) {
    put(backend, "a", b"still here");
    let read = open(backend, "a");
    let bytes = read.bytes().expect("map");
    backend.remove("a").expect("remove");
    fails(backend.remove("a"), ErrorKind::NotFound, "removing twice");
    assert_eq!(backend.list().expect("list"), []);
    let mut out = [0; 10];
    read.read_at(0, &mut out).expect("read a removed file");
    assert_eq!(&out, b"still here");
    if let Some(bytes) = bytes {
        assert_eq!(&*bytes, b"still here");
    }
    put(backend, "a", b"another");
    assert_eq!(content(backend, "a"), b"another", "the name is free again");
}

fn advice_changes_nothing(backend: &dyn Storage) {
    let file = backend.create("a").expect("create");
    file.allocate(1 << 20).expect("allocate");
    file.allocate(0).expect("allocate nothing");
    assert_eq!(backend.list().expect("list"), [("a".to_owned(), 0)], "allocation keeps the length");
    file.write_at(0, &[5; 10_000]).expect("write");
    file.write_back(0, 4_096).expect("write back");
    file.write_back(4_096, 0).expect("write nothing back");
    file.sync().expect("sync");
    file.sync().expect("sync again");
    assert_eq!(content(backend, "a"), [5; 10_000]);
    let read = open(backend, "a");
    if let Some(bytes) = read.bytes().expect("map") {
        bytes.expect_random();
        bytes.will_need(0..20_000);
        bytes.is_resident(0..10_000);
        assert!(bytes.is_resident(10_000..20_000), "nothing there");
        assert_eq!(*bytes, [5; 10_000]);
    }
    backend.free_bytes().expect("ask for free space");
    assert!(!backend.describe().is_empty());
}

/// Of several files, finished and being written, in any order, more than are under way at once; and
/// the ranges that cannot be read harm no others.
fn ranges_read_together_are_as_one_by_one(backend: &dyn Storage) {
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    put(backend, "a.table", &bytes);
    let growing = backend.create("b.log").expect("create");
    growing.write_at(0, &bytes[1..]).expect("write");
    let files = [FileToRead::Finished(open(backend, "a.table")), FileToRead::Growing(growing)];
    let mut reads: Vec<RangeRead> = (0..3 * ASKED_MAX as u64)
        .map(|number| {
            let offset = number * 77_777 % 299_000;
            RangeRead::new(files[number as usize % 2].clone(), offset, number as usize % 5 * 200)
        })
        .collect();
    let beyond = [(7, 0), (2 * ASKED_MAX, 0), (11, 1)];
    for (index, file) in beyond {
        reads[index] = RangeRead::new(files[file].clone(), 299_990, 100);
    }
    let results = read_together(&mut reads.iter_mut().collect::<Vec<_>>());
    assert_eq!(results.len(), reads.len());
    for (index, (read, result)) in reads.iter().zip(results).enumerate() {
        if beyond.iter().any(|(at, _)| *at == index) {
            fails(result, ErrorKind::Corrupt, "a range beyond the end");
            continue;
        }
        result.unwrap_or_else(|error| panic!("range {index}: {error}"));
        let skipped = usize::from(matches!(read.file, FileToRead::Growing(_)));
        let expected = &bytes[read.offset as usize + skipped..][..read.bytes.len()];
        assert!(read.bytes == expected, "range {index}: bytes from {} on", read.offset);
    }
    assert!(read_together(&mut []).is_empty());
}

fn writers_of_different_bytes_do_not_meet(backend: &dyn Storage) {
    const PART_BYTES: usize = 1_000;
    let file = backend.create("a").expect("create");
    std::thread::scope(|scope| {
        for writer in 0..4usize {
            let file = &file;
            scope.spawn(move || {
                for round in 0..25 {
                    let offset = (round * 4 + writer) * PART_BYTES;
                    file.write_at(offset as u64, &[writer as u8 + 1; PART_BYTES]).expect("write");
                }
            });
        }
    });
    let expected: Vec<u8> = (0..100 * PART_BYTES).map(|at| (at / PART_BYTES % 4) as u8 + 1).collect();
    assert_eq!(content(backend, "a"), expected);
}

/// However a backend puts small writes together, its readers cannot tell.
fn small_writes_are_there_at_once(backend: &dyn Storage) {
    let held = backend.lock(true).expect("lock");
    let file = backend.create("a").expect("create");
    let mut expected = Vec::new();
    for round in 0..3_000u32 {
        let piece = vec![round as u8; (round % 97) as usize];
        file.write_combined(expected.len() as u64, &piece).expect("write a small piece");
        expected.extend_from_slice(&piece);
        let at = expected.len() * (round as usize % 7) / 7;
        let mut found = vec![0; (expected.len() - at).min(300)];
        if round % 11 == 0 && !found.is_empty() {
            file.read_at(at as u64, &mut found).expect("read back");
            assert_eq!(found, expected[at..at + found.len()], "round {round}, from {at} on");
        }
    }
    file.write_at(expected.len() as u64, b"at once").expect("write behind");
    expected.extend_from_slice(b"at once");
    for large in [PAGE, 200_000] {
        file.write_combined(expected.len() as u64, &vec![8; large]).expect("write a large piece");
        expected.resize(expected.len() + large, 8);
    }
    file.write_combined(expected.len() as u64, b"small").expect("write a small piece behind it");
    expected.extend_from_slice(b"small");
    assert_eq!(content(backend, "a"), expected);
    file.write_combined(expected.len() as u64, b"and one more").expect("write after it was read");
    expected.extend_from_slice(b"and one more");
    assert_eq!(backend.list().expect("list"), [("a".to_owned(), expected.len() as u64)]);
    file.write_combined(expected.len() as u64, b"to be cut").expect("write");
    file.set_len(expected.len() as u64).expect("cut");
    file.write_combined(expected.len() as u64, b"!").expect("write where it was cut");
    expected.push(b'!');
    file.hand_over().expect("hand over");
    assert_eq!(content(backend, "a"), expected);
    file.write_combined(expected.len() as u64, b"?").expect("write after handing over");
    expected.push(b'?');
    file.sync().expect("sync");
    drop(file);
    assert_eq!(content(backend, "a"), expected);
    drop(held);
}

/// With the backend locked and without: pieces come in any order, behind them lie what was written
/// before, gaps, and old bytes.
fn small_writes_harm_nothing_behind_them(backend: &dyn Storage) {
    for locked in [false, true] {
        let name = if locked { "a" } else { "b" };
        put(backend, name, &[9; 3 * PAGE]);
        let held = locked.then(|| backend.lock(true).expect("lock"));
        let file = backend.open_write(name).expect("open for writing");
        file.write_at(100, &[1; PAGE]).expect("write");
        file.write_combined(50, &[2; 50]).expect("write before it");
        let mut out = [0; PAGE];
        file.read_at(100, &mut out).expect("read");
        assert_eq!(out, [1; PAGE]);
        drop(file);
        assert_eq!(content(backend, name)[100..100 + PAGE], [1; PAGE]);
        drop(held);
    }
    let _held = backend.lock(true).expect("lock");
    let file = backend.create("c").expect("create");
    file.write_combined(0, b"0123456789").expect("write");
    file.sync().expect("sync");
    file.write_combined(20, b"behind a gap").expect("write");
    let mut out = [1; 14];
    file.read_at(0, &mut out).expect("read into the gap");
    assert_eq!(out, *b"0123456789\0\0\0\0");
    let mut out = [1; 30];
    file.read_at(2, &mut out).expect("read over the gap");
    assert_eq!(out, *b"23456789\0\0\0\0\0\0\0\0\0\0behind a gap");
    fails(file.read_at(3, &mut out), ErrorKind::Corrupt, "reading beyond the end");
    file.write_combined(10, b"the gap...").expect("fill the gap");
    let mut out = [1; 32];
    file.read_at(0, &mut out).expect("read it all");
    assert_eq!(out, *b"0123456789the gap...behind a gap");
}

fn locks_exclude(backend: &dyn Storage) {
    let writer = backend.lock(true).expect("lock");
    fails(backend.lock(true), ErrorKind::Locked, "a second writer");
    fails(backend.lock(false), ErrorKind::Locked, "a reader beside a writer");
    drop(writer);
    let reader = backend.lock(false).expect("lock for reading");
    let other = backend.lock(false).expect("a second reader");
    fails(backend.lock(true), ErrorKind::Locked, "a writer beside readers");
    drop(reader);
    fails(backend.lock(true), ErrorKind::Locked, "a writer beside one reader");
    drop(other);
    drop(backend.lock(true).expect("lock again"));
    assert_eq!(backend.list().expect("list"), [], "the lock is not listed");
}

fn put(backend: &dyn Storage, name: &str, bytes: &[u8]) {
    let file = backend.create(name).expect("create");
    file.write_at(0, bytes).expect("write");
    file.sync().expect("sync");
}

fn open(backend: &dyn Storage, name: &str) -> Arc<dyn ReadFile> {
    backend.open_read(name).expect("open for reading")
}

/// A file whose length is known is opened, and another length is noticed at the latest when it is
/// read.
fn lengths_that_are_known_are_checked(backend: &dyn Storage) {
    put(backend, "a.table", b"0123456789");
    let read = |name: &str, bytes: u64, offset: u64| {
        let file = backend.open_read_known(name, bytes)?;
        assert_eq!(file.len(), bytes);
        let mut out = [0; 2];
        file.read_at(offset, &mut out).map(|()| out)
    };
    assert_eq!(read("a.table", 10, 8).expect("read the end"), *b"89");
    for (bytes, offset) in [(9, 0), (9, 7), (11, 0), (11, 9), (40, 30)] {
        let error = read("a.table", bytes, offset).expect_err("another length");
        assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Corrupt, "a.table"), "{error}");
        assert!(error.message.contains(&format!("expected {bytes} bytes, found 10")), "{error}");
    }
    fails(read("b.table", 10, 0), ErrorKind::NotFound, "reading a missing file");
    fails(backend.open_read_known("x/y", 10), ErrorKind::Invalid, "a name that is none");
}

/// The file's bytes, the same by reading and as memory.
fn content(backend: &dyn Storage, name: &str) -> Vec<u8> {
    let file = open(backend, name);
    let mut out = vec![0; usize::try_from(file.len()).expect("a length that fits memory")];
    file.read_at(0, &mut out).expect("read all");
    if let Some(bytes) = file.bytes().expect("map") {
        assert_eq!(*bytes, out, "memory and reading agree on {name}");
    }
    out
}

fn fails<T>(result: Result<T>, kind: ErrorKind, what: &str) {
    match result {
        Ok(_) => panic!("{what}: expected {kind:?}, but it succeeded"),
        Err(error) => assert_eq!(error.kind, kind, "{what}: {error}"),
    }
}
