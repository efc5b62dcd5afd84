//! What scans bring about: level 0 becomes shallow where they are many, and stays as it is where they are few.

use firn_engine::blocking::Blocking;
use firn_engine::{Engine, KEYSPACE_DEFAULT, ReadAt, ScanRange};
use firn_tree::{Tree, TreeSettings};

use crate::world::{World, put, rows, session, settle, tiny};

/// Tables of level 0, and bytes that compaction has written.
fn level0(tree: &Tree) -> (u64, u64) {
    let stats = tree.stats();
    (stats.keyspaces[0].levels[0].0, stats.compaction_write_bytes_total)
}

/// Every third key anew and a drain, `rounds` times: that many sorted runs in level 0 above the first one's tables.
fn deepen(tree: &Tree, session: &mut Blocking, rounds: u32) {
    for round in 0..=rounds {
        for number in (0..300u32).filter(|number| round == 0 || number % 3 == round % 3) {
            let value = [round as u8; 100];
            put(session, &number.to_be_bytes(), &value);
        }
        tree.flush().unwrap();
    }
    settle(tree);
}

fn all(session: &mut Blocking) -> Vec<(Vec<u8>, Vec<u8>)> {
    rows(session, ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all())
}

fn scan(session: &mut Blocking, times: usize) {
    for _ in 0..times {
        let range = ScanRange::from(&100u32.to_be_bytes());
        let mut scan = session.scan(ReadAt::Latest, KEYSPACE_DEFAULT, range).unwrap();
        assert!(scan.next_record().unwrap().is_some());
    }
}

#[test]
fn scans_that_have_lost_enough_make_level_0_shallow() {
    let settings = TreeSettings { level0_runs_max: 12, garbage_share_max: 100.0, ..tiny() };
    let world = World::new(settings);
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    deepen(&tree, &mut session, 4);
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
