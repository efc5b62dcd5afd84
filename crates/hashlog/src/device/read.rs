//! One record, read from a device.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::hybrid::image::{RECORD_BYTES_MIN, open_record, shape_at};
use firn_format::hybrid::{Link, Shape};
use firn_storage::backend::{FileToRead, RangeRead};

use super::Device;
use super::flush::word_at;
use crate::error::from_storage;
use crate::log::Content;

/// Bytes that are read first: what most records are shorter than.
const GUESS_BYTES: u64 = 512;

/// A record that was read from a device, and matches its checksum.
#[derive(Clone, Debug)]
pub(crate) struct DeviceRecord {
    bytes: Vec<u8>,
    link: Link,
    shape: Shape,
}

/// A record on its way from the device.
#[derive(Debug)]
pub(crate) struct Reading {
    address: u64,
    /// Bytes that lie on the device from there on.
    there: u64,
    /// What was read before.
    first: Vec<u8>,
    /// What is to be read.
    pub(crate) range: RangeRead,
}

impl Device {
    /// The record at `address`, of a log that is flushed through `flushed`; `None` if its segment
    /// was removed. Waits for the device.
    ///
    /// # Errors
    /// `Corrupt`, with file and offset, where no record lies there or its checksum does not match.
    pub(crate) fn read(&self, address: u64, flushed: u64) -> Result<Option<DeviceRecord>> {
        self.read_known(address, 0, flushed)
    }

    /// As [`read`](Self::read), of a record that has so many words; 0 if that is not known.
    pub(crate) fn read_known(&self, address: u64, words: u64, flushed: u64) -> Result<Option<DeviceRecord>> {
        loop {
            let Some(mut reading) = self.reading(address, words, flushed) else { return Ok(None) };
            match self.read_whole(&mut reading) {
                Err(_) if self.has_moved(&reading) => {}
                read => return read.map(Some),
            }
        }
    }

    fn read_whole(&self, reading: &mut Reading) -> Result<DeviceRecord> {
        loop {
            reading.range.read().map_err(from_storage)?;
            if let Some(record) = self.opened(reading)? {
                return Ok(record);
            }
        }
    }

    /// Whether the segment of `reading` was removed, or moved, since that was begun: where it
    /// fails it is to be begun again.
    pub(crate) fn has_moved(&self, reading: &Reading) -> bool {
        let now = self.segment(reading.address).map(|file| file.to_read());
        match (now, &reading.range.file) {
            (Some(FileToRead::Growing(now)), FileToRead::Growing(file)) => !Arc::ptr_eq(&now, file),
            (Some(FileToRead::Finished(now)), FileToRead::Finished(file)) => !Arc::ptr_eq(&now, file),
            _ => true,
        }
    }

    /// As [`read_known`](Self::read_known), begun: the caller reads the range, and has it
    /// [opened](Self::opened).
    pub(crate) fn reading(&self, address: u64, words: u64, flushed: u64) -> Option<Reading> {
        let file = self.segment(address)?.to_read();
        let there = 8 * (flushed.min(self.end_of(address)).saturating_sub(address));
        let wanted = if words == 0 { GUESS_BYTES } else { 8 * words };
        let range = RangeRead::new(file, self.offset_of(address), wanted.min(there) as usize);
        Some(Reading { address, there, first: Vec::new(), range })
    }

    /// The record, once the range of `reading` was read; `None` if the range is the rest of it now,
    /// which is to be read too.
    ///
    /// # Errors
    /// `Corrupt`, with file and offset, where no record lies there or its checksum does not match.
    pub(crate) fn opened(&self, reading: &mut Reading) -> Result<Option<DeviceRecord>> {
        let address = reading.address;
        let offset = self.offset_of(address);
        let corrupt = |expected: String, found: String, at: usize| {
            let name = (self.name)(self.base_of(address));
            let message = format!("expected {expected}, found {found}");
            let location = Location { file: name, offset: Some(offset + at as u64) };
            Error::new(ErrorKind::Corrupt, message).at(location)
        };
        let mut bytes = std::mem::take(&mut reading.first);
        match bytes.is_empty() {
            true => bytes = std::mem::take(&mut reading.range.bytes),
            false => bytes.extend_from_slice(&reading.range.bytes),
        }
        if bytes.len() < RECORD_BYTES_MIN {
            let found = format!("the end of the log at {}", address + reading.there / 8);
            return Err(corrupt(format!("a record at address {address}"), found, 0));
        }
        let found = shape_at(&bytes).map_err(|error| corrupt(error.expected, error.found, error.offset))?;
        let Some((link, shape)) = found else {
            return Err(corrupt("a record".to_owned(), "zeros".to_owned(), 0));
        };
        let (length, there) = (shape.words() * 8, reading.there);
        if length as u64 > there {
            return Err(corrupt(format!("a record of at most {there} bytes"), format!("one of {length}"), 8));
        }
        if bytes.len() < length {
            reading.range.offset = offset + bytes.len() as u64;
            reading.range.bytes = vec![0; length - bytes.len()];
            reading.first = bytes;
            return Ok(None);
        }
        bytes.truncate(length);
        open_record(address, &mut bytes)
            .map_err(|error| corrupt(error.expected, error.found, error.offset))?;
        Ok(Some(DeviceRecord { bytes, link, shape }))
    }
}

impl Device {
    /// Has the system load the record at `address`, if it is on the device.
    pub(crate) fn will_read(&self, address: u64) {
        if let Some(file) = self.segment(address) {
            file.will_look_up(self.offset_of(address), GUESS_BYTES);
        }
    }
}

impl DeviceRecord {
    /// The record that `bytes` are, checked.
    pub(super) fn new(bytes: Vec<u8>, link: Link, shape: Shape) -> Self {
        Self { bytes, link, shape }
    }

    /// Makes this another record, of these bytes, which are not checked yet.
    pub(super) fn replace(&mut self, link: Link, shape: Shape, bytes: &[u8]) -> &mut [u8] {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        (self.link, self.shape) = (link, shape);
        &mut self.bytes
    }

    /// Where the record before it in its chain lies.
    pub(crate) fn link(&self) -> Link {
        self.link
    }

    /// Whether this is a record of `key` in `keyspace`.
    pub(crate) fn is_of(&self, keyspace: u32, key: &[u8]) -> bool {
        self.keyspace() == keyspace && self.key() == key
    }

    pub(crate) fn keyspace(&self) -> u32 {
        if self.shape.has_keyspace { self.word(self.shape.keyspace_at()) as u32 } else { 0 }
    }

    pub(crate) fn key(&self) -> &[u8] {
        let first = self.shape.key_at() * 8;
        &self.bytes[first..first + self.shape.key_bytes]
    }

    pub(crate) fn value(&self) -> &[u8] {
        let first = self.shape.value_at() * 8;
        &self.bytes[first..first + self.shape.value_bytes]
    }

    pub(crate) fn content(&self) -> Content {
        let expires_at_ms = if self.shape.has_expiry { self.word(self.shape.expiry_at()) } else { 0 };
        let Shape { is_tombstone, is_operand, is_reference, .. } = self.shape;
        Content { is_tombstone, is_operand, is_reference, expires_at_ms, sequence: 0 }
    }

    /// Words that the record takes in the log.
    pub(crate) fn words(&self) -> u64 {
        self.shape.words() as u64
    }

    fn word(&self, index: usize) -> u64 {
        word_at(&self.bytes, index)
    }
}
