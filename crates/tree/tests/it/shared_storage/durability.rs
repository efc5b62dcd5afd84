//! Writes that were acknowledged as `Shared`: another machine that takes the database over has
//! them.

use std::sync::Arc;

use firn_engine::{Batch, Durability, Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings};
use firn_format::file_name;
use firn_storage::backend::{Crash, Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{ErrorKind as Kind, Storage};
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::machine::{HERE, Machine, Model, SHARED, all, lost, objects, on, settings};
use crate::support::world::{Hook, describe, get_in, session, settle};

fn machines(shared: &Memory) -> (Machine, Machine) {
    (Machine::new(settings(), shared, 7), Machine::new(settings(), shared, 8))
}

/// Values that lie in the log, beside it, and beside it in several pieces.
fn value(key: u32) -> Vec<u8> {
    vec![key as u8; [10, 5000, 90, 2 << 20][key as usize % 4] + key as usize]
}

#[test]
fn another_machine_has_what_was_acknowledged_as_shared_and_nothing_is_acknowledged_afterwards() {
    let shared = Memory::new();
    let (first, second) = machines(&shared);
    let old = first.open();
    old.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
    let mut writer = session(&old);
    let mut model = Model::new();
    for key in 0..40_u32 {
        let options = if key % 3 == 0 { SHARED } else { HERE };
        writer.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &value(key), options).unwrap();
        model.insert(key.to_be_bytes().to_vec(), value(key));
    }
    assert!(model.len() == 40 && 39 % 3 == 0, "the last one is shared, and all before it with it");
    writer.put(KEYSPACE_DEFAULT, b"lost", b"with the machine", HERE).unwrap();
    let new = second.take_over().unwrap();
    assert!(all(&new) == model);
    // The first machine does not know yet, but acknowledges nothing that does not hold.
    writer.put(KEYSPACE_DEFAULT, b"here", b"still", HERE).unwrap();
    let refused = writer.put(KEYSPACE_DEFAULT, b"late", b"", SHARED).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{}", describe(&refused));
    assert!(old.stats().write_failure.unwrap().contains("opened on another machine"));
    // Whichever it is that wrote there: a log object here, an edit elsewhere.
    let refused = writer.put(KEYSPACE_DEFAULT, b"later", b"", HERE).unwrap_err().to_string();
    assert!(refused.contains("log object") && refused.contains("connect to where it is open"), "{refused}");
    assert!(!refused.contains("reopen"), "{refused}");
    assert_eq!(get_in(&mut writer, KEYSPACE_DEFAULT, b"here"), Some(b"still".to_vec()));
    drop((writer, old));
    // What was restored is the second one's own by now, kills included.
    let mut writer = session(&new);
    writer.put(KEYSPACE_DEFAULT, b"more", b"here", HERE).unwrap();
    model.insert(b"more".to_vec(), b"here".to_vec());
    drop((writer, new));
    let second = Machine { local: second.local.crash(Crash::Kill), ..second };
    let again = second.open();
    assert!(all(&again) == model);
    again.flush().unwrap();
    settle(&again);
    assert!(all(&again) == model);
    again.close().unwrap();
    second.check_files("taken over");
}

/// Each machine takes over from the one before. Some of them have no write of their own, and all of
/// them have what an earlier time left.
#[test]
fn it_goes_from_machine_to_machine() {
    let mut shared = Memory::new();
    let locals = [Memory::new(), Memory::new(), Memory::new()];
    let mut model = Model::new();
    for turn in 1..15_u32 {
        let at = turn as usize % 3;
        let local = locals[at].clone();
        let machine = Machine { local, ..Machine::new(settings(), &shared, at as u128 + 1) };
        let tree = machine.take_over().unwrap();
        if turn == 1 {
            tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
        }
        assert!(all(&tree) == model, "turn {turn}");
        let mut writer = session(&tree);
        if turn % 4 != 0 {
            for key in 0..4_u32 {
                let key = turn << 8 | key;
                writer.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &value(key), SHARED).unwrap();
                model.insert(key.to_be_bytes().to_vec(), value(key));
            }
        }
        if turn % 3 == 0 {
            tree.flush().unwrap();
            settle(&tree);
        }
        writer.put(KEYSPACE_DEFAULT, b"lost", &[turn as u8; 3000], HERE).unwrap();
        shared = lost(&shared, (writer, tree));
        let machine = Machine { shared: shared.clone(), ..machine };
        machine.check_files(&format!("turn {turn}"));
    }
    // Of each generation that had log objects an end stays, and of the last ones what is needed.
    let found = objects(&shared);
    let count: usize = found.values().map(Vec::len).sum();
    assert!(count < 25, "{found:?}");
}

#[test]
fn log_objects_go_once_they_are_in_tables() {
    let shared = Memory::new();
    let (first, second) = machines(&shared);
    let tree = first.open();
    tree.create_keyspace("idle", KeyspaceSettings::default()).unwrap();
    let mut model = Model::new();
    let mut most = 0;
    for round in 0..6_u32 {
        let mut writer = session(&tree);
        for key in 0..60_u32 {
            writer.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &[round as u8; 500], SHARED).unwrap();
            model.insert(key.to_be_bytes().to_vec(), vec![round as u8; 500]);
        }
        drop(writer);
        most = most.max(objects(&shared).values().map(Vec::len).sum());
        tree.flush().unwrap();
        settle(&tree);
    }
    let found = objects(&shared);
    assert!(
        most >= 60 && found.len() == 1 && found.values().all(|numbers| numbers.len() <= 61),
        "{most}: {found:?}"
    );
    let stats = tree.stats();
    assert_eq!(stats.log_object_count, 360);
    let shared = lost(&shared, tree);
    let second = on(&second, &shared);
    let new = second.take_over().unwrap();
    assert!(all(&new) == model);
    // Nothing of it is needed any more once the second one has it in tables, whether it shares or
    // not.
    for round in 0..3_u8 {
        session(&new).put(KEYSPACE_DEFAULT, b"new", &[round], HERE).unwrap();
        new.flush().unwrap();
        settle(&new);
    }
    let left = objects(&shared);
    assert!(left.len() == 1 && left.values().all(|numbers| numbers.len() == 1), "the end: {left:?}");
    new.close().unwrap();
    second.check_files("flushed");
}

#[test]
fn a_machine_that_comes_back_keeps_what_it_shared() {
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 7 }] {
        let shared = Memory::new();
        let (first, second) = machines(&shared);
        let tree = first.open();
        tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
        let mut model = Model::new();
        for key in 0..8_u32 {
            session(&tree).put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &value(key), SHARED).unwrap();
            model.insert(key.to_be_bytes().to_vec(), value(key));
        }
        session(&tree).put(KEYSPACE_DEFAULT, b"perhaps", b"", HERE).unwrap();
        let left = first.local.crash(crash);
        let shared = lost(&shared, tree);
        let first = Machine { local: left, ..on(&first, &shared) };
        let tree = first.open();
        let mut found = all(&tree);
        found.remove(&b"perhaps"[..]);
        assert!(found == model, "{crash:?}");
        // Shared by a later generation, in log objects of its own; those of the one before are
        // gone.
        session(&tree).put(KEYSPACE_DEFAULT, b"again", b"shared", SHARED).unwrap();
        model.insert(b"again".to_vec(), b"shared".to_vec());
        settle(&tree);
        let there = objects(&shared);
        assert_eq!(there.values().map(Vec::len).collect::<Vec<_>>(), [1], "{there:?}");
        let shared = lost(&shared, tree);
        let second = on(&second, &shared);
        let mut found = all(&second.take_over().unwrap());
        found.remove(&b"perhaps"[..]);
        assert!(found == model, "{crash:?}");
        second.check_files("taken over");
    }
}

#[test]
fn where_nothing_is_shared_nothing_is_acknowledged_as_shared() {
    let world = crate::support::world::World::new(settings());
    let tree = world.open().unwrap();
    let refused = session(&tree).put(KEYSPACE_DEFAULT, b"key", b"", SHARED).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("name a shared location, or ask for `disk`"), "{refused}");
    assert_eq!(get_in(&mut session(&tree), KEYSPACE_DEFAULT, b"key"), None, "it was not written");
    drop(tree);
    let settings = Settings { durability: Durability::Shared, ..settings() };
    let refused = Tree::open(TreeOptions { settings, ..world.options() }).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

/// A backend that refuses, that says nothing, or that says nothing although it has done it.
#[test]
fn what_the_backend_does_not_take_is_not_acknowledged_and_goes_there_later() {
    for (kind, is_done) in [(Kind::Refused, false), (Kind::Undecided, false), (Kind::Undecided, true)] {
        let shared = Memory::new();
        let (first, second) = machines(&shared);
        let faulty = Faulty::new(Arc::new(shared.clone()));
        let storage =
            Arc::new(Divided::open(Arc::new(first.local.clone()), Arc::new(faulty.clone()), 7).unwrap());
        let tree = Tree::open(TreeOptions { storage, ..first.options() }).unwrap();
        let mut writer = session(&tree);
        writer.put(KEYSPACE_DEFAULT, b"first", b"shared", SHARED).unwrap();
        let effect = if is_done { Effect::FailAfter(kind) } else { Effect::Fail(kind) };
        let when = When::Always { after: 0 };
        faulty.inject(Fault { on: Operation::Publish, file: "*.group".to_owned(), when, effect });
        let refused = writer.put(KEYSPACE_DEFAULT, b"second", b"later", SHARED);
        // Where it is there after all, the machine does not know that yet.
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotDurable, "{}", describe(&refused));
        assert!(refused.to_string().contains("not `shared` yet"), "{refused}");
        assert!(refused.to_string().contains("shared storage does not take the log now"), "{refused}");
        assert_eq!(get_in(&mut writer, KEYSPACE_DEFAULT, b"second"), Some(b"later".to_vec()));
        // The other words hold.
        writer.put(KEYSPACE_DEFAULT, b"third", b"here", HERE).unwrap();
        faulty.clear_faults();
        writer.put(KEYSPACE_DEFAULT, b"fourth", b"shared", SHARED).unwrap();
        let model = all(&tree);
        assert_eq!(model.len(), 4);
        let second = on(&second, &lost(&shared, (writer, tree)));
        assert!(all(&second.take_over().unwrap()) == model, "{kind:?}");
    }
}

#[test]
fn a_log_object_that_is_missing_or_damaged_is_told_of() {
    for fault in ["missing", "damaged", "another"] {
        let shared = Memory::new();
        let (first, second) = machines(&shared);
        let tree = first.open();
        for key in 0..5_u8 {
            session(&tree).put(KEYSPACE_DEFAULT, &[key], b"shared", SHARED).unwrap();
        }
        drop(tree);
        let (generation, numbers) = objects(&shared).pop_first().unwrap();
        let name = file_name::log_object(generation, numbers[2]);
        let bytes = shared.open_read(&name).unwrap().len();
        let mut other = vec![7; bytes as usize];
        if fault == "another" {
            shared
                .open_read(&file_name::log_object(generation, numbers[3]))
                .unwrap()
                .read_at(0, &mut other)
                .unwrap();
        }
        shared.remove(&name).unwrap();
        if fault != "missing" {
            shared.create(&name).unwrap().write_at(0, &other).unwrap();
        }
        let report = first.verify();
        assert!(report.damage().any(|finding| finding.file == name), "{fault}: {report:?}");
        let error = second.take_over().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{fault}: {}", describe(&error));
        assert!(error.to_string().contains(&name), "{fault}: {}", describe(&error));
    }
}

/// Flushes take one keyspace's half of a batch: another machine has the other half, too.
#[test]
fn a_batch_is_never_in_half() {
    let shared = Memory::new();
    let (first, second) = machines(&shared);
    let tree = first.open();
    let large = tree.create_keyspace("large", KeyspaceSettings::default()).unwrap();
    let mut writer = session(&tree);
    writer.put(KEYSPACE_DEFAULT, b"first", b"shared", SHARED).unwrap();
    let mut batch = Batch::new();
    batch.put(KEYSPACE_DEFAULT, b"half", b"in the log");
    batch.put(large, b"half", b"in a table");
    writer.write(&batch, HERE).unwrap();
    for key in 0..14_u32 {
        writer.put(large, &key.to_be_bytes(), &[7; 1 << 20], HERE).unwrap();
    }
    settle(&tree);
    let stats = tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").table_count > 0
            && stats.keyspaces[0].tree.as_ref().expect("a tree").memtable_records == 2,
        "{stats:?}"
    );
    let second = on(&second, &lost(&shared, (writer, tree)));
    let new = second.take_over().unwrap();
    let mut reader = session(&new);
    assert_eq!(get_in(&mut reader, large, b"half"), Some(b"in a table".to_vec()));
    assert_eq!(get_in(&mut reader, KEYSPACE_DEFAULT, b"half"), Some(b"in the log".to_vec()));
}

/// One machine sleeps through two openings, and through all that they removed.
#[test]
fn the_end_of_a_machines_log_objects_stays() {
    let shared = Memory::new();
    let (first, second) = machines(&shared);
    let sleeper = first.open();
    let mut late = session(&sleeper);
    late.put(KEYSPACE_DEFAULT, b"first", b"shared", SHARED).unwrap();
    for round in 0..3_u8 {
        let tree = if round == 0 { second.take_over().unwrap() } else { second.open() };
        session(&tree).put(KEYSPACE_DEFAULT, &[round], b"shared", SHARED).unwrap();
        tree.flush().unwrap();
        settle(&tree);
        tree.close().unwrap();
    }
    let error = late.put(KEYSPACE_DEFAULT, b"late", b"", SHARED).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{}", describe(&error));
}

/// The machine before knew more of its log to be on its device than it had shared. That counts for
/// nothing on the machine that takes over.
#[test]
fn what_another_machines_device_had_is_not_looked_for_here() {
    for seed in 0..10 {
        let shared = Memory::new();
        let (first, second) = machines(&shared);
        let tree = first.open();
        session(&tree).put(KEYSPACE_DEFAULT, b"shared", b"everywhere", SHARED).unwrap();
        session(&tree).put(KEYSPACE_DEFAULT, b"here", &[7; 5000], HERE).unwrap();
        tree.close().unwrap();
        let tree = second.take_over().unwrap();
        let local = second.local.crash(Crash::PowerLoss { seed });
        let second = Machine { local, ..on(&second, &lost(&shared, tree)) };
        let tree = second.open();
        let model = all(&tree);
        assert_eq!(model.len(), 1, "{:?}", model.keys());
    }
}

/// Something is written while the log is synced; power is lost, and this machine does not have
/// that.
#[test]
fn what_a_machine_that_came_back_did_not_find_is_not_found_elsewhere() {
    let mut cut = 0;
    for seed in 0..10 {
        let shared = Memory::new();
        let (first, second) = machines(&shared);
        let hook = Arc::<Hook>::default();
        let local = hook.before(&first.local, Operation::SyncDir, "*");
        let storage = Divided::open(Arc::new(local), Arc::new(shared.clone()), 7).unwrap();
        let tree = Tree::open(TreeOptions { storage: Arc::new(storage), ..first.options() }).unwrap();
        let other = Arc::clone(&tree);
        hook.set(move || {
            _ = session(&other).put(KEYSPACE_DEFAULT, b"meanwhile", &[7; 9000], HERE).unwrap();
        });
        session(&tree).put(KEYSPACE_DEFAULT, b"first", b"shared", SHARED).unwrap();
        hook.set(|| {});
        let local = first.local.crash(Crash::PowerLoss { seed });
        let shared = lost(&shared, tree);
        let first = Machine { local, ..on(&first, &shared) };
        let tree = first.open();
        let model = all(&tree);
        assert_eq!(model.get(&b"first"[..]), Some(&b"shared".to_vec()));
        println!("{:?}", model.keys());
        cut += usize::from(model.len() == 1);
        let second = on(&second, &lost(&shared, tree));
        assert!(all(&second.take_over().unwrap()) == model, "seed {seed}");
    }
    assert!(cut > 0, "nothing was ever lost");
}

#[test]
fn what_is_too_much_for_one_log_object_is_shared_in_several() {
    let shared = Memory::new();
    let (first, second) = machines(&shared);
    let tree = first.open();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
    let mut writer = session(&tree);
    let mut model = Model::new();
    for key in 0..300_u32 {
        let value = vec![key as u8; if key % 3 == 0 { 900 } else { 100_000 }];
        writer.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &value, HERE).unwrap();
        model.insert(key.to_be_bytes().to_vec(), value);
    }
    writer.put(KEYSPACE_DEFAULT, b"last", b"shared", SHARED).unwrap();
    model.insert(b"last".to_vec(), b"shared".to_vec());
    assert!((3..5).contains(&tree.stats().log_object_count), "{:?}", tree.stats());
    let second = on(&second, &lost(&shared, (writer, tree)));
    assert!(all(&second.take_over().unwrap()) == model);
}

/// What was restored is on the second machine's device, and its log objects stay until it is in
/// tables, whichever of them is written first.
#[test]
fn what_was_restored_is_kept_here_and_there() {
    // Where it is the default, log objects begin with the first flush, which may be of less than
    // was restored.
    for durability in [Durability::Process, Durability::Shared] {
        restored_is_kept(durability);
    }
}

fn restored_is_kept(durability: Durability) {
    let shared = Memory::new();
    let (first, mut second) = machines(&shared);
    second.world.settings.durability = durability;
    let tree = first.open();
    let others: Vec<_> = (0..3)
        .map(|name| tree.create_keyspace(&format!("{name}"), KeyspaceSettings::default()).unwrap())
        .collect();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
    for key in 0..8_u32 {
        session(&tree).put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &value(key), SHARED).unwrap();
        session(&tree).put(others[key as usize % 3], &key.to_be_bytes(), &vec![7; 5 << 19], SHARED).unwrap();
    }
    let is_there = |tree: &Tree| {
        let has =
            |key: u32| get_in(&mut session(tree), others[key as usize % 3], &key.to_be_bytes()).is_some();
        all(tree).len() == 8
            && (0..8_u32).all(|key| all(tree)[&key.to_be_bytes()[..]] == value(key) && has(key))
    };
    let shared = lost(&shared, tree);
    let second = on(&second, &shared);
    let tree = second.take_over().unwrap();
    for seed in 0..10 {
        let local = second.local.crash(Crash::PowerLoss { seed });
        let restarted = Machine { local, ..on(&second, &shared.crash(Crash::Kill)) };
        assert!(is_there(&restarted.open()), "seed {seed}");
    }
    let mut log_objects_left = Vec::new();
    for key in 0..24_u32 {
        session(&tree).put(others[2], &(key + 100).to_be_bytes(), &[8; 1 << 20], HERE).unwrap();
        while tree.step().unwrap() {
            let third = Machine::new(settings(), &shared.crash(Crash::Kill), 9);
            assert!(is_there(&third.take_over().unwrap()), "{key}: {log_objects_left:?}");
        }
        log_objects_left.push(objects(&shared).values().map(Vec::len).sum::<usize>());
    }
    let last = log_objects_left.last().copied();
    assert!(
        log_objects_left[0] > 2 && last.is_some_and(|left| left < 8),
        "{durability:?}: {log_objects_left:?}"
    );
}

#[test]
fn log_objects_that_no_edit_ever_named_are_removed() {
    let shared = Memory::new();
    let (first, _) = machines(&shared);
    for generation in 0..3_u64 {
        drop(first.open());
        let name = file_name::log_object(generation + 1, 0);
        shared.create(&name).unwrap();
    }
    let (ours, later) = (file_name::log_object(4, 0), file_name::log_object(5, 0));
    for name in [&ours, &later] {
        shared.create(name).unwrap();
    }
    drop(first.open());
    let left: Vec<String> =
        objects(&shared).keys().map(|generation| file_name::log_object(*generation, 0)).collect();
    assert_eq!(left, [ours, later], "what a later opening may have made stays");
}
