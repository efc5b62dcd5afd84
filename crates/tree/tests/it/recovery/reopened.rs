//! Knowledge of compactions that a reopening keeps.

use firn_engine::{Engine, KEYSPACE_DEFAULT, WriteOptions};
use firn_tree::Settings;

use crate::support::world::{World, get, session, settle, tiny};

/// Estimates of what tables supersede outlive the process: with them forgotten, level 0 would look
/// half superseded.
#[test]
fn a_reopened_database_rewrites_nothing_that_supersedes_nothing() {
    // Edits are restated on the way.
    for manifest_edits_max in [1000, 3] {
        let world = World::new(
            Settings { manifest_edits_max, ..tiny() }.with_engine(|tree| tree.level0_runs_max = 100),
        );
        let tree = world.open().unwrap();
        for run in 0..5_u32 {
            let mut session = session(&tree);
            for key in 0..500_u32 {
                let key = (5 * key + run).to_be_bytes();
                session.put(KEYSPACE_DEFAULT, &key, &[1; 1000], WriteOptions::default()).unwrap();
            }
            tree.flush().unwrap();
        }
        settle(&tree);
        assert_eq!(
            tree.stats().tree.expect("a tree").compaction_write_bytes_total,
            0,
            "each key was written once"
        );
        tree.close().unwrap();
        let tree = world.open().unwrap();
        settle(&tree);
        let stats = tree.stats();
        assert_eq!(stats.tree.as_ref().expect("a tree").compaction_write_bytes_total, 0, "{stats:?}");
        assert!(stats.keyspaces[0].tree.as_ref().expect("a tree").levels[0].0 >= 4, "{stats:?}");
        assert_eq!(get(&mut session(&tree), &7_u32.to_be_bytes()).as_deref(), Some(&[1; 1000][..]));
    }
}
