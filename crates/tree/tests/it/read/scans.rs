//! Effects of reads: level 0 becomes shallow where they are many, and stays as it is where they are
//! few.

use std::sync::Arc;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Engine, KEYSPACE_DEFAULT, ReadAt, ScanRange};
use firn_tree::{Settings, Tree};

use crate::support::world::{World, get, put, rows, session, settle, tiny};

/// Tables of level 0, and bytes that compaction has written.
fn level0(tree: &Tree) -> (u64, u64) {
    let stats = tree.stats();
    (
        stats.keyspaces[0].tree.as_ref().expect("a tree").levels[0].0,
        stats.tree.as_ref().expect("a tree").compaction_write_bytes_total,
    )
}

/// Every third key anew and a flush, `rounds` times: that many sorted runs in level 0 above the
/// first one's tables.
fn deepen(tree: &Tree, session: &mut OrderedBlocking, rounds: u32) {
    for round in 0..=rounds {
        for number in (0..300u32).filter(|number| round == 0 || number % 3 == round % 3) {
            let value = [round as u8; 100];
            put(session, &number.to_be_bytes(), &value);
        }
        tree.flush().unwrap();
    }
    settle(tree);
}

/// A tree with several sorted runs in level 0 that no budget minds, in which reads buy compactions
/// at `price`.
pub(crate) fn deep_tree_at(price: f64) -> (Arc<Tree>, OrderedBlocking) {
    let settings = Settings { space_amplification_max: 100.0, ..tiny() }.with_engine(|tree| {
        tree.level0_runs_max = 12;
        tree.read_compaction_price = price;
    });
    let tree = World::new(settings).open().unwrap();
    let mut session = session(&tree);
    deepen(&tree, &mut session, 4);
    (tree, session)
}

fn deep_tree() -> (Arc<Tree>, OrderedBlocking) {
    deep_tree_at(1.0)
}

fn all(session: &mut OrderedBlocking) -> Vec<(Vec<u8>, Vec<u8>)> {
    rows(session, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all())
}

pub(crate) fn scan(session: &mut OrderedBlocking, times: usize) {
    for _ in 0..times {
        let range = ScanRange::from(100u32.to_be_bytes()..);
        let mut scan = session.scan(ReadAt::Latest, KEYSPACE_DEFAULT, range).unwrap();
        assert!(scan.next_record().unwrap().is_some());
    }
}

#[test]
fn scans_that_have_lost_enough_make_level_0_shallow() {
    let (tree, mut session) = deep_tree();
    let (deep, written) = level0(&tree);
    assert!(deep >= 4, "{deep} tables in level 0");
    let before = all(&mut session);

    scan(&mut session, 2);
    settle(&tree);
    assert_eq!(level0(&tree), (deep, written), "a few scans are worth no compaction");
    for _ in 0..10 {
        scan(&mut session, 100);
        settle(&tree);
    }
    let (shallow, rewritten) = level0(&tree);
    assert_eq!(shallow, 0, "what 1000 scans have lost is more than all is worth");
    assert_eq!(all(&mut session), before);

    // They have lost nothing since that would be worth more.
    scan(&mut session, 1000);
    settle(&tree);
    assert_eq!(level0(&tree), (0, rewritten));
}

#[test]
fn point_reads_of_tables_that_have_lost_enough_make_level_0_shallow() {
    let (tree, mut session) = deep_tree();
    let deep = level0(&tree);
    assert!(deep.0 >= 4, "{deep:?}");
    let mut read = |times: u32, key: &[u8], is_there: bool| {
        for _ in 0..times {
            assert_eq!(get(&mut session, key).is_some(), is_there);
        }
        settle(&tree);
        level0(&tree)
    };
    // In the newest of them, and in none of them although the bounds of all hold it.
    let (newest, none) = (7u32.to_be_bytes(), [0, 0, 0, 7, 1]);
    assert_eq!(read(100, &none, false), deep, "a few reads are worth no compaction");
    assert_eq!(read(10_000, &newest, true), deep, "nothing is in their way");
    for _ in 0..10 {
        read(1000, &none, false);
    }
    let (shallow, rewritten) = read(1, &none, false);
    assert_eq!(shallow, 0, "what 10 000 reads have lost is more than all is worth");
    assert_eq!(read(10_000, &none, false), (0, rewritten), "nothing is in their way any more");
    let before = all(&mut session);
    assert_eq!(before.len(), 300);
}

#[test]
fn point_reads_of_the_buffer_make_nothing_shallow() {
    let (tree, mut session) = deep_tree();
    let deep = level0(&tree);
    put(&mut session, &7u32.to_be_bytes(), b"in the memtable");
    for _ in 0..10_000 {
        assert!(get(&mut session, &7u32.to_be_bytes()).is_some());
    }
    settle(&tree);
    assert_eq!(level0(&tree), deep);
}
