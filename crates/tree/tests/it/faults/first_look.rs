//! P2: the first scan after 150 000 writes sorted all of them on the thread that began it, which
//! served nothing else for 0.1 s. Neighbours: both directions; a look at a snapshot; a memtable
//! that is frozen; looks after which little is new.

use firn_engine::{
    BatchLimit, Completion, Direction, Engine, KEYSPACE_DEFAULT, Ordered, OrderedSession, Outcome, ReadAt,
    ScanBatch, ScanRange, Snapshot,
};
use firn_tree::Tree;

use crate::support::world::{World, put, session, tiny};

fn write(tree: &Tree, numbers: std::ops::Range<u32>) {
    let mut session = session(tree);
    for number in numbers {
        put(&mut session, &number.to_be_bytes(), b"v");
    }
}

/// Reads two batches from one end; whether the pool has read the first. The second one needs it no
/// more.
fn is_begun_on_the_pool(
    session: &mut Box<dyn OrderedSession>,
    at: Option<&Snapshot>,
    direction: Direction,
    first: u32,
) -> bool {
    let range = ScanRange { direction, ..ScanRange::all() };
    let at = at.map_or(ReadAt::Latest, ReadAt::Snapshot);
    let mut scan = session.scan(at, KEYSPACE_DEFAULT, range).unwrap();
    let (limit, mut batch) = (BatchLimit { records: 1, bytes: 1 << 20 }, ScanBatch::new());
    let key_of = |batch: &ScanBatch| batch.get(0).map(|(key, _)| key.to_vec());
    let is_on_pool = match scan.next_batch(limit, &mut batch).unwrap() {
        Outcome::Done(()) => false,
        Outcome::Pending(_) => {
            session.poll(&mut |_, completion| match completion {
                Completion::Scanned(read) => batch = read,
                other => panic!("{other:?}"),
            });
            true
        }
    };
    assert_eq!(key_of(&batch), Some(first.to_be_bytes().to_vec()));
    let second = match direction {
        Direction::Forward => first + 1,
        Direction::Backward => first - 1,
    };
    assert!(matches!(scan.next_batch(limit, &mut batch), Ok(Outcome::Done(()))));
    assert_eq!(key_of(&batch), Some(second.to_be_bytes().to_vec()));
    is_on_pool
}

#[test]
fn p2_a_first_look_at_many_writes_leaves_its_thread() {
    let many = 20_000;
    for (direction, is_frozen) in
        [(Direction::Forward, false), (Direction::Backward, false), (Direction::Forward, true)]
    {
        let what = format!("{direction:?}, {is_frozen}");
        let tree = World::new(tiny()).open().unwrap();
        let first = |count: u32| if direction == Direction::Forward { 0 } else { count - 1 };
        write(&tree, 0..many);
        if is_frozen {
            tree.freeze().unwrap();
        }
        let session = &mut tree.ordered_session();
        assert!(is_begun_on_the_pool(session, None, direction, first(many)), "{what}");
        assert!(!is_begun_on_the_pool(session, None, direction, first(many)), "{what}: sorted before");
        write(&tree, many..many + 100);
        assert!(!is_begun_on_the_pool(session, None, direction, first(many + 100)), "{what}: little is new");
        let snapshot = tree.snapshot().unwrap();
        write(&tree, many + 100..2 * many);
        assert!(!is_begun_on_the_pool(session, Some(&snapshot), direction, first(many + 100)), "{what}");
        assert!(is_begun_on_the_pool(session, None, direction, first(2 * many)), "{what}: much is new");
    }
}
