//! P2: very many queues that are used in turn. What is known of one was given up for the others,
//! and each look at a front passed all that was ever popped there. Neighbours: queues of one
//! keyspace; a queue beside another keyspace of which more is known than is kept. Rows of dead
//! records between keys as long as keys can be, and the memory for what is known of them, which the
//! budget counts.

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    BatchLimit, Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, ReadAt, ScanBatch, ScanRange,
    WriteOptions,
};
use firn_tree::Tree;

use crate::support::world::{World, rows, session, tiny};

/// Times that a dead record is passed at most.
const PASSES: u64 = 4;

fn key(queue: u32, number: u32) -> Vec<u8> {
    [&queue.to_be_bytes()[..], &number.to_be_bytes()].concat()
}

fn put(session: &mut OrderedBlocking, keyspace: KeyspaceId, key: &[u8]) {
    session.put(keyspace, key, b"v", WriteOptions::default()).unwrap();
}

fn delete(session: &mut OrderedBlocking, keyspace: KeyspaceId, key: &[u8]) {
    session.delete(keyspace, key, WriteOptions::default()).unwrap();
}

/// Takes the first key of a queue.
fn pop(session: &mut OrderedBlocking, keyspace: KeyspaceId, queue: u32) -> Option<Vec<u8>> {
    let range = ScanRange::with_prefix(queue.to_be_bytes());
    let mut scan = session.session().scan(ReadAt::Latest, keyspace, range).unwrap();
    let mut batch = ScanBatch::new();
    while batch.is_empty() && !batch.is_finished() {
        session.next_batch(&mut *scan, BatchLimit { records: 1, bytes: 1 << 20 }, &mut batch).unwrap();
    }
    let found = batch.get(0).map(|(key, _)| key.to_vec())?;
    delete(session, keyspace, &found);
    Some(found)
}

fn passed(tree: &Tree) -> u64 {
    tree.stats().tree.expect("a tree").scan_dead_passed_count
}

#[test]
fn p2_many_queues_of_one_keyspace_are_popped_in_turn() {
    let (queues, length) = (1500, 40);
    let tree = World::new(tiny()).open().unwrap();
    let mut session = session(&tree);
    for queue in 0..queues {
        (0..length).for_each(|number| put(&mut session, KEYSPACE_DEFAULT, &key(queue, number)));
    }
    for number in 0..length {
        for queue in 0..queues {
            assert_eq!(pop(&mut session, KEYSPACE_DEFAULT, queue), Some(key(queue, number)));
        }
    }
    // Of each key the record and the delete of it are passed.
    let (passed, dead) = (passed(&tree), u64::from(2 * queues * length));
    assert!(passed >= dead / 2, "the test counts something");
    assert!(passed <= PASSES * dead, "{passed} passed of {dead} dead records");
}

#[test]
fn p2_a_queue_beside_another_keyspace_full_of_gaps() {
    let tree = World::new(tiny()).open().unwrap();
    let mut session = session(&tree);
    let other = tree.create_keyspace("other", KeyspaceSettings::default()).unwrap();
    let (rounds, length) = (100, 100);
    (0..length).for_each(|number| put(&mut session, KEYSPACE_DEFAULT, &key(0, number)));
    // Ends of 4 KB: no more than 500 gaps are kept.
    let long = |number: u32| [&number.to_be_bytes()[..], &[7; 4000]].concat();
    let mut queue_passed = 0;
    for round in 0..rounds {
        // Eight gaps of four dead keys each, between live ones.
        for number in 40 * round..40 * (round + 1) {
            put(&mut session, other, &long(number));
            if number % 5 > 0 {
                delete(&mut session, other, &long(number));
            }
        }
        let range = ScanRange::between(&long(40 * round), &long(40 * (round + 1)));
        assert_eq!(rows(&mut session, ReadAt::Latest, other, range).len(), 8);
        let before = passed(&tree);
        assert_eq!(pop(&mut session, KEYSPACE_DEFAULT, 0), Some(key(0, round)));
        queue_passed += passed(&tree) - before;
    }
    let dead = u64::from(2 * rounds);
    assert!(queue_passed <= PASSES * dead, "{queue_passed} passed of {dead} dead records");
}

#[test]
fn p2_rows_between_the_longest_keys_are_learnt_and_counted() {
    let tree = World::new(tiny()).open().unwrap();
    let mut session = session(&tree);
    let long = |number: u32| [&key(0, number)[..], &[7; 60_000]].concat();
    let count = 40;
    for number in 0..count {
        put(&mut session, KEYSPACE_DEFAULT, &long(number));
        if (1..count - 1).contains(&number) {
            delete(&mut session, KEYSPACE_DEFAULT, &long(number));
        }
    }
    // All entries are sorted by a look at few of them, of which nothing is learnt.
    let few = ScanRange::between(&long(0), &long(3));
    assert_eq!(rows(&mut session, ReadAt::Latest, KEYSPACE_DEFAULT, few).len(), 1);
    let before = (passed(&tree), tree.stats().memory_bytes);
    let look = |session: &mut OrderedBlocking| {
        assert_eq!(rows(session, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()).len(), 2);
    };
    look(&mut session);
    let known = (passed(&tree), tree.stats().memory_bytes);
    assert!(known.0 - before.0 >= 2 * 38, "the first look passes them");
    look(&mut session);
    assert_eq!(passed(&tree), known.0, "the second one does not");
    let grown = known.1 - before.1;
    assert!((120_000..140_000).contains(&grown), "the two ends of 60 KB are counted as {grown} bytes");
}
