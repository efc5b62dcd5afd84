//! The last requests of a killed process, which its backend does after the next opening has listed
//! what there was.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Engine, KEYSPACE_DEFAULT};
use firn_format::file_name;
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_tree::Tree;

use crate::support::machine::{HERE, Machine, SHARED, all, lost, objects, on, settings};
use crate::support::world::{session, settle};

/// A database on shared storage that was killed and is open again, what it shares, and the
/// generation before.
fn killed() -> (Machine, Memory, Arc<Tree>, u64) {
    let shared = Memory::new();
    let machine = Machine::new(settings(), &shared, 7);
    let tree = machine.open();
    put(&tree, 1);
    let shared = lost(&shared, tree);
    let machine = on(&machine, &shared);
    let tree = machine.open();
    let generation = *objects(&shared).keys().next().unwrap();
    (machine, shared, tree, generation)
}

fn put(tree: &Tree, key: u8) {
    session(tree).put(KEYSPACE_DEFAULT, &[key], &[key; 100], SHARED).unwrap();
}

fn after(machine: &Machine, tree: &Tree, seconds: u64) {
    machine.world.clock.advance(Duration::from_secs(seconds));
    settle(tree);
}

fn is_there(shared: &Memory, name: &str) -> bool {
    shared.open_read(name).is_ok()
}

#[test]
fn a_log_object_that_comes_late_goes_with_those_before_it() {
    let (machine, shared, tree, generation) = killed();
    let next = objects(&shared)[&generation].last().unwrap() + 1;
    let late = file_name::log_object(generation, next);
    shared.create(&late).unwrap().write_at(0, &[7; 500]).unwrap();
    after(&machine, &tree, 60);
    assert!(is_there(&shared, &late), "who takes over now reads all up to this one");
    // From now on the log objects of this opening count.
    put(&tree, 2);
    after(&machine, &tree, 59);
    assert!(is_there(&shared, &late));
    after(&machine, &tree, 1);
    assert!(!is_there(&shared, &late));
    assert!(objects(&shared).contains_key(&(generation + 1)), "its own stay");
}

#[test]
fn a_log_object_that_comes_late_goes_where_this_opening_has_none_too() {
    let (machine, shared, tree, generation) = killed();
    // Flushed, and never asked for as `Shared` again.
    for key in 2..5 {
        session(&tree).put(KEYSPACE_DEFAULT, &[key], &[key; 100], HERE).unwrap();
        tree.flush().unwrap();
        settle(&tree);
    }
    assert_eq!(objects(&shared), Default::default());
    let late = file_name::log_object(generation, 1);
    shared.create(&late).unwrap().write_at(0, &[7; 500]).unwrap();
    after(&machine, &tree, 60);
    assert!(!is_there(&shared, &late));
    let taken = Machine::new(settings(), &shared, 8).take_over().unwrap();
    assert_eq!(all(&taken), all(&tree), "all of it is in tables");
}

#[test]
fn a_table_that_comes_late_is_removed_in_a_while_and_then_nothing_is_asked() {
    let (machine, shared, tree, generation) = killed();
    let name = |generation| format!("{generation:08x}-0000ffff-0-000000.table");
    let (late, other) = (name(generation), name(generation + 2));
    for name in [&late, &other] {
        shared.create(name).unwrap().write_at(0, b"late").unwrap();
    }
    after(&machine, &tree, 59);
    assert!(is_there(&shared, &late));
    after(&machine, &tree, 1);
    assert!(!is_there(&shared, &late));
    assert!(is_there(&shared, &other), "of whoever is about to take over");
    // After a while they are looked for no more.
    shared.create(&late).unwrap().write_at(0, b"late").unwrap();
    (0..10).for_each(|_| after(&machine, &tree, 3600));
    assert!(is_there(&shared, &late));
}
