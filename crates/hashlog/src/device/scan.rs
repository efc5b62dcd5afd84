//! All records of a part of the log, in the order of their addresses.

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::hybrid::image::{PREFIX_BYTES, open_record, shape_at};
use firn_format::hybrid::{Link, SegmentHeader, Shape};

use super::{Device, DeviceRecord};
use crate::error::{from_format, from_storage};

/// Bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Bytes that are asked for before they are read, where that would wait for another machine.
const AHEAD_BYTES: u64 = 8 << 20;

/// Where a scan is.
struct Scan {
    /// Bytes that were read; those before `taken` are done with, those from `filled` on are not
    /// read.
    bytes: Vec<u8>,
    taken: usize,
    filled: usize,
    /// The record that was read last.
    record: DeviceRecord,
    /// What was found so far.
    part: Part,
}

/// What a scan has found besides records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// Words of the record that it began with.
    first_words: Option<u64>,
    /// The first of the words of zero that it ended with.
    zeros: Option<u64>,
}

impl Part {
    /// The first of the zeros that one scan has ended with, where the `next` one, from `address`
    /// on, shows that they are not the end of a page.
    pub(crate) fn amiss_before(self, page_bits: u32, (address, next): (u64, Self)) -> Option<u64> {
        let zeros = self.zeros?;
        let words = next.first_words.unwrap_or(u64::MAX);
        is_amiss(page_bits, zeros, (address, words)).then_some(zeros)
    }

    /// The first of the zeros that the scan has ended with.
    pub(crate) fn zeros(self) -> Option<u64> {
        self.zeros
    }
}

/// Whether zeros before a record are not what a page ends with whose rest is too short for it.
fn is_amiss(page_bits: u32, zeros: u64, (address, words): (u64, u64)) -> bool {
    let page_words = 1 << page_bits;
    let is_rest = address & (page_words - 1) == 0 && address - zeros < words.min(page_words);
    !is_rest
}

impl Device {
    /// Hands each record of `from..to` that came into a chain to `take`, with its address. Answers
    /// the first of the zeros before `to`, if there are any. Waits for the device.
    ///
    /// # Errors
    /// `Corrupt`, with file and offset, for a segment that is missing or another database's, and
    /// for a record that is not what was written, or zeros in its place.
    pub(crate) fn scan(
        &self,
        range: (u64, u64),
        page_bits: u32,
        take: &mut dyn FnMut(u64, &DeviceRecord) -> Result<()>,
    ) -> Result<Option<u64>> {
        let mut last = Part::default();
        for (from, to) in self.parts(range) {
            let part = self.scan_part((from, to), page_bits, take)?;
            self.check_seam(last, page_bits, (from, part))?;
            last = part;
        }
        Ok(last.zeros)
    }

    /// The log from `from` to `to`, a segment at a time.
    pub(crate) fn parts(&self, (from, to): (u64, u64)) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let mut at = from;
        while at < to {
            let end = self.end_of(at).min(to);
            parts.push((at, end));
            at = end;
        }
        parts
    }

    /// Refuses zeros between two parts where a record should be.
    pub(crate) fn check_seam(&self, last: Part, page_bits: u32, next: (u64, Part)) -> Result<()> {
        last.amiss_before(page_bits, next).map_or(Ok(()), |zeros| Err(self.zeros_at(zeros)))
    }

    /// As [`scan`](Self::scan), within one segment.
    pub(crate) fn scan_part(
        &self,
        (from, end): (u64, u64),
        page_bits: u32,
        take: &mut dyn FnMut(u64, &DeviceRecord) -> Result<()>,
    ) -> Result<Part> {
        self.check_header(from)?;
        let name = (self.name)(self.base_of(from));
        let Some(file) = self.segment(from) else { return Ok(Part::default()) };
        let record = DeviceRecord::new(Vec::new(), Link(0), Shape::default());
        let mut scan = Scan { bytes: Vec::new(), taken: 0, filled: 0, record, part: Part::default() };
        let (mut at, mut read_to) = (from, from);
        while at < end {
            let more = (READ_BYTES / 8).min(end - read_to);
            if (read_to - from) % (AHEAD_BYTES / 8) == 0 {
                file.will_scan(self.offset_of(read_to), AHEAD_BYTES.min(8 * (end - read_to)));
            }
            let to = scan.make_room(8 * more as usize);
            file.read_at(self.offset_of(read_to), to).map_err(from_storage)?;
            scan.filled += 8 * more as usize;
            read_to += more;
            while at < end
                && let Some(words) = scan
                    .next(at, read_to == end)
                    .map_err(|error| from_format(&name, error.based(self.offset_of(at) as usize)))?
            {
                if let (Some(zeros), true) = (scan.part.zeros, scan.is_record()) {
                    scan.part.zeros = None;
                    if is_amiss(page_bits, zeros, (at, words)) {
                        return Err(self.zeros_at(zeros));
                    }
                }
                if scan.is_record() && at == from {
                    scan.part.first_words = Some(words);
                }
                if scan.is_record() && !scan.record.link().is_invalid() {
                    take(at, &scan.record)?;
                }
                at += words;
            }
        }
        Ok(scan.part)
    }

    /// The error for zeros where a record should be.
    pub(crate) fn zeros_at(&self, address: u64) -> Error {
        Error::new(ErrorKind::Corrupt, "expected a record, found zeros").at(self.location(address))
    }

    fn check_header(&self, address: u64) -> Result<()> {
        let base = self.base_of(address);
        let name = (self.name)(base);
        let Some(file) = self.segment(address) else {
            let message =
                format!("expected a segment of the log with addresses from {base} on, found no file");
            return Err(Error::new(ErrorKind::Corrupt, message).at(Location { file: name, offset: None }));
        };
        let mut header = vec![0; firn_format::hybrid::SEGMENT_HEADER_BYTES];
        file.read_at(0, &mut header).map_err(from_storage)?;
        let header = SegmentHeader::decode(&header).map_err(|error| from_format(&name, error))?;
        let expected = (self.database, base, 1 << self.segment_bits);
        if (header.database, header.base, header.words) != expected {
            let message =
                format!("expected a segment of database {:032x} at {base}, found {header:?}", self.database);
            return Err(Error::new(ErrorKind::Corrupt, message).at(Location { file: name, offset: Some(16) }));
        }
        Ok(())
    }
}

impl Scan {
    /// Where so many bytes more are to be read to.
    fn make_room(&mut self, bytes: usize) -> &mut [u8] {
        self.bytes.copy_within(self.taken..self.filled, 0);
        (self.filled, self.taken) = (self.filled - self.taken, 0);
        let end = self.filled + bytes;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.filled..end]
    }

    /// Takes the record at `at`, or a word of zero; answers how many words that are. `None` if more
    /// has to be read first, unless this `is_last`.
    fn next(&mut self, at: u64, is_last: bool) -> firn_format::Result<Option<u64>> {
        let rest = &self.bytes[self.taken..self.filled];
        if rest.is_empty() || (!is_last && rest.len() < PREFIX_BYTES) {
            return Ok(None);
        }
        let Some((link, shape)) = shape_at(rest)? else {
            self.record.replace(Link(0), Shape::default(), &[]);
            self.part.zeros.get_or_insert(at);
            self.taken += 8;
            return Ok(Some(1));
        };
        let length = shape.words() * 8;
        if rest.len() < length {
            let found = format!("the end of the log after {} bytes", rest.len());
            let error = firn_format::Error::new(0, format!("a record of {length} bytes"), found);
            return if is_last { Err(error) } else { Ok(None) };
        }
        open_record(at, self.record.replace(link, shape, &rest[..length]))?;
        self.taken += length;
        Ok(Some(shape.words() as u64))
    }

    /// Whether a record was taken, and not a word of zero.
    fn is_record(&self) -> bool {
        self.record.link().is_record()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zeros at the end of one part count as the end of a page only before a record that is longer.
    #[test]
    fn zeros_between_two_parts_are_the_end_of_a_page() {
        let ends_with = |zeros| Part { first_words: Some(4), zeros };
        let begins_with = |words| (64, Part { first_words: words, zeros: None });
        let amiss = |last: Part, next| last.amiss_before(5, next);
        assert_eq!(amiss(ends_with(None), begins_with(Some(3))), None);
        assert_eq!(amiss(ends_with(Some(60)), begins_with(Some(5))), None);
        assert_eq!(amiss(ends_with(Some(60)), begins_with(Some(4))), Some(60), "it would have had room");
        assert_eq!(amiss(ends_with(Some(20)), begins_with(Some(45))), Some(20), "more than a page");
        let between_pages = (70, Part { first_words: Some(45), zeros: None });
        assert_eq!(amiss(ends_with(Some(60)), between_pages), Some(60));
    }
}
