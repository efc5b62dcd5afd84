//! Databases of which the log lies on one machine, and the rest where others reach it.

use std::sync::Arc;

use firn_engine::{
    Durability, Engine, ErrorKind, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, ScanRange, WriteOptions,
};
use firn_format::file_name::FileName;
use firn_storage::Storage;
use firn_storage::backend::{Crash, Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::in_time::in_time;
use crate::support::machine::{Machine, Model, names};
use crate::support::world::{Hook, World, describe, get_in, put, rows, session, settle, tiny};

/// Blob segments that lie on this machine.
fn values_here(machine: &Machine) -> usize {
    names(&machine.local).iter().filter(|name| matches!(name, FileName::BlobSegment(_))).count()
}

fn is_local(name: &FileName) -> bool {
    matches!(name, FileName::Lock | FileName::Home | FileName::LogSegment(_) | FileName::BlobSegment(_))
}

fn lazy() -> Settings {
    Settings { space_amplification_max: 100.0, ..tiny() }
        .with_engine(|tree| tree.blob_segment_bytes = 32 << 10)
}

fn eager() -> Settings {
    Settings { space_amplification_max: 1.05, ..lazy() }
}

fn large() -> KeyspaceSettings {
    KeyspaceSettings { separate_bytes: Some(100), ..KeyspaceSettings::default() }
}

/// Writes each of `keys` keys, most of them several times, and has all of it in tables.
fn fill(tree: &Tree, keyspace: KeyspaceId, keys: u32, model: &mut Model) {
    let mut session = session(tree);
    for round in 0..3_u8 {
        for key in (0..keys).filter(|key| round == 0 || (key + u32::from(round)) % 3 != 0) {
            let bytes = 1500 + (key as usize * 37 + round as usize * 11) % 3000;
            let (key, value) = (key.to_be_bytes(), vec![key as u8 ^ round.wrapping_mul(31); bytes]);
            session.put(keyspace, &key, &value, WriteOptions::default()).unwrap();
            model.insert(key.to_vec(), value);
        }
        tree.flush().unwrap();
    }
}

fn compare(tree: &Tree, keyspace: KeyspaceId, model: &Model, what: &str) {
    let mut session = session(tree);
    let found = rows(&mut session, ReadAt::Latest, keyspace, ScanRange::all());
    assert!(found.into_iter().eq(model.clone()), "{what}: a scan");
    for (key, value) in model {
        assert_eq!(get_in(&mut session, keyspace, key).as_ref(), Some(value), "{what}");
    }
}

#[test]
fn what_is_finished_lies_where_others_reach_it_and_the_rest_does_not() {
    let shared = Memory::new();
    let mut machine = Machine::new(lazy(), &shared, 7);
    let tree = machine.open();
    let keyspace = tree.create_keyspace("large", large()).unwrap();
    let mut model = Model::new();
    fill(&tree, keyspace, 80, &mut model);
    tree.compact_range(keyspace, b"", None).unwrap();
    settle(&tree);
    assert!(values_here(&machine) <= 1, "what was sealed is not kept here: {:?}", names(&machine.local));
    tree.close().unwrap();
    machine.world.settings = eager();
    let tree = machine.open();
    settle(&tree);
    let stats = tree.stats();
    assert!(stats.tree.as_ref().expect("a tree").blobs.gc_count > 0, "{stats:?}");
    compare(&tree, keyspace, &model, "collected");
    // Something in the log alone.
    let mut writer = session(&tree);
    writer.put(keyspace, b"new", &[1; 5000], WriteOptions::default()).unwrap();
    model.insert(b"new".to_vec(), vec![1; 5000]);
    drop(writer);
    drop(tree);
    let (here, there) = (names(&machine.local), names(&shared));
    assert!(here.iter().all(is_local) && !there.iter().any(is_local), "{here:?} {there:?}");
    let logs = here.iter().filter(|name| matches!(name, FileName::LogSegment(_))).count();
    assert!(logs > 0, "{here:?}");
    assert!(there.iter().any(|name| matches!(name, FileName::CollectedBlobs { .. })), "{there:?}");
    machine.local = machine.local.crash(Crash::Kill);
    let tree = machine.open();
    compare(&tree, keyspace, &model, "after a kill");
    tree.close().unwrap();
    machine.check_files("after a kill");
}

/// Cause and remedy, and none that does not help: another opening here would be refused.
#[track_caller]
fn assert_names_the_remedy(message: &str) {
    for words in ["opened on another machine", "connect to where it is open", "is not this one's "] {
        assert!(message.contains(words), "no {words:?} in {message}");
    }
    assert!(!message.contains("reopen"), "{message}");
}

#[test]
fn another_machine_takes_over_what_is_in_tables_and_the_first_one_stops() {
    let shared = Memory::new();
    let (first, second) = (Machine::new(lazy(), &shared, 7), Machine::new(lazy(), &shared, 8));
    let old = first.open();
    let keyspace = old.create_keyspace("large", large()).unwrap();
    let mut model = Model::new();
    fill(&old, keyspace, 60, &mut model);
    let mut writer = session(&old);
    writer.put(keyspace, b"lost", &[1; 5000], WriteOptions::default()).unwrap();
    let refused = Tree::open(second.options()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{}", describe(&refused));
    let message = refused.to_string();
    assert!(message.contains("lies in another directory") && message.contains("take it over"), "{message}");
    let new = second.take_over().unwrap();
    compare(&new, keyspace, &model, "taken over");
    assert_eq!(get_in(&mut session(&new), keyspace, b"lost"), None);
    // The first one finds out with its next edit, harms nothing, and goes on answering.
    let refused = old.flush().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{}", describe(&refused));
    assert_names_the_remedy(&refused.to_string());
    let refused = writer.put(keyspace, b"more", b"", WriteOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{}", describe(&refused));
    assert_names_the_remedy(&refused.to_string());
    assert_eq!(get_in(&mut writer, keyspace, b"lost"), Some(vec![1; 5000]));
    drop(writer);
    // Neither closes nor removes what is the second one's.
    let _refused = old.close();
    drop(old);
    fill(&new, keyspace, 70, &mut model);
    settle(&new);
    compare(&new, keyspace, &model, "written");
    new.close().unwrap();
    second.check_files("written");
    // Back again: what the first one had by itself is not the database's.
    let back = first.take_over().unwrap();
    compare(&back, keyspace, &model, "back");
    assert_eq!(get_in(&mut session(&back), keyspace, b"lost"), None);
    back.close().unwrap();
    first.check_files("back");
}

#[test]
fn of_two_machines_that_create_a_database_one_does() {
    let shared = Memory::new();
    let first = Machine::new(lazy(), &shared, 7).open();
    let mut session = session(&first);
    put(&mut session, b"key", b"value");
    first.flush().unwrap();
    let second = Machine::new(lazy(), &shared, 8);
    assert_eq!(Tree::open(second.options()).unwrap_err().kind(), ErrorKind::Conflict);
    // Nor is a part of a database one.
    let part = Arc::new(Memory::clone(&second.local)) as Arc<dyn Storage>;
    let error = Tree::open(TreeOptions { storage: part, ..second.world.options() }).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("name the shared location too"),
        "{error}"
    );
    let part = Arc::new(shared.clone()) as Arc<dyn Storage>;
    let error = Tree::open(TreeOptions { storage: part, ..second.world.options() }).unwrap_err();
    assert!(error.to_string().contains("is the shared part of a database"), "{error}");
    // A log without its manifest is no new database.
    let elsewhere = Machine { shared: Memory::new(), ..second };
    let machine = Machine { local: elsewhere.local.clone(), ..Machine::new(lazy(), &Memory::new(), 8) };
    drop(machine.open());
    let emptied = Machine { shared: Memory::new(), ..machine };
    assert_eq!(Tree::open(emptied.options()).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// A machine that is cut at every operation of GCs and compactions, then comes back; or
/// another machine takes over instead.
#[test]
fn a_machine_that_goes_at_any_step_loses_nothing_that_is_in_tables() {
    let mut cuts = 0;
    for step in 0.. {
        // One disk for both parts, so that both stop at once.
        let shared = Memory::new();
        let mut machine = Machine::new(lazy(), &shared, 7);
        machine.local = shared.clone();
        let tree = machine.open();
        let keyspace = tree.create_keyspace("large", large()).unwrap();
        let mut model = Model::new();
        fill(&tree, keyspace, 50, &mut model);
        tree.compact_range(keyspace, b"", None).unwrap();
        // Only the log refers to these, which end some segments.
        let mut logged = Model::new();
        let mut writer = session(&tree);
        for number in 0..40_u8 {
            logged.insert(vec![b'z', number], vec![number; 2000]);
            writer.put(keyspace, &[b'z', number], &[number; 2000], WriteOptions::default()).unwrap();
        }
        drop((writer, tree));
        let shared = shared.crash(Crash::Kill);
        (machine.local, machine.shared) = (shared.clone(), shared.clone());
        machine.world.settings = eager();
        let first = shared.operations();
        shared.cut_write_at(first + step, (step as usize * 4001) % 9000);
        // What fails after the cut has not happened.
        if let Ok(tree) = Tree::open(machine.options()) {
            while tree.step().unwrap_or(false) {}
            let _late = tree.flush().and_then(|()| tree.compact_range(keyspace, b"", None));
        }
        let cut = shared.cut_operation();
        let what = format!("step {step}, {cut:?}");
        let left = shared.crash(Crash::Kill);
        for is_taken in [false, true] {
            let after = left.crash(Crash::Kill);
            let mut machine =
                Machine { local: after.clone(), shared: after, ..Machine::new(eager(), &shared, 7) };
            if is_taken {
                (machine.local, machine.home) = (Memory::new(), 8);
            }
            let tree = machine.take_over().unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
            let mut expected = model.clone();
            match is_taken {
                false => expected.extend(logged.clone()),
                // What was flushed before is there, and all else is not.
                true => expected.extend(logged.iter().filter_map(|(key, value)| {
                    get_in(&mut session(&tree), keyspace, key)?;
                    Some((key.clone(), value.clone()))
                })),
            }
            settle(&tree);
            compare(&tree, keyspace, &expected, &what);
            tree.close().unwrap();
            machine.check_files(&what);
        }
        if cut.is_none() {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 60, "{cuts} cuts");
}

#[test]
fn a_database_in_one_backend_is_not_taken_for_one_in_two() {
    let all = Memory::new();
    let alone = World { storage: all.clone(), ..World::new(lazy()) };
    let tree = alone.open().unwrap();
    put(&mut session(&tree), b"key", b"value");
    drop(tree);
    let machine = Machine::new(lazy(), &all, 7);
    for opened in [Tree::open(machine.options()), machine.take_over()] {
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{}", describe(&error));
        assert!(error.to_string().contains("open it without a shared location"), "{}", describe(&error));
    }
    let tree = alone.open().unwrap();
    assert_eq!(crate::support::world::get(&mut session(&tree), b"key"), Some(b"value".to_vec()));
}

/// What an earlier time left in a directory is longer than what the manifest knows of, and cannot
/// be removed.
#[test]
fn a_log_of_an_earlier_time_is_not_taken_for_the_new_one() {
    let shared = Memory::new();
    let settings = lazy().with_engine(|tree| tree.log_segment_bytes = 16 << 20);
    let (first, second) = (Machine::new(settings.clone(), &shared, 7), Machine::new(settings, &shared, 8));
    let old = first.open();
    put(&mut session(&old), b"old", b"given up");
    drop(old);
    let tree = second.take_over().unwrap();
    put(&mut session(&tree), b"key", b"given up too");
    drop(tree);
    let faulty = Faulty::new(Arc::new(first.local.clone()));
    let (on, when) = (Operation::Remove, When::Always { after: 0 });
    let effect = Effect::Fail(firn_storage::ErrorKind::NotFound);
    faulty.inject(Fault { on, file: "*.log".to_owned(), when, effect });
    let backend = Divided::open(Arc::new(faulty), Arc::new(shared.clone()), 7).unwrap();
    let back =
        Tree::open(TreeOptions { storage: Arc::new(backend), take_over: true, ..first.options() }).unwrap();
    put(&mut session(&back), b"new", b"acknowledged");
    drop(back);
    let after = Machine { local: first.local.crash(Crash::Kill), ..first };
    let tree = after.open();
    let found: Vec<Option<Vec<u8>>> = [b"key", b"new", b"old"]
        .iter()
        .map(|key| crate::support::world::get(&mut session(&tree), *key))
        .collect();
    assert_eq!(found, [None, Some(b"acknowledged".to_vec()), None]);
}

/// Values of a keyspace that flushes were collected; another one holds the log.
#[test]
fn what_was_collected_stays_when_a_log_that_is_needed_is_lost() {
    let shared = Memory::new();
    let first = Machine::new(eager(), &shared, 7);
    let tree = first.open();
    let large = tree.create_keyspace("large", large()).unwrap();
    put(&mut session(&tree), b"small", b"in the log");
    let mut model = Model::new();
    for round in 0..6_u8 {
        let mut writer = session(&tree);
        for key in (0..60_u32).filter(|key| round == 0 || (key + u32::from(round)) % 3 != 0) {
            let (key, value) = (key.to_be_bytes(), vec![key as u8 ^ round; 3000]);
            writer.put(large, &key, &value, WriteOptions::default()).unwrap();
            model.insert(key.to_vec(), value);
        }
        for filler in 0..4000_u32 {
            let key = [&[round][..], &filler.to_be_bytes(), &[7; 60]].concat();
            writer.put(large, &key, &[round; 60], WriteOptions::default()).unwrap();
            model.insert(key, vec![round; 60]);
        }
        drop(writer);
        settle(&tree);
    }
    let stats = tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").blobs.gc_count > 0
            && stats.keyspaces[0].tree.as_ref().expect("a tree").memtable_records == 1,
        "{stats:?}"
    );
    let second = Machine::new(eager(), &shared, 8);
    let taken = second.take_over().unwrap();
    let mut reader = session(&taken);
    let mut found: Model = rows(&mut reader, ReadAt::Latest, large, ScanRange::all()).into_iter().collect();
    found.retain(|key, value| model.get(key) == Some(value));
    assert!(found.len() > model.len() / 2, "{} of {}", found.len(), model.len());
    drop(reader);
    settle(&taken);
    // Its log is shorter than where those segments were sealed.
    let disk = WriteOptions { durability: Some(Durability::Disk), ..WriteOptions::default() };
    session(&taken).put(large, b"durable", b"yes", disk).unwrap();
    compare_some(&taken, large, &found);
    taken.close().unwrap();
    second.check_files("taken over");
}

/// All of `model` is there, whatever else is.
fn compare_some(tree: &Tree, keyspace: KeyspaceId, model: &Model) {
    let mut session = session(tree);
    for (key, value) in model {
        assert_eq!(get_in(&mut session, keyspace, key).as_ref(), Some(value));
    }
}

/// A blob segment of which a flush needs the first half ends behind frames that no other machine
/// will ever see.
#[test]
fn taking_over_goes_on_behind_where_values_were_sealed() {
    for durability in [Durability::Process, Durability::Shared] {
        goes_on_behind_where_values_were_sealed(durability);
    }
}

fn goes_on_behind_where_values_were_sealed(durability: Durability) {
    let shared = Memory::new();
    let first = Machine::new(lazy(), &shared, 7);
    let hook = Arc::<Hook>::default();
    let backend = hook.before(&shared, Operation::Create, "*.table");
    let storage = Arc::new(Divided::open(Arc::new(first.local.clone()), Arc::new(backend), 7).unwrap());
    let tree = Tree::open(TreeOptions { storage, ..first.options() }).unwrap();
    let keyspace = tree.create_keyspace("large", large()).unwrap();
    let mut model = Model::new();
    let mut writer = session(&tree);
    for key in 0..4_u8 {
        let options = WriteOptions { durability: Some(durability), ..WriteOptions::default() };
        writer.put(keyspace, &[key], &[key; 3000], options).unwrap();
        model.insert(vec![key], vec![key; 3000]);
    }
    let later = Arc::clone(&tree);
    let mut keys = 100..104_u8;
    hook.set(move || {
        let mut writer = session(&later);
        for key in keys.by_ref() {
            writer.put(keyspace, &[key], &[key; 3000], WriteOptions::default()).unwrap();
        }
    });
    tree.flush().unwrap();
    hook.set(|| {});
    // An end in order would say how far the log goes.
    let second = Machine::new(eager(), &shared.crash(Crash::Kill), 8);
    drop((writer, tree));
    let tree = second.take_over().unwrap();
    compare(&tree, keyspace, &model, "taken over");
    let settling = Arc::clone(&tree);
    in_time("GCs", move || settle(&settling));
    let stats = tree.stats();
    assert!(stats.tree.as_ref().expect("a tree").blobs.gc_count > 0, "{stats:?}");
    compare(&tree, keyspace, &model, "collected");
    tree.close().unwrap();
    second.check_files("collected");
}
