//! What is measured: any store that can be driven through the same few calls.
//!
//! A [`TargetFactory`] opens a [`Target`] in a directory under given limits; each driver thread
//! takes a [`Client`] of its own. Equal settings across stores are the factory's duty, and what it
//! chose is written into every result through [`Target::settings`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_engine::{Compression, Durability, Error, Result};

mod engine;
mod firn;
mod memory;
mod resp;

pub use self::engine::EngineTarget;
pub use self::firn::FirnFactory;
pub use self::memory::{MemoryFactory, MemoryTarget};
pub use self::resp::RespFactory;

/// Settings as they are written into reports: name to value, sorted by name.
pub type Settings = BTreeMap<String, String>;

/// Sizes by name, in bytes, as a store reports its own memory.
pub type MemoryReport = BTreeMap<String, u64>;

/// Sees the records of a scan: key, value.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) + 'v;

/// Under what conditions a store is opened. Equal for every store of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOptions {
    /// Where the store keeps its files; exists, and is empty unless an earlier run left a database
    /// in it.
    pub dir: PathBuf,
    /// Bytes of memory for buffers and caches together; `None` = the store's own default.
    pub memory_bytes: Option<u64>,
    /// Bytes from which on values are separated; `None` = the store's own default. Only Firn
    /// follows it.
    pub separate_bytes: Option<u32>,
    /// Bytes of values' files for each live byte; `None` = the store's own default. Only Firn
    /// follows it.
    pub space_amplification_max: Option<f64>,
    /// What rewriting for reads costs; `None` = the store's own default. Only Firn follows it.
    pub read_compaction_price: Option<f64>,
    /// How tables and values are compressed; `None` = the store's own default. Peers refuse what
    /// they do not follow.
    pub compression: Option<Compression>,
    /// Socket of the process that does background jobs; `None` = the store's own threads. Only Firn
    /// follows it.
    pub worker: Option<PathBuf>,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// How many clients will be driven at once.
    pub threads: usize,
}

/// Opens targets. One factory is one row of a comparison: a store with a set of settings.
pub trait TargetFactory: Send + Sync {
    /// The name the results carry, e.g. `firn` or `rocksdb-blob`.
    fn name(&self) -> &str;

    /// Whether its targets are servers: see [`Target::is_server`].
    fn is_server(&self) -> bool {
        false
    }

    /// Whether its targets keep keys in order, and so have scans and bulk ingestion.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Opens the store in `options.dir`, creating it if the directory is empty.
    ///
    /// # Errors
    /// Whatever keeps the store from opening, with a message a person can act on.
    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Target>>;
}

/// Totals since the store was opened; differences of two of them describe a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes the store handed to its devices: logs, tables, everything.
    pub bytes_written: u64,
    /// Bytes the store asked from its devices (page cache hits included where it cannot tell).
    pub bytes_read: u64,
    /// Microseconds during which writers stood still.
    pub stall_us: u64,
    /// Microseconds by which writers were slowed.
    pub slowdown_us: u64,
}

impl Counters {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Counters) -> Counters {
        Counters {
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            stall_us: self.stall_us.saturating_sub(earlier.stall_us),
            slowdown_us: self.slowdown_us.saturating_sub(earlier.slowdown_us),
        }
    }
}

/// An open store. Shared between driver threads.
pub trait Target: Send + Sync {
    /// The name the results carry.
    fn name(&self) -> &str;

    /// How the store was set up, in its own words.
    fn settings(&self) -> Settings;

    /// Whether the store is a process of its own. Such a store has no directory here, holds what it
    /// held before, cannot be told to drain, and has no scans. What this process uses of memory and
    /// processor time is its client's.
    fn is_server(&self) -> bool {
        false
    }

    /// A client for one thread.
    ///
    /// # Errors
    /// If the store refuses one more client.
    fn client(&self) -> Result<Box<dyn Client>>;

    /// Writes everything buffered to its final place and returns when no background work is left.
    ///
    /// # Errors
    /// If background work failed.
    fn drain(&self) -> Result<()>;

    /// Totals since the store was opened.
    fn counters(&self) -> Counters;

    /// Bytes of disk the store occupies now (blocks allocated, not apparent sizes).
    fn disk_bytes(&self) -> u64;

    /// The store's own account of its memory, if it keeps one.
    fn memory(&self) -> MemoryReport {
        MemoryReport::new()
    }

    /// Closes the store; its clients are gone by then.
    ///
    /// # Errors
    /// If what was acknowledged could not be made durable.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Records in rising order of their keys.
pub trait SortedRecords {
    /// The key and the value of the next one; `None` = there is none left.
    fn next(&mut self) -> Option<(&[u8], &[u8])>;
}

/// One thread's way into a target. Every call blocks until the operation is over.
pub trait Client: Send {
    /// Whether `key` has a value; if so, `value` holds it (cleared first, memory reused).
    ///
    /// # Errors
    /// If the store failed; "not found" is no error.
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// How many of `keys` have a value, and how many bytes these have, read by one call.
    ///
    /// # Errors
    /// `Invalid` where the harness knows no such call of this store; if the store failed.
    fn read_many(&mut self, _keys: &[&[u8]]) -> Result<(usize, usize)> {
        Err(Error::invalid("--read-batch cannot be used: the harness reads one key at a time of this store"))
    }

    /// Adds a record whose key is new.
    ///
    /// # Errors
    /// If the store failed.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Adds a record during a load phase: may be held back and written with others, until
    /// [`finish`](Self::finish) at the latest.
    ///
    /// # Errors
    /// If the store failed, perhaps on an earlier record held back.
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(key, value)
    }

    /// Replaces a record's value.
    ///
    /// # Errors
    /// If the store failed.
    fn update(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(key, value)
    }

    /// Writes all of `records` as one batch.
    ///
    /// # Errors
    /// `Invalid` where the harness knows no batches of this store; if the store failed.
    fn write_batch(&mut self, _records: &mut dyn SortedRecords) -> Result<()> {
        Err(Error::invalid("fillbatch cannot be run: the harness writes no batches to this store"))
    }

    /// Writes all of `records` by the store's bulk ingestion.
    ///
    /// # Errors
    /// `Invalid` where the harness knows of none; if the store failed.
    fn ingest(&mut self, _records: &mut dyn SortedRecords) -> Result<()> {
        Err(Error::invalid("fillingest cannot be run: the harness knows no bulk ingestion of this store"))
    }

    /// Removes a record, if it is there.
    ///
    /// # Errors
    /// If the store failed.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Visits up to `count` records from `start` (included) upward and tells how many there were.
    ///
    /// # Errors
    /// If the store failed.
    fn scan(&mut self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize>;

    /// Reads a record and writes it anew, as two calls (what YCSB's F does); whether it was there.
    ///
    /// # Errors
    /// If the store failed.
    fn read_modify_write(&mut self, key: &[u8], value: &[u8], read: &mut Vec<u8>) -> Result<bool> {
        let found = self.read(key, read)?;
        self.update(key, value)?;
        Ok(found)
    }

    /// Writes what [`load`](Self::load) held back.
    ///
    /// # Errors
    /// If the store failed.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Bytes of disk allocated to the files under `dir`; files that vanish meanwhile count as nothing.
pub fn dir_disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => dir_disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
