//! Statistics of what reads fetch from files.

use std::sync::Arc;

use firn_engine::{Engine, KEYSPACE_DEFAULT, Ordered};
use firn_storage::Storage;
use firn_tree::{Background, Tree, TreeOptions};

use crate::support::unmapped::Unmapped;
use crate::support::world::{World, get, put, session, tiny};

/// Bytes that reads fetched so far.
fn missed(tree: &Tree) -> u64 {
    tree.stats().read_miss_bytes_total
}

#[test]
fn reads_count_what_they_fetch_from_files_once_while_it_stays_in_memory() {
    for is_mapped in [true, false] {
        let world = World::new(tiny());
        let inner: Arc<dyn Storage> = Arc::new(world.storage.clone());
        let storage: Arc<dyn Storage> = if is_mapped { inner } else { Arc::new(Unmapped { inner }) };
        let background = Background::Manual;
        let tree = Tree::open(TreeOptions { storage, background, ..world.options() }).unwrap();
        let mut session = session(&tree);
        for key in 0..1000_u32 {
            put(&mut session, &key.to_be_bytes(), &[1; 100]);
        }
        get(&mut session, &7_u32.to_be_bytes()).unwrap();
        assert_eq!(missed(&tree), 0, "it was in the memtable");
        tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
        assert_eq!(missed(&tree), 0, "jobs are not reads");
        get(&mut session, &7_u32.to_be_bytes()).unwrap();
        let once = missed(&tree);
        assert!((1000..8000).contains(&once), "a block: {once}");
        get(&mut session, &8_u32.to_be_bytes()).unwrap();
        assert_eq!(missed(&tree), once, "the same block, in memory by now");
        get(&mut session, b"absent in between");
        assert_eq!(missed(&tree), once, "the filter answers");
        let all: Vec<_> = (0..1000_u32).map(|key| get(&mut session, &key.to_be_bytes())).collect();
        assert!(all.iter().all(Option::is_some));
        let table_bytes = tree.stats().tree.expect("a tree").table_bytes;
        assert!((100_000..table_bytes).contains(&missed(&tree)), "{} of {table_bytes}", missed(&tree));
    }
}
