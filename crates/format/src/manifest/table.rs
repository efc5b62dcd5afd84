//! What the manifest knows about a table.
//!
//! ```text
//! file text, bytes number, file_checksum u64, smallest bytes, largest bytes, sequence_min number, sequence_max number,
//! entry_count number, tombstone_count number, range_tombstone_count number, data_bytes number, content_hash u128
//! ```
//! Since: FormatVersion::V1.

use crate::bytes::{Reader, put_bytes};
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::manifest::change::{put_table, table};
use crate::varint;

/// What the manifest knows about a table without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// Name of its file.
    pub file: String,
    /// Length of the file.
    pub bytes: u64,
    /// Checksum of the file, as its footer has it.
    pub file_checksum: u64,
    /// Smallest key, starts of range tombstones included.
    pub smallest: Vec<u8>,
    /// Greatest key, ends of range tombstones included.
    pub largest: Vec<u8>,
    /// Smallest sequence, range tombstones included. Of a table whose file has 0 for all sequences,
    /// the one that all its entries have.
    pub sequence_min: Sequence,
    /// Greatest sequence, range tombstones included.
    pub sequence_max: Sequence,
    /// Entries, range tombstones not included.
    pub entry_count: u64,
    /// Entries that are deletions.
    pub tombstone_count: u64,
    /// Fragments of range tombstones.
    pub range_tombstone_count: u64,
    /// Bytes of keys and values as written by users.
    pub data_bytes: u64,
    /// Sum of the entries' hashes modulo 2^128.
    pub content_hash: u128,
}

impl TableMeta {
    /// Appends the description's bytes to `out`: the body of an `AddTable` change, and part of
    /// jobs' specs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_table(&self.file, out);
        varint::encode(self.bytes, out);
        out.extend_from_slice(&self.file_checksum.to_le_bytes());
        put_bytes(&self.smallest, out);
        put_bytes(&self.largest, out);
        for number in [
            self.sequence_min.0,
            self.sequence_max.0,
            self.entry_count,
            self.tombstone_count,
            self.range_tombstone_count,
            self.data_bytes,
        ] {
            varint::encode(number, out);
        }
        out.extend_from_slice(&self.content_hash.to_le_bytes());
    }

    /// Takes a description off the front of `fields`.
    ///
    /// # Errors
    /// A field is malformed.
    pub fn decode(fields: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            file: table(fields)?,
            bytes: fields.number()?,
            file_checksum: fields.u64()?,
            smallest: fields.bytes()?.to_vec(),
            largest: fields.bytes()?.to_vec(),
            sequence_min: sequence(fields)?,
            sequence_max: sequence(fields)?,
            entry_count: fields.number()?,
            tombstone_count: fields.number()?,
            range_tombstone_count: fields.number()?,
            data_bytes: fields.number()?,
            content_hash: fields.u128()?,
        })
    }
}

fn sequence(fields: &mut Reader<'_>) -> Result<Sequence> {
    let offset = fields.offset();
    let number = fields.number()?;
    if number > Sequence::MAX.0 {
        return Err(Error::new(offset, "a sequence below 2^56", format!("{number}")));
    }
    Ok(Sequence(number))
}
