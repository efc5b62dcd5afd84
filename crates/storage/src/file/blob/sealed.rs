//! A sealed blob segment, open for reading.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_format::blob::record::{BlobRecord, CHUNK_BYTES, long_head_bytes};
use firn_format::blob::segment::{BLOB_FOOTER_BYTES, BlobFooter, BlobSegmentHeader, OrdinalTable};
use firn_format::blob::{BlobHead, Reference, Relocation, SegmentNumber};
use firn_format::manifest::{BlobSegmentMeta, RelocationTarget};

use super::corrupt;
use super::opening::Begun;
use super::read::{Bytes, Wanted, read_value};
use crate::file::in_turn::{InTurn, Opening};
use crate::file::table::ReadMode;
use crate::{Error, FileBytes, ReadFile, Result, Storage};

/// A sealed blob segment. Immutable and shared between threads.
pub struct BlobSegment {
    name: String,
    file: Arc<dyn ReadFile>,
    bytes: Option<FileBytes>,
    header: BlobSegmentHeader,
    footer: BlobFooter,
    /// The ordinal table, where the file is not mapped.
    table: Vec<u8>,
    may_be_evicted: AtomicBool,
}

/// Of a record the bytes that are loaded ahead: what follows them the processor finds by itself.
const LOADED_BYTES: usize = 512;

impl BlobSegment {
    /// Opens the file `meta` names and checks that it is that file: length, footer, ordinal table.
    ///
    /// Reads header, footer and table, of a file that is not mapped by two or three reads; the
    /// values are not read. Blocks on the device.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` with file and offset; what reading says.
    pub fn open(storage: &dyn Storage, meta: &BlobSegmentMeta, map: bool) -> Result<Self> {
        Begun::begin(storage, meta, map)?.finish()
    }

    /// Opens the files that `metas` name, as [`open`](Self::open) does and in their order, while
    /// those behind are on their way. Of a backend whose answers take time, tens are waited for
    /// together. Does nothing before it is asked for the first, which takes as long as an answer or
    /// two; blocks on the device.
    pub fn open_all<'a>(
        storage: &'a dyn Storage,
        metas: impl IntoIterator<Item = &'a BlobSegmentMeta, IntoIter: 'a>,
        map: bool,
    ) -> impl Iterator<Item = Result<Self>> + 'a {
        InTurn::new(metas.into_iter().map(move |meta| Begun::begin(storage, meta, map)))
    }

    /// Of parts that are known to fit together.
    pub(super) fn of(
        name: &str,
        file: Arc<dyn ReadFile>,
        bytes: Option<FileBytes>,
        (header, footer): (BlobSegmentHeader, BlobFooter),
        table: Vec<u8>,
    ) -> Self {
        let may_be_evicted = AtomicBool::new(false);
        Self { name: name.to_owned(), file, bytes, header, footer, table, may_be_evicted }
    }

    /// Its number.
    pub fn number(&self) -> SegmentNumber {
        self.footer.number
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says at its beginning.
    pub fn header(&self) -> &BlobSegmentHeader {
        &self.header
    }

    /// What it says at its end.
    pub fn footer(&self) -> &BlobFooter {
        &self.footer
    }

    /// Where the records are.
    pub fn ordinals(&self) -> OrdinalTable<'_> {
        let start = self.footer.records_end as usize;
        let table = match &self.bytes {
            Some(bytes) => bytes.get(start..start + self.footer.table_bytes() as usize).unwrap_or_default(),
            None => &self.table,
        };
        OrdinalTable::trusted(table)
    }

    /// Tells whether pages of the mapping must be expected to leave memory: values are read from
    /// the file then.
    pub fn set_may_be_evicted(&self, may_be_evicted: bool) {
        // A hint that decides only how a read is done.
        self.may_be_evicted.store(may_be_evicted, Ordering::Relaxed);
    }

    /// Asks the device, or the backend that has the file, for the record of the value that
    /// `reference` names. It is number `ordinal` here, and its key has `key_bytes`. Of a long
    /// record it asks for what is read first, up to the first chunk.
    ///
    /// Where values are read in place the processor begins to load the first lines instead. Does
    /// nothing if there is no such value. Waits only where requests have a limit; where `mode` is
    /// not to wait only the processor is asked.
    pub fn ask(&self, ordinal: u32, reference: &Reference, key_bytes: usize, mode: ReadMode) {
        if mode == ReadMode::ResidentOnly && !self.reads_in_place() {
            return;
        }
        let is_here = reference.segment == self.footer.number;
        let offset = if is_here { Some(reference.offset) } else { self.ordinals().offset(ordinal) };
        let Some(offset) = offset.filter(|offset| *offset < self.footer.records_end) else { return };
        let value_bytes = reference.value_bytes as usize;
        let wanted = long_head_bytes(value_bytes, true) + key_bytes + value_bytes.min(CHUNK_BYTES);
        if let Some(mapped) = self.bytes.as_ref().filter(|_| self.reads_in_place()) {
            let lines = (0..wanted.min(LOADED_BYTES)).step_by(64);
            return lines.for_each(|line| mapped.begin_load(offset as usize + line));
        }
        let left = self.record_end(ordinal, offset) - offset;
        // The file even where it is mapped: it is what will be read.
        self.file.will_look_up(offset, left.min(wanted as u64));
    }

    /// Whether every value is read from memory, without waiting for the device.
    pub fn reads_in_place(&self) -> bool {
        // No ordering: a hint that decides only how a read is done.
        self.bytes.is_some() && !self.may_be_evicted.load(Ordering::Relaxed)
    }

    /// Appends the wanted part of a value to `out`; its record is where the reference says. `false`
    /// if that would wait for the device and `mode` forbids it.
    ///
    /// # Errors
    /// `Corrupt` with file and offset if another value, or none, lies there; what reading says.
    pub fn read(&self, wanted: &Wanted<'_>, mode: ReadMode, out: &mut Vec<u8>) -> Result<bool> {
        self.read_at((wanted.reference.ordinal, wanted.reference.offset), wanted, mode, out)
    }

    /// The same of the value that is number `ordinal` here.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_ordinal(
        &self,
        ordinal: u32,
        wanted: &Wanted<'_>,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some(offset) = self.ordinals().offset(ordinal) else {
            let message = format!("expected a value of ordinal {ordinal} ({}), found none", wanted.reference);
            return Err(Error::corrupt(&self.name, self.footer.records_end, message));
        };
        self.read_at((ordinal, offset), wanted, mode, out)
    }

    fn read_at(
        &self,
        (ordinal, offset): (u32, u64),
        wanted: &Wanted<'_>,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        if mode == ReadMode::ResidentOnly && self.would_wait(offset, wanted) {
            return Ok(false);
        }
        let record = Record { segment: self, end: self.record_end(ordinal, offset) };
        read_value(&record, offset, wanted, out).map(|()| true)
    }

    /// Where the record of number `ordinal`, which begins at `offset`, ends at the latest. Where
    /// the file is not mapped no more is read: what lies behind is another value's, which may have
    /// been asked for too.
    fn record_end(&self, ordinal: u32, offset: u64) -> u64 {
        let records_end = self.footer.records_end;
        if self.bytes.is_some() {
            return records_end;
        }
        let table = self.ordinals();
        let next = (ordinal.saturating_add(1)..table.len()).find_map(|next| table.offset(next));
        next.filter(|next| *next > offset).unwrap_or(records_end)
    }

    fn would_wait(&self, offset: u64, wanted: &Wanted<'_>) -> bool {
        if self.reads_in_place() {
            return false;
        }
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(wanted.reference.value_bytes as usize);
        self.bytes.as_ref().is_none_or(|bytes| !bytes.is_resident(start..end))
    }

    /// The head of the value that is number `ordinal` here; `None` if there is none.
    ///
    /// # Errors
    /// `Corrupt` with file and offset if no head is where it should be; what reading says.
    pub fn head(&self, ordinal: u32) -> Result<Option<BlobHead>> {
        let Some(offset) = self.ordinals().offset(ordinal) else { return Ok(None) };
        let mut bytes = HEAD_BYTES_READ;
        loop {
            let left = usize::try_from(self.footer.records_end.saturating_sub(offset)).unwrap_or(usize::MAX);
            match BlobRecord::decode(&self.fetch(offset, bytes.min(left))?) {
                Ok(record) => return Ok(Some(record.head)),
                Err(_) if bytes < left && bytes < HEAD_BYTES_MAX => bytes = HEAD_BYTES_MAX,
                Err(error) => return Err(corrupt(&self.name, offset, &error)),
            }
        }
    }

    /// Fills `out` with the bytes from `offset` on, read from the file.
    pub(super) fn read_bytes(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, out)
    }

    /// Has the device fetch `bytes` bytes from `offset` on, for [`read_bytes`](Self::read_bytes).
    /// Does not wait.
    pub(super) fn will_read(&self, offset: u64, bytes: u64) {
        self.file.will_need(offset, bytes);
    }

    /// Bytes of the records of `ordinals`, and of what was given up right behind them.
    pub fn record_bytes(&self, ordinals: impl Iterator<Item = u32>) -> u64 {
        let (table, end) = (self.ordinals(), self.footer.records_end);
        let bytes = |ordinal: u32| {
            let Some(offset) = table.offset(ordinal) else { return 0 };
            let next = (ordinal + 1..table.len()).find_map(|next| table.offset(next));
            next.unwrap_or(end).saturating_sub(offset)
        };
        ordinals.map(bytes).sum()
    }

    /// The relocation at `place`, which is this segment's.
    ///
    /// # Errors
    /// `Corrupt` with file and offset if there is none; what reading says.
    pub fn relocation(&self, place: &RelocationTarget) -> Result<Relocation> {
        let wrong = |what: String| Err(Error::corrupt(&self.name, place.offset, what));
        let (start, end) = (self.footer.relocations_start(), self.file.len() - BLOB_FOOTER_BYTES as u64);
        let is_inside = place.offset >= start && place.offset + place.bytes <= end;
        if !is_inside {
            return wrong(format!("expected a relocation between {start} and {end}"));
        }
        let mut bytes = vec![0; place.bytes as usize];
        self.file.read_at(place.offset, &mut bytes)?;
        let (relocation, taken) =
            Relocation::decode(&bytes).map_err(|error| corrupt(&self.name, place.offset, &error))?;
        match taken == bytes.len() && relocation.segment == self.footer.number {
            true => Ok(relocation),
            false => wrong(format!("expected a relocation of {} bytes to this segment", place.bytes)),
        }
    }

    /// Heap bytes held; not the mapping.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.table.capacity()
    }
}

/// What most heads and their keys take.
const HEAD_BYTES_READ: usize = 512;
/// What the longest head and the longest key take.
const HEAD_BYTES_MAX: usize = long_head_bytes(u32::MAX as usize, true) + u16::MAX as usize;

/// One record of a segment, as far as reads of it may go.
struct Record<'s> {
    segment: &'s BlobSegment,
    end: u64,
}

impl Bytes for Record<'_> {
    fn name(&self) -> &str {
        &self.segment.name
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn fetch(&self, offset: u64, bytes: usize) -> Result<Cow<'_, [u8]>> {
        self.segment.fetch(offset, bytes)
    }
}

impl BlobSegment {
    fn fetch(&self, offset: u64, bytes: usize) -> Result<Cow<'_, [u8]>> {
        if let (Some(mapped), true) = (&self.bytes, self.reads_in_place()) {
            let start = offset as usize;
            if let Some(found) = mapped.get(start..start.saturating_add(bytes)) {
                return Ok(Cow::Borrowed(found));
            }
        }
        let mut out = vec![0; bytes];
        self.file.read_at(offset, &mut out)?;
        Ok(Cow::Owned(out))
    }
}

impl fmt::Debug for BlobSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobSegment").field("name", &self.name).field("footer", &self.footer).finish()
    }
}
