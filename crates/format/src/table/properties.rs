//! What a table says about itself.
//!
//! ```text
//! payload: fields in rising order of tag, each: varint tag, varint bytes, the bytes
//!
//! tag  field                  bytes
//!   1  entry_count            varint
//!   2  tombstone_count        varint: entries of kind delete
//!   3  range_tombstone_count  varint: canonical spans
//!   4  smallest               a key: first entry or start of a range tombstone
//!   5  largest                a key: last entry or (excluded) end of a range tombstone
//!   6  sequence_min           varint, range tombstones included
//!   7  sequence_max           varint; 0 = the manifest gives all entries of the table one sequence (ingested tables:
//!                             each entry is stored with sequence 0, and no record of the log has that)
//!   8  data_bytes             varint: bytes of all entries' keys and values
//!   9  content_hash           16 bytes LE, see `content`
//!  10  block_count            varint: data blocks
//!  11  block_bytes            varint: the size data blocks were cut at
//!  12  compression            varint: what was asked for; each block says what it is
//!  13  filter_bits_per_key    varint: 0 = no filter
//!  14  prefix_extractor       text: the name it is registered under; absent = none
//!  15  expiring               which bytes expire by when, see `expiring`; absent = nothing does
//!  32  references             offset varint, bytes varint: the block with the reference set, see `references`; count
//!                             varint, value_bytes varint, value_bytes_min varint: how many values, their lengths together,
//!                             the least of these; operand_count varint: entries of kind merge; absent = no references
//! 33-39 reserved and refused: user-timestamp bytes (33), per-file
//!       sequence (34), encryption key id (35), hash index in blocks (36), other filter kinds (37)
//! 64-   may be skipped by readers that do not know them
//! ```
//! Since: FormatVersion::V1.

use crate::bytes::{Reader, put_bytes};
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::table::Expiring;
use crate::table::footer::Handle;
use crate::varint;

/// The properties block's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Entries, range tombstones not included.
    pub entry_count: u64,
    /// Entries that are deletions.
    pub tombstone_count: u64,
    /// Canonical spans of range tombstones.
    pub range_tombstone_count: u64,
    /// Smallest key, starts of range tombstones included.
    pub smallest: Vec<u8>,
    /// Greatest key, ends of range tombstones (excluded keys) included.
    pub largest: Vec<u8>,
    /// Smallest sequence, range tombstones included.
    pub sequence_min: Sequence,
    /// Greatest sequence, range tombstones included.
    pub sequence_max: Sequence,
    /// Bytes of all entries' keys and values.
    pub data_bytes: u64,
    /// Sum of the hashes of entries and range tombstones mod 2^128.
    pub content_hash: u128,
    /// Data blocks.
    pub block_count: u64,
    /// The size data blocks were cut at.
    pub block_bytes: u32,
    /// What was asked for; each block says what it is.
    pub compression: Compression,
    /// Bits per key of the filters; 0 = none.
    pub filter_bits_per_key: u32,
    /// Name of the extractor whose prefixes the second filter holds.
    pub prefix_extractor: Option<String>,
    /// Bytes of puts that expire.
    pub expiring: Expiring,
    /// Separated values that it refers to, if there are any.
    pub references: Option<ReferenceSummary>,
}

/// What a table says of the separated values that it refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceSummary {
    /// The block with the [reference set](super::references).
    pub block: Handle,
    /// How many values.
    pub count: u64,
    /// Their lengths together.
    pub value_bytes: u64,
    /// None is shorter.
    pub value_bytes_min: u32,
    /// Entries beside them that are operands of a merge operator.
    pub operand_count: u64,
}

/// Tags from here on may be skipped.
const TAG_OPTIONAL: u64 = 64;

impl Properties {
    /// Appends the payload to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(1, self.entry_count, out);
        put_number(2, self.tombstone_count, out);
        put_number(3, self.range_tombstone_count, out);
        put_field(4, &self.smallest, out);
        put_field(5, &self.largest, out);
        put_number(6, self.sequence_min.0, out);
        put_number(7, self.sequence_max.0, out);
        put_number(8, self.data_bytes, out);
        put_field(9, &self.content_hash.to_le_bytes(), out);
        put_number(10, self.block_count, out);
        put_number(11, u64::from(self.block_bytes), out);
        put_number(12, self.compression as u64, out);
        put_number(13, u64::from(self.filter_bits_per_key), out);
        if let Some(name) = &self.prefix_extractor {
            put_field(14, name.as_bytes(), out);
        }
        if !self.expiring.is_empty() {
            let mut field = Vec::new();
            self.expiring.encode(&mut field);
            put_field(15, &field, out);
        }
        if let Some(summary) = self.references {
            let ReferenceSummary { block, count, value_bytes, value_bytes_min, operand_count } = summary;
            let mut field = Vec::new();
            for number in
                [block.offset, block.bytes, count, value_bytes, value_bytes_min.into(), operand_count]
            {
                varint::encode(number, &mut field);
            }
            put_field(32, &field, out);
        }
    }

    /// The properties whose payload is `bytes`.
    ///
    /// # Errors
    /// A field is missing, malformed, out of order, reserved or unknown.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut found = Self::default();
        let mut input = Reader::new(bytes, 0);
        let (mut last, mut seen) = (0, 0_u32);
        while !input.is_empty() {
            let at = input.offset();
            let tag = input.number()?;
            if tag <= last {
                return Err(Error::new(at, format!("a tag above {last}"), format!("{tag}")));
            }
            let field = input.bytes()?;
            let mut field = Reader::new(field, input.offset() - field.len());
            found.decode_field(tag, at, &mut field)?;
            if tag < TAG_OPTIONAL && !field.is_empty() {
                return Err(Error::new(field.offset(), format!("the end of field {tag}"), "more bytes"));
            }
            seen |= 1_u32.checked_shl(tag.min(64) as u32).unwrap_or(0);
            last = tag;
        }
        let missing = (1..14).find(|tag| seen & 1 << tag == 0);
        match missing {
            Some(tag) => Err(Error::new(bytes.len(), format!("property {tag}"), "none")),
            None => Ok(found),
        }
    }

    fn decode_field(&mut self, tag: u64, at: usize, field: &mut Reader<'_>) -> Result<()> {
        let left = |field: &mut Reader<'_>| {
            let mut all = Vec::new();
            while !field.is_empty() {
                all.push(field.u8()?);
            }
            Ok::<_, Error>(all)
        };
        match tag {
            1 => self.entry_count = field.number()?,
            2 => self.tombstone_count = field.number()?,
            3 => self.range_tombstone_count = field.number()?,
            4 => self.smallest = left(field)?,
            5 => self.largest = left(field)?,
            6 => self.sequence_min = Sequence(field.number()?),
            7 => self.sequence_max = Sequence(field.number()?),
            8 => self.data_bytes = field.number()?,
            9 => self.content_hash = field.u128()?,
            10 => self.block_count = field.number()?,
            11 => self.block_bytes = field.number32()?,
            12 => {
                let number = field.number()?;
                self.compression = u8::try_from(number)
                    .ok()
                    .and_then(Compression::from_u8)
                    .ok_or_else(|| Error::new(at, "compression 0, 1 or 2", format!("{number}")))?;
            }
            13 => self.filter_bits_per_key = field.number32()?,
            14 => {
                let name = String::from_utf8(left(field)?);
                self.prefix_extractor =
                    Some(name.map_err(|_| Error::new(at, "a name in UTF-8", "other bytes"))?);
            }
            15 => self.expiring = Expiring::decode(field)?,
            32 => {
                let block = Handle { offset: field.number()?, bytes: field.number()? };
                let (count, value_bytes) = (field.number()?, field.number()?);
                let (value_bytes_min, operand_count) = (field.number32()?, field.number()?);
                self.references =
                    Some(ReferenceSummary { block, count, value_bytes, value_bytes_min, operand_count });
            }
            TAG_OPTIONAL.. => {}
            _ => {
                let found = format!("property {tag} (written by a newer Firn: upgrade to read it)");
                return Err(Error::newer(at, "a property this version knows", found));
            }
        }
        Ok(())
    }
}

fn put_field(tag: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint::encode(tag, out);
    put_bytes(bytes, out);
}

fn put_number(tag: u64, number: u64, out: &mut Vec<u8>) {
    varint::encode(tag, out);
    varint::encode(varint::encoded_bytes(number) as u64, out);
    varint::encode(number, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Properties {
        let mut expiring = Expiring::default();
        expiring.add(70, 6);
        Properties {
            entry_count: 1000,
            tombstone_count: 3,
            range_tombstone_count: 2,
            smallest: b"a".to_vec(),
            largest: b"zebra".to_vec(),
            sequence_min: Sequence(5),
            sequence_max: Sequence(1 << 50),
            data_bytes: 1 << 40,
            content_hash: 7 << 100,
            block_count: 12,
            block_bytes: 4096,
            compression: Compression::Lz4,
            filter_bits_per_key: 10,
            prefix_extractor: Some("fixed.1:8".into()),
            expiring,
            references: Some(ReferenceSummary {
                block: Handle { offset: 1 << 33, bytes: 77 },
                count: 900,
                value_bytes: 1 << 35,
                value_bytes_min: 300,
                operand_count: 40,
            }),
        }
    }

    #[test]
    fn fields_come_back() {
        for properties in [sample(), Properties::default()] {
            let mut bytes = Vec::new();
            properties.encode(&mut bytes);
            assert_eq!(Properties::decode(&bytes), Ok(properties.clone()));
            put_field(90, b"something later", &mut bytes);
            assert_eq!(Properties::decode(&bytes), Ok(properties));
        }
    }

    #[test]
    fn missing_repeated_reserved_and_cut_are_refused() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        // What is cut off behind the last field that must be there leaves whole properties.
        let whole = [19, 24, 35].map(|less| bytes.len() - less);
        for end in (0..bytes.len()).filter(|end| !whole.contains(end)) {
            assert!(Properties::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        for tag in [13, 33, 34, 35, 63] {
            let mut more = bytes.clone();
            put_number(tag, 1, &mut more);
            assert!(Properties::decode(&more).is_err(), "tag {tag}");
        }
    }
}
