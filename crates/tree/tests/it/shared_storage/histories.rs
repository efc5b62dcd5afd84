//! Histories in which a write acknowledged as `Shared` could be lost, or a lost one come back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::conformance::APPEND;
use firn_engine::{
    Batch, Completion, Durability, Engine, KEYSPACE_DEFAULT, KeyspaceSettings, Ordered, Outcome,
};
use firn_storage::backend::{Crash, Divided, Memory, Operation};
use firn_storage::{Clock, Storage, SystemClock};
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::machine::{HERE, Machine, SHARED, all, lost, objects, on, settings};
use crate::support::watched::Watched;
use crate::support::world::{DISK, Hook, describe, get_in, session, settle, threads};

fn machines(settings: Settings, shared: &Memory) -> (Machine, Machine) {
    (Machine::new(settings.clone(), shared, 7), Machine::new(settings, shared, 8))
}

/// Two restarts after a power loss, then a take-over.
#[test]
fn what_was_cut_off_once_stays_so() {
    for separate in [false, true] {
        came_back_twice(separate);
    }
}

fn came_back_twice(separate: bool) {
    let mut cut = 0;
    for seed in 0..10 {
        let shared = Memory::new();
        let (first, second) = machines(settings(), &shared);
        let hook = Arc::<Hook>::default();
        let local = hook.before(&first.local, Operation::SyncDir, "*");
        let storage = Divided::open(Arc::new(local), Arc::new(shared.clone()), 7).unwrap();
        let tree = Tree::open(TreeOptions { storage: Arc::new(storage), ..first.options() }).unwrap();
        if separate {
            tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
            session(&tree).put(KEYSPACE_DEFAULT, b"zero", &[1; 2000], SHARED).unwrap();
        }
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
        drop(tree);
        let tree = first.open();
        assert!(all(&tree) == model);
        if model.contains_key(&b"meanwhile"[..]) {
            continue;
        }
        cut += 1;
        let second = on(&second, &lost(&shared, tree));
        let tree = second.take_over().unwrap_or_else(|error| panic!("seed {seed}: {}", describe(&error)));
        assert!(all(&tree) == model, "seed {seed}");
        tree.flush().unwrap();
        assert!(all(&tree) == model, "seed {seed}");
    }
    assert!(cut > 0);
}

#[test]
fn a_segment_without_frames_that_ends_late_is_a_link_too() {
    let shared = Memory::new();
    let (first, second) = machines(settings().with_engine(|tree| tree.buffer_bytes = 1 << 20), &shared);
    let hook = Arc::<Hook>::default();
    let backend = hook.before(&shared, Operation::Publish, "manifest-*");
    let storage = Divided::open(Arc::new(first.local.clone()), Arc::new(backend), 7).unwrap();
    let tree = Tree::open(TreeOptions { storage: Arc::new(storage), ..first.options() }).unwrap();
    let b = tree.create_keyspace("b", KeyspaceSettings::default()).unwrap();
    let c = tree.create_keyspace("c", KeyspaceSettings::default()).unwrap();
    let mut writer = session(&tree);
    writer.put(b, b"b", b"shared", SHARED).unwrap();
    writer.put(c, b"c", b"shared", SHARED).unwrap();
    for key in 0..30_u8 {
        writer.put(KEYSPACE_DEFAULT, &[key], &[key; 100_000], SHARED).unwrap();
    }
    // A segment begins that no write goes to; the default keyspace flushes alone.
    tree.create_keyspace("d", KeyspaceSettings::default()).unwrap();
    settle(&tree);
    let left = Arc::new(Mutex::new(None));
    {
        let (left, shared, tree) = (Arc::clone(&left), shared.clone(), Arc::clone(&tree));
        hook.set(move || {
            if left.lock().unwrap().is_none() {
                session(&tree).put(KEYSPACE_DEFAULT, b"late", b"shared", SHARED).unwrap();
                *left.lock().unwrap() = Some(shared.crash(Crash::Kill));
            }
        });
    }
    tree.flush().unwrap();
    hook.set(|| {});
    let left = left.lock().unwrap().take().unwrap();
    let second = on(&second, &left);
    let new = second.take_over().unwrap_or_else(|error| panic!("{}", describe(&error)));
    let mut reader = session(&new);
    assert_eq!(get_in(&mut reader, KEYSPACE_DEFAULT, b"late"), Some(b"shared".to_vec()));
    assert_eq!(get_in(&mut reader, c, b"c"), Some(b"shared".to_vec()));
}

#[test]
fn an_old_list_does_not_cost_a_machine_its_own_log() {
    let shared = Memory::new();
    let (first, second) = machines(Settings { manifest_edits_max: 60, ..settings() }, &shared);
    let tree = second.open();
    session(&tree).put(KEYSPACE_DEFAULT, b"second", b"shared", SHARED).unwrap();
    tree.close().unwrap();
    drop(tree);
    let old = shared.list().unwrap();
    let tree = first.take_over().unwrap();
    session(&tree).put(KEYSPACE_DEFAULT, b"shared", b"shared", SHARED).unwrap();
    session(&tree).put(KEYSPACE_DEFAULT, b"disk", b"disk", DISK).unwrap();
    let local = first.local.crash(Crash::Kill);
    let shared = lost(&shared, tree);
    first.world.clock.advance(std::time::Duration::from_millis(5));
    let backend = Watched::with_old_lists(&shared, 1, old);
    let storage = Arc::new(Divided::open(Arc::new(local), backend, 7).unwrap());
    let tree = Tree::open(TreeOptions { storage, take_over: true, ..first.options() })
        .unwrap_or_else(|error| panic!("{}", describe(&error)));
    assert_eq!(all(&tree).len(), 3);
    session(&tree).put(KEYSPACE_DEFAULT, b"new", b"new", SHARED).unwrap();
    let model = all(&tree);
    let second = on(&second, &lost(&shared, tree));
    assert!(all(&second.take_over().unwrap()) == model);
}

/// Log objects of the start before, and a batch of this one's, half of it in tables.
#[test]
fn a_batch_is_not_in_half_after_a_restart_either() {
    let shared = Memory::new();
    let settings = Settings { durability: Durability::Shared, ..settings() };
    let (first, second) = machines(settings, &shared);
    let tree = first.open();
    let large = tree.create_keyspace("large", KeyspaceSettings::default()).unwrap();
    session(&tree).put(KEYSPACE_DEFAULT, b"first", b"shared", SHARED).unwrap();
    drop(tree);
    let tree = first.open();
    let mut writer = session(&tree);
    let mut batch = Batch::new();
    batch.put(KEYSPACE_DEFAULT, b"half", b"in the log");
    batch.put(large, b"half", b"in a table");
    writer.write(&batch, HERE).unwrap();
    for key in 0..14_u32 {
        writer.put(large, &key.to_be_bytes(), &[7; 1 << 20], HERE).unwrap();
    }
    settle(&tree);
    let second = on(&second, &lost(&shared, (writer, tree)));
    let new = second.take_over().unwrap();
    let mut reader = session(&new);
    let halves = [get_in(&mut reader, large, b"half"), get_in(&mut reader, KEYSPACE_DEFAULT, b"half")];
    assert!(halves.iter().all(Option::is_some) || halves.iter().all(Option::is_none), "{halves:?}");
}

/// The object that stays of each start.
#[test]
fn of_earlier_starts_nothing_stays_but_ends() {
    let shared = Memory::new();
    let (first, _) = machines(settings(), &shared);
    for round in 0..6_u8 {
        let tree = first.open();
        session(&tree).put(KEYSPACE_DEFAULT, &[round], &vec![round; 1 << 20], SHARED).unwrap();
        tree.flush().unwrap();
        settle(&tree);
        session(&tree).put(KEYSPACE_DEFAULT, &[round], &vec![round; 1 << 20], SHARED).unwrap();
        tree.close().unwrap();
    }
    let tree = first.open();
    for round in 0..3_u8 {
        session(&tree).put(KEYSPACE_DEFAULT, b"end", &[round], SHARED).unwrap();
        tree.flush().unwrap();
        settle(&tree);
    }
    let bytes = |(name, bytes): &(String, u64)| if name.ends_with(".group") { *bytes } else { 0 };
    let left: u64 = shared.list().unwrap().iter().map(bytes).sum();
    assert!(left < 2000 && objects(&shared).len() == 1, "{left} bytes: {:?}", objects(&shared));
}

/// A read that misses memory, and `threads` writers that wait for a backend that does not answer.
#[test]
fn reads_do_not_wait_for_writes_that_wait_for_shared_storage() {
    let shared = Memory::new();
    let settings = Settings { read_threads: 4, memory_bytes: 16 << 20, page_cache_bytes: 1, ..settings() };
    let (first, _) = machines(settings, &shared);
    let hook = Arc::<Hook>::default();
    let backend = hook.before(&shared, Operation::Publish, "*.group");
    let storage = Divided::open(Arc::new(first.local.clone()), Arc::new(backend), 7).unwrap();
    let tree =
        Tree::open(TreeOptions { storage: Arc::new(storage), background: threads(), ..first.options() })
            .unwrap();
    let mut plain = session(&tree);
    for key in 0..3000_u32 {
        plain.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &vec![key as u8; 20_000], HERE).unwrap();
    }
    tree.flush().unwrap();
    let mut reader = tree.ordered_session();
    let mut miss = |key: u32| {
        let f = Box::new(|_: Option<&[u8]>| firn_engine::Change::Keep);
        let out = reader.update(KEYSPACE_DEFAULT, &key.to_be_bytes(), f, HERE).unwrap();
        let Outcome::Pending(ticket) = out else { return true };
        let (clock, mut done) = (SystemClock::new(), false);
        while !done && clock.now() < Duration::from_secs(30) {
            clock.sleep(Duration::from_millis(20));
            reader.poll(&mut |it, completion| {
                done |= it == ticket && !matches!(completion, Completion::Failed(_))
            });
        }
        done
    };
    assert!(miss(0), "nobody waits for the backend yet");
    let mut writer = tree.ordered_session();
    let answers = Answers::default();
    let is_there = Arc::clone(&answers.0);
    hook.set(move || {
        while !is_there.load(Ordering::Acquire) {
            SystemClock::new().sleep(Duration::from_millis(1));
        }
    });
    for key in 0..4_u8 {
        let out = writer.put(KEYSPACE_DEFAULT, &[key], b"", SHARED).unwrap();
        assert!(matches!(out, Outcome::Pending(_)));
    }
    SystemClock::new().sleep(Duration::from_millis(100));
    assert!(miss(100), "it was not answered while the backend was not there");
}

/// A backend answers again when this is dropped, also where the test panics.
#[derive(Default)]
struct Answers(Arc<AtomicBool>);

impl Drop for Answers {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// One machine is refused the take-over, and the machine that has the database can share nothing
/// any more.
#[test]
fn whoever_cannot_take_over_ends_nobody() {
    let shared = Memory::new();
    let (first, second) = machines(settings(), &shared);
    let tree = first.open();
    let merging = KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..KeyspaceSettings::default() };
    tree.create_keyspace("merging", merging).unwrap();
    session(&tree).put(KEYSPACE_DEFAULT, b"first", b"shared", SHARED).unwrap();
    let refused = Tree::open(TreeOptions {
        take_over: true,
        semantics: firn_engine::Semantics::default(),
        ..second.options()
    })
    .unwrap_err();
    assert!(refused.to_string().contains(APPEND), "{}", describe(&refused));
    let outcome =
        session(&tree).put(KEYSPACE_DEFAULT, b"second", b"shared", SHARED).map_err(|it| describe(&it));
    assert_eq!(outcome.map(drop), Ok(()));
    let outcome = tree.flush().map_err(|it| describe(&it));
    assert_eq!(outcome, Ok(()), "nor did it take the number of an edit");
}

/// One write at a time makes a log object each: sooner or later they are put together.
#[test]
fn log_objects_are_never_too_many() {
    let shared = Memory::new();
    let (first, second) = machines(settings(), &shared);
    let tree = first.open();
    let mut writer = session(&tree);
    let mut most = 0;
    for key in 0..3000_u32 {
        writer.put(KEYSPACE_DEFAULT, &(key % 500).to_be_bytes(), &key.to_be_bytes(), SHARED).unwrap();
        if key % 100 == 0 {
            settle(&tree);
            most = most.max(objects(&shared).values().map(Vec::len).sum());
        }
    }
    settle(&tree);
    assert!((900..1200).contains(&most), "{most}");
    let model = all(&tree);
    let second = on(&second, &lost(&shared, (writer, tree)));
    assert!(all(&second.take_over().unwrap()) == model);
}
