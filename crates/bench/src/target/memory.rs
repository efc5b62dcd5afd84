//! A sorted map behind a lock: the target that tests and dry runs of the harness use.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use firn_engine::Result;

use super::{Client, Counters, OpenOptions, Settings, SortedRecords, Target, TargetFactory, Visit};

/// Opens empty [`MemoryTarget`]s; touches no file.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFactory;

/// A `BTreeMap` behind a reader-writer lock. Counts what is written to it and nothing else.
#[derive(Debug, Default)]
pub struct MemoryTarget {
    records: Arc<Records>,
}

#[derive(Debug, Default)]
struct Records {
    map: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
    bytes_written: AtomicU64,
}

impl TargetFactory for MemoryFactory {
    fn name(&self) -> &str {
        "memory"
    }

    fn open(&self, _options: &OpenOptions) -> Result<Box<dyn Target>> {
        Ok(Box::new(MemoryTarget::default()))
    }
}

impl Target for MemoryTarget {
    fn name(&self) -> &str {
        "memory"
    }

    fn settings(&self) -> Settings {
        Settings::from([("structure".to_owned(), "BTreeMap behind a lock".to_owned())])
    }

    fn client(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(MemoryClient { records: Arc::clone(&self.records) }))
    }

    fn drain(&self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters { bytes_written: self.records.bytes_written.load(Ordering::Relaxed), ..Counters::default() }
    }

    fn disk_bytes(&self) -> u64 {
        let map = self.records.map.read().unwrap_or_else(PoisonError::into_inner);
        map.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct MemoryClient {
    records: Arc<Records>,
}

impl Client for MemoryClient {
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let map = self.records.map.read().unwrap_or_else(PoisonError::into_inner);
        Ok(map.get(key).map(|found| value.extend_from_slice(found)).is_some())
    }

    fn read_many(&mut self, keys: &[&[u8]]) -> Result<(usize, usize)> {
        let map = self.records.map.read().unwrap_or_else(PoisonError::into_inner);
        let found = keys.iter().filter_map(|key| map.get(*key));
        Ok(found.fold((0, 0), |(count, bytes), value| (count + 1, bytes + value.len())))
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.records.bytes_written.fetch_add((key.len() + value.len()) as u64, Ordering::Relaxed);
        let mut map = self.records.map.write().unwrap_or_else(PoisonError::into_inner);
        map.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn write_batch(&mut self, records: &mut dyn SortedRecords) -> Result<()> {
        while let Some((key, value)) = records.next() {
            self.insert(key, value)?;
        }
        Ok(())
    }

    fn ingest(&mut self, records: &mut dyn SortedRecords) -> Result<()> {
        self.write_batch(records)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.records.bytes_written.fetch_add(key.len() as u64, Ordering::Relaxed);
        self.records.map.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        Ok(())
    }

    fn scan(&mut self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let map = self.records.map.read().unwrap_or_else(PoisonError::into_inner);
        let mut seen = 0;
        for (key, value) in map.range::<[u8], _>((Bound::Included(start), Bound::Unbounded)).take(count) {
            visit(key, value);
            seen += 1;
        }
        Ok(seen)
    }
}
