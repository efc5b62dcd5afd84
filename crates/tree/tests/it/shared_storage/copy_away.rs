//! Copies of databases on shared storage that fail: nothing of them stays, and the error says why.

use std::path::Path;
use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, Ordered};
use firn_storage::backend::{Divided, Effect, Fault, Faulty, Local, LocalOptions, Memory, Operation, When};
use firn_storage::{ErrorKind as Kind, Storage};
use firn_tree::{Tree, TreeOptions};

use crate::support::machine::{HERE, Machine, Model, all, settings};
use crate::support::world::{World, describe, session, settle};

/// Rows in tables and blob segments, which are copied, and in the log, which is linked.
fn begin(here: &Faulty, there: &Faulty, machine: &Machine) -> (Arc<Tree>, Model) {
    let storage = Divided::open(Arc::new(here.clone()), Arc::new(there.clone()), machine.home).unwrap();
    let tree = Tree::open(TreeOptions { storage: Arc::new(storage), ..machine.options() }).unwrap();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
    let mut writer = session(&tree);
    for key in 0..80_u8 {
        let value = vec![key; 40 + usize::from(key % 40) * 100];
        writer.put(KEYSPACE_DEFAULT, &[key], &value, HERE).unwrap();
        if key % 20 == 0 {
            tree.flush().unwrap();
        }
    }
    settle(&tree);
    (Arc::clone(&tree), all(&tree))
}

/// A backend here and one there, around those of a machine.
fn backends(machine: &Machine) -> (Faulty, Faulty) {
    (Faulty::new(Arc::new(machine.local.clone())), Faulty::new(Arc::new(machine.shared.clone())))
}

/// What lies at `path` of the machine's disk.
fn left(machine: &Machine, path: &Path) -> Vec<String> {
    let directory = machine.local.directory(path).into_iter();
    directory.flat_map(|directory| directory.list().unwrap()).map(|(name, _)| name).collect()
}

/// The rows of a copy, which is a database of its own.
fn copied(machine: &Machine, path: &Path) -> Model {
    let storage = Arc::new(machine.local.directory(path).unwrap());
    let world = World::new(settings());
    all(&Tree::open(TreeOptions { storage, ..world.options() }).unwrap())
}

/// Makes the operation `on` of such files, there or here, fail, each in turn, until a copy is made.
/// Answers how many there were.
fn fail_each(on: Operation, file: &str, is_far: bool, effect: Effect) -> u64 {
    let machine = Machine::new(settings(), &Memory::new(), 7);
    let (here, there) = backends(&machine);
    let (tree, model) = begin(&here, &there, &machine);
    let backend = if is_far { &there } else { &here };
    let path = Path::new("copy");
    for after in 0.. {
        let what = format!("{on:?} of {file}, {effect:?}, after {after}");
        backend.inject(Fault { on, file: file.to_owned(), when: When::Once { after }, effect });
        let taken = tree.copy_to(path);
        let is_struck = backend.struck_count() > 0;
        backend.clear_faults();
        if !is_struck {
            taken.unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
            assert!(copied(&machine, path) == model, "{what}");
            // The database goes on.
            tree.flush().unwrap();
            assert!(all(&tree) == model, "{what}");
            return after;
        }
        let error = taken.map(drop).unwrap_err();
        assert!(error.to_string().contains("scripted fault"), "{what}: {}", describe(&error));
        assert_eq!(left(&machine, path), Vec::<String>::new(), "{what}");
    }
    unreachable!("it ends when nothing fails");
}

#[test]
fn of_a_copy_that_fails_nothing_is_left_wherever_it_fails() {
    let (full, short) = (Effect::Fail(Kind::Full), Effect::ShortWrite { bytes: 100, kind: Kind::Full });
    // Sealed segments have a number and the number of an opening in their names; a copy has no
    // other ones.
    for (on, file, is_far, effect) in [
        (Operation::OpenRead, "*.table", true, Effect::Fail(Kind::Refused)),
        (Operation::OpenRead, "*.blobs", true, Effect::Fail(Kind::Io)),
        (Operation::Read, "*.table", true, Effect::Fail(Kind::Io)),
        (Operation::Read, "*.blobs", true, Effect::Fail(Kind::Refused)),
        (Operation::LinkInto, "*", false, full),
        (Operation::Create, "*.table", false, full),
        (Operation::Create, "*-*.blobs", false, full),
        (Operation::Write, "*.table", false, full),
        (Operation::Write, "*-*.blobs", false, short),
        (Operation::Sync, "*.table", false, Effect::Fail(Kind::Io)),
        (Operation::Sync, "*-*.blobs", false, Effect::FailAfter(Kind::Io)),
        (Operation::Publish, "*", false, full),
        // The file is there, and the database does not know it.
        (Operation::Publish, "*", false, Effect::FailAfter(Kind::Undecided)),
    ] {
        let failed = fail_each(on, file, is_far, effect);
        assert!(failed > 0, "{on:?} of {file} is never asked for");
        println!("{on:?} of {file}: {failed}");
    }
}

/// Names of the copy's directory that are not durable.
#[test]
fn a_copy_whose_names_cannot_be_synced_leaves_nothing() {
    let machine = Machine::new(settings(), &Memory::new(), 7);
    let (here, there) = backends(&machine);
    let (tree, model) = begin(&here, &there, &machine);
    // How often a copy has the directory of the database synced before its own.
    tree.copy_to(Path::new("first")).unwrap();
    let before = here.counters().of(Operation::SyncDir).operations;
    tree.copy_to(Path::new("second")).unwrap();
    let own = here.counters().of(Operation::SyncDir).operations - before;
    let (on, when) = (Operation::SyncDir, When::Once { after: own });
    here.inject(Fault { on, file: "*".to_owned(), when, effect: Effect::Fail(Kind::Io) });
    let path = Path::new("copy");
    let error = tree.copy_to(path).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{}", describe(&error));
    assert_eq!((here.struck_count(), left(&machine, path)), (1, Vec::new()));
    tree.copy_to(path).unwrap();
    assert!(copied(&machine, path) == model);
}

#[test]
fn what_cannot_be_removed_either_is_said() {
    let machine = Machine::new(settings(), &Memory::new(), 7);
    let (here, there) = backends(&machine);
    let (tree, model) = begin(&here, &there, &machine);
    let (when, effect) = (When::Always { after: 0 }, Effect::Fail(Kind::Io));
    for (on, file) in [(Operation::Publish, "*"), (Operation::Remove, "*.log")] {
        here.inject(Fault { on, file: file.to_owned(), when, effect });
    }
    let path = Path::new("copy");
    let error = tree.copy_to(path).map(drop).unwrap_err();
    here.clear_faults();
    let left = left(&machine, path);
    assert!(!left.is_empty() && left.iter().all(|name| name.ends_with(".log")), "{left:?}");
    let said = format!("{} files of a copy that failed cannot be removed: remove", left.len());
    assert!(error.to_string().contains(&said), "{}", describe(&error));
    assert!(error.to_string().contains("cannot publish (a scripted fault)"), "{}", describe(&error));
    let again = tree.copy_to(path).map(drop).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Invalid, "{}", describe(&again));
    assert!(again.to_string().contains("is not empty"), "{}", describe(&again));
    assert!(all(&tree) == model);
}

/// Another machine has it by now, and has removed tables that a copy would be made of.
#[test]
fn a_copy_of_a_database_that_another_machine_has_says_so() {
    let shared = Memory::new();
    let (first, second) = (Machine::new(settings(), &shared, 7), Machine::new(settings(), &shared, 8));
    let (here, there) = backends(&first);
    let (tree, model) = begin(&here, &there, &first);
    // What is open is sealed, so that the next copy writes no edit, which would find out.
    tree.copy_to(Path::new("before")).unwrap();
    let tables = || shared.list().unwrap().into_iter().filter(|(name, _)| name.ends_with(".table"));
    let before: Vec<_> = tables().collect();
    let other = second.take_over().unwrap();
    other.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    settle(&other);
    assert!(before.iter().any(|table| tables().all(|other| other != *table)), "none is gone: {before:?}");
    let path = Path::new("copy");
    let error = tree.copy_to(path).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{}", describe(&error));
    assert!(error.to_string().contains("opened on another machine"), "{}", describe(&error));
    assert_eq!(left(&first, path), Vec::<String>::new());
    // It goes on answering, and can do no harm.
    assert!(all(&tree) == model);
    drop(tree);
    other.close().unwrap();
    second.check_files("taken over");
}

/// The file that a real directory is locked by stays, and hinders no later copy.
#[test]
fn a_copy_that_failed_in_a_real_directory_is_made_there_after_all() {
    let root = tempfile::tempdir().unwrap();
    let local = Local::open(root.path().join("db"), LocalOptions { create: true }).unwrap();
    let machine = Machine::new(settings(), &Memory::new(), 7);
    let (here, there) = (Faulty::new(Arc::new(local)), backends(&machine).1);
    let (tree, model) = begin(&here, &there, &machine);
    let (when, effect) = (When::Once { after: 2 }, Effect::Fail(Kind::Refused));
    there.inject(Fault { on: Operation::OpenRead, file: "*.blobs".to_owned(), when, effect });
    let path = root.path().join("copy");
    let error = tree.copy_to(&path).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{}", describe(&error));
    let copy = || Local::open(&path, LocalOptions { create: false }).unwrap();
    assert_eq!(copy().list().unwrap(), []);
    tree.copy_to(&path).unwrap();
    let copied = Tree::open(TreeOptions { storage: Arc::new(copy()), ..World::new(settings()).options() });
    assert!(all(&copied.unwrap()) == model);
}
