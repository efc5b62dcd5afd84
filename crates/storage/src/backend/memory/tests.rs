//! What a crash may leave, and what it must.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::backend::conformance;

const SEEDS: u64 = 400;

fn read(backend: &Memory, name: &str) -> Option<Vec<u8>> {
    let file = backend.open_read(name).ok()?;
    Some(file.bytes().unwrap().unwrap().to_vec())
}

/// Every state that the seeds leave.
fn left<T: PartialEq>(backend: &Memory, see: impl Fn(&Memory) -> T) -> Vec<T> {
    let mut states = Vec::new();
    for seed in 0..SEEDS {
        let state = see(&backend.crash(Crash::PowerLoss { seed }));
        if !states.contains(&state) {
            states.push(state);
        }
    }
    states
}

fn synced(backend: &Memory, name: &str, bytes: &[u8]) -> Arc<dyn WriteFile> {
    let file = backend.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    backend.sync_dir().unwrap();
    file
}

#[test]
fn conforms() {
    conformance::check(&|| Arc::new(Memory::new()));
    conformance::check_links(&Memory::new(), Path::new("backup"));
}

#[test]
fn a_journal_tells_of_each_operation() {
    let backend = Memory::new();
    backend.create("a").unwrap();
    backend.keep_journal();
    let file = backend.create("b").unwrap();
    file.write_at(3, b"four").unwrap();
    backend.publish("c", b"").unwrap();
    assert!(backend.create("b").is_err(), "what fails is no operation");
    backend.rename("b", "d").unwrap();
    let journal = backend.journal();
    let expected = [
        "create b",
        "write 4 bytes to b at 3",
        "publish c",
        "sync the directory to publish c",
        "rename b to d",
    ];
    assert_eq!(journal, expected);
    assert_eq!(backend.operations(), journal.len() as u64 + 1);
    assert!(backend.crash(Crash::Kill).journal().is_empty());
}

#[test]
fn a_kill_keeps_everything_and_its_history() {
    let backend = Memory::new();
    let file = synced(&backend, "a", b"old");
    file.write_at(0, b"new").unwrap();
    backend.create("b").unwrap();
    let _lock = backend.lock(true).unwrap();
    let killed = backend.crash(Crash::Kill);
    assert_eq!(read(&killed, "a").unwrap(), b"new");
    assert!(read(&killed, "b").is_some());
    drop(killed.lock(true).unwrap());
    file.write_at(0, b"xxx").unwrap();
    assert_eq!(read(&killed, "a").unwrap(), b"new", "the old machine's writes do not reach the new one");
    let states = left(&killed, |after| read(after, "a").unwrap());
    assert!(states.contains(&b"old".to_vec()) && states.contains(&b"new".to_vec()), "{states:?}");
    let mut there = left(&killed, |after| read(after, "b").is_some());
    there.sort_unstable();
    assert_eq!(there, [false, true], "an unsynced name may be lost after a kill, and need not be");
}

#[test]
fn power_loss_never_takes_what_was_synced() {
    let backend = Memory::new();
    let bytes: Vec<u8> = (0..50_000u32).map(|at| (at % 241) as u8).collect();
    synced(&backend, "a", &bytes);
    backend.publish("1.manifest", b"edit").unwrap();
    let states = left(&backend, |after| (read(after, "a"), read(after, "1.manifest")));
    assert!(states == [(Some(bytes), Some(b"edit".to_vec()))]);
}

#[test]
fn power_loss_may_take_what_was_not() {
    let backend = Memory::new();
    let file = synced(&backend, "a", b"");
    file.write_at(0, &[1; 100]).unwrap();
    let lens = left(&backend, |after| read(after, "a").unwrap().len());
    assert!(lens.contains(&0) && lens.contains(&100), "{lens:?}");
    let states = left(&backend, |after| read(after, "a").unwrap());
    assert!(states.contains(&vec![0; 100]), "the length may be there without the bytes");
    assert!(states.contains(&vec![1; 100]));
}

#[test]
fn pages_go_their_own_ways_and_tear_at_sectors() {
    let backend = Memory::new();
    let file = synced(&backend, "a", &[0; 8192]);
    file.write_at(0, &[1; 8192]).unwrap();
    file.write_at(0, &[2; 8192]).unwrap();
    let states = left(&backend, |after| read(after, "a").unwrap());
    for state in &states {
        for sector in state.chunks(512) {
            assert!(sector.iter().all(|byte| byte == &sector[0]), "a sector is never torn");
        }
        for page in state.chunks(4096) {
            let mut kinds: Vec<u8> = page.to_vec();
            kinds.dedup();
            kinds.sort_unstable();
            kinds.dedup();
            assert!(
                kinds == [0] || kinds == [1] || kinds == [2] || kinds == [0, 1] || kinds == [1, 2],
                "{kinds:?}"
            );
        }
    }
    assert!(states.iter().any(|state| state[0] == 2 && state[4096] == 0), "the first page alone");
    assert!(states.iter().any(|state| state[0] == 0 && state[4096] == 2), "the second page alone");
    assert!(
        states.iter().any(|state| state[..4096].contains(&1) && state[..4096].contains(&2)),
        "a torn page"
    );
}

#[test]
fn files_go_their_own_ways() {
    let backend = Memory::new();
    let files = [synced(&backend, "a", &[0; 100]), synced(&backend, "b", &[0; 100])];
    for file in &files {
        file.write_at(0, &[1; 100]).unwrap();
    }
    let mut states = left(&backend, |after| (read(after, "a").unwrap()[0], read(after, "b").unwrap()[0]));
    states.sort_unstable();
    assert_eq!(states, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

#[test]
fn what_power_loss_cut_off_does_not_come_back() {
    let backend = Memory::new();
    let file = synced(&backend, "a", &[1; 100]);
    file.write_at(100, &[2; 5_000]).unwrap();
    let mut was_cut = false;
    for seed in 0..SEEDS {
        let after = backend.crash(Crash::PowerLoss { seed });
        let len = read(&after, "a").unwrap().len();
        after.open_write("a").unwrap().set_len(6_000).unwrap();
        let bytes = read(&after, "a").unwrap();
        assert!(bytes[len..].iter().all(|byte| *byte == 0), "seed {seed}");
        was_cut |= len == 100;
    }
    assert!(was_cut);
}

#[test]
fn a_length_is_one_that_the_file_had() {
    let backend = Memory::new();
    let file = synced(&backend, "a", &[9; 600]);
    file.write_at(600, &[9; 400]).unwrap();
    file.set_len(300).unwrap();
    file.write_at(300, &[8; 4_000]).unwrap();
    let mut lens = left(&backend, |after| read(after, "a").unwrap().len());
    lens.sort_unstable();
    assert_eq!(lens, [300, 600, 1_000, 4_300]);
    file.sync().unwrap();
    assert_eq!(left(&backend, |after| read(after, "a").unwrap().len()), [4_300]);
}

#[test]
fn names_are_as_of_some_moment_since_the_directory_was_synced() {
    let backend = Memory::new();
    synced(&backend, "a", b"a");
    let names =
        |after: &Memory| -> Vec<String> { after.list().unwrap().into_iter().map(|(name, _)| name).collect() };
    backend.create("b").unwrap();
    backend.rename("a", "c").unwrap();
    backend.remove("b").unwrap();
    let mut states = left(&backend, names);
    states.sort();
    let expected: [&[&str]; 4] = [&["a"], &["a", "b"], &["b", "c"], &["c"]];
    assert_eq!(states, expected);
    let after = backend.crash(Crash::PowerLoss { seed: 1 });
    assert_eq!(left(&after, names).len(), 1, "what power loss left is durable");
    backend.publish("1.manifest", b"edit").unwrap();
    assert_eq!(left(&backend, names), [["1.manifest", "c"]], "publishing syncs the directory");
}

#[test]
fn names_without_order_are_there_each_for_itself_until_the_directory_is_synced() {
    let backend = Memory::new();
    synced(&backend, "old", b"o");
    backend.cut_at(backend.operations() + 2);
    backend.create("first").unwrap();
    assert!(backend.publish("second", b"2").is_err(), "the machine goes before the directory is synced");
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let names = backend.crash_without_order(seed).list().unwrap().into_iter().map(|(name, _)| name);
        seen.insert(names.collect::<Vec<_>>().join(" "));
    }
    let all = ["first old", "first old second", "old", "old second"].map(str::to_owned);
    assert_eq!(seen, BTreeSet::from(all));
    let backend = Memory::new();
    synced(&backend, "first", b"1");
    backend.publish("second", b"2").unwrap();
    for seed in 0..20 {
        assert_eq!(backend.crash_without_order(seed).list().unwrap().len(), 2, "both were promised");
    }
}

#[test]
fn a_link_is_the_same_file_and_durable() {
    let backend = Memory::new();
    let file = backend.create("a").unwrap();
    file.write_at(0, b"bytes").unwrap();
    backend.link_into(&["a".to_owned()], Path::new("backup")).unwrap();
    let backup = |after: &Memory| read(&after.directory(Path::new("backup")).unwrap(), "a");
    assert_eq!(left(&backend, backup), [Some(b"bytes".to_vec())]);
    let killed = backend.crash(Crash::Kill);
    killed.open_write("a").unwrap().write_at(0, b"B").unwrap();
    assert_eq!(backup(&killed).unwrap(), b"Bytes", "two names of one file after a crash too");
    assert!(backend.directory(Path::new("nowhere")).is_none());
}

#[test]
fn a_seed_reproduces_its_image() {
    let script = || {
        let backend = Memory::new();
        for index in 0..5 {
            let file = backend.create(&format!("{index}")).unwrap();
            for write in 0..20u64 {
                file.write_at(write * 700, &[write as u8 + 1; 900]).unwrap();
            }
        }
        backend
    };
    let (one, two) = (script(), script());
    let image = |backend: &Memory, seed| {
        let after = backend.crash(Crash::PowerLoss { seed });
        let list = after.list().unwrap();
        list.into_iter().map(|(name, _)| (read(&after, &name), name)).collect::<Vec<_>>()
    };
    for seed in 0..50 {
        assert!(image(&one, seed) == image(&two, seed), "seed {seed}");
    }
    assert!((1..50).any(|seed| image(&one, seed) != image(&one, 0)), "seeds differ");
}

/// One of each counted operation.
fn every_operation(backend: &Memory) -> Result<()> {
    let file = backend.create("a")?;
    file.write_at(0, b"0123456789")?;
    file.sync()?;
    file.set_len(4)?;
    backend.rename("a", "b")?;
    backend.sync_dir()?;
    backend.publish("1.manifest", b"edit")?;
    backend.remove("b")?;
    backend.link_into(&["1.manifest".to_owned()], Path::new("backup")).map(drop)
}

#[test]
fn the_machine_goes_at_each_operation() {
    let whole = Memory::new();
    every_operation(&whole).unwrap();
    assert_eq!(whole.operations(), 11);
    let mut seen = Vec::new();
    for cut in 0..11 {
        let backend = Memory::new();
        backend.cut_at(cut);
        let error = every_operation(&backend).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Io, "the machine is gone"));
        assert_eq!(backend.operations(), cut);
        assert_eq!(backend.list().unwrap_err().kind, ErrorKind::Io, "reads fail too");
        assert_eq!(backend.open_read("a").unwrap_err().kind, ErrorKind::Io);
        seen.push(backend.cut_operation().unwrap());
        let after = backend.crash(Crash::Kill);
        assert!(after.cut_operation().is_none());
        assert_eq!(after.operations(), 0);
        let names: Vec<String> = after.list().unwrap().into_iter().map(|(name, _)| name).collect();
        let expected: &[&str] = match cut {
            0 => &[],
            1..=4 => &["a"],
            5..=6 => &["b"],
            7..=8 => &["1.manifest", "b"],
            _ => &["1.manifest"],
        };
        assert_eq!(names, expected, "cut {cut}");
    }
    assert_eq!(seen[1], "write 10 bytes to a at 0");
    seen.dedup();
    assert_eq!(seen.len(), 11);
    whole.cut_at(11);
    whole.list().unwrap();
    assert_eq!(whole.sync_dir().unwrap_err().kind, ErrorKind::Io);
    assert!(whole.list().is_err());
}

#[test]
fn a_publication_cut_before_its_directory_sync_may_be_lost() {
    let backend = Memory::new();
    backend.cut_at(1);
    assert!(backend.publish("1.manifest", b"edit").is_err());
    let mut states = left(&backend, |after| read(after, "1.manifest"));
    states.sort();
    assert_eq!(states, [None, Some(b"edit".to_vec())], "absent or whole");
}

#[test]
fn a_write_may_be_cut_in_its_midst() {
    for bytes in [0, 1, 7, 10, 99] {
        let backend = Memory::new();
        backend.cut_write_at(1, bytes);
        assert!(every_operation(&backend).is_err());
        let killed = backend.crash(Crash::Kill);
        assert_eq!(read(&killed, "a").unwrap(), b"0123456789"[..bytes.min(10)]);
    }
}

#[test]
fn bytes_are_shared_and_stand_still() {
    let backend = Memory::new();
    let file = synced(&backend, "a", &[1; 10_000]);
    let first = backend.open_read("a").unwrap().bytes().unwrap().unwrap();
    let second = backend.open_read("a").unwrap().bytes().unwrap().unwrap();
    assert_eq!(first.as_ptr(), second.as_ptr(), "asked twice, copied once");
    let after = backend.crash(Crash::PowerLoss { seed: 3 });
    let third = after.open_read("a").unwrap().bytes().unwrap().unwrap();
    assert_eq!(first.as_ptr(), third.as_ptr(), "shared across a crash");
    file.write_at(0, &[2]).unwrap();
    assert_eq!(first[0], 1);
    assert_eq!(read(&backend, "a").unwrap()[0], 2);
}

#[test]
fn history_ends_with_a_sync() {
    let backend = Memory::new();
    let file = backend.create("a").unwrap();
    for _ in 0..100 {
        file.write_at(0, &[1; 5_000]).unwrap();
    }
    let inode = backend.existing(&mut backend.world.state().unwrap(), "a").unwrap();
    assert_eq!(inode.content.read().unwrap().history_count(), 200);
    file.sync().unwrap();
    assert_eq!(inode.content.read().unwrap().history_count(), 0);
}
