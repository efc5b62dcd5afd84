//! One run of the cold log's index: its filter in memory, its pages on the device.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::file_name::cold_run;
use firn_format::filter;
use firn_format::hybrid::cold_run::{ColdEntry, RUN_PAGE_BYTES, RunHeader, RunPage, RunTail, filter_hash_of};
use firn_storage::ReadFile;
use firn_storage::backend::{FileToRead, RangeRead};

use crate::error::{from_format, from_storage};

/// A run that is there.
#[derive(Debug)]
pub(crate) struct Run {
    header: RunHeader,
    file: Arc<dyn ReadFile>,
    tail: RunTail,
}

/// The page of each run that was read last, for lookups in the order of hashes.
#[derive(Debug, Default)]
pub(crate) struct Pages(BTreeMap<(u64, u64), RunPage>);

/// Pages that are kept.
const PAGES_MAX: usize = 64;

impl Run {
    /// The run `number` of `database`, which lies in `file`. Reads its header and its tail.
    ///
    /// # Errors
    /// `Corrupt`, with file and offset, for one that is damaged, or another database's.
    pub(crate) fn open(file: Arc<dyn ReadFile>, database: u128, number: u64) -> Result<Self> {
        let name = cold_run(number);
        let mut header = vec![0; RUN_PAGE_BYTES.min(file.len() as usize)];
        file.read_at(0, &mut header).map_err(from_storage)?;
        let header = RunHeader::decode(&header).map_err(|error| from_format(&name, error))?;
        if (header.database, header.number) != (database, number) {
            let message = format!("expected run {number} of database {database:032x}, found {header:?}");
            return Err(Error::new(ErrorKind::Corrupt, message).at(Location { file: name, offset: Some(16) }));
        }
        let expected = header.tail_at().saturating_add(header.tail_bytes);
        if file.len() != expected {
            let message = format!("expected a run of {expected} bytes, found {}", file.len());
            return Err(Error::new(ErrorKind::Corrupt, message).at(Location { file: name, offset: None }));
        }
        let mut tail = vec![0; header.tail_bytes as usize];
        file.read_at(header.tail_at(), &mut tail).map_err(from_storage)?;
        let tail = RunTail::decode(&header, &tail).map_err(|error| from_format(&name, error))?;
        Ok(Self { header, file, tail })
    }

    pub(crate) fn number(&self) -> u64 {
        self.header.number
    }

    pub(crate) fn entry_count(&self) -> u64 {
        self.header.entries
    }

    /// Addresses and numbers of values that records of the run refer to.
    pub(crate) fn values(&self) -> &[(u64, u64)] {
        &self.tail.values
    }

    /// Whether there may be a record with this order; `false` is certain.
    pub(super) fn may_have(&self, order: u64) -> bool {
        self.header.entries > 0 && filter::contains(&self.tail.filter, filter_hash_of(order))
    }

    /// Adds all entries with orders in `from..=to`.
    pub(super) fn entries(&self, from: u64, to: u64, all: &mut Vec<ColdEntry>) -> Result<()> {
        for page in self.pages_of(from, to) {
            all.extend(self.page(page)?.between(from, to));
        }
        Ok(())
    }

    /// Has the system load what [`find`](Self::find) reads.
    pub(super) fn will_find(&self, order: u64) {
        if let Some(page) = self.pages_of(order, order).next() {
            self.file.will_look_up(page_at(page), RUN_PAGE_BYTES as u64);
        }
    }

    /// Pages that may have entries with orders in `from..=to`.
    pub(super) fn pages_of(&self, from: u64, to: u64) -> std::ops::Range<u64> {
        let fences = &self.tail.fences;
        let first = fences.partition_point(|fence| *fence < from).saturating_sub(1);
        let end = fences.partition_point(|fence| *fence <= to);
        first as u64..(end as u64).max(first as u64)
    }

    /// One page.
    pub(crate) fn page(&self, page: u64) -> Result<RunPage> {
        let mut range = self.reading(page);
        range.read().map_err(from_storage)?;
        self.opened(page, range.bytes)
    }

    /// Where a page lies: the caller reads it, and has it [opened](Self::opened).
    pub(crate) fn reading(&self, page: u64) -> RangeRead {
        RangeRead::new(FileToRead::Finished(Arc::clone(&self.file)), page_at(page), RUN_PAGE_BYTES)
    }

    /// The page that `bytes` are.
    ///
    /// # Errors
    /// `Corrupt`, with file and offset.
    pub(crate) fn opened(&self, page: u64, bytes: Vec<u8>) -> Result<RunPage> {
        RunPage::decode(page, bytes)
            .map_err(|error| from_format(&cold_run(self.header.number), error.based(page_at(page) as usize)))
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.header.tail_at() + self.header.tail_bytes
    }

    pub(crate) fn page_count(&self) -> u64 {
        self.header.pages()
    }

    /// Words of records in segments from `begin` on that are the newest of their order in the run.
    pub(super) fn words_from(&self, begin: u64) -> u64 {
        self.tail.segments.iter().filter(|(base, _)| *base >= begin).map(|(_, words)| words).sum()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let RunTail { fences, values, segments, filter } = &self.tail;
        (8 * fences.len() + 16 * (values.len() + segments.len()) + filter.len()) as u64
    }
}

/// Where a page begins.
fn page_at(page: u64) -> u64 {
    (1 + page) * RUN_PAGE_BYTES as u64
}

impl Pages {
    /// A page of `run`.
    pub(super) fn get(&mut self, run: &Run, page: u64) -> Result<&RunPage> {
        if self.0.len() > PAGES_MAX {
            self.0.clear();
        }
        Ok(match self.0.entry((run.header.number, page)) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(run.page(page)?),
        })
    }
}
