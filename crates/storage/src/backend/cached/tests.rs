//! What is read is right, whatever the backend and the directory do.

use super::*;
use crate::ErrorKind;
use crate::backend::{Effect, Fault, Faulty, Memory, Operation, When, conformance};

const BLOCK: u64 = 256 << 10;
const KEPT: &str = "ranges.cache";

fn put(backend: &dyn Storage, name: &str, bytes: &[u8]) {
    let file = backend.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
}

fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}

fn read(file: &dyn ReadFile, offset: u64, bytes: usize) -> crate::Result<Vec<u8>> {
    let mut out = vec![0; bytes];
    file.read_at(offset, &mut out).map(|()| out)
}

fn always(on: Operation, kind: ErrorKind) -> Fault {
    Fault { on, file: "*".to_owned(), when: When::Always { after: 0 }, effect: Effect::Fail(kind) }
}

#[test]
fn a_backend_behind_a_cache_keeps_the_contract() {
    for fails in [false, true] {
        let make = || {
            let directory = Faulty::new(Arc::new(Memory::new()));
            if fails {
                directory.inject(always(Operation::Read, ErrorKind::Io));
            }
            Cached::new(Arc::new(Memory::new()), Arc::new(directory), 8 * BLOCK)
        };
        conformance::check(&|| Arc::new(make()));
        conformance::check_links(&make(), Path::new("backup"));
    }
}

/// Random reads and removals of a store that fails at times. The cache is too small for all, in a
/// directory that fails and flips bits.
#[test]
fn every_read_is_right_or_the_stores_own_error() {
    let (mut failures, mut evictions) = (0, 0);
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (store, memory) = (Faulty::new(Arc::new(Memory::new())), Memory::new());
        let directory = Faulty::new(Arc::new(memory.clone()));
        let slots = random.u64(1..6);
        let cached = Cached::new(Arc::new(store.clone()), Arc::new(directory.clone()), slots * BLOCK + 1000);
        let mut files = Vec::new();
        for step in 0..300 {
            let what = format!("seed {seed}, step {step}");
            store.clear_faults();
            match random.u32(0..100) {
                0..10 if files.len() < 4 => {
                    let bytes = content(random.u64(..), random.usize(1..3 * BLOCK as usize));
                    let name = format!("{step}.table");
                    put(&cached, &name, &bytes);
                    let open = cached.open_read_known(&name, bytes.len() as u64).unwrap();
                    files.push((name, bytes, open));
                }
                10..13 if !files.is_empty() => {
                    let (name, _, open) = files.swap_remove(random.usize(..files.len()));
                    cached.remove(&name).unwrap();
                    let again = cached.open_read_known(&name, open.len());
                    assert_eq!(again.unwrap_err().kind, ErrorKind::NotFound, "{what}");
                }
                13..20 => directory.inject(always(Operation::Write, ErrorKind::Full)),
                20..24 => directory.inject(always(Operation::Read, ErrorKind::Io)),
                24..40 => directory.clear_faults(),
                40..50 => flip(&memory, &mut random),
                _ if !files.is_empty() => {
                    let (_, bytes, open) = &files[random.usize(..files.len())];
                    if random.u32(0..10) == 0 {
                        store.inject(always(Operation::Read, ErrorKind::Refused));
                    }
                    let offset = random.usize(..bytes.len());
                    let count = random.usize(..=(bytes.len() - offset).min(300_000));
                    match random.u32(0..8) {
                        0 => open.will_need(offset as u64, random.u64(..2 * BLOCK)),
                        1..3 => open.will_look_up(offset as u64, random.u64(..2 * BLOCK)),
                        _ => {}
                    }
                    match read(&**open, offset as u64, count) {
                        Ok(found) => assert!(found == bytes[offset..offset + count], "{what}"),
                        Err(error) => {
                            assert_eq!(error.kind, ErrorKind::Refused, "{what}: {error}");
                            assert!(store.struck_count() > 0, "{what}: {error}");
                        }
                    }
                }
                _ => {}
            }
            let held = cached.counters().held_bytes;
            let len = memory.open_read(KEPT).unwrap().len();
            assert!(held <= slots * BLOCK && len <= slots * BLOCK, "{what}: {held}, {len}");
        }
        let counters = cached.counters();
        (failures, evictions) = (failures + counters.failures, evictions + counters.evictions);
    }
    assert!(failures > 100 && evictions > 100, "the script meets what it is about: {failures}, {evictions}");
}

fn flip(memory: &Memory, random: &mut fastrand::Rng) {
    let len = memory.open_read(KEPT).unwrap().len();
    if len > 0 {
        let (at, mut byte) = (random.u64(..len), [0]);
        let file = memory.open_write(KEPT).unwrap();
        file.read_at(at, &mut byte).unwrap();
        file.write_at(at, &[byte[0] ^ 1 << random.u32(0..8)]).unwrap();
    }
}

#[test]
fn a_flipped_bit_is_noticed_and_the_block_asked_for_again() {
    let (store, memory) = (Faulty::new(Arc::new(Memory::new())), Memory::new());
    let cached = Cached::new(Arc::new(store.clone()), Arc::new(memory.clone()), BLOCK);
    let bytes = content(3, 100_000);
    put(&cached, "a.table", &bytes);
    let file = cached.open_read_known("a.table", 100_000).unwrap();
    let reads = || store.counters().of(Operation::Read).operations;
    let check = |expected: u64, what: &str| {
        assert!(read(&*file, 50_000, 100).unwrap() == bytes[50_000..50_100], "{what}");
        assert_eq!(reads(), expected, "{what}");
    };
    check(1, "the first time");
    check(1, "it is here");
    memory.open_write(KEPT).unwrap().write_at(50_050, &[!bytes[50_050]]).unwrap();
    check(2, "what is here is wrong");
    memory.open_write(KEPT).unwrap().set_len(50_060).unwrap();
    check(3, "what is here is not whole");
    check(3, "it is here again");
    assert_eq!(cached.counters().failures, 2);
}

/// What is done to a directory.
type Spoil<'s> = &'s dyn Fn(&Faulty);

#[test]
fn a_directory_that_cannot_be_used_is_no_error() {
    let bytes = content(4, 600_000);
    let full = |backend: &Faulty| backend.limit_space(Some(100_000)).unwrap();
    let cases: [(&str, Spoil<'_>, bool); 5] = [
        ("cannot be locked", &|backend| backend.inject(always(Operation::Lock, ErrorKind::Locked)), false),
        ("cannot be written to", &|backend| backend.inject(always(Operation::Create, ErrorKind::Io)), false),
        ("has no room", &full, true),
        ("fails to write", &|backend| backend.inject(always(Operation::Write, ErrorKind::Io)), true),
        ("fails to read", &|backend| backend.inject(always(Operation::Read, ErrorKind::Io)), true),
    ];
    for (what, spoil, is_used) in cases {
        let (store, directory) = (Memory::new(), Faulty::new(Arc::new(Memory::new())));
        spoil(&directory);
        let cached = Cached::new(Arc::new(store), Arc::new(directory), 8 * BLOCK);
        assert_eq!(cached.failure().is_none(), is_used, "a directory that {what}");
        put(&cached, "a.table", &bytes);
        let file = cached.open_read_known("a.table", 600_000).unwrap();
        for offset in [0, 100, 300_000, 300_000, 599_000] {
            let found = read(&*file, offset, 1000).unwrap();
            assert!(found == bytes[offset as usize..offset as usize + 1000], "a directory that {what}");
        }
        assert!(cached.counters().failures > 0, "a directory that {what}: {:?}", cached.counters());
    }
    let cached = Cached::new(Arc::new(Memory::new()), Arc::new(Memory::new()), BLOCK - 1);
    assert_eq!(cached.failure().unwrap().kind, ErrorKind::Invalid, "no room for one block");
}

#[test]
fn a_cache_begins_empty_and_leaves_nothing() {
    let (store, directory) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = content(5, 300_000);
    put(&store, "a.table", &bytes);
    let local = || Arc::new(Local::open(directory.path(), LocalOptions { create: true }).unwrap());
    put(&*local(), KEPT, b"what a process left that was killed");
    for round in 0..2 {
        let cached = Cached::new(Arc::new(store.clone()), local(), 8 * BLOCK);
        let file = cached.open_read_known("a.table", 300_000).unwrap();
        assert!(read(&*file, 1000, 1000).unwrap() == bytes[1000..2000]);
        assert!(read(&*file, 1000, 1000).unwrap() == bytes[1000..2000]);
        let counters = cached.counters();
        assert_eq!((counters.misses, counters.hits, counters.failures), (1, 1, 0), "round {round}");
        let second = Cached::new(Arc::new(store.clone()), local(), 8 * BLOCK);
        assert_eq!(second.failure().unwrap().kind, ErrorKind::Locked, "one process at a time");
        // The directory goes while it is used.
        std::fs::remove_file(directory.path().join(KEPT)).unwrap();
        assert!(read(&*file, 0, 300).unwrap() == bytes[..300]);
        assert!(read(&*file, BLOCK, 300).unwrap() == bytes[BLOCK as usize..][..300]);
    }
    assert_eq!(local().list().unwrap(), []);
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("letters"), b"somebody's").unwrap();
    let cached = Cached::in_directory(Arc::new(store), other.path(), 8 * BLOCK);
    assert_eq!(cached.failure().unwrap().kind, ErrorKind::Invalid, "a directory that has other things");
    let file = cached.open_read_known("a.table", 300_000).unwrap();
    assert!(read(&*file, 1000, 1000).unwrap() == bytes[1000..2000]);
}
