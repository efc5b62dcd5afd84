//! A place that gives no file as memory, so that everything is read by calls.

use std::path::Path;
use std::sync::Arc;

use firn_engine::{Engine, KEYSPACE_DEFAULT, Ordered};
use firn_storage::{FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};
use firn_tree::{Background, Tree, TreeOptions};

use crate::support::world::{World, get, put, session, tiny};

/// `inner` without mappings.
#[derive(Debug)]
pub(crate) struct Unmapped {
    pub(crate) inner: Arc<dyn Storage>,
}

impl Storage for Unmapped {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.create(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.inner.open_write(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(UnmappedFile(self.inner.open_read(name)?)))
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(UnmappedFile(self.inner.open_read_known(name, bytes)?)))
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.inner.publish(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn StorageLock>> {
        self.inner.lock(exclusive)
    }

    fn link_into(&self, names: &[String], path: &Path) -> Result<Arc<dyn Storage>> {
        self.inner.link_into(names, path)
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[derive(Debug)]
struct UnmappedFile(Arc<dyn ReadFile>);

impl ReadFile for UnmappedFile {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, out)
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        Ok(None)
    }
}

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
