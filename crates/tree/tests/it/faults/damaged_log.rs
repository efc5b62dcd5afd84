//! T13: a byte flipped amid the unsynced log, with whole segments behind, was taken for a crash's
//! tail. The rest was dropped without a word, and `verify` called the database sound.
//!
//! Neighbours: damage in the segment that is written to, in a segment's header, a page of zeros, a
//! segment that is missing. The same after a loss of power, which may leave all of that and opens;
//! a torn tail, which opens; repairing.

use std::sync::Arc;

use firn_engine::{Durability, Engine, ErrorKind, KEYSPACE_DEFAULT, ReadAt, ScanRange, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Memory};
use firn_tree::{RepairOptions, RepairStep, Tree, repair};

use crate::support::inspect::report;
use crate::support::machine::{HERE, Machine};
use crate::support::world::{World, rows, session, tiny};

const KEYS: u32 = 900;
const VALUE_BYTES: usize = 8_000;

/// A killed process's database: nothing synced, records in the log alone, in two segments.
fn killed() -> World {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut writer = session(&tree);
    let options = WriteOptions { durability: Some(Durability::Process), expires_at_ms: 0 };
    for key in 0..KEYS {
        let value = vec![key as u8 | 1; VALUE_BYTES];
        writer.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &value, options).unwrap();
    }
    drop(writer);
    let crashed = world.crash(Crash::Kill);
    assert_eq!(logs(&crashed.storage).len(), 2, "{:?}", logs(&crashed.storage));
    crashed
}

fn logs(storage: &Memory) -> Vec<String> {
    let files = storage.list().unwrap().into_iter().map(|(name, _)| name);
    files.filter(|name| name.ends_with(".log")).collect()
}

fn write(storage: &Memory, name: &str, offset: u64, bytes: &[u8]) {
    storage.open_write(name).unwrap().write_at(offset, bytes).unwrap();
}

/// Keys that are there: the first so many, and no others.
fn keys(world: &World) -> u32 {
    let tree = world.open().unwrap();
    let found = rows(&mut session(&tree), ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all());
    for (key, (found, _)) in (0_u32..).zip(&found) {
        assert_eq!(*found, key.to_be_bytes());
    }
    found.len() as u32
}

/// What is done to a directory, given the names of its log segments.
type Damage = fn(&Memory, &[String]);

/// What can be done to the log that no kill does: damage in one of its files.
const DAMAGES: [(&str, Damage); 5] = [
    ("a byte of the older segment", |storage, logs| write(storage, &logs[0], 1 << 20, &[0xff])),
    ("a byte of the newer segment", |storage, logs| write(storage, &logs[1], 1 << 20, &[0xff])),
    ("a page of zeros", |storage, logs| write(storage, &logs[0], 2 << 20, &[0; 4096])),
    ("the newer segment's header", |storage, logs| write(storage, &logs[1], 40, &[0xff; 4])),
    ("no older segment", |storage, logs| storage.remove(&logs[0]).unwrap()),
];

#[test]
fn t13_damage_amid_the_unsynced_log_is_refused_and_told() {
    for (what, damage) in DAMAGES {
        let world = killed();
        let names = logs(&world.storage);
        damage(&world.storage, &names);
        let error = world.open().map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        let location = error.location().unwrap();
        assert!(names.contains(&location.file) && error.message().contains("firn repair"), "{what}: {error}");
        let report = report(&world.storage);
        assert!(report.damage().any(|finding| names.contains(&finding.file)), "{what}: {report:?}");
        // Nothing was changed by what was refused.
        assert_eq!(world.open().map(drop).unwrap_err().to_string(), error.to_string(), "{what}");
    }
}

#[test]
fn t13_what_a_loss_of_power_may_leave_opens_without_a_word() {
    for (what, damage) in DAMAGES {
        let world = killed();
        damage(&world.storage, &logs(&world.storage));
        // Everything was on the device by chance, but for this.
        let files = crate::support::sample::read_files(&world.storage);
        let storage = crate::support::sample::directory(&files).crash(Crash::PowerLoss { seed: 1 });
        for (name, content) in &files {
            let file = storage.open_write(name).or_else(|_| storage.create(name)).unwrap();
            file.write_at(0, content).unwrap();
        }
        let world = World { storage, ..world };
        assert!(report(&world.storage).is_sound(), "{what}: {:?}", report(&world.storage));
        assert!(keys(&world) < KEYS, "{what}");
    }
}

#[test]
fn t13_the_tail_of_a_kill_opens_without_a_word() {
    // First the log as the kill left it, then with zeros from within the last record on.
    let world = killed();
    assert_eq!(keys(&world), KEYS);
    let world = killed();
    let last = logs(&world.storage).pop().unwrap();
    let mut content = crate::support::sample::read_files(&world.storage).remove(&last).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap();
    content[end - 3000..].fill(0);
    write(&world.storage, &last, 0, &content);
    assert!(report(&world.storage).is_sound());
    assert_eq!(keys(&world), KEYS - 1);
}

fn repaired(storage: &Memory, dry_run: bool) -> Vec<RepairStep> {
    repair(&RepairOptions { storage: Arc::new(storage.clone()), log: None, dry_run }).unwrap()
}

#[test]
fn t13_repair_keeps_what_is_behind_aside() {
    for (what, damage) in DAMAGES {
        let world = killed();
        damage(&world.storage, &logs(&world.storage));
        let before = crate::support::sample::read_files(&world.storage);
        let planned = repaired(&world.storage, true);
        assert!(!planned.is_empty(), "{what}");
        assert_eq!(
            crate::support::sample::read_files(&world.storage),
            before,
            "{what}: a dry run changes nothing"
        );
        assert_eq!(repaired(&world.storage, false), planned, "{what}");
        let after = crate::support::sample::read_files(&world.storage);
        for step in &planned {
            assert_eq!(after[&step.kept_as], before[&step.file], "{what}: {step}");
        }
        assert_eq!(repaired(&world.storage, true), [], "{what}: it is done");
        assert!(report(&world.storage).is_sound(), "{what}: {:?}", report(&world.storage));
        let kept = keys(&world);
        assert!(kept < KEYS, "{what}: {kept}");
        let still = crate::support::sample::read_files(&world.storage);
        assert!(
            planned.iter().all(|step| still.contains_key(&step.kept_as)),
            "{what}: an opening keeps them"
        );
    }
}

/// Of a database on shared storage the directory of the log is repaired, and it alone.
#[test]
fn t13_a_log_beside_shared_storage_is_repaired() {
    for (what, damage) in DAMAGES {
        let shared = Memory::new();
        let machine = Machine::new(tiny(), &shared, 7);
        let tree = machine.open();
        let mut writer = session(&tree);
        for key in 0..KEYS {
            let value = vec![key as u8 | 1; VALUE_BYTES];
            writer.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &value, HERE).unwrap();
        }
        drop(writer);
        let left = shared.crash(Crash::Kill);
        let machine = Machine { local: machine.local.crash(Crash::Kill), shared: left, ..machine };
        let there = crate::support::sample::read_files(&machine.shared);
        damage(&machine.local, &logs(&machine.local));
        Tree::open(machine.options()).unwrap_err();
        let repaired = |of: &Machine, dry_run: bool| {
            let log: Arc<dyn Storage> = Arc::new(of.local.clone());
            let storage = of.backend_on(&of.local, &of.shared);
            repair(&RepairOptions { storage, log: Some(log), dry_run })
        };
        let error = repaired(&Machine::new(tiny(), &machine.shared, 8), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{what}: {error}");
        let planned = repaired(&machine, true).unwrap();
        assert!(!planned.is_empty(), "{what}");
        assert_eq!(repaired(&machine, false).unwrap(), planned, "{what}");
        assert_eq!(repaired(&machine, true).unwrap(), [], "{what}: it is done");
        assert_eq!(crate::support::sample::read_files(&machine.shared), there, "{what}");
        let tree = machine.open();
        let found = rows(&mut session(&tree), ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all());
        assert!((found.len() as u32) < KEYS, "{what}: {}", found.len());
    }
}

/// What other machines may have read is not taken back.
#[test]
fn t13_a_torn_edit_on_shared_storage_is_left_as_it_is() {
    let shared = Memory::new();
    let machine = Machine::new(tiny(), &shared, 7);
    machine.open().close().unwrap();
    let files = shared.list().unwrap().into_iter().map(|(name, _)| name);
    let edit = files.filter(|name| name.starts_with("manifest-")).max().unwrap();
    write(&shared, &edit, 20, &[0xff; 4]);
    let before = crate::support::sample::read_files(&shared);
    let (storage, log) =
        (machine.backend_on(&machine.local, &shared), Arc::new(machine.local.clone()) as Arc<dyn Storage>);
    let options = RepairOptions { storage, log: Some(log), dry_run: false };
    let error = repair(&options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("other machines may have read it"), "{error}");
    assert_eq!(crate::support::sample::read_files(&shared), before);
    let unnamed = repair(&RepairOptions { log: None, ..options }).unwrap_err();
    assert_eq!(unnamed.kind(), ErrorKind::Invalid, "{unnamed}");
}
