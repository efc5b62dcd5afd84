//! Ingestions while everything else goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::{Durability, Engine, ErrorKind, KeyspaceId, Ordered, ReadAt, ScanRange, WriteOptions};
use firn_tree::Tree;

use super::{Model, ingest, key, keyspaces};
use crate::support::in_time::in_time;
use crate::support::scene::assert_sound;
use crate::support::world::{World, rows, session, tiny};

/// Keys that ingestions take, every second one.
const KEYS: u32 = 600;

/// Which round of ingestion the keys have that nothing else writes; `None` = they are not there.
#[track_caller]
fn round_of(tree: &Tree, keyspace: KeyspaceId, at: ReadAt<'_>) -> Option<u8> {
    let found = rows(&mut session(tree), at, keyspace, ScanRange::all());
    let ingested: Vec<_> = found.iter().filter(|(_, value)| value.len() > 4).collect();
    let round = ingested.first().map(|(_, value)| value[4]);
    assert!(ingested.iter().all(|(_, value)| Some(value[4]) == round), "records of several ingestions");
    // Writers put shorter values over some of them.
    let missing = KEYS as usize - ingested.len();
    assert!(ingested.is_empty() || missing <= WRITTEN as usize, "{missing} of {KEYS} are missing");
    round
}

/// Of the ingested keys, writers write these.
const WRITTEN: u32 = 10;

/// Writes between the ingested keys, beside them, and now and then one of them.
fn write(tree: &Tree, keyspace: KeyspaceId, thread: u32, stop: &AtomicBool) {
    let durability = if thread == 0 { Durability::Disk } else { Durability::Process };
    let options = WriteOptions { durability: Some(durability), expires_at_ms: 0 };
    let mut session = session(tree);
    for number in 1.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let which = match number % 50 {
            0 => 2 * (number / 50 % WRITTEN),
            other => KEYS * 2 + other,
        };
        session.put(keyspace, &key(which), &thread.to_be_bytes(), options).unwrap();
    }
}

/// Reads all again and again; how many rounds were seen.
fn watch(tree: &Tree, keyspace: KeyspaceId, with_snapshots: bool, stop: &AtomicBool) -> u32 {
    let (mut last, mut seen) = (None, 0);
    // Once more after the last one.
    let mut is_over = false;
    while !is_over {
        is_over = stop.load(Ordering::Acquire);
        let snapshot = with_snapshots.then(|| tree.snapshot().unwrap());
        let at = snapshot.as_ref().map_or(ReadAt::Latest, ReadAt::Snapshot);
        let round = round_of(tree, keyspace, at);
        if with_snapshots {
            std::thread::yield_now();
            assert_eq!(round_of(tree, keyspace, at), round, "a snapshot shows another round");
        }
        assert!(round >= last, "round {round:?} after {last:?}");
        seen += u32::from(round > last);
        last = round;
    }
    seen
}

fn flush_and_compact(tree: &Tree, keyspace: KeyspaceId, stop: &AtomicBool) {
    for turn in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        match turn % 3 {
            0 => tree.compact_range(keyspace, b"", None).unwrap(),
            _ => tree.flush().unwrap(),
        }
        std::thread::yield_now();
    }
}

const ROUNDS: u8 = 8;

/// Ingests round after round; how often one had to be begun anew.
fn ingest_all(tree: &Tree, keyspace: KeyspaceId) -> u32 {
    let mut conflicts = 0;
    for round in 1..=ROUNDS {
        while let Err(error) = ingest(tree, keyspace, (0..2 * KEYS).step_by(2), round, &mut Model::new()) {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            conflicts += 1;
        }
        assert_eq!(round_of(tree, keyspace, ReadAt::Latest), Some(round));
    }
    conflicts
}

#[test]
fn readers_see_each_as_a_whole_whatever_goes_on() {
    in_time("ingestions beside everything else", || {
        let world = World::new(tiny().with_engine(|tree| tree.table_bytes = 64 << 10));
        let tree = world.open_threads();
        let [_, keyspace] = keyspaces(&tree);
        let (tree_, stop) = (&*tree, &AtomicBool::new(false));
        let seen = std::thread::scope(|scope| {
            (0..2).for_each(|thread| _ = scope.spawn(move || write(tree_, keyspace, thread, stop)));
            scope.spawn(move || flush_and_compact(tree_, keyspace, stop));
            let readers =
                [false, true].map(|snapshots| scope.spawn(move || watch(tree_, keyspace, snapshots, stop)));
            let conflicts = ingest_all(tree_, keyspace);
            stop.store(true, Ordering::Release);
            println!("{conflicts} conflicts");
            readers.map(|reader| reader.join().unwrap())
        });
        assert!(seen.iter().all(|seen| *seen > 0), "rounds seen: {seen:?}");
        tree.wait_idle().unwrap();
        assert_eq!(round_of(&tree, keyspace, ReadAt::Latest), Some(ROUNDS));
        tree.close().unwrap();
        assert_sound(&world);
    });
}

#[test]
fn a_close_ends_it_and_nothing_of_it_is_left() {
    in_time("an ingestion beside a close", || {
        let world = World::new(tiny());
        let tree = world.open_threads();
        let [_, keyspace] = keyspaces(&tree);
        let mut ingestion = tree.ingest(keyspace).unwrap();
        (0..20_000).for_each(|number| ingestion.put(&key(number), &[1; 100], 0).unwrap());
        tree.close().unwrap();
        assert_eq!(ingestion.put(&key(30_000), b"", 0).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(ingestion.finish().unwrap_err().kind(), ErrorKind::Closed);
        let tree = world.open().unwrap();
        assert_eq!(world.storage_names(".table"), Vec::<String>::new());
        assert_eq!(rows(&mut session(&tree), ReadAt::Latest, keyspace, ScanRange::all()), []);
    });
}
