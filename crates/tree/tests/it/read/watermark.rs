//! What readers see while several threads write: whole batches, one's own writes, and never an
//! older state.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Batch, Engine, Ordered, ReadAt, ScanRange, Snapshot, WriteOptions};
use firn_format::key::key_hash;
use firn_tree::Tree;

use crate::support::numbered::{Both, both};
use crate::support::world::{World, get_in, rows, session, settle, tiny};

const WRITERS: u8 = 2;
/// Keys of each writer in each keyspace; every batch writes all of them.
const KEYS: u8 = 6;
const ROUNDS: u32 = 1500;

fn key(writer: u8, index: u8) -> [u8; 2] {
    [writer, index]
}

/// Every key of `writer`, in both keyspaces, gets `round`.
fn round_batch(both: Both, writer: u8, round: u32) -> Batch {
    let mut batch = Batch::new();
    let mut value = round.to_be_bytes().to_vec();
    value.resize(5000, writer);
    for index in 0..KEYS {
        for keyspace in both {
            batch.put(keyspace, &key(writer, index), &value);
        }
    }
    batch
}

/// The one round that all keys of `writer` in a keyspace have at one point; `None` before its
/// first.
fn round_of(
    session: &mut OrderedBlocking,
    at: ReadAt<'_>,
    both: Both,
    side: usize,
    writer: u8,
) -> Option<u32> {
    let keys: Vec<[u8; 2]> = (0..KEYS).map(|index| key(writer, index)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let values = session.multi_get(at, both[side], &keys).unwrap();
    let round = |value: Option<&[u8]>| value.map(|value| u32::from_be_bytes(value[..4].try_into().unwrap()));
    let rounds: Vec<Option<u32>> = values.iter().map(round).collect();
    assert!(rounds.iter().all(|round| *round == rounds[0]), "writer {writer} side {side}: {rounds:?}");
    rounds[0]
}

/// A few bytes that stand for all that a snapshot shows, in both directions.
fn digest(session: &mut OrderedBlocking, snapshot: &Snapshot, both: Both) -> Vec<u64> {
    let mut digest = Vec::new();
    for keyspace in both {
        let forward = rows(session, ReadAt::Snapshot(snapshot), keyspace, ScanRange::all());
        let mut backward = rows(session, ReadAt::Snapshot(snapshot), keyspace, ScanRange::all().backward());
        backward.reverse();
        assert!(forward == backward, "both directions of one snapshot");
        digest.extend(forward.iter().map(|(key, value)| key_hash(key) ^ key_hash(value).rotate_left(1)));
    }
    digest
}

/// Writes rounds and reads each of them back at once.
fn write_rounds(tree: &Tree, both: Both, writer: u8) {
    let mut session = session(tree);
    let mut last = None;
    for round in 1..=ROUNDS {
        let batch = round_batch(both, writer, round);
        let position = session.write(&batch, WriteOptions::default()).unwrap();
        assert!(Some(position) > last, "positions grow");
        last = Some(position);
        for (side, keyspace) in both.into_iter().enumerate() {
            let value = get_in(&mut session, keyspace, &key(writer, (round % u32::from(KEYS)) as u8));
            let seen = value.map(|value| value[..4].to_vec());
            assert_eq!(seen.as_deref(), Some(&round.to_be_bytes()[..]), "own write, side {side}");
        }
        assert!(tree.snapshot().unwrap().position() >= position, "a snapshot covers what was acknowledged");
    }
}

/// Looks until the writers are done: what is seen is whole, never older than before, and snapshots
/// stand still.
fn watch(tree: &Tree, both: Both, writing: &AtomicUsize) -> usize {
    let mut session = session(tree);
    let mut seen = [None; WRITERS as usize];
    let mut held: VecDeque<(Snapshot, Vec<u64>)> = VecDeque::new();
    let mut looks = 0;
    while writing.load(Ordering::Acquire) > 0 {
        looks += 1;
        for writer in 0..WRITERS {
            let last = &mut seen[usize::from(writer)];
            for side in [0, 1] {
                let round = round_of(&mut session, ReadAt::Latest, both, side, writer);
                assert!(round >= *last, "writer {writer} side {side}: {round:?} after {last:?}");
                *last = round;
            }
        }
        let snapshot = tree.snapshot().unwrap();
        if let Some((before, _)) = held.back() {
            assert!(snapshot.position() >= before.position(), "the watermark goes back");
        }
        for writer in 0..WRITERS {
            let at = ReadAt::Snapshot(&snapshot);
            let sides = [0, 1].map(|side| round_of(&mut session, at, both, side, writer));
            assert_eq!(sides[0], sides[1], "writer {writer}: a batch is torn between keyspaces");
            assert!(sides[0] >= seen[usize::from(writer)], "a snapshot is older than what was read before");
        }
        let now = digest(&mut session, &snapshot, both);
        held.push_back((snapshot, now));
        if held.len() > 12 {
            let (snapshot, before) = held.pop_front().unwrap();
            assert!(digest(&mut session, &snapshot, both) == before, "a snapshot moved");
        }
    }
    for (snapshot, before) in held {
        assert!(digest(&mut session, &snapshot, both) == before, "a snapshot moved");
    }
    looks
}

/// Freezes, flushes and compacts, over and over.
fn move_data(tree: &Tree, both: Both, writing: &AtomicUsize) {
    let mut turn = 0;
    while writing.load(Ordering::Acquire) > 0 {
        turn += 1;
        match turn % 3 {
            0 => tree.freeze().unwrap(),
            1 => tree.flush().unwrap(),
            _ => tree.compact_range(both[turn % 2], b"", None).unwrap(),
        }
        std::thread::yield_now();
    }
}

#[test]
fn readers_see_whole_batches_and_never_an_older_state() {
    let world = World::new(tiny());
    let tree = world.open_threads();
    let both = both(&tree);
    let writing = AtomicUsize::new(usize::from(WRITERS));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (tree, writing) = (&tree, &writing);
            scope.spawn(move || {
                let _done = Done(writing);
                write_rounds(tree, both, writer);
            });
        }
        scope.spawn(|| move_data(&tree, both, &writing));
        let watchers = [0, 1].map(|_| scope.spawn(|| watch(&tree, both, &writing)));
        for watcher in watchers {
            let looks = watcher.join().unwrap();
            assert!(looks > 5, "only {looks} looks");
        }
    });
    let mut session = session(&tree);
    for (writer, side) in (0..WRITERS).flat_map(|writer| [(writer, 0), (writer, 1)]) {
        assert_eq!(round_of(&mut session, ReadAt::Latest, both, side, writer), Some(ROUNDS));
    }
    let stats = tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").flush_count > 0
            && stats.tree.as_ref().expect("a tree").compaction_count > 0,
        "nothing moved: {stats:?}"
    );
}

/// Counts a writer as done, also where it panics, so that threads that watch it end.
struct Done<'w>(&'w AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[test]
fn a_snapshot_stands_still_through_every_stage_its_records_pass() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let both = both(&tree);
    let mut session = session(&tree);
    let mut held = Vec::new();
    for round in 1..=24_u32 {
        session.write(&round_batch(both, 0, round), WriteOptions::default()).unwrap();
        let snapshot = tree.snapshot().unwrap();
        let now = digest(&mut session, &snapshot, both);
        held.push((snapshot, now));
        match round % 4 {
            0 => tree.freeze().unwrap(),
            1 => settle(&tree),
            2 => tree.flush().unwrap(),
            _ => tree.compact_range(both[round as usize / 4 % 2], b"", None).unwrap(),
        }
        for (snapshot, before) in &held {
            assert!(digest(&mut session, snapshot, both) == *before, "moved in round {round}");
        }
        // Every third goes early, so that merges may drop what only it still saw.
        if round % 3 == 0 {
            held.remove(held.len() / 2);
        }
    }
    assert_eq!(tree.stats().snapshot_count, held.len() as u64);
    for (snapshot, _) in &held {
        let sides = [0, 1].map(|side| round_of(&mut session, ReadAt::Snapshot(snapshot), both, side, 0));
        assert_eq!(sides[0], sides[1]);
    }
    drop(held);
    tree.compact_range(both[0], b"", None).unwrap();
    assert_eq!(round_of(&mut session, ReadAt::Latest, both, 0, 0), Some(24));
}
