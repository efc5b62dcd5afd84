//! redb: a copy-on-write B-tree in Rust.

use std::path::PathBuf;
use std::sync::Arc;

use firn_bench::measure::IoBytes;
use firn_bench::target::{
    Client, Counters, OpenOptions, Settings, Target, TargetFactory, Visit, dir_disk_bytes,
};
use firn_engine::{Durability, Result};
use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};

use super::{failed, settings};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("default");

/// Records of a load that share a transaction.
const LOAD_RECORDS: usize = 1000;

/// Opens redb databases with one table.
pub struct RedbFactory;

impl TargetFactory for RedbFactory {
    fn name(&self) -> &str {
        "redb"
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Target>> {
        let cache_bytes = usize::try_from(options.memory_bytes.unwrap_or(768 << 20)).unwrap_or(usize::MAX);
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create(options.dir.join("data.redb"))
            .map_err(|error| failed("cannot open redb", error))?;
        let target = RedbTarget {
            dir: options.dir.clone(),
            database: Arc::new(database),
            durability: options.durability,
            settings: settings([
                ("version", "redb 4.4".to_owned()),
                ("cache_bytes", cache_bytes.to_string()),
                ("load_transaction_records", LOAD_RECORDS.to_string()),
                (
                    "durability",
                    format!("{} (none: commits may be lost by kill -9)", commit_name(options.durability)),
                ),
                ("bytes_counted_by", "kernel".to_owned()),
            ]),
        };
        // The table must exist before the first read.
        target
            .redb_client()
            .write(|txn| txn.open_table(TABLE).map(drop).map_err(|error| failed("redb", error)))?;
        Ok(Box::new(target))
    }
}

fn commit(durability: Durability) -> redb::Durability {
    match durability {
        Durability::Disk => redb::Durability::Immediate,
        _ => redb::Durability::None,
    }
}

fn commit_name(durability: Durability) -> &'static str {
    if durability == Durability::Disk { "immediate" } else { "none" }
}

struct RedbTarget {
    dir: PathBuf,
    database: Arc<Database>,
    durability: Durability,
    settings: Settings,
}

impl RedbTarget {
    fn redb_client(&self) -> RedbClient {
        RedbClient { database: Arc::clone(&self.database), durability: self.durability, held: Vec::new() }
    }
}

impl Target for RedbTarget {
    fn name(&self) -> &str {
        "redb"
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(self.redb_client()))
    }

    /// One commit that reaches the device: what the ones before it left in memory goes with it.
    fn drain(&self) -> Result<()> {
        let mut client = self.redb_client();
        client.durability = Durability::Disk;
        client.write(|_| Ok(()))
    }

    fn counters(&self) -> Counters {
        let io = IoBytes::now();
        Counters { bytes_written: io.written, bytes_read: io.read, ..Counters::default() }
    }

    fn disk_bytes(&self) -> u64 {
        dir_disk_bytes(&self.dir)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct RedbClient {
    database: Arc<Database>,
    durability: Durability,
    /// Loaded records not written yet.
    held: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RedbClient {
    fn write(&mut self, work: impl FnOnce(&WriteTransaction) -> Result<()>) -> Result<()> {
        let mut txn = self.database.begin_write().map_err(|error| failed("redb cannot begin", error))?;
        txn.set_durability(commit(self.durability)).map_err(|error| failed("redb cannot begin", error))?;
        work(&txn)?;
        txn.commit().map_err(|error| failed("redb cannot commit", error))
    }

    fn table(&self) -> Result<redb::ReadOnlyTable<&'static [u8], &'static [u8]>> {
        let txn = self.database.begin_read().map_err(|error| failed("redb cannot read", error))?;
        txn.open_table(TABLE).map_err(|error| failed("redb cannot read", error))
    }
}

impl Client for RedbClient {
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.table()?.get(key).map_err(|error| failed("redb cannot read", error))?;
        Ok(found.map(|found| value.extend_from_slice(found.value())).is_some())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|txn| {
            let mut table = txn.open_table(TABLE).map_err(|error| failed("redb cannot write", error))?;
            table.insert(key, value).map(drop).map_err(|error| failed("redb cannot write", error))
        })
    }

    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.held.push((key.to_vec(), value.to_vec()));
        if self.held.len() < LOAD_RECORDS { Ok(()) } else { self.finish() }
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.write(|txn| {
            let mut table = txn.open_table(TABLE).map_err(|error| failed("redb cannot write", error))?;
            table.remove(key).map(drop).map_err(|error| failed("redb cannot write", error))
        })
    }

    fn scan(&mut self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let table = self.table()?;
        let mut seen = 0;
        for record in
            table.range::<&[u8]>(start..).map_err(|error| failed("redb cannot scan", error))?.take(count)
        {
            let (key, value) = record.map_err(|error| failed("redb cannot scan", error))?;
            visit(key.value(), value.value());
            seen += 1;
        }
        Ok(seen)
    }

    fn finish(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return Ok(());
        }
        self.write(|txn| {
            let mut table = txn.open_table(TABLE).map_err(|error| failed("redb cannot write", error))?;
            held.iter().try_for_each(|(key, value)| {
                table
                    .insert(key.as_slice(), value.as_slice())
                    .map(drop)
                    .map_err(|error| failed("redb cannot write", error))
            })
        })
    }
}
