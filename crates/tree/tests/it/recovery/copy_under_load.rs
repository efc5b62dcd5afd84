//! Copies and closing while everything else goes on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    Change, Engine, Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, Ordered, OrderedSession, Outcome,
    Position, ReadAt, ScanRange, WriteOptions,
};
use firn_storage::backend::{Crash, Effect, Fault, Operation, When};
use firn_storage::{Clock, SystemClock};
use firn_tree::{Tree, TreeOptions};

use crate::support::in_time::in_time;
use crate::support::numbered::{Both, both, numbered, prefixes};
use crate::support::world::{World, describe, put, session, slow, tiny};

/// Positions of acknowledged batches, by thread, in the order of their numbers.
type Acknowledgements = Mutex<BTreeMap<u8, Vec<Position>>>;

/// Writes numbered batches until it is stopped or refused.
fn write_until(
    tree: &Tree,
    both: Both,
    thread: u8,
    stop: &AtomicBool,
    acknowledgements: &Acknowledgements,
) -> Option<Error> {
    let mut session = session(tree);
    for number in 0.. {
        if stop.load(Ordering::Acquire) {
            return None;
        }
        let (records, bytes) = if number % 50 == 49 { (4, 300_000) } else { (6, 500) };
        match session.write(&numbered(both, thread, number, records, bytes), WriteOptions::default()) {
            Ok(position) => acknowledgements.lock().unwrap().entry(thread).or_default().push(position),
            Err(error) => return Some(error),
        }
    }
    None
}

/// Opens the copy and compares it with what was acknowledged before it was begun, and with
/// its position.
fn look(
    world: &World,
    path: PathBuf,
    before: &BTreeMap<u8, usize>,
    position: Position,
    acknowledgements: &Acknowledgements,
) {
    let copy = world.storage.directory(&path).expect("the copy's directory");
    let tree = Tree::open(TreeOptions { storage: Arc::new(copy), ..world.options() }).unwrap();
    let both = both(&tree);
    let found = prefixes(&mut session(&tree), ReadAt::Latest, both);
    for (thread, count) in before {
        let there = found.get(thread).copied().unwrap_or(0) as usize;
        assert!(there >= *count, "thread {thread}: {there} batches there, {count} acknowledged before");
    }
    let acknowledgements = acknowledgements.lock().unwrap();
    for (thread, there) in found {
        let below =
            acknowledgements[&thread].iter().filter(|acknowledged| **acknowledged <= position).count();
        let known = acknowledgements[&thread].len();
        // The last batch may be in the copy before its writer has reported it.
        let there = (there as usize).min(known);
        assert_eq!(there, below, "thread {thread}: position {position} of the copy says otherwise");
    }
}

#[test]
fn a_copy_under_load_holds_exactly_what_lies_below_its_position() {
    let world = World::new(tiny());
    // While a copy syncs the log, flushes get ahead of it; and writers are slow, so that
    // copies stay small.
    let storage = slow(&world, "*.log", Operation::Sync, Duration::from_millis(15));
    storage.inject(Fault {
        on: Operation::Write,
        file: "*.log".to_owned(),
        when: When::Always { after: 0 },
        effect: Effect::Delay(Duration::from_micros(300)),
    });
    let tree = world.open_timed(Arc::new(storage));
    let both = both(&tree);
    let (stop, acknowledgements, flushes) =
        (AtomicBool::new(false), Acknowledgements::default(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for thread in 0..2 {
            let (tree, stop, acknowledgements) = (&tree, &stop, &acknowledgements);
            scope.spawn(move || assert!(write_until(tree, both, thread, stop, acknowledgements).is_none()));
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                tree.flush().unwrap();
                flushes.fetch_add(1, Ordering::AcqRel);
            }
        });
        let clock = SystemClock::new();
        for round in 0.. {
            let flushes = flushes.load(Ordering::Acquire);
            if round >= 10 && flushes > 3 {
                break;
            }
            let is_in_time = round < 10 || clock.now() < Duration::from_secs(60);
            assert!(is_in_time, "only {flushes} flushes beside {round} copies");
            let before =
                acknowledgements.lock().unwrap().iter().map(|(thread, all)| (*thread, all.len())).collect();
            let path = PathBuf::from(format!("copy-{round}"));
            let copy = tree.copy_to(&path).unwrap();
            look(&world, path, &before, copy.position, &acknowledgements);
        }
    });
}

/// Sets its flag also where the test panics, so that the other threads end.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn assert_closed<T>(result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Closed, "{}", describe(&error));
            true
        }
    }
}

/// One thread of each kind of call, until each of them is refused.
fn do_everything(tree: &Tree, world: &World, both: Both, round: u32, acknowledgements: &Acknowledgements) {
    let never = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let never = &never;
            scope.spawn(move || {
                let error =
                    write_until(tree, both, thread, never, acknowledgements).expect("refused in the end");
                assert_eq!(error.kind(), ErrorKind::Closed, "{}", describe(&error));
            });
        }
        scope.spawn(|| while !assert_closed(tree.snapshot()) {});
        scope.spawn(|| while !assert_closed(tree.flush()) {});
        scope.spawn(|| while !assert_closed(tree.compact_range(both[1], b"", None)) {});
        scope.spawn(|| {
            for copy in 0.. {
                let path = PathBuf::from(format!("closing-{round}-{copy}"));
                let taken = tree.copy_to(&path);
                let is_taken = taken.is_ok();
                if assert_closed(taken) {
                    return;
                }
                assert!(is_taken && world.storage.directory(&path).is_some());
            }
        });
        scope.spawn(|| {
            let mut session = session(tree);
            while !assert_closed(tree.sync()) {}
            assert!(assert_closed(read_all(&mut session, both[0])));
        });
        scope.spawn(|| {
            let mut session = session(tree);
            while !assert_closed(read_all(&mut session, both[0])) {}
        });
        scope.spawn(|| update_ahead(&mut *tree.ordered_session()));
        scope.spawn(|| {
            for number in 0.. {
                if assert_closed(tree.create_keyspace(&format!("k{round}-{number}"), Default::default())) {
                    return;
                }
            }
        });
    });
}

fn read_all(session: &mut OrderedBlocking, keyspace: KeyspaceId) -> Result<(), Error> {
    let mut scan = session.scan(ReadAt::Latest, keyspace, ScanRange::all())?;
    while scan.next_record()?.is_some() {}
    Ok(())
}

/// Updates that the session hands to other threads, until they are refused; each is answered.
fn update_ahead(session: &mut dyn OrderedSession) {
    let (mut under_way, mut refused) = (0, false);
    while !refused || under_way > 0 {
        if !refused {
            let add = |_: Option<&[u8]>| Change::Put(vec![0; 20_000]);
            let key = [255, 0, 0, 0, 0, 0, 0];
            match session.update(KEYSPACE_DEFAULT, &key, Box::new(add), WriteOptions::default()) {
                Ok(_) => under_way += 1,
                Err(error) => refused = assert_closed::<()>(Err(error)),
            }
        }
        if under_way > 8 || refused {
            session.wait(None);
        }
        session.poll(&mut |_, completion| {
            under_way -= 1;
            if let firn_engine::Completion::Failed(error) = completion {
                refused = assert_closed::<()>(Err(error));
            }
        });
    }
}

#[test]
fn closing_in_the_middle_of_everything_ends_and_loses_nothing_acknowledged() {
    for round in 0..4 {
        let world = World::new(tiny());
        let (inside, acknowledgements) = (world.clone(), Arc::new(Acknowledgements::default()));
        let within = Arc::clone(&acknowledgements);
        in_time("closing", move || {
            let tree = inside.open_timed(Arc::new(inside.storage.clone()));
            let both = both(&tree);
            std::thread::scope(|scope| {
                scope.spawn(|| do_everything(&tree, &inside, both, round, &within));
                let enough = (round as usize + 1) * 20;
                while within.lock().unwrap().get(&0).map_or(0, Vec::len) < enough {
                    std::thread::yield_now();
                }
                tree.close().unwrap();
            });
        });
        for crash in [Crash::Kill, Crash::PowerLoss { seed: u64::from(round) }] {
            let tree = world.crash(crash).open().unwrap();
            let both = both(&tree);
            let mut session = session(&tree);
            session.delete(KEYSPACE_DEFAULT, &[255, 0, 0, 0, 0, 0, 0], WriteOptions::default()).unwrap();
            let found = prefixes(&mut session, ReadAt::Latest, both);
            for (thread, acknowledged) in &*acknowledgements.lock().unwrap() {
                assert!(found[thread] as usize >= acknowledged.len(), "{crash:?}: thread {thread}");
            }
        }
    }
}

#[test]
fn an_update_that_waits_for_room_does_not_keep_the_database_from_closing() {
    let mut settings = tiny();
    (settings.engine.buffer_bytes, settings.engine.buffer_bytes_max) = (8 << 20, 12 << 20);
    let world = World::new(settings);
    let storage = slow(&world, "*.table", Operation::Write, Duration::from_millis(30));
    let tree = world.open_timed(Arc::new(storage));
    put(&mut session(&tree), b"before", b"kept");
    let mut ahead = tree.ordered_session();
    for number in 0..64_u32 {
        let large = |_: Option<&[u8]>| Change::Put(vec![7; 900_000]);
        let key = number.to_be_bytes();
        let outcome = ahead.update(KEYSPACE_DEFAULT, &key, Box::new(large), WriteOptions::default());
        assert!(matches!(outcome, Ok(Outcome::Pending(_))));
    }
    let closing = Arc::clone(&tree);
    in_time("closing beside stopped updates", move || closing.close().unwrap());
    let mut answered = 0;
    while answered < 64 {
        assert!(ahead.wait(None), "{answered} of 64 are answered");
        ahead.poll(&mut |_, _| answered += 1);
    }
}
