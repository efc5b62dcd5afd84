//! LMDB: a copy-on-write B+tree in a memory map, through heed.

use std::ops::Bound;
use std::path::PathBuf;

use firn_bench::measure::IoBytes;
use firn_bench::target::{
    Client, Counters, OpenOptions, Settings, Target, TargetFactory, Visit, dir_disk_bytes,
};
use firn_engine::{Durability, Result};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RwTxn};

use super::{failed, settings};

/// Address space of the map; the file stays as small as its data.
const MAP_BYTES: usize = 256 << 30;

/// Records of a load that share a transaction.
const LOAD_RECORDS: usize = 1000;

type Tree = Database<Bytes, Bytes>;

/// Opens LMDB environments with one tree.
pub struct LmdbFactory;

impl TargetFactory for LmdbFactory {
    fn name(&self) -> &str {
        "lmdb"
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Target>> {
        let mut open = EnvOpenOptions::new();
        open.map_size(MAP_BYTES).max_readers(u32::try_from(options.threads + 16).unwrap_or(128));
        if options.durability == Durability::Process {
            let flags = EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC | EnvFlags::WRITE_MAP;
            #[expect(unsafe_code, reason = "LMDB's flags are unsafe by declaration")]
            // SAFETY: without syncs a power loss may leave the file damaged; nothing reads these
            // files after one.
            unsafe {
                open.flags(flags);
            }
        }
        #[expect(unsafe_code, reason = "LMDB maps its file")]
        // SAFETY: the directory belongs to this process alone and nothing truncates the file while
        // it is mapped.
        let env = unsafe { open.open(&options.dir) }.map_err(|error| failed("cannot open LMDB", error))?;
        let opened = |error| failed("cannot create LMDB's tree", error);
        let mut txn = env.write_txn().map_err(opened)?;
        let tree: Tree = env.create_database(&mut txn, None).map_err(opened)?;
        txn.commit().map_err(opened)?;
        let flags =
            if options.durability == Durability::Process { "NOSYNC|NOMETASYNC|WRITEMAP" } else { "none" };
        let shown = settings([
            ("version", "LMDB through heed 0.22".to_owned()),
            ("flags", flags.to_owned()),
            ("load_transaction_records", LOAD_RECORDS.to_string()),
            ("durability", options.durability.name().to_owned()),
            ("memory", "page cache only".to_owned()),
            ("bytes_counted_by", "kernel".to_owned()),
        ]);
        Ok(Box::new(LmdbTarget { dir: options.dir.clone(), env, tree, settings: shown }))
    }
}

struct LmdbTarget {
    dir: PathBuf,
    env: Env,
    tree: Tree,
    settings: Settings,
}

impl Target for LmdbTarget {
    fn name(&self) -> &str {
        "lmdb"
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(LmdbClient { env: self.env.clone(), tree: self.tree, held: Vec::new() }))
    }

    fn drain(&self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        let io = IoBytes::now();
        Counters { bytes_written: io.written, bytes_read: io.read, ..Counters::default() }
    }

    fn disk_bytes(&self) -> u64 {
        dir_disk_bytes(&self.dir)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { env, .. } = *self;
        env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbClient {
    env: Env,
    tree: Tree,
    /// Loaded records not written yet.
    held: Vec<(Vec<u8>, Vec<u8>)>,
}

impl LmdbClient {
    fn write(&mut self, work: impl FnOnce(Tree, &mut RwTxn<'_>) -> heed::Result<()>) -> Result<()> {
        let failed = |error| failed("LMDB cannot write", error);
        let mut txn = self.env.write_txn().map_err(failed)?;
        work(self.tree, &mut txn).map_err(failed)?;
        txn.commit().map_err(failed)
    }
}

impl Client for LmdbClient {
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let failed = |error| failed("LMDB cannot read", error);
        let txn = self.env.read_txn().map_err(failed)?;
        let found = self.tree.get(&txn, key).map_err(failed)?;
        Ok(found.map(|found| value.extend_from_slice(found)).is_some())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|tree, txn| tree.put(txn, key, value))
    }

    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.held.push((key.to_vec(), value.to_vec()));
        if self.held.len() < LOAD_RECORDS { Ok(()) } else { self.finish() }
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.write(|tree, txn| tree.delete(txn, key).map(drop))
    }

    fn scan(&mut self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let failed = |error| failed("LMDB cannot scan", error);
        let txn = self.env.read_txn().map_err(failed)?;
        let from: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(start), Bound::Unbounded);
        let mut seen = 0;
        for record in self.tree.range(&txn, &from).map_err(failed)?.take(count) {
            let (key, value) = record.map_err(failed)?;
            visit(key, value);
            seen += 1;
        }
        Ok(seen)
    }

    fn finish(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return Ok(());
        }
        self.write(|tree, txn| held.iter().try_for_each(|(key, value)| tree.put(txn, key, value)))
    }
}
