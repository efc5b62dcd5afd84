//! All records of a part of the log, in the order of their addresses.

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::file_name;
use firn_format::hybrid::SegmentHeader;
use firn_format::hybrid::image::{open_record, shape_at};

use super::{Device, DeviceRecord};
use crate::error::{from_format, from_storage};

/// Bytes that are read at once.
const READ_BYTES: u64 = 4 << 20;

/// Words of zero before the record that comes next.
struct Zeros {
    page_bits: u32,
    /// The first of them.
    from: Option<u64>,
}

impl Zeros {
    /// The first of the zeros before a record at `address`, if they are not what a page ends with
    /// whose rest is too short for that record.
    fn amiss_before(&mut self, address: u64, words: u64) -> Option<u64> {
        let from = self.from.take()?;
        let page_words = 1 << self.page_bits;
        let is_rest = address & (page_words - 1) == 0 && address - from < words.min(page_words);
        (!is_rest).then_some(from)
    }
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
        (from, to): (u64, u64),
        page_bits: u32,
        take: &mut dyn FnMut(u64, &DeviceRecord) -> Result<()>,
    ) -> Result<Option<u64>> {
        let mut at = from;
        let mut zeros = Zeros { page_bits, from: None };
        while at < to {
            let end = self.end_of(at).min(to);
            self.check_header(at)?;
            self.scan_segment((at, end), &mut zeros, take)?;
            at = end;
        }
        Ok(zeros.from)
    }

    /// The error for zeros where a record should be.
    pub(crate) fn zeros_at(&self, address: u64) -> Error {
        Error::new(ErrorKind::Corrupt, "expected a record, found zeros").at(self.location(address))
    }

    fn check_header(&self, address: u64) -> Result<()> {
        let base = self.base_of(address);
        let name = file_name::hybrid_segment(base);
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

    fn scan_segment(
        &self,
        (from, end): (u64, u64),
        zeros: &mut Zeros,
        take: &mut dyn FnMut(u64, &DeviceRecord) -> Result<()>,
    ) -> Result<()> {
        let name = file_name::hybrid_segment(self.base_of(from));
        let Some(file) = self.segment(from) else { return Ok(()) };
        let (mut at, mut bytes) = (from, Vec::new());
        // What was read and not taken yet begins at `at`.
        let mut read_to = from;
        while at < end {
            let first = bytes.len();
            let more = (READ_BYTES / 8).min(end - read_to);
            bytes.resize(first + 8 * more as usize, 0);
            file.read_at(self.offset_of(read_to), &mut bytes[first..]).map_err(from_storage)?;
            read_to += more;
            let mut taken = 0;
            loop {
                let rest = &bytes[taken..];
                let is_last = read_to == end;
                if rest.is_empty() || (!is_last && rest.len() < firn_format::hybrid::image::PREFIX_BYTES) {
                    break;
                }
                let offset = self.offset_of(at) as usize;
                let corrupt = |error: firn_format::Error| from_format(&name, error.based(offset));
                let words = match shape_at(rest).map_err(corrupt)? {
                    None => {
                        zeros.from.get_or_insert(at);
                        1
                    }
                    Some((link, shape)) => {
                        let length = shape.words() * 8;
                        if rest.len() < length {
                            if is_last {
                                let found = format!("the end of the log after {} bytes", rest.len());
                                return Err(corrupt(firn_format::Error::new(
                                    0,
                                    format!("a record of {length} bytes"),
                                    found,
                                )));
                            }
                            break;
                        }
                        let mut own = rest[..length].to_vec();
                        open_record(at, &mut own).map_err(corrupt)?;
                        if let Some(zeros) = zeros.amiss_before(at, shape.words() as u64) {
                            return Err(self.zeros_at(zeros));
                        }
                        if !link.is_invalid() {
                            take(at, &DeviceRecord::new(own, link, shape))?;
                        }
                        shape.words()
                    }
                };
                taken += 8 * words;
                at += words as u64;
            }
            bytes.drain(..taken);
        }
        Ok(())
    }
}
