//! T7: tens of thousands of merges on one key, each found by a walk over all newer ones.
//! Neighbours: several keys at once; scans both ways; a snapshot below the newest; the merges
//! frozen, and in tables; an update of such a key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Change, Direction, Engine, KeyspaceId, Ordered, ReadAt, ScanRange, WriteOptions};
use firn_tree::Tree;

use super::joining::{Joining, joined};
use crate::support::world::{World, get_in, put, rows, session, tiny};

/// Few, and sixteen times as many: what is linear takes sixteen times as long, what is quadratic
/// 256 times. Four times as long as either is left to a machine that is busy.
const FEW: u32 = 1_000;
const MANY: u32 = 16 * FEW;
const TIMES_MAX: f64 = 64.0;

const KEY: &[u8] = b"key";

/// Where the merges lie when they are read.
#[derive(Clone, Copy, Debug)]
enum Lie {
    InMemtable,
    Frozen,
    InTable,
}

/// A key of `count` merges of 2 bytes, and a neighbour on each side.
struct Scene {
    tree: Arc<Tree>,
    keyspace: KeyspaceId,
    count: u32,
}

impl Scene {
    fn new(count: u32, lie: Lie) -> Self {
        let world = World::new(tiny());
        let joining = Joining::default();
        let tree = joining.open(&world);
        let keyspace = tree.create_keyspace("joined", joined()).unwrap();
        let mut session = session(&tree);
        for neighbour in [&b"a"[..], b"z"] {
            session.put(keyspace, neighbour, b"v", WriteOptions::default()).unwrap();
        }
        // Over a base in an older table a flush leaves operands as they are.
        if let Lie::InTable = lie {
            session.put(keyspace, KEY, b"", WriteOptions::default()).unwrap();
            tree.flush().unwrap();
        }
        for number in 0..count {
            session.merge(keyspace, KEY, &operand(number), WriteOptions::default()).unwrap();
        }
        match lie {
            Lie::InMemtable => {}
            // As many bytes as begin another segment, which freezes what is in this one.
            Lie::Frozen => (0..6_u8).for_each(|number| {
                put(&mut session, &[number], &[0; 1 << 20]);
                tree.step().unwrap();
            }),
            Lie::InTable => {
                tree.flush().unwrap();
                assert_eq!(joining.calls(), 0, "they are operands still");
            }
        }
        drop(session);
        Self { tree, keyspace, count }
    }

    fn value(&self) -> Vec<u8> {
        (0..self.count).flat_map(operand).collect()
    }
}

fn operand(number: u32) -> [u8; 2] {
    (number as u16).to_be_bytes()
}

/// The shortest of some times that `read` takes: what else the machine does makes none shorter.
fn shortest(mut read: impl FnMut()) -> Duration {
    let times = (0..20).map(|_| {
        #[expect(clippy::disallowed_methods, reason = "how long a read takes is wall time")]
        let start = Instant::now();
        read();
        start.elapsed()
    });
    times.min().unwrap()
}

/// Fails if `read` of a key of many merges takes more than linear time.
#[track_caller]
fn is_linear(what: &str, lie: Lie, read: impl Fn(&mut OrderedBlocking, &Scene) -> Vec<u8>) {
    let times = [FEW, MANY].map(|count| {
        let scene = Scene::new(count, lie);
        let mut session = session(&scene.tree);
        assert_eq!(read(&mut session, &scene), scene.value(), "{what} of {count}, {lie:?}");
        shortest(|| assert!(!read(&mut session, &scene).is_empty()))
    });
    let ratio = times[1].as_secs_f64() / times[0].as_secs_f64();
    assert!(ratio < TIMES_MAX, "{what}, {lie:?}: {ratio:.1} times as long for 16 times as many: {times:?}");
}

fn scanned(session: &mut OrderedBlocking, scene: &Scene, direction: Direction) -> Vec<u8> {
    let range = ScanRange { direction, ..ScanRange::all() };
    let rows = rows(session, ReadAt::Latest, scene.keyspace, range);
    assert_eq!(rows.len(), 3);
    rows[1].1.clone()
}

#[test]
fn t7_many_merges_of_a_key_are_read_in_linear_time() {
    for lie in [Lie::InMemtable, Lie::Frozen, Lie::InTable] {
        is_linear("a get", lie, |session, scene| get_in(session, scene.keyspace, KEY).unwrap());
        is_linear("a multi_get", lie, |session, scene| {
            let values = session.multi_get(ReadAt::Latest, scene.keyspace, &[b"a", KEY, b"z"]).unwrap();
            values.get(1).unwrap().to_vec()
        });
        for direction in [Direction::Forward, Direction::Backward] {
            is_linear("a scan", lie, |session, scene| scanned(session, scene, direction));
        }
    }
}

/// A snapshot that sees half of the merges passes the other half once.
#[test]
fn t7_a_snapshot_below_many_merges_is_read_in_linear_time() {
    let times = [FEW, MANY].map(|count| {
        let scene = Scene::new(count / 2, Lie::InMemtable);
        let mut session = session(&scene.tree);
        let snapshot = scene.tree.snapshot().unwrap();
        for number in 0..count / 2 {
            session.merge(scene.keyspace, KEY, &operand(number), WriteOptions::default()).unwrap();
        }
        let mut read = || session.get(ReadAt::Snapshot(&snapshot), scene.keyspace, KEY).unwrap().unwrap();
        assert_eq!(read(), scene.value());
        shortest(|| assert!(!read().is_empty()))
    });
    let ratio = times[1].as_secs_f64() / times[0].as_secs_f64();
    assert!(ratio < TIMES_MAX, "{ratio:.1} times as long for 16 times as many: {times:?}");
}

/// Flushing and compacting a key of many merges takes no more than linear time, with a snapshot
/// among them too.
#[test]
fn t7_many_merges_of_a_key_are_written_out_in_linear_time() {
    let times = [FEW, MANY].map(|count| {
        let once = |_| {
            let scene = Scene::new(count, Lie::InMemtable);
            let snapshot = scene.tree.snapshot().unwrap();
            let mut session = session(&scene.tree);
            session.merge(scene.keyspace, KEY, b"!", WriteOptions::default()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "how long a flush takes is wall time")]
            let start = Instant::now();
            scene.tree.flush().unwrap();
            scene.tree.compact_range(scene.keyspace, b"", None).unwrap();
            let took = start.elapsed();
            assert_eq!(get_in(&mut session, scene.keyspace, KEY).unwrap().len() as u32, 2 * count + 1);
            let old = session.get(ReadAt::Snapshot(&snapshot), scene.keyspace, KEY).unwrap();
            assert_eq!(old.unwrap(), scene.value());
            took
        };
        (0..5).map(once).min().unwrap()
    });
    let ratio = times[1].as_secs_f64() / times[0].as_secs_f64();
    assert!(ratio < TIMES_MAX, "{ratio:.1} times as long for 16 times as many: {times:?}");
}

/// The second look of an update, while its place in the log is reserved, asks for the newest
/// version's sequence and for no value.
#[test]
fn t7_an_update_merges_once_and_before_it_reserves() {
    let world = World::new(tiny());
    let joining = Joining::default();
    let tree = joining.open(&world);
    let keyspace = tree.create_keyspace("joined", joined()).unwrap();
    let mut session = session(&tree);
    for number in 0..100 {
        session.merge(keyspace, KEY, &operand(number), WriteOptions::default()).unwrap();
    }
    for round in 1..3 {
        let before = joining.calls();
        let add = |value: Option<&[u8]>| (Change::Put([value.unwrap(), b"!"].concat()), ());
        session.update(keyspace, KEY, WriteOptions::default(), add).unwrap();
        assert_eq!(joining.calls() - before, 1, "update {round}");
        assert_eq!(get_in(&mut session, keyspace, KEY).unwrap().len(), 200 + 2 * round - 1);
        // The next one finds its base in a table.
        tree.flush().unwrap();
        session.merge(keyspace, KEY, b"+", WriteOptions::default()).unwrap();
    }
}
