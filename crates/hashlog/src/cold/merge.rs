//! A new run, of entries that the delta has and of runs that are small beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::Result;
use firn_format::checksum::xxh3;
use firn_format::file_name::cold_run;
use firn_format::filter::Filter;
use firn_format::hybrid::cold_run::{
    ColdEntry, RUN_PAGE_BYTES, RUN_PAGE_ENTRIES, RunHeader, RunTail, encode_page, filter_hash_of,
};
use firn_storage::{Storage, WriteFile};

use super::Runs;
use super::run::Run;
use crate::anew::create_anew;
use crate::error::{from_storage, unsynced};

/// A run is merged with newer ones that have together at least this part of its entries.
const PART: u64 = 2;

/// Bits of the filter for each entry: about one lookup in a hundred reads a page for nothing.
const FILTER_BITS: u32 = 10;

/// Pages that are written with one call.
const WRITE_PAGES: usize = 64;

/// What a new run is made of.
pub(crate) struct Merge<'a> {
    pub(crate) database: u128,
    /// Sorted by [rank](ColdEntry::rank).
    pub(crate) entries: &'a [ColdEntry],
    /// Addresses and numbers of the values that records of `entries` refer to.
    pub(crate) values: Vec<(u64, u64)>,
    /// What lies before does not count.
    pub(crate) begin: u64,
    /// Words of a segment, as a power of two.
    pub(crate) segment_bits: u32,
}

/// Entries of one source, in their order.
struct Source<'a> {
    run: Option<&'a Run>,
    page: u64,
    rest: Box<dyn Iterator<Item = ColdEntry> + 'a>,
    next: Option<ColdEntry>,
}

impl Source<'_> {
    fn advance(&mut self) -> Result<()> {
        loop {
            self.next = self.rest.next();
            match self.run {
                Some(run) if self.next.is_none() && self.page < run.page_count() => {
                    let entries: Vec<ColdEntry> = run.page(self.page)?.entries().collect();
                    self.rest = Box::new(entries.into_iter());
                    self.page += 1;
                }
                _ => return Ok(()),
            }
        }
    }
}

impl Merge<'_> {
    /// How many of `runs`, newest first, are to be in the new one.
    pub(crate) fn width(&self, runs: &Runs) -> usize {
        let mut sum = self.entries.len() as u64;
        let takes = |run: &&Arc<Run>| {
            let is_small = run.entry_count() <= PART * sum;
            sum += run.entry_count();
            is_small
        };
        runs.iter().take_while(takes).count()
    }

    /// Writes run `number` with the entries, and those of `runs`, which are older; synced.
    ///
    /// # Errors
    /// Those of the storage; a file that is left is no run.
    pub(crate) fn write(self, storage: &dyn Storage, number: u64, runs: &[Arc<Run>]) -> Result<Run> {
        let mut sources = Vec::with_capacity(runs.len() + 1);
        sources.push(Source { run: None, page: 0, rest: Box::new(self.entries.iter().copied()), next: None });
        for run in runs {
            sources.push(Source { run: Some(run), page: 0, rest: Box::new(std::iter::empty()), next: None });
        }
        sources.iter_mut().try_for_each(Source::advance)?;
        let most = self.entries.len() as u64 + runs.iter().map(|run| run.entry_count()).sum::<u64>();
        let mut values = self.values;
        values.extend(runs.iter().flat_map(|run| run.values()));
        values.retain(|(address, _)| *address >= self.begin);
        values.sort_unstable();
        let file = create_anew(storage, &cold_run(number))?;
        let mut writer = Writer {
            file: &*file,
            pages: 0,
            bytes: Vec::new(),
            page: Vec::with_capacity(RUN_PAGE_ENTRIES),
            entries: 0,
            filter: Filter::with_room(most as usize, FILTER_BITS),
            tail: RunTail { values, ..RunTail::default() },
        };
        let (mut segments, mut last) = (BTreeMap::new(), None);
        loop {
            let first = sources.iter_mut().filter(|source| source.next.is_some());
            let Some(source) = first.min_by_key(|source| source.next.map(|entry| entry.rank())) else {
                break;
            };
            let Some(mut entry) = source.next else { break };
            source.advance()?;
            if entry.place.address() < self.begin {
                continue;
            }
            // What has a newer record of the same order is taken for dead.
            if last == Some(entry.order) {
                entry.place = entry.place.dead();
            }
            last = Some(entry.order);
            let base = entry.place.address() >> self.segment_bits << self.segment_bits;
            *segments.entry(base).or_insert(0) += entry.place.words();
            writer.push(entry)?;
        }
        writer.tail.segments = segments.into_iter().collect();
        writer.finish(self.database, number)?;
        file.sync().map_err(unsynced)?;
        storage.sync_dir().map_err(unsynced)?;
        Run::open(storage.open_read(&cold_run(number)).map_err(from_storage)?, self.database, number)
    }
}

/// A run that is being written.
struct Writer<'f> {
    file: &'f dyn WriteFile,
    /// Pages that are encoded.
    pages: u64,
    /// Those of them that are not written.
    bytes: Vec<u8>,
    page: Vec<ColdEntry>,
    entries: u64,
    filter: Filter,
    tail: RunTail,
}

impl Writer<'_> {
    fn push(&mut self, entry: ColdEntry) -> Result<()> {
        debug_assert!(self.page.last().is_none_or(|last| last.rank() < entry.rank()), "{entry:?}");
        if self.page.is_empty() {
            self.tail.fences.push(entry.order);
        }
        self.filter.add(&[filter_hash_of(entry.order)]);
        self.page.push(entry);
        self.entries += 1;
        if self.page.len() == RUN_PAGE_ENTRIES {
            self.end_page()?;
        }
        Ok(())
    }

    fn end_page(&mut self) -> Result<()> {
        self.bytes.extend_from_slice(&encode_page(self.pages, &self.page));
        self.pages += 1;
        self.page.clear();
        if self.bytes.len() >= WRITE_PAGES * RUN_PAGE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let at = (1 + self.pages) * RUN_PAGE_BYTES as u64 - self.bytes.len() as u64;
        self.file.write_at(at, &self.bytes).map_err(from_storage)?;
        self.bytes.clear();
        Ok(())
    }

    fn finish(mut self, database: u128, number: u64) -> Result<()> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        self.flush()?;
        self.tail.filter = self.filter.encode();
        let tail = self.tail.encode();
        let header = RunHeader {
            database,
            number,
            entries: self.entries,
            tail_bytes: tail.len() as u64,
            tail_checksum: xxh3(&tail),
        };
        self.file.write_at(header.tail_at(), &tail).map_err(from_storage)?;
        self.file.write_at(0, &header.encode()).map_err(from_storage)
    }
}
