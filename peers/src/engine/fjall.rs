//! fjall: a log-structured tree in Rust, with and without key-value separation.

use std::path::PathBuf;
use std::time::Duration;

use firn_bench::measure::{IoBytes, sleep};
use firn_bench::target::{
    Client, Counters, MemoryReport, OpenOptions, Settings, SortedRecords, Target, TargetFactory, Visit,
    dir_disk_bytes,
};
use firn_engine::{Durability, Result};
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

use super::{MEMTABLES, MemoryShares, SEPARATED_VALUE_BYTES_MIN, failed, settings};

/// Opens fjall databases with one keyspace.
pub struct FjallFactory {
    separates_values: bool,
}

impl FjallFactory {
    /// With or without key-value separation.
    pub fn new(separates_values: bool) -> Self {
        Self { separates_values }
    }
}

impl TargetFactory for FjallFactory {
    fn name(&self) -> &str {
        if self.separates_values { "fjall-kvsep" } else { "fjall" }
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Target>> {
        let shares = MemoryShares::of(options.memory_bytes);
        let database = Database::builder(&options.dir)
            .cache_size(shares.cache)
            .max_journaling_size((shares.memtable * MEMTABLES).max(64 << 20))
            .open()
            .map_err(|error| failed("cannot open fjall", error))?;
        let separation = self.separates_values.then(|| {
            KvSeparationOptions::default()
                .separation_threshold(SEPARATED_VALUE_BYTES_MIN as u32)
                .compression(CompressionType::None)
        });
        let create = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(shares.memtable)
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
                    BloomConstructionPolicy::BitsPerKey(10.0),
                )))
                .with_kv_separation(separation)
        };
        let keyspace = database
            .keyspace("default", create)
            .map_err(|error| failed("cannot open fjall's keyspace", error))?;
        let shown = settings([
            ("version", "fjall 3.1.13".to_owned()),
            ("cache_bytes", shares.cache.to_string()),
            ("memtable_bytes", shares.memtable.to_string()),
            ("compression", "none".to_owned()),
            ("filter_bits_per_key", "10".to_owned()),
            ("durability", options.durability.name().to_owned()),
            (
                "separated_value_bytes_min",
                if self.separates_values { SEPARATED_VALUE_BYTES_MIN.to_string() } else { "off".to_owned() },
            ),
            ("bytes_counted_by", "kernel".to_owned()),
        ]);
        Ok(Box::new(FjallTarget {
            name: self.name().to_owned(),
            dir: options.dir.clone(),
            database,
            keyspace,
            durability: options.durability,
            settings: shown,
        }))
    }
}

struct FjallTarget {
    name: String,
    dir: PathBuf,
    database: Database,
    keyspace: Keyspace,
    durability: Durability,
    settings: Settings,
}

impl Target for FjallTarget {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client>> {
        let (database, keyspace) = (self.database.clone(), self.keyspace.clone());
        Ok(Box::new(FjallClient { database, keyspace, syncs: self.durability == Durability::Disk }))
    }

    fn drain(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(|error| failed("cannot flush fjall", error))?;
        // Nothing tells when compaction is over; it is when none ran or ended for a while.
        let (mut quiet, mut completed) = (0, self.database.compactions_completed());
        while quiet < 20 {
            sleep(Duration::from_millis(10));
            let now = self.database.compactions_completed();
            let busy = self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0;
            quiet = if busy || now != completed { 0 } else { quiet + 1 };
            completed = now;
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let io = IoBytes::now();
        Counters { bytes_written: io.written, bytes_read: io.read, ..Counters::default() }
    }

    fn disk_bytes(&self) -> u64 {
        dir_disk_bytes(&self.dir)
    }

    fn memory(&self) -> MemoryReport {
        MemoryReport::from([
            ("memtable_bytes".to_owned(), self.database.write_buffer_size()),
            ("cache_bytes".to_owned(), self.database.cache_size()),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.persist(PersistMode::Buffer).map_err(|error| failed("cannot close fjall", error))
    }
}

struct FjallClient {
    database: Database,
    keyspace: Keyspace,
    /// Whether every write is synced.
    syncs: bool,
}

impl FjallClient {
    fn written(&self, result: fjall::Result<()>) -> Result<()> {
        result
            .and_then(|()| if self.syncs { self.database.persist(PersistMode::SyncData) } else { Ok(()) })
            .map_err(|error| failed("fjall cannot write", error))
    }
}

impl Client for FjallClient {
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.keyspace.get(key).map_err(|error| failed("fjall cannot read", error))?;
        Ok(found.map(|found| value.extend_from_slice(&found)).is_some())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.written(self.keyspace.insert(key, value))
    }

    fn write_batch(&mut self, records: &mut dyn SortedRecords) -> Result<()> {
        let mut batch = self.database.batch();
        while let Some((key, value)) = records.next() {
            batch.insert(&self.keyspace, key, value);
        }
        self.written(batch.commit())
    }

    fn ingest(&mut self, records: &mut dyn SortedRecords) -> Result<()> {
        let failed = |error| failed("fjall cannot ingest", error);
        let mut ingestion = self.keyspace.start_ingestion().map_err(failed)?;
        while let Some((key, value)) = records.next() {
            ingestion.write(key, value).map_err(failed)?;
        }
        ingestion.finish().map_err(failed)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.written(self.keyspace.remove(key))
    }

    fn scan(&mut self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let mut seen = 0;
        for record in self.keyspace.range(start..).take(count) {
            let (key, value) = record.into_inner().map_err(|error| failed("fjall cannot scan", error))?;
            visit(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }
}
