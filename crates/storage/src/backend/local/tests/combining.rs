//! Small writes that wait for one another: what is found of them, and what a process that dies
//! leaves.

use std::collections::BTreeMap;

use firn_format::FormatVersion;
use firn_format::combiner::{COMBINER_BYTES, slot_range};

use super::*;
use crate::backend::COMBINED_BYTES_MAX;

/// A directory as a process that is killed now would leave it.
pub(super) fn killed(of: &Path) -> TempDir {
    let copy = new_directory();
    for entry in std::fs::read_dir(of).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

pub(super) fn content(backend: &dyn Storage, name: &str) -> Vec<u8> {
    let file = backend.open_read(name).unwrap();
    let mut out = vec![0; file.len() as usize];
    file.read_at(0, &mut out).unwrap();
    assert_eq!(*file.bytes().unwrap().unwrap(), out);
    out
}

/// The bytes that are in the file itself.
pub(super) fn raw(directory: &Path, name: &str) -> Vec<u8> {
    std::fs::read(directory.join(name)).unwrap()
}

/// A new backend, locked for writing.
pub(super) fn new_backend() -> (TempDir, Local, Box<dyn StorageLock>) {
    let root = new_directory();
    let backend = Local::open(root.path(), CREATE).unwrap();
    let lock = backend.lock(true).unwrap();
    (root, backend, lock)
}

#[test]
fn small_writes_wait_and_survive_the_process() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"first ").unwrap();
    file.write_combined(6, b"second").unwrap();
    assert_eq!(raw(root.path(), "a.log"), b"", "both wait");
    let left = killed(root.path());
    let before = listing(left.path());

    // A reader finds them, and changes nothing.
    let reader = Local::open(left.path(), OPEN).unwrap();
    let shared = reader.lock(false).unwrap();
    assert_eq!(content(&reader, "a.log"), b"first second");
    assert_eq!(listing(left.path()), before);
    drop(shared);

    // The next writer puts them where they belong, once.
    let writer = Local::open(left.path(), OPEN).unwrap();
    drop(writer.lock(true).unwrap());
    assert_eq!(raw(left.path(), "a.log"), b"first second");
    std::fs::write(left.path().join("a.log"), b"changed since").unwrap();
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    assert_eq!(raw(left.path(), "a.log"), b"changed since");
}

#[test]
fn what_was_written_out_does_not_come_back() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"written").unwrap();
    file.sync().unwrap();
    assert_eq!(raw(root.path(), "a.log"), b"written");
    let left = killed(root.path());
    std::fs::write(left.path().join("a.log"), b"other").unwrap();
    let reader = Local::open(left.path(), OPEN).unwrap();
    let _shared = reader.lock(false).unwrap();
    assert_eq!(content(&reader, "a.log"), b"other");
}

#[test]
fn whoever_lets_go_of_the_directory_leaves_nothing_waiting() {
    let (root, backend, lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"small").unwrap();
    drop(lock);
    assert_eq!(raw(root.path(), "a.log"), b"small");
    // A file that is open still, of a directory that another may have locked.
    file.write_combined(5, b" and at once").unwrap();
    assert_eq!(raw(root.path(), "a.log"), b"small and at once");
    let dropped = backend.lock(true).unwrap();
    let file = backend.create("b.log").unwrap();
    file.write_combined(0, b"waits").unwrap();
    assert_eq!(raw(root.path(), "b.log"), b"");
    drop(file);
    assert_eq!(raw(root.path(), "b.log"), b"waits");
    drop(dropped);
}

#[test]
fn without_the_lock_nothing_waits() {
    let root = new_directory();
    let backend = Local::open(root.path(), CREATE).unwrap();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"small").unwrap();
    assert_eq!(raw(root.path(), "a.log"), b"small");
    assert!(!root.path().join("COMBINER").exists());
}

#[test]
fn another_file_of_the_same_name_gets_nothing_of_the_first() {
    let (root, backend, _lock) = new_backend();
    let first = backend.create("a.log").unwrap();
    first.write_combined(0, b"of the first").unwrap();
    backend.remove("a.log").unwrap();
    first.write_combined(12, b", which is gone").unwrap();
    let second = backend.create("a.log").unwrap();
    second.write_combined(0, b"2").unwrap();
    second.sync().unwrap();
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    assert_eq!(raw(left.path(), "a.log"), b"2");

    // A name that moves on takes what waited with it.
    second.write_combined(1, b" moved").unwrap();
    backend.rename("a.log", "b.log").unwrap();
    second.write_combined(7, b" on").unwrap();
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    assert_eq!(raw(left.path(), "b.log"), b"2 moved on");
    assert!(!left.path().join("a.log").exists());
}

#[test]
fn what_waits_for_a_file_that_is_gone_is_forgotten() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"small").unwrap();
    let left = killed(root.path());
    std::fs::remove_file(left.path().join("a.log")).unwrap();
    let after = Local::open(left.path(), OPEN).unwrap();
    let lock = after.lock(true).unwrap();
    after.create("a.log").unwrap();
    drop(lock);
    drop(after.lock(true).unwrap());
    assert_eq!(raw(left.path(), "a.log"), b"");
}

#[test]
fn links_have_what_waited() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"small").unwrap();
    let linked = backend.link_into(&["a.log".to_owned()], &root.path().join("backup")).unwrap();
    assert_eq!(content(&*linked, "a.log"), b"small");
    assert!(!root.path().join("backup/COMBINER").exists());
}

#[test]
fn a_combiner_that_is_damaged_or_cut_holds_nothing() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"small").unwrap();
    let good = raw(root.path(), "COMBINER");
    assert_eq!(good.len(), COMBINER_BYTES);
    let head = (0..4).map(|index| slot_range(index).start).find(|start| good[start + 16] != 0).unwrap();
    let change = |at: usize| [&good[..at], &[good[at] ^ 1], &good[at + 1..]].concat();
    for damaged in
        [change(0), change(24), change(head), change(head + 4096 + 16), good[..5000].to_vec(), Vec::new()]
    {
        let left = killed(root.path());
        std::fs::write(left.path().join("COMBINER"), damaged).unwrap();
        let after = Local::open(left.path(), OPEN).unwrap();
        let lock = after.lock(true).unwrap();
        assert_eq!(raw(left.path(), "a.log"), b"");
        // It is made again.
        let file = after.create("b.log").unwrap();
        file.write_combined(0, b"waits").unwrap();
        assert_eq!(
            (raw(left.path(), "b.log").len(), raw(left.path(), "COMBINER").len()),
            (0, COMBINER_BYTES)
        );
        drop(lock);
    }
}

#[test]
fn a_lock_empties_the_combiner_whatever_it_finds() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"small").unwrap();
    let head = |combiner: &[u8]| (0..4).any(|index| combiner[slot_range(index)][..128] != [0; 128]);
    let damages: [fn(&mut Vec<u8>); 3] =
        [|_| {}, |combiner| combiner[0] ^= 1, |combiner| combiner.truncate(COMBINER_BYTES - 1)];
    for damage in damages {
        let left = killed(root.path());
        let mut combiner = raw(left.path(), "COMBINER");
        assert!(head(&combiner));
        damage(&mut combiner);
        std::fs::write(left.path().join("COMBINER"), &combiner).unwrap();
        drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
        combiner = raw(left.path(), "COMBINER");
        combiner.resize(COMBINER_BYTES, 0);
        assert!(!head(&combiner));
    }
}

#[test]
fn a_directory_that_gets_links_has_no_combiner_of_before() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"waits").unwrap();
    let target = killed(root.path());
    std::fs::remove_file(target.path().join("a.log")).unwrap();
    let linked = backend.link_into(&["a.log".to_owned()], target.path()).unwrap();
    file.write_combined(5, b" on").unwrap();
    drop(linked.lock(true).unwrap());
    assert_eq!(content(&backend, "a.log"), b"waits on");
    assert!(!target.path().join("COMBINER").exists());
}

#[test]
fn a_reader_is_told_whole_lengths_and_links_nothing_in_part() {
    let (root, backend, _lock) = new_backend();
    backend.create("b.log").unwrap().write_at(0, b"whole").unwrap();
    let file = backend.create("a.log").unwrap();
    file.write_combined(0, b"small").unwrap();
    let expected = [("a.log".to_owned(), 5), ("b.log".to_owned(), 5)];
    assert_eq!(backend.list().unwrap(), expected);
    assert_eq!(raw(root.path(), "a.log"), b"", "listing writes nothing");
    let left = killed(root.path());
    let reader = Local::open(left.path(), OPEN).unwrap();
    let _shared = reader.lock(false).unwrap();
    assert_eq!(reader.list().unwrap(), expected);
    let backup = root.path().join("backup");
    let refused = reader.link_into(&["a.log".to_owned()], &backup).map(drop).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid, "{refused}");
    assert!(refused.to_string().contains("open the database for writing once"), "{refused}");
    assert!(!backup.exists());
    reader.link_into(&["b.log".to_owned()], &backup).unwrap();
}

#[test]
fn a_file_that_nothing_waited_for_is_known_by_its_new_name() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    backend.rename("a.log", "b.log").unwrap();
    file.write_combined(0, b"small").unwrap();
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    assert_eq!(raw(left.path(), "b.log"), b"small");
}

/// A file `a.log` that takes no bytes from the combiner, as on a full disk, and for which some
/// wait.
pub(super) fn stuck(root: &Path, backend: &Local) -> LocalWriteFile {
    drop(backend.create("a.log").unwrap());
    let read_only = std::fs::File::open(root.join("a.log")).unwrap();
    let file = LocalWriteFile::new(OpenFile::new(read_only, "a.log", 0, backend.combiner()));
    file.write_combined(0, b"stuck").unwrap();
    file.write_combined(9, b"more").unwrap();
    file
}

#[test]
fn where_nothing_can_be_written_reading_and_removing_go_on() {
    let (root, backend, _lock) = new_backend();
    let file = stuck(root.path(), &backend);
    let mut out = [1; 13];
    file.read_at(0, &mut out).unwrap();
    assert_eq!(out, *b"stuck\0\0\0\0more");
    assert_eq!(backend.list().unwrap(), [("a.log".to_owned(), 13)]);
    assert!(backend.open_read("a.log").is_err() && backend.rename("a.log", "b.log").is_err());
    backend.remove("a.log").unwrap();
    backend.create("a.log").unwrap();
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    assert_eq!(raw(left.path(), "a.log"), b"");
}

#[test]
fn a_handle_of_before_touches_no_slot_of_the_next_owner() {
    let (root, backend, lock) = new_backend();
    let stuck = stuck(root.path(), &backend);
    drop(lock);
    let next = Local::open(root.path(), OPEN).unwrap();
    let _lock = next.lock(true).unwrap();
    assert_eq!(raw(root.path(), "a.log"), b"stuck\0\0\0\0more");
    let files: Vec<_> = (0..4).map(|index| next.create(&format!("{index}.log")).unwrap()).collect();
    files.iter().for_each(|file| file.write_combined(0, b"new").unwrap());
    assert!(stuck.write_combined(20, b"late").is_err());
    drop(stuck);
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    for index in 0..4 {
        assert_eq!(raw(left.path(), &format!("{index}.log")), b"new");
    }
}

#[test]
fn a_combiner_of_a_newer_release_is_refused() {
    let (root, backend, _lock) = new_backend();
    backend.create("a.log").unwrap().write_combined(0, b"small").unwrap();
    let left = killed(root.path());
    let mut combiner = raw(left.path(), "COMBINER");
    combiner[8] = FormatVersion::CURRENT as u8 + 1;
    std::fs::write(left.path().join("COMBINER"), &combiner).unwrap();
    let backend = Local::open(left.path(), OPEN).unwrap();
    for exclusive in [false, true] {
        let error = backend.lock(exclusive).map(drop).unwrap_err();
        assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Corrupt, "COMBINER"), "{error}");
        assert!(error.to_string().contains("newer Firn: upgrade"), "{error}");
    }
    assert_eq!(raw(left.path(), "COMBINER"), combiner);
}

#[test]
fn what_cannot_be_written_goes_on_waiting() {
    let (root, backend, _lock) = new_backend();
    drop(backend.create("a.log").unwrap());
    let read_only = std::fs::File::open(root.path().join("a.log")).unwrap();
    let file = LocalWriteFile::new(OpenFile::new(read_only, "a.log", 0, backend.combiner()));
    let mut taken = 0;
    let refused = loop {
        match file.write_combined(taken, &[7; 1000]) {
            Ok(()) => taken += 1000,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind, ErrorKind::Io, "{refused}");
    assert!(taken > 60_000, "a slot takes more than {taken} bytes");
    assert!(file.write_combined(taken, &[7; 1000]).is_err());
    assert!(file.sync().is_err() && file.hand_over().is_err());
    let mut found = vec![0; taken as usize];
    file.read_at(0, &mut found).unwrap();
    assert_eq!(found, vec![7; taken as usize]);
    drop(file);
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    assert_eq!(raw(left.path(), "a.log"), vec![7; taken as usize]);
}

/// Pieces come late, far apart and at once; whole pages of an earlier life are written over; every
/// other time much waits, in several slots.
#[test]
fn random_writes_are_found_and_survive() {
    for seed in 0..60u64 {
        let (usual, large) = if seed % 2 == 0 { (900, 40_000) } else { (5_000, 10_000) };
        let writes_out = if seed % 2 == 0 { 24 } else { 200 };
        let mut random = fastrand::Rng::with_seed(seed);
        let (root, backend, _lock) = new_backend();
        let mut model: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        let names = ["a.log", "b.blobs", "c.log", "d.blobs", "e.log", "f.blobs"];
        let names = if seed % 2 == 0 { &names[..2] } else { &names };
        for &name in names {
            let old = vec![0xee; random.usize(0..300_000)];
            std::fs::write(root.path().join(name), &old).unwrap();
            model.insert(name, Vec::new());
        }
        let files: BTreeMap<&str, _> =
            model.keys().map(|name| (*name, backend.open_write(name).unwrap())).collect();
        let mut late: Vec<(&str, usize, Vec<u8>)> = Vec::new();
        for _ in 0..400 * names.len() / 2 {
            let name = names[random.usize(0..names.len())];
            let (file, expected) = (&files[name], model.get_mut(name).unwrap());
            match random.u32(0..writes_out) {
                0..14 | 24.. => {
                    let most = if random.u32(0..12) == 0 { large } else { usual };
                    let length = random.usize(0..most);
                    let piece = vec![random.u8(..); length.min(COMBINED_BYTES_MAX * 2)];
                    let at = expected.len();
                    expected.extend_from_slice(&piece);
                    match random.u32(0..6) {
                        0 => late.push((name, at, piece)),
                        _ => file.write_combined(at as u64, &piece).unwrap(),
                    }
                }
                14..17 if !late.is_empty() => {
                    let (name, at, piece) = late.swap_remove(random.usize(0..late.len()));
                    files[name].write_combined(at as u64, &piece).unwrap();
                }
                17 => {
                    file.write_at(expected.len() as u64, b"past the combiner").unwrap();
                    expected.extend_from_slice(b"past the combiner");
                }
                18 => file.hand_over().unwrap(),
                19 => drop(backend.open_read(name).unwrap()),
                _ => {}
            }
        }
        for (name, at, piece) in late {
            files[name].write_combined(at as u64, &piece).unwrap();
        }
        let left = killed(root.path());
        let after = Local::open(left.path(), OPEN).unwrap();
        let shared = after.lock(false).unwrap();
        let check = |backend: &Local, when: &str| {
            for (name, expected) in &model {
                let found = content(backend, name);
                assert!(found[..expected.len()] == expected[..], "seed {seed}: {name} {when}");
                let rest = found[expected.len()..].iter().all(|byte| matches!(byte, 0xee | 0));
                assert!(rest, "seed {seed}: {name} {when}: something was written behind the end");
            }
        };
        check(&after, "as a reader finds it");
        drop(shared);
        let _lock = after.lock(true).unwrap();
        check(&after, "as a writer finds it");
        check(&backend, "where nobody died");
    }
}
