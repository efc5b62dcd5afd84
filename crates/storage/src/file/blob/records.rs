//! Records of a sealed segment, front to back and in large pieces, to copy or check them all.

use firn_format::blob::record::{BlobHead, BlobRecord};

use super::{BlobSegment, corrupt};
use crate::{Error, Result};

/// Reads records as they lie in their segment and checks them, chunks included.
///
/// Fastest for rising ordinals: it keeps the bytes that it read last. At most about a megabyte of
/// memory, whatever the values' lengths: the longest chunk.
#[derive(Debug)]
pub struct RecordReader<'s> {
    segment: &'s BlobSegment,
    window: Vec<u8>,
    /// Where the window begins.
    start: u64,
    /// How far the device was asked for what comes next.
    asked_until: u64,
}

/// Bytes that are read at once.
///
/// More than the longest head and the longest key have. Reading by a mapping costs more: faults,
/// and their undoing.
const WINDOW_BYTES: usize = 384 << 10;

/// Bytes that the device is asked for ahead of the bytes that are read.
const AHEAD_BYTES: u64 = 2 << 20;
/// As much of it at once.
const ASK_BYTES: u64 = 1 << 20;

impl<'s> RecordReader<'s> {
    /// A reader of `segment`.
    pub fn new(segment: &'s BlobSegment) -> Self {
        Self { segment, window: Vec::new(), start: 0, asked_until: 0 }
    }

    /// Gives the record of `ordinal` to `put`, in one piece or, if it is long, in several: head and
    /// key, then each chunk. The zeros behind it are left out. Before that `look` sees its head and
    /// key. Blocks on the device.
    ///
    /// # Errors
    /// `Corrupt` with file and offset if there is no whole record; what `look` and `put` say.
    pub fn read(
        &mut self,
        ordinal: u32,
        mut look: impl FnMut(&BlobRecord<'_>) -> Result<()>,
        mut put: impl FnMut(&BlobHead, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let segment = self.segment;
        let Some(offset) = segment.ordinals().offset(ordinal) else {
            let message = format!("expected a value of ordinal {ordinal}, found none");
            return Err(Error::corrupt(segment.name(), segment.footer().records_end, message));
        };
        let wrong = |at: u64, error: &firn_format::Error| corrupt(segment.name(), at, error);
        let next = segment.ordinals().offset(ordinal.saturating_add(1));
        let all = next.unwrap_or(segment.footer().records_end).saturating_sub(offset);
        let front = self.at(offset, WINDOW_BYTES.min(usize::try_from(all).unwrap_or(usize::MAX)))?;
        let record = BlobRecord::decode(front).map_err(|error| wrong(offset, &error))?;
        look(&record)?;
        let bytes = record.chunk_span(record.chunk_count() - 1).end;
        if let Some(whole) = front.get(..bytes) {
            for index in 0..record.chunk_count() {
                let span = record.chunk_span(index);
                let at = offset + span.start as u64;
                let chunk = whole.get(span).unwrap_or_default();
                record.check_chunk(index, chunk).map_err(|error| wrong(at, &error))?;
            }
            return put(&record.head, whole);
        }
        let front = front.get(..record.chunk_span(0).start).unwrap_or_default().to_vec();
        let record = BlobRecord::decode(&front).map_err(|error| wrong(offset, &error))?;
        put(&record.head, &front)?;
        for index in 0..record.chunk_count() {
            let span = record.chunk_span(index);
            let at = offset + span.start as u64;
            let chunk = self.at(at, span.len())?;
            let chunk = chunk.get(..span.len()).unwrap_or(chunk);
            record.check_chunk(index, chunk).map_err(|error| wrong(at, &error))?;
            put(&record.head, chunk)?;
        }
        Ok(())
    }

    /// At least `bytes` bytes from `offset` on, or what there is.
    fn at(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        let records_end = self.segment.footer().records_end;
        let wanted_end = offset.saturating_add(bytes as u64).min(records_end);
        let end = self.start + self.window.len() as u64;
        if offset < self.start || wanted_end > end {
            let left = usize::try_from(records_end.saturating_sub(offset)).unwrap_or(usize::MAX);
            // What is here of it is not read again: what was asked for ahead begins behind.
            let kept = if (self.start..end).contains(&offset) { (end - offset) as usize } else { 0 };
            self.window.drain(..self.window.len() - kept);
            self.window.resize(WINDOW_BYTES.max(bytes).min(left), 0);
            self.start = offset;
            self.ask_ahead(offset + self.window.len() as u64);
            let missing = self.window.get_mut(kept..).unwrap_or_default();
            if let Err(error) = self.segment.read_bytes(offset + kept as u64, missing) {
                self.window.clear();
                return Err(error);
            }
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        Ok(self.window.get(from..).unwrap_or_default())
    }

    /// The device works on what comes from `at` on while what is before it is read and looked
    /// through.
    fn ask_ahead(&mut self, at: u64) {
        let records_end = self.segment.footer().records_end;
        self.asked_until = self.asked_until.max(at);
        while self.asked_until < (at + AHEAD_BYTES).min(records_end) {
            let bytes = ASK_BYTES.min(records_end - self.asked_until);
            self.segment.will_read(self.asked_until, bytes);
            self.asked_until += bytes;
        }
    }
}
