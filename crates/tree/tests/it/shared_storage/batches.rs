//! Batches with records of several keyspaces, none of which is acknowledged as `Shared`. Another
//! machine that takes the database over has all of one or nothing of it, whichever keyspaces are in
//! tables by then.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use firn_engine::{Batch, Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, ReadAt, ScanRange};
use firn_storage::backend::{Divided, Memory, Operation};
use firn_storage::{Priority, Spawn, ThreadSpawn};
use firn_tree::{Background, Tree, TreeOptions};

use crate::support::in_time::{in_time, until};
use crate::support::machine::{HERE, Machine, lost, objects, on, settings};
use crate::support::watched::Watched;
use crate::support::world::{describe, rows, session, settle};

/// Keyspaces that are there besides the default one.
const OTHERS: [&str; 2] = ["second", "third"];

fn machine(shared: &Memory) -> Machine {
    Machine::new(settings(), shared, 7)
}

/// The database of `machine`, which finds at `shared` what the others do.
fn open_at(machine: &Machine, shared: Arc<Watched>) -> Arc<Tree> {
    open_by(machine, shared, Background::Manual)
}

fn open_by(machine: &Machine, shared: Arc<Watched>, background: Background) -> Arc<Tree> {
    let storage = Divided::open(Arc::new(machine.local.clone()), shared, machine.home).unwrap();
    Tree::open(TreeOptions { storage: Arc::new(storage), background, ..machine.options() }).unwrap()
}

fn others(tree: &Tree) -> Vec<KeyspaceId> {
    OTHERS.iter().map(|name| tree.create_keyspace(name, KeyspaceSettings::default()).unwrap()).collect()
}

/// Writes batches with the key `number` in each of `keyspaces`.
fn write(tree: &Tree, keyspaces: &[KeyspaceId], numbers: std::ops::Range<u32>) {
    let mut session = session(tree);
    for number in numbers {
        let mut batch = Batch::new();
        for keyspace in keyspaces {
            batch.put(*keyspace, &number.to_be_bytes(), &[number as u8; 200]);
        }
        session.write(&batch, HERE).unwrap();
    }
}

fn keys(tree: &Tree, keyspace: KeyspaceId) -> BTreeSet<Vec<u8>> {
    let rows = rows(&mut session(tree), ReadAt::Latest, keyspace, ScanRange::all());
    rows.into_iter().map(|(key, _)| key).collect()
}

/// What a machine that takes the database over from what `shared` is now has of the default
/// keyspace; the others have the same.
fn elsewhere(shared: &Memory, what: &str) -> usize {
    let left = lost(shared, ());
    let other = on(&Machine::new(settings(), &left, 8), &left);
    let tree = other.take_over().unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
    let found = keys(&tree, KEYSPACE_DEFAULT);
    for keyspace in others(&tree) {
        let differ = found.symmetric_difference(&keys(&tree, keyspace)).count();
        assert_eq!(differ, 0, "{what}: batches of which one keyspace has its part, and another one not");
    }
    tree.close().unwrap();
    other.check_files(what);
    found.len()
}

/// Batches, and a keyspace that is in tables before the others are.
fn work(tree: &Tree) {
    let others = others(tree);
    write(tree, &[KEYSPACE_DEFAULT, others[0], others[1]], 0..20);
    tree.flush().unwrap();
    settle(tree);
    write(tree, &[others[1], others[0], KEYSPACE_DEFAULT], 20..30);
    tree.flush().unwrap();
    settle(tree);
}

#[test]
fn whoever_takes_over_has_a_batch_whole() {
    let mut found = BTreeSet::new();
    for at in 0.. {
        let (shared, what) = (Memory::new(), format!("before operation {at}"));
        let first = machine(&shared);
        // So that there is a database to be taken over.
        others(&first.open());
        let taken = Arc::new(Mutex::new(None));
        let watched = {
            let (taken, shared) = (Arc::clone(&taken), shared.clone());
            Watched::interrupted(&shared.clone(), at, move || {
                *taken.lock().unwrap() = Some(elsewhere(&shared, &what));
            })
        };
        let tree = open_at(&first, watched);
        work(&tree);
        let Some(count) = taken.lock().unwrap().take() else {
            assert_eq!(elsewhere(&shared, "at the end"), 30);
            assert!(at > 30 && found.contains(&20), "{at} operations: {found:?}");
            return;
        };
        found.insert(count);
    }
}

#[test]
fn what_was_recovered_is_not_divided_either() {
    for at in 0.. {
        let (shared, what) = (Memory::new(), format!("before operation {at}"));
        let first = machine(&shared);
        let tree = first.open();
        let others = others(&tree);
        write(&tree, &[KEYSPACE_DEFAULT, others[0], others[1]], 0..20);
        // The machine is killed, and comes back with its disk.
        let shared = lost(&shared, tree);
        let first = on(&first, &shared);
        let taken = Arc::new(Mutex::new(false));
        let watched = {
            let (taken, shared) = (Arc::clone(&taken), shared.clone());
            Watched::interrupted(&shared.clone(), at, move || {
                elsewhere(&shared, &what);
                *taken.lock().unwrap() = true;
            })
        };
        let tree = open_at(&first, watched);
        tree.flush().unwrap();
        settle(&tree);
        if !*taken.lock().unwrap() {
            assert_eq!(elsewhere(&shared, "at the end"), 20);
            assert!(at > 10, "{at} operations");
            return;
        }
    }
}

/// The flush of a part of what was recovered has log objects that are named. Log objects of less
/// would not be found.
#[test]
fn a_part_of_what_was_recovered_is_flushed_and_divides_nothing() {
    const KEYS: u32 = 1000;
    let mut in_part = false;
    for at in 0.. {
        let (shared, what) = (Memory::new(), format!("before operation {at}"));
        let mut first = machine(&shared);
        // Of several runs the oldest ones are enough for a flush.
        first.world.settings.engine.buffer_bytes = 1 << 20;
        let tree = first.open();
        let others = others(&tree);
        let mut writer = session(&tree);
        for number in 0..300_u32 {
            let mut batch = Batch::new();
            for key in 0..KEYS {
                batch.put(KEYSPACE_DEFAULT, &(number * KEYS + key).to_be_bytes(), b"v");
            }
            batch.put(others[0], &number.to_be_bytes(), b"v");
            writer.write(&batch, HERE).unwrap();
        }
        drop(writer);
        let shared = lost(&shared, tree);
        let first = on(&first, &shared);
        let taken = Arc::new(Mutex::new(None));
        let watched = {
            let (taken, shared) = (Arc::clone(&taken), shared.clone());
            Watched::interrupted(&shared.clone(), at, move || {
                let left = lost(&shared, ());
                let tree = on(&Machine::new(settings(), &left, 8), &left).take_over();
                let tree = tree.unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
                let second = tree.create_keyspace(OTHERS[0], KeyspaceSettings::default()).unwrap();
                let found = [KEYSPACE_DEFAULT, second].map(|keyspace| keys(&tree, keyspace).len());
                assert_eq!(found[0], found[1] * KEYS as usize, "{what}");
                *taken.lock().unwrap() = Some(());
            })
        };
        let tree = open_at(&first, watched);
        while tree.step().unwrap() {
            in_part |= tree.stats().tree.expect("a tree").flush_count > 0
                && tree.stats().tree.expect("a tree").buffer_bytes > 1 << 20;
        }
        if taken.lock().unwrap().is_none() {
            assert!(in_part && at > 20, "{at} operations, in part: {in_part}");
            return;
        }
    }
}

#[test]
fn where_no_batch_can_be_divided_nothing_of_the_log_is_shared() {
    let shared = Memory::new();
    let first = machine(&shared);
    let tree = first.open();
    let others = others(&tree);
    for keyspace in [KEYSPACE_DEFAULT, others[0], others[1]] {
        write(&tree, &[keyspace, keyspace], 0..20);
    }
    tree.flush().unwrap();
    settle(&tree);
    assert!(objects(&shared).is_empty(), "{:?}", objects(&shared));
    write(&tree, &[KEYSPACE_DEFAULT, others[0]], 20..21);
    tree.flush().unwrap();
    settle(&tree);
    assert!(!objects(&shared).is_empty());
}

/// Threads, and how many of them have ended.
#[derive(Debug, Default)]
struct Ending {
    threads: ThreadSpawn,
    ended: Arc<AtomicU32>,
}

impl Spawn for Ending {
    fn spawn(
        &self,
        name: String,
        priority: Priority,
        body: Box<dyn FnOnce() + Send>,
    ) -> firn_storage::Result<()> {
        let ended = Arc::clone(&self.ended);
        let counted = move || {
            body();
            ended.fetch_add(1, Ordering::SeqCst);
        };
        self.threads.spawn(name, priority, Box::new(counted))
    }
}

/// Closing a database does not wait until its log lies elsewhere: that is for the next opening.
#[test]
fn a_flush_that_sends_the_log_gives_up_where_the_database_closes() {
    const BATCHES: u32 = 64;
    let shared = Memory::new();
    let mut first = machine(&shared);
    first.world.settings.engine.buffer_bytes_max = 64 << 20;
    first.world.settings.background_threads = 4;
    let tree = first.open();
    let others = others(&tree);
    let mut writer = session(&tree);
    for number in 0..BATCHES {
        let mut batch = Batch::new();
        batch.put(KEYSPACE_DEFAULT, &number.to_be_bytes(), &[1; 500_000]);
        for keyspace in &others {
            batch.put(*keyspace, &number.to_be_bytes(), b"v");
        }
        writer.write(&batch, HERE).unwrap();
    }
    drop(writer);
    let shared = lost(&shared, tree);
    let first = on(&first, &shared);
    let (spawn, begun) = (Arc::new(Ending::default()), Arc::new(AtomicU32::new(0)));
    // As many threads as have ended when it is closed: some do so while it is opened.
    let before = Arc::new(AtomicU32::new(u32::MAX));
    let watched = {
        let (ended, before, begun) = (Arc::clone(&spawn.ended), Arc::clone(&before), Arc::clone(&begun));
        Watched::new(&shared, move |on, name| {
            if on == Operation::Publish && name.ends_with(".group") {
                begun.fetch_add(1, Ordering::SeqCst);
                // Threads end once the database closes: what is sent now is sent while it closes.
                until("the end of threads that have nothing to do", || {
                    ended.load(Ordering::SeqCst) > before.load(Ordering::SeqCst)
                });
            }
        })
    };
    let ended = Arc::clone(&spawn.ended);
    let tree = open_by(&first, watched, Background::Threads(spawn));
    until("a first log object", || begun.load(Ordering::SeqCst) > 0);
    before.store(ended.load(Ordering::SeqCst), Ordering::SeqCst);
    in_time("closing", move || tree.close()).unwrap();
    let sent: usize = objects(&shared).values().map(Vec::len).sum();

    let tree = first.open();
    settle(&tree);
    assert_eq!(keys(&tree, KEYSPACE_DEFAULT).len(), BATCHES as usize);
    let all: u64 = tree.stats().log_object_count;
    assert!(sent == 1 && all > 1, "{sent} log objects were sent while it closed, of {all}");
    tree.flush().unwrap();
    settle(&tree);
    assert_eq!(elsewhere(&shared, "at the end"), BATCHES as usize);
}
