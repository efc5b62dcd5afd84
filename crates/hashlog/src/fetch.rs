//! What lookups want of the device, one thing or many together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::Result;
use firn_storage::backend::{RangeRead, read_together};

use crate::cold::{ColdFetched, ColdWanted, Run, places};
use crate::database::Database;
use crate::device::{Device, DeviceRecord, Reading};
use crate::error::from_storage;
use crate::trail::{Fetched, Wanted};

/// A record of which more bytes are missing after its first ones is not read with others: so many
/// of them take little memory.
const LONG_BYTES: usize = 64 << 10;

/// What is on its way from the device.
enum Coming<'d> {
    /// Of the log, or of the cold log.
    Record {
        device: &'d Device,
        reading: Reading,
        is_cold: bool,
    },
    Places {
        run: Arc<Run>,
        page: u64,
        order: u64,
        range: RangeRead,
    },
}

impl Coming<'_> {
    fn range(&mut self) -> &mut RangeRead {
        match self {
            Self::Record { reading, .. } => &mut reading.range,
            Self::Places { range, .. } => range,
        }
    }

    /// Whether it lies elsewhere since it was begun.
    fn has_moved(&self) -> bool {
        match self {
            Self::Record { device, reading, .. } => device.has_moved(reading),
            Self::Places { .. } => false,
        }
    }

    /// What it is, once the range was read; `None` if there is more of it to read.
    fn arrived(&mut self) -> Result<Option<Fetched>> {
        match self {
            Self::Record { device, reading, is_cold } => {
                Ok(device.opened(reading)?.map(|record| fetched(*is_cold, Some(record))))
            }
            Self::Places { run, page, order, range } => {
                let page = run.opened(*page, std::mem::take(&mut range.bytes))?;
                Ok(Some(Fetched::Cold(ColdFetched::Places(places(&page, *order)))))
            }
        }
    }
}

fn fetched(is_cold: bool, record: Option<DeviceRecord>) -> Fetched {
    match is_cold {
        true => Fetched::Cold(ColdFetched::Record(record)),
        false => Fetched::Record(record),
    }
}

impl Database {
    /// What is wanted. Waits for the device.
    pub(crate) fn fetch(&self, wanted: &Wanted) -> Result<Fetched> {
        match wanted {
            Wanted::Record(address) => self.read_device(*address).map(Fetched::Record),
            Wanted::Cold(wanted) => self.store.cold.fetch(wanted).map(Fetched::Cold),
            Wanted::Value(reference) => self.values.read(reference).map(Fetched::Value),
        }
    }

    /// The same of many, which the device has under way together. `None` for what is so long that
    /// it should be fetched by itself.
    pub(crate) fn fetch_together(&self, wanted: &[Wanted]) -> Vec<Option<Result<Fetched>>> {
        let mut all: Vec<Option<Result<Fetched>>> = wanted.iter().map(|_| None).collect();
        let mut coming: Vec<(usize, Coming<'_>)> = Vec::with_capacity(wanted.len());
        for (index, wanted) in wanted.iter().enumerate() {
            match self.begin(wanted) {
                Some(Ok(begun)) => coming.push((index, begun)),
                Some(Err(removed)) => all[index] = Some(Ok(removed)),
                None => {}
            }
        }
        while !coming.is_empty() {
            let results = {
                let mut ranges: Vec<_> = coming.iter_mut().map(|(_, coming)| coming.range()).collect();
                read_together(&mut ranges)
            };
            let mut results = results.into_iter();
            coming.retain_mut(|(index, coming)| {
                let read = results.next().unwrap_or(Ok(())).map_err(from_storage);
                let arrived = read.and_then(|()| coming.arrived());
                if arrived.is_err() && coming.has_moved() {
                    // Fetched by itself, from where it is now.
                    return false;
                }
                all[*index] = arrived.transpose();
                all[*index].is_none() && coming.range().bytes.len() <= LONG_BYTES
            });
        }
        all
    }

    /// Begins to read what is wanted; what it comes to if it was removed. `None` for what is long.
    fn begin(&self, wanted: &Wanted) -> Option<std::result::Result<Coming<'_>, Fetched>> {
        let (device, reading, is_cold) = match wanted {
            Wanted::Record(address) => (&self.device, self.reading(*address), false),
            Wanted::Cold(ColdWanted::Record(address, words)) => {
                let cold = &self.store.cold;
                (&cold.device, cold.reading(*address, *words), true)
            }
            Wanted::Cold(ColdWanted::Places { run, page, order }) => {
                let (run, page, order) = (Arc::clone(run), *page, *order);
                let range = run.reading(page);
                return Some(Ok(Coming::Places { run, page, order, range }));
            }
            Wanted::Value(_) => return None,
        };
        let Some(reading) = reading else { return Some(Err(fetched(is_cold, None))) };
        let is_short = reading.range.bytes.len() <= LONG_BYTES;
        is_short.then_some(Ok(Coming::Record { device, reading, is_cold }))
    }

    /// The record at `address`, which is on the device; `None` if it was removed.
    pub(crate) fn read_device(&self, address: u64) -> Result<Option<DeviceRecord>> {
        let flushed = self.store.log.markers.flushed.load(Ordering::Acquire);
        self.counters.device_reads.fetch_add(1, Ordering::Relaxed);
        self.device.read(address, flushed)
    }

    /// As [`read_device`](Self::read_device), begun.
    fn reading(&self, address: u64) -> Option<Reading> {
        let flushed = self.store.log.markers.flushed.load(Ordering::Acquire);
        self.counters.device_reads.fetch_add(1, Ordering::Relaxed);
        self.device.reading(address, 0, flushed)
    }
}
