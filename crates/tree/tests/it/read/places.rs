//! Merges, expiry, range deletes and snapshots whose records lie in memtables, runs and tables at
//! once.

use firn_engine::{Engine, KeyspaceId, Ordered, ReadAt, ScanRange, WriteOptions};
use firn_storage::{Clock, ManualClock};

use crate::support::world::{
    World, adding, appending, delete_range, get_in, prefixed, rows, seed, session, settle, tiny,
};

/// Leaves what was written so far in tables, in runs or in the memtable, in turn.
fn move_on(tree: &firn_tree::Tree, round: usize) {
    match round % 3 {
        0 => tree.flush().unwrap(),
        1 => {
            tree.freeze().unwrap();
            settle(tree);
        }
        _ => {}
    }
}

#[test]
fn operands_meet_their_base_wherever_both_lie() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let texts = tree.create_keyspace("texts", appending()).unwrap();
    let sums = tree.create_keyspace("sums", adding()).unwrap();
    let mut session = session(&tree);
    let options = WriteOptions::default();
    session.put(texts, b"word", b"", options).unwrap();
    let mut expected = Vec::new();
    for round in 0..9_usize {
        let letter = [b'a' + round as u8];
        session.merge(texts, b"word", &letter, options).unwrap();
        session.merge(sums, b"sum", &(round as u64).to_le_bytes(), options).unwrap();
        expected.extend_from_slice(&letter);
        let sum: u64 = (0..=round as u64).sum();
        assert_eq!(get_in(&mut session, sums, b"sum").as_deref(), Some(&sum.to_le_bytes()[..]), "{round}");
        let word = get_in(&mut session, texts, b"word").unwrap();
        assert!(expected.iter().all(|letter| word.contains(letter)), "{round}: {word:?}");
        let scanned = rows(&mut session, ReadAt::Latest, texts, ScanRange::all().backward());
        assert_eq!(scanned, [(b"word".to_vec(), word)], "{round}");
        move_on(&tree, round);
    }
}

#[test]
fn a_snapshot_sees_through_range_deletes_and_flushes_what_readers_of_now_do_not() {
    let seed = seed(41);
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let keyspace = tree.create_keyspace("prefixed", prefixed()).unwrap();
    let mut session = session(&tree);
    let key = |number: u32| format!("{:04}/{number:06}", number % 7).into_bytes();
    for round in 0..6_u32 {
        for number in 0..200 {
            session.put(keyspace, &key(number), &round.to_le_bytes(), WriteOptions::default()).unwrap();
        }
        move_on(&tree, rng.usize(0..3));
        let before = rows(&mut session, ReadAt::Latest, keyspace, ScanRange::all());
        let snapshot = tree.snapshot().unwrap();
        let gone = rng.u32(0..7);
        let (start, end) = (format!("{gone:04}/"), format!("{gone:04}0"));
        delete_range(&tree, keyspace, start.as_bytes(), end.as_bytes()).unwrap();
        move_on(&tree, rng.usize(0..3));
        tree.compact_range(keyspace, b"", None).unwrap();
        let seen = rows(&mut session, ReadAt::Snapshot(&snapshot), keyspace, ScanRange::all());
        assert_eq!(seen, before, "round {round}");
        let left: Vec<_> = before.into_iter().filter(|(key, _)| !key.starts_with(start.as_bytes())).collect();
        assert_eq!(rows(&mut session, ReadAt::Latest, keyspace, ScanRange::all()), left, "round {round}");
        let none = ScanRange::with_prefix(start.as_bytes()).backward();
        assert!(rows(&mut session, ReadAt::Latest, keyspace, none).is_empty(), "round {round}");
    }
}

#[test]
fn a_record_expires_at_its_time_in_every_place_and_hides_what_is_older() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    let clock: &ManualClock = &world.clock;
    for round in 0..6_usize {
        let key = [round as u8];
        session.put(KeyspaceId(0), &key, b"old", WriteOptions::default()).unwrap();
        move_on(&tree, round);
        let options = WriteOptions { expires_at_ms: clock.unix_ms() + 1000, ..WriteOptions::default() };
        session.put(KeyspaceId(0), &key, b"new", options).unwrap();
        move_on(&tree, round + 1);
        assert_eq!(get_in(&mut session, KeyspaceId(0), &key).as_deref(), Some(&b"new"[..]), "{round}");
        clock.advance(std::time::Duration::from_millis(1000));
        assert_eq!(get_in(&mut session, KeyspaceId(0), &key), None, "{round}");
        tree.compact_range(KeyspaceId(0), b"", None).unwrap();
        assert_eq!(get_in(&mut session, KeyspaceId(0), &key), None, "{round}");
    }
    assert!(rows(&mut session, ReadAt::Latest, KeyspaceId(0), ScanRange::all()).is_empty());
}

#[test]
fn counters_updated_by_threads_over_constant_rolls_end_exact() {
    let world = World::new(tiny());
    let tree = world.open_threads();
    const ROUNDS: u64 = 300;
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let tree = &tree;
            scope.spawn(move || {
                let mut session = session(tree);
                for round in 0..ROUNDS {
                    let key = [(round % 4) as u8];
                    let add = |value: Option<&[u8]>| {
                        let old = value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes);
                        (firn_engine::Change::Put((old + 1).to_le_bytes().to_vec()), ())
                    };
                    session.update(KeyspaceId(0), &key, WriteOptions::default(), add).unwrap();
                    let filler = [thread, round].map(u64::to_le_bytes).concat();
                    session.put(KeyspaceId(0), &filler, &vec![1; 50_000], WriteOptions::default()).unwrap();
                }
            });
        }
    });
    let mut session = session(&tree);
    for key in 0..4_u8 {
        let value = get_in(&mut session, KeyspaceId(0), &[key]).unwrap();
        assert_eq!(value, (3 * ROUNDS / 4).to_le_bytes(), "counter {key}");
    }
}
