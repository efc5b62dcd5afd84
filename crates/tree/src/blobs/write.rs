//! Values to their segment, before the frame that refers to them.

use std::sync::{Arc, PoisonError};

use firn_engine::{Error, OrderedOp, Result};
use firn_format::blob::record::padding;
use firn_format::blob::{Reference, ReferenceBytes, Stored};
use firn_format::compression::Compression;

use super::BlobStore;
use super::active::{Active, Given, Places, Written};
use crate::counters::count;
use crate::error::from_storage;

/// Compressors that are kept for the next writers: a megabyte each, or two.
const COMPRESSORS_MAX: usize = 8;
/// Bytes of records that are written at once, unless one is longer.
const WRITE_BYTES: u64 = 1 << 20;
/// Values up to this are copied next to their heads, to be written with them.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// A value that is to be separated.
#[derive(Debug)]
struct Large<'o> {
    keyspace: u32,
    key: &'o [u8],
    value: Stored<'o>,
}

impl Large<'_> {
    /// What the writer is charged for.
    fn brought_bytes(&self) -> u64 {
        self.key.len() as u64 + u64::from(self.value.value_bytes())
    }

    fn record_bytes(&self) -> u64 {
        self.value.record_bytes(self.keyspace, self.key.len()) as u64
    }

    /// Whether its value is written together with its head.
    fn is_copied(&self) -> bool {
        self.value.bytes().len() <= COPIED_BYTES_MAX
    }
}

/// Operations some of whose values were separated.
#[derive(Debug, Default)]
pub(crate) struct Separated {
    pub(crate) references: References,
    /// Given up unless the frame with the references is published.
    pub(crate) places: Places,
}

/// What stands in place of values, by the index of the operation; none beyond the last.
#[derive(Debug, Default)]
pub(crate) struct References {
    pub(crate) by_op: Vec<Option<ReferenceBytes>>,
}

impl BlobStore {
    /// `value` by `codec`, where that is shorter.
    fn stored<'o>(&self, value: &'o [u8], codec: Compression) -> Result<Stored<'o>> {
        if codec == Compression::None {
            return Ok(Stored::plain(value));
        }
        let lock = || self.compressors.lock().unwrap_or_else(PoisonError::into_inner);
        let mut compressor = lock().pop().unwrap_or_default();
        let stored = Stored::new(value, codec, &mut compressor);
        let mut compressors = lock();
        if compressors.len() < COMPRESSORS_MAX {
            compressors.push(compressor);
        }
        drop(compressors);
        stored.map_err(compressor_error)
    }

    /// Writes the values of `ops`, each with its index and its codec, to the active segment. May
    /// create a file. At most a group of them is in memory compressed.
    ///
    /// # Errors
    /// `Retry` when the disk is full: what was written is given up. What else writing says.
    pub(crate) fn put(&self, ops: &[(usize, OrderedOp<'_>, Compression)]) -> Result<Separated> {
        let mut separated = Separated::default();
        let (mut group, mut bytes) = (Vec::new(), 0);
        for (index, op, codec) in ops {
            let value = self.stored(op.value, *codec)?;
            let large = Large { keyspace: op.keyspace.0, key: op.key, value };
            if bytes + large.record_bytes() > WRITE_BYTES && !group.is_empty() {
                self.put_group(&group, bytes, &mut separated)?;
                group.clear();
                bytes = 0;
            }
            bytes += large.record_bytes();
            group.push((*index, large));
        }
        self.put_group(&group, bytes, &mut separated)?;
        Ok(separated)
    }

    fn put_group(&self, group: &[(usize, Large<'_>)], bytes: u64, separated: &mut Separated) -> Result<()> {
        let (active, given) = self.give(group.len() as u32, bytes)?;
        separated.places.push(Arc::clone(&active), given);
        count(&self.counters.written_count, group.len() as u64);
        count(&self.counters.written_bytes, bytes);
        self.brought.add(group.iter().map(|(_, large)| large.brought_bytes()).sum(), bytes);
        let copied = group.iter().map(|(_, large)| large).filter(|large| large.is_copied());
        let out = Vec::with_capacity(copied.map(Large::record_bytes).sum::<u64>() as usize);
        let mut writer = Writer { active: &active, offset: given.offset, out };
        let mut written = Vec::with_capacity(group.len());
        let (mut ordinal, mut offset) = (given.ordinal, given.offset);
        for (index, large) in group {
            let checksum = writer.add(ordinal, large)?;
            let value_bytes = large.value.value_bytes();
            let reference = Reference { segment: active.number(), ordinal, offset, value_bytes, checksum };
            let by_op = &mut separated.references.by_op;
            by_op.resize(*index, None);
            by_op.push(Some(reference.encode()));
            written.push(Written { ordinal, keyspace: large.keyspace, offset, value_bytes });
            ordinal += 1;
            offset += large.record_bytes();
        }
        writer.flush()?;
        active.wrote(&written);
        Ok(())
    }

    fn give(&self, count: u32, bytes: u64) -> Result<(Arc<Active>, Given)> {
        let mut full = None;
        loop {
            let active = match self.active.load_full() {
                Some(active) if full.as_ref().is_none_or(|full| !Arc::ptr_eq(full, &active)) => active,
                _ => self.next_active(full.as_ref())?,
            };
            match active.give(count, bytes) {
                Some(given) => return Ok((active, given)),
                None => full = Some(active),
            }
        }
    }
}

pub(crate) fn compressor_error(error: firn_format::Error) -> Error {
    Error::bug(format!("a value cannot be compressed: {error}"))
}

/// Writes records one behind the other.
struct Writer<'a> {
    active: &'a Active,
    /// Where the first byte of `out` goes.
    offset: u64,
    out: Vec<u8>,
}

impl Writer<'_> {
    /// Adds a record; its head's checksum.
    fn add(&mut self, ordinal: u32, large: &Large<'_>) -> Result<u32> {
        let Large { keyspace, key, value } = large;
        let start = self.out.len();
        let checksum = value.encode_head((self.active.number(), ordinal), (*keyspace, key), &mut self.out);
        let stored = value.bytes();
        let unpadded = self.out.len() - start + stored.len();
        if large.is_copied() {
            self.out.extend_from_slice(stored);
        } else {
            self.flush()?;
            self.active.open.write_at(self.offset, stored).map_err(from_storage)?;
            self.offset += stored.len() as u64;
        }
        self.out.extend_from_slice(padding(unpadded));
        Ok(checksum)
    }

    fn flush(&mut self) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.active.open.write_combined(self.offset, &self.out).map_err(from_storage)?;
        self.offset += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }
}
