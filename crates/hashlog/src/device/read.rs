//! One record, read from a device.

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::hybrid::image::{RECORD_BYTES_MIN, open_record, shape_at};
use firn_format::hybrid::{Link, Shape};

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
        let Some(file) = self.segment(address) else { return Ok(None) };
        let offset = self.offset_of(address);
        let there = 8 * (flushed.min(self.end_of(address)).saturating_sub(address));
        let wanted = if words == 0 { GUESS_BYTES } else { 8 * words };
        let mut bytes = vec![0; wanted.min(there) as usize];
        file.read_at(offset, &mut bytes).map_err(from_storage)?;
        let corrupt = |expected: String, found: String, at: usize| {
            let name = (self.name)(self.base_of(address));
            let message = format!("expected {expected}, found {found}");
            let location = Location { file: name, offset: Some(offset + at as u64) };
            Error::new(ErrorKind::Corrupt, message).at(location)
        };
        if bytes.len() < RECORD_BYTES_MIN {
            let found = format!("the end of the log at {flushed}");
            return Err(corrupt(format!("a record at address {address}"), found, 0));
        }
        let found = shape_at(&bytes).map_err(|error| corrupt(error.expected, error.found, error.offset))?;
        let Some((link, shape)) = found else {
            return Err(corrupt("a record".to_owned(), "zeros".to_owned(), 0));
        };
        let length = shape.words() * 8;
        if length as u64 > there {
            return Err(corrupt(format!("a record of at most {there} bytes"), format!("one of {length}"), 8));
        }
        let read = bytes.len().min(length);
        bytes.resize(length, 0);
        if read < length {
            file.read_at(offset + read as u64, &mut bytes[read..]).map_err(from_storage)?;
        }
        open_record(address, &mut bytes)
            .map_err(|error| corrupt(error.expected, error.found, error.offset))?;
        Ok(Some(DeviceRecord { bytes, link, shape }))
    }
}

impl Device {
    /// Has the system load the record at `address`, if it is on the device.
    pub(crate) fn will_read(&self, address: u64) {
        if let Some(file) = self.segment(address) {
            file.will_need(self.offset_of(address), GUESS_BYTES);
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
