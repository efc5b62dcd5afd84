//! RocksDB, plain and with BlobDB, through its C interface.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_bench::target::{
    Client, Counters, MemoryReport, OpenOptions, Settings, SortedRecords, Target, TargetFactory, Visit,
    dir_disk_bytes,
};
use firn_engine::{Durability, Result};

use super::{MEMTABLES, MemoryShares, SEPARATED_VALUE_BYTES_MIN, failed, settings};

mod database;
mod library;

use database::{Database, Opened};
use library::Library;

/// Background threads for flushes and compactions.
const JOBS: i32 = 4;

/// Opens RocksDB databases.
pub struct RocksFactory {
    library: Arc<Library>,
    separates_values: bool,
}

impl RocksFactory {
    /// With the shared library at `library`; with BlobDB if `separates_values`.
    ///
    /// # Errors
    /// `Invalid` if the library cannot be loaded.
    pub fn new(library: &Path, separates_values: bool) -> Result<Self> {
        Ok(Self { library: Arc::new(Library::load(library)?), separates_values })
    }
}

impl TargetFactory for RocksFactory {
    fn name(&self) -> &str {
        if self.separates_values { "rocksdb-blob" } else { "rocksdb" }
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Target>> {
        let shares = MemoryShares::of(options.memory_bytes);
        let path = CString::new(options.dir.as_os_str().as_encoded_bytes())
            .map_err(|error| failed("RocksDB takes no such path", error))?;
        let opened = Opened {
            path,
            memtable_bytes: shares.memtable as usize,
            memtables: MEMTABLES as i32,
            cache_bytes: shares.cache as usize,
            jobs: JOBS,
            blob_bytes_min: self.separates_values.then_some(SEPARATED_VALUE_BYTES_MIN),
            syncs: options.durability == Durability::Disk,
        };
        let database = Database::open(Arc::clone(&self.library), &opened)?;
        let shown = settings([
            ("version", "RocksDB 11.8.1".to_owned()),
            ("memtables", format!("{MEMTABLES} x {} bytes", shares.memtable)),
            ("cache", format!("HyperClockCache {} bytes, index and filter in it", shares.cache)),
            ("background_jobs", JOBS.to_string()),
            ("block_bytes", "4096, hash index in data blocks".to_owned()),
            ("filter_bits_per_key", "10".to_owned()),
            ("compression", "none".to_owned()),
            ("pipelined_write", "on".to_owned()),
            ("statistics", "tickers only".to_owned()),
            ("durability", options.durability.name().to_owned()),
            (
                "blobs",
                match opened.blob_bytes_min {
                    None => "off".to_owned(),
                    Some(bytes) => {
                        format!("from {bytes} bytes, 256 MiB files, GC age cutoff 0.5, force threshold 0.5")
                    }
                },
            ),
        ]);
        Ok(Box::new(RocksTarget {
            name: self.name().to_owned(),
            dir: options.dir.clone(),
            database: Arc::new(database),
            settings: shown,
        }))
    }
}

struct RocksTarget {
    name: String,
    dir: PathBuf,
    database: Arc<Database>,
    settings: Settings,
}

impl Target for RocksTarget {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client>> {
        let ingest_dir = self.dir.join("ingest");
        Ok(Box::new(RocksClient { database: Arc::clone(&self.database), ingest_dir }))
    }

    fn drain(&self) -> Result<()> {
        self.database.flush()?;
        self.database.wait_for_compact()
    }

    fn counters(&self) -> Counters {
        let text = self.database.statistics();
        let ticker = |name| ticker(&text, name);
        Counters {
            bytes_written: ticker("rocksdb.wal.bytes")
                + ticker("rocksdb.flush.write.bytes")
                + ticker("rocksdb.compact.write.bytes")
                + self.database.ingested_bytes(),
            bytes_read: ticker("rocksdb.last.level.read.bytes") + ticker("rocksdb.non.last.level.read.bytes"),
            // One counter for writers slowed and stopped.
            stall_us: ticker("rocksdb.stall.micros"),
            slowdown_us: 0,
        }
    }

    fn disk_bytes(&self) -> u64 {
        dir_disk_bytes(&self.dir)
    }

    fn memory(&self) -> MemoryReport {
        MemoryReport::from([
            ("cache_bytes".to_owned(), self.database.cache_bytes()),
            ("memtable_bytes".to_owned(), self.database.property(c"rocksdb.cur-size-all-mem-tables")),
            ("table_reader_bytes".to_owned(), self.database.property(c"rocksdb.estimate-table-readers-mem")),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct RocksClient {
    database: Arc<Database>,
    /// Where files lie until they are ingested.
    ingest_dir: PathBuf,
}

impl Client for RocksClient {
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.database.get(key, value)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.database.put(key, value)
    }

    fn write_batch(&mut self, records: &mut dyn SortedRecords) -> Result<()> {
        self.database.write_batch(records)
    }

    fn ingest(&mut self, records: &mut dyn SortedRecords) -> Result<()> {
        self.database.ingest(&self.ingest_dir, records)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.database.delete(key)
    }

    fn scan(&mut self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize> {
        self.database.scan(start, count, visit)
    }
}

/// The count of ticker `name` in RocksDB's statistics text, whose lines read `name COUNT : number`.
fn ticker(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(" COUNT : "))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::ticker;

    #[test]
    fn tickers_are_found_by_their_whole_name() {
        let text = "rocksdb.wal.bytes COUNT : 42\nrocksdb.wal.synced COUNT : 7\n";
        assert_eq!(ticker(text, "rocksdb.wal.bytes"), 42);
        assert_eq!(ticker(text, "rocksdb.wal"), 0);
    }
}
