//! Operators, and backends, that panic while the database works in the background.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    CompactionFilter, Engine, ErrorKind, FilterVerdict, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings,
    WriteOptions,
};
use firn_jobs::{Error, Executor, JobHandle, JobSpec};
use firn_storage::ThreadSpawn;
use firn_tree::{Background, Tree, TreeOptions};

use crate::support::in_time::{in_time, until};
use crate::support::world::{World, get, get_in, put, session, threads, tiny};

/// Keeps everything, while it is able to.
#[derive(Debug)]
struct Clumsy {
    is_able: AtomicBool,
    /// Keys that begin so are too much for it; empty = all.
    dreads: Vec<u8>,
}

const CLUMSY: &str = "clumsy.1";

impl CompactionFilter for Clumsy {
    fn name(&self) -> &str {
        CLUMSY
    }

    fn verdict(&self, key: &[u8], _value: &[u8]) -> FilterVerdict {
        let is_well = self.is_able.load(Ordering::SeqCst) || !key.starts_with(&self.dreads);
        assert!(is_well, "no luck today");
        FilterVerdict::Keep
    }
}

/// A tree with threads and a keyspace that is filtered so.
fn open(world: &World, dreads: &[u8]) -> (Arc<Clumsy>, Arc<Tree>, KeyspaceId) {
    let clumsy = Arc::new(Clumsy { is_able: AtomicBool::new(true), dreads: dreads.to_vec() });
    let options = world.options();
    let semantics = options.semantics.clone().with_compaction_filter(Arc::clone(&clumsy) as _);
    let tree = Tree::open(TreeOptions { semantics, background: threads(), ..options }).unwrap();
    let settings =
        KeyspaceSettings { compaction_filter: Some(CLUMSY.to_owned()), ..KeyspaceSettings::default() };
    let keyspace = tree.create_keyspace("filtered", settings).unwrap();
    (clumsy, tree, keyspace)
}

fn put_in(session: &mut OrderedBlocking, keyspace: KeyspaceId, key: &str, value: &[u8]) {
    session.put(keyspace, key.as_bytes(), value, WriteOptions::default()).unwrap();
}

/// Each round is a flush of both keyspaces; compactions of both fall due.
fn write(tree: &Tree, session: &mut OrderedBlocking, keyspace: KeyspaceId, rounds: Range<u8>) {
    for round in rounds {
        for key in 0..50 {
            put_in(session, keyspace, &format!("new{key}"), &[round; 100]);
            put(session, format!("new{key}").as_bytes(), &[round; 100]);
        }
        // What lies between belongs together.
        put_in(session, keyspace, "a", &[round; 100]);
        put_in(session, keyspace, "z", &[round; 100]);
        tree.flush().unwrap();
    }
}

#[test]
fn a_compaction_that_panics_is_tried_again_and_all_else_goes_on() {
    let world = World::new(tiny());
    let (clumsy, tree, keyspace) = open(&world, b"old");
    let mut session = session(&tree);
    for key in 0..50 {
        put_in(&mut session, keyspace, &format!("old{key}"), &[1; 100]);
    }
    tree.flush().unwrap();
    tree.wait_idle().unwrap();
    clumsy.is_able.store(false, Ordering::SeqCst);
    assert_eq!(tree.stats().background_refusal, None);
    write(&tree, &mut session, keyspace, 1..10);
    until("a panic", || tree.stats().background_refusal.is_some());
    let why = tree.stats().background_refusal.unwrap();
    assert!(why.contains("a compaction panicked: no luck today"), "{why}");
    // Its clock stands still: none of that keyspace is tried again, all else is done.
    let before = tree.stats();
    write(&tree, &mut session, keyspace, 10..30);
    tree.wait_idle().unwrap();
    let after = tree.stats();
    assert!(
        after.tree.as_ref().expect("a tree").flush_count
            >= before.tree.as_ref().expect("a tree").flush_count + 20,
        "{after:?}"
    );
    assert!(
        after.tree.as_ref().expect("a tree").compaction_count
            > before.tree.as_ref().expect("a tree").compaction_count,
        "of the other keyspace"
    );
    assert!(after.background_refusal.is_some() && after.write_failure.is_none());
    let runs = |tree: &Tree| tree.stats().keyspaces[1].tree.as_ref().expect("a tree").levels[0].0;
    let waiting = runs(&tree);
    assert!(waiting >= 20, "{waiting} tables wait in level 0");
    assert_eq!(get_in(&mut session, keyspace, b"old7"), Some(vec![1; 100]));
    assert_eq!(get_in(&mut session, keyspace, b"new7"), Some(vec![29; 100]));
    clumsy.is_able.store(true, Ordering::SeqCst);
    world.clock.advance(Duration::from_secs(30));
    until("it is tried again", || tree.stats().background_refusal.is_none() && runs(&tree) < waiting);
    tree.wait_idle().unwrap();
    assert_eq!(get_in(&mut session, keyspace, b"old7"), Some(vec![1; 100]));
    assert_eq!(get_in(&mut session, keyspace, b"new7"), Some(vec![29; 100]));
    drop(session);
    tree.close().unwrap();
}

#[test]
fn a_keyspace_that_is_dropped_while_it_rests_is_nothing_to_be_told_of() {
    let world = World::new(tiny());
    let (clumsy, tree, keyspace) = open(&world, b"old");
    let mut session = session(&tree);
    put_in(&mut session, keyspace, "old", &[1; 100]);
    tree.flush().unwrap();
    clumsy.is_able.store(false, Ordering::SeqCst);
    write(&tree, &mut session, keyspace, 1..10);
    until("a panic", || tree.stats().background_refusal.is_some());
    // A job that is under way may panic once more.
    tree.drop_keyspace(keyspace).unwrap();
    tree.wait_idle().unwrap();
    assert_eq!(tree.stats().background_refusal, None);
    drop(session);
    tree.close().unwrap();
}

#[test]
fn a_keyspace_that_is_dropped_while_its_flush_is_refused_is_nothing_to_be_told_of() {
    let world = World::new(tiny());
    let (clumsy, tree, keyspace) = open(&world, b"");
    clumsy.is_able.store(false, Ordering::SeqCst);
    let mut session = session(&tree);
    put_in(&mut session, keyspace, "key", b"one");
    assert_eq!(tree.flush().unwrap_err().kind(), ErrorKind::Retry);
    assert!(tree.stats().background_refusal.is_some());
    tree.drop_keyspace(keyspace).unwrap();
    assert_eq!(tree.stats().background_refusal, None);
    drop(session);
    tree.close().unwrap();
}

#[test]
fn a_flush_that_panics_is_tried_again_and_writes_go_on() {
    let world = World::new(tiny());
    let (clumsy, tree, keyspace) = open(&world, b"");
    clumsy.is_able.store(false, Ordering::SeqCst);
    let mut session = session(&tree);
    for _ in 0..3 {
        put_in(&mut session, keyspace, "key", b"one");
        let error = tree.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry);
        assert!(error.to_string().contains("a flush panicked: no luck today"), "{error}");
    }
    assert!(tree.stats().background_refusal.is_some() && tree.stats().write_failure.is_none());
    put_in(&mut session, keyspace, "key", b"two");
    put(&mut session, b"other", b"two");
    assert_eq!(get_in(&mut session, keyspace, b"key").as_deref(), Some(&b"two"[..]));
    clumsy.is_able.store(true, Ordering::SeqCst);
    tree.flush().unwrap();
    assert_eq!(tree.stats().background_refusal, None);
    assert!(tree.stats().tree.expect("a tree").flush_count > 0);
    assert_eq!(get_in(&mut session, keyspace, b"key").as_deref(), Some(&b"two"[..]));
    drop(session);
    tree.close().unwrap();
}

/// Does not know what it is.
#[derive(Debug)]
struct Broken;

impl Executor for Broken {
    fn submit(&self, _spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        Err(Error::new(firn_jobs::ErrorKind::Rejected, "not here"))
    }

    fn width(&self) -> Option<usize> {
        panic!("that cannot be")
    }
}

#[test]
fn a_mistake_of_ours_ends_writes_and_no_thread() {
    let world = World::new(tiny());
    let spawn = Arc::new(ThreadSpawn::new());
    let background = Background::Threads(Arc::clone(&spawn) as _);
    let executor: Option<Arc<dyn Executor>> = Some(Arc::new(Broken));
    let tree = Tree::open(TreeOptions { executor, background, ..world.options() }).unwrap();
    let mut session = session(&tree);
    let error = in_time("a failure", {
        let tree = Arc::clone(&tree);
        move || {
            let mut session = crate::support::world::session(&tree);
            loop {
                let put = session.put(KEYSPACE_DEFAULT, b"key", &[1; 100], WriteOptions::default());
                if let Err(error) = put.and_then(|_| tree.flush()) {
                    return error;
                }
            }
        }
    });
    assert!(error.to_string().contains("background work panicked: that cannot be"), "{error}");
    let failure = tree.stats().write_failure.unwrap();
    assert!(failure.contains("that cannot be"), "{failure}");
    assert_eq!(get(&mut session, b"key"), Some(vec![1; 100]));
    assert!(session.put(KEYSPACE_DEFAULT, b"key", b"more", WriteOptions::default()).is_err());
    drop(session);
    // What is wrong is said once more.
    assert!(tree.close().is_err());
    drop(tree);
    assert!(spawn.join_all().is_empty(), "no thread has panicked");
}
