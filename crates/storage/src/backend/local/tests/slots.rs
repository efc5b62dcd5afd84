//! Slots of the combiner: which file has how many, and what becomes of them.

use super::combining::{content, killed, new_backend, raw, stuck};
use super::*;

#[test]
fn more_files_than_slots_are_written_all_the_same() {
    let (root, backend, _lock) = new_backend();
    let names: Vec<String> = (0..7).map(|index| format!("{index}.log")).collect();
    let files: Vec<_> = names.iter().map(|name| backend.create(name).unwrap()).collect();
    for round in 0..50u64 {
        for (index, file) in files.iter().enumerate() {
            file.write_combined(round, &[index as u8]).unwrap();
        }
    }
    let waiting = names.iter().filter(|name| raw(root.path(), name).is_empty()).count();
    assert_eq!(waiting, 4);
    let left = killed(root.path());
    let after = Local::open(left.path(), OPEN).unwrap();
    let _lock = after.lock(true).unwrap();
    for (index, name) in names.iter().enumerate() {
        assert_eq!(raw(left.path(), name), [index as u8; 50], "{name}");
        assert_eq!(content(&backend, name), [index as u8; 50], "{name}");
    }
    // A file that is handed over leaves its slot to others.
    files[0].hand_over().unwrap();
    let next = backend.create("next.log").unwrap();
    next.write_combined(0, b"waits").unwrap();
    let taken = names.iter().any(|name| raw(root.path(), name).len() < 50);
    assert!(!taken, "reading wrote what waited");
    assert_eq!(raw(root.path(), "next.log"), b"");
}

/// Pieces of 1000 bytes that a slot holds.
const PIECES_OF_A_SLOT: u64 = 65;

/// Writes `count` pieces of 1000 bytes to the end of `file`, which has `length`.
fn write_pieces(file: &dyn WriteFile, length: &mut u64, count: u64) {
    for _ in 0..count {
        file.write_combined(*length, &[(*length / 1000) as u8; 1000]).unwrap();
        *length += 1000;
    }
}

fn pieces(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at / 1000) as u8).collect()
}

#[test]
fn a_file_that_is_alone_has_all_slots_but_one() {
    let (root, backend, _lock) = new_backend();
    let (file, mut length) = (backend.create("a.log").unwrap(), 0);
    write_pieces(&*file, &mut length, 3 * PIECES_OF_A_SLOT);
    assert_eq!(raw(root.path(), "a.log"), b"", "all wait");
    let mut found = vec![0; length as usize];
    file.read_at(0, &mut found).unwrap();
    assert_eq!(found, pieces(length));
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    assert_eq!(raw(left.path(), "a.log"), pieces(length));
    // One more finds them full; what comes then waits again, in as many.
    for _ in 0..3 {
        let written = length;
        write_pieces(&*file, &mut length, 1);
        assert_eq!(raw(root.path(), "a.log"), pieces(written));
        write_pieces(&*file, &mut length, 3 * PIECES_OF_A_SLOT - 1);
        assert_eq!(raw(root.path(), "a.log"), pieces(written));
    }
    file.sync().unwrap();
    assert_eq!(raw(root.path(), "a.log"), pieces(length));
}

#[test]
fn who_has_several_slots_makes_room_for_who_has_none() {
    let (root, backend, _lock) = new_backend();
    let (file, mut length) = (backend.create("a.log").unwrap(), 0);
    write_pieces(&*file, &mut length, 3 * PIECES_OF_A_SLOT);
    let others: Vec<_> = (1..5).map(|index| backend.create(&format!("{index}.log")).unwrap()).collect();
    let lengths =
        || ["a", "1", "2", "3", "4"].map(|name| raw(root.path(), &format!("{name}.log")).len() as u64);
    others[0].write_combined(0, b"waits").unwrap();
    assert_eq!(lengths(), [0; 5], "the slot that is left is for it");
    others[1].write_combined(0, b"waits").unwrap();
    assert_eq!(lengths(), [length, 0, 0, 0, 0], "the second gets one that was written out");
    others[2].write_combined(0, b"waits").unwrap();
    assert_eq!(lengths(), [length, 0, 0, 0, 0], "and so the third");
    others[3].write_combined(0, b"waits").unwrap();
    assert_eq!(lengths(), [length, 0, 0, 0, 5], "nobody has two");
    // Where all are taken, a full one is written out alone.
    write_pieces(&*file, &mut length, PIECES_OF_A_SLOT);
    assert_eq!(lengths(), [length - 1000 * PIECES_OF_A_SLOT, 0, 0, 0, 5]);
    write_pieces(&*file, &mut length, 1);
    assert_eq!(lengths(), [length - 1000, 0, 0, 0, 5]);
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    assert_eq!(raw(left.path(), "a.log"), pieces(length));
    assert!((1..5).all(|index| raw(left.path(), &format!("{index}.log")) == b"waits"));
}

#[test]
fn who_cannot_write_out_makes_no_room_and_loses_nothing() {
    let (root, backend, _lock) = new_backend();
    let (stuck, mut length) = (stuck(root.path(), &backend), 13);
    while length < 150_000 {
        stuck.write_combined(length, &[7; 1000]).unwrap();
        length += 1000;
    }
    for name in ["b.log", "c.log"] {
        backend.create(name).unwrap().write_combined(0, b"small").unwrap();
    }
    let files = ["b.log", "c.log"].map(|name| backend.open_write(name).unwrap());
    files.iter().for_each(|file| file.write_combined(5, b" and more").unwrap());
    assert_eq!(["b.log", "c.log"].map(|name| raw(root.path(), name).len()), [5, 14]);
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    let found = raw(left.path(), "a.log");
    assert!(found.len() as u64 == length && found[13..].iter().all(|byte| *byte == 7));
    assert!(["b.log", "c.log"].iter().all(|name| raw(left.path(), name) == b"small and more"));
    // Once the file is removed its slots are free.
    backend.remove("a.log").unwrap();
    let others = ["d.log", "e.log", "f.log"].map(|name| backend.create(name).unwrap());
    others.iter().for_each(|file| file.write_combined(0, b"waits").unwrap());
    assert_eq!(["d.log", "e.log", "f.log"].map(|name| raw(root.path(), name).len()), [0; 3]);
}

#[test]
fn who_goes_leaves_all_its_slots() {
    let (root, backend, lock) = new_backend();
    let others: Vec<_> = (0..4).map(|index| backend.create(&format!("{index}.log")).unwrap()).collect();
    // Each is full, three times over, when something happens to it.
    let full = |name: &str| {
        let (file, mut length) = (backend.create(name).unwrap(), 0);
        write_pieces(&*file, &mut length, 3 * PIECES_OF_A_SLOT);
        assert_eq!(raw(root.path(), name), b"", "all wait");
        (file, length)
    };
    let all_can_wait = |after: &str| {
        for (index, file) in others.iter().enumerate() {
            let before = raw(root.path(), &format!("{index}.log")).len();
            file.write_combined(before as u64, b"waits").unwrap();
            assert_eq!(raw(root.path(), &format!("{index}.log")).len(), before, "{index} after {after}");
        }
        others.iter().for_each(|file| file.hand_over().unwrap());
    };
    let (file, length) = full("handed.log");
    file.hand_over().unwrap();
    assert_eq!(raw(root.path(), "handed.log"), pieces(length));
    all_can_wait("a handing over");
    let (file, length) = full("dropped.log");
    drop(file);
    assert_eq!(raw(root.path(), "dropped.log"), pieces(length));
    all_can_wait("a drop");
    let (_file, length) = full("renamed.log");
    backend.rename("renamed.log", "new.log").unwrap();
    assert_eq!(raw(root.path(), "new.log"), pieces(length));
    all_can_wait("a rename");
    let (_file, _) = full("removed.log");
    backend.remove("removed.log").unwrap();
    all_can_wait("a removal");
    let (file, length) = full("cut.log");
    file.set_len(100_000).unwrap();
    file.hand_over().unwrap();
    assert_eq!(raw(root.path(), "cut.log"), pieces(length)[..100_000]);
    all_can_wait("a cut");
    let (_file, length) = full("closed.log");
    drop(lock);
    assert_eq!(raw(root.path(), "closed.log"), pieces(length));
}

/// More threads than slots, each with a file of its own, in any order; some write until all slots
/// are full, some let go.
#[test]
fn threads_that_take_slots_from_one_another_lose_nothing() {
    let (root, backend, _lock) = new_backend();
    let names: Vec<String> = (0..6).map(|index| format!("{index}.log")).collect();
    let written: Vec<_> = std::thread::scope(|scope| {
        let write = |index: usize| {
            let (file, mut length) = (backend.create(&names[index]).unwrap(), 0);
            let mut random = fastrand::Rng::with_seed(index as u64);
            for _ in 0..40 {
                write_pieces(&*file, &mut length, random.u64(1..120));
                let from = random.u64(0..length);
                let mut found = vec![0; (length - from).min(70_000) as usize];
                file.read_at(from, &mut found).unwrap();
                let is_expected = |(at, byte): (usize, &u8)| *byte == ((from + at as u64) / 1000) as u8;
                assert!(found.iter().enumerate().all(is_expected), "seed {index}, at {from} of {length}");
                if random.u32(0..8) == 0 {
                    file.hand_over().unwrap();
                }
            }
            (file, length)
        };
        let threads: Vec<_> = (0..6).map(|index| scope.spawn(move || write(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let left = killed(root.path());
    drop(Local::open(left.path(), OPEN).unwrap().lock(true).unwrap());
    for (name, (_open, length)) in names.iter().zip(written) {
        assert!(raw(left.path(), name) == pieces(length), "{name} of {length} bytes");
    }
}

/// More of them than the system takes at once, none behind the one before.
#[test]
fn thousands_of_pieces_that_came_in_another_order_are_written() {
    let (root, backend, _lock) = new_backend();
    let file = backend.create("a.log").unwrap();
    let expected: Vec<u8> = (0..9_000u32).map(|index| index as u8).collect();
    for index in (0..3_000).map(|index: usize| index ^ 1) {
        file.write_combined(3 * index as u64, &expected[3 * index..][..3]).unwrap();
    }
    assert_eq!(raw(root.path(), "a.log"), b"", "all wait");
    file.sync().unwrap();
    assert_eq!(raw(root.path(), "a.log"), expected);
}
