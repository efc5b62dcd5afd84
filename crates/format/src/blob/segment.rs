//! What is around the values of a segment.
//!
//! ```text
//! header, at the file's start                        footer, its last bytes, once it is sealed
//! offset size  field       meaning                   offset size  field           meaning
//!      0    8  magic       "FIRNBLB1"                     0    8  magic           "FIRNBLBF"
//!      8    4  version     u32 LE, FormatVersion          8    4  version         u32 LE, FormatVersion
//!     12    4  checksum    u32 LE, crc32c over the       12    4  number          u32 LE, as in the header
//!                          header with this zero         16    4  ordinals        u32 LE, values it began with
//!     16   16  database    u128 LE, its identity         20    4  relocations       u32 LE, how many
//!     32    4  number      u32 LE, the segment's         24    8  records_end     u64 LE, where the table begins
//!     36    4  origin      0 = written to, 1 = made      32    8  table_checksum  u64 LE, xxh3 of the table
//!                          by a GC               40    8  relocation_bytes  u64 LE, of all relocations
//!     40    8  generation  u64 LE, of the log when       48    8  value_bytes     u64 LE, of all its values
//!                          it was begun; 0 if made       56    8  checksum        u64 LE, xxh3 over bytes 0..56
//!     48   16  reserved    zero
//!     64       records, one after another, at multiples of 8 (see `record`)
//! ```
//! The **ordinal table** follows the records: for each ordinal the offset of its record / 8, u32
//! LE. An ordinal that was given up before its value was whole has all ones. Then come the
//! relocations (see `relocation`), one after another, and the footer. Every version keeps magics,
//! versions and checksums where they are, so that a newer one is told from damage.
//!
//! Only the manifest tells that a segment is sealed. A segment that is being written to, or was
//! when its process died, has no footer. In a recycled file it may have that of the earlier
//! segment. Records of others may lie there too: a record names its segment. A file whose header
//! has another number than its name holds nothing. Since: FormatVersion::V1. Golden:
//! golden/blob-segment-v1-*.{bin,txt}.

use crate::bytes::Reader;
use crate::checksum::{crc32c, xxh3};
use crate::error::{Error, Result};
use crate::version::FormatVersion;

use super::reference::SegmentNumber;

/// What a blob segment begins with.
pub const BLOB_SEGMENT_MAGIC: [u8; 8] = *b"FIRNBLB1";
/// What its footer begins with.
pub const BLOB_FOOTER_MAGIC: [u8; 8] = *b"FIRNBLBF";
/// Bytes before the first record.
pub const BLOB_HEADER_BYTES: usize = 64;
/// Bytes of the footer.
pub const BLOB_FOOTER_BYTES: usize = 64;
/// Bytes of the ordinal table for each ordinal.
pub const ORDINAL_BYTES: usize = 4;
/// In the ordinal table: there is no value of this ordinal.
const NOWHERE: u32 = u32::MAX;
/// Offsets of records are below this.
pub const BLOB_OFFSET_END: u64 = (NOWHERE as u64) << 3;

/// How a segment came to be. Numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Origin {
    /// Writers put values into it as they come.
    Written = 0,
    /// A GC has put survivors of others into it.
    Collected = 1,
}

/// Which database a blob segment belongs to, and how it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobSegmentHeader {
    /// Identity of the database that wrote it.
    pub database: u128,
    /// Its number.
    pub number: SegmentNumber,
    /// How it came to be.
    pub origin: Origin,
    /// Generation of the log when it was begun; 0 if a GC made it.
    pub generation: u64,
}

impl BlobSegmentHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; BLOB_HEADER_BYTES] {
        let unsigned = self.encode_with(0);
        self.encode_with(crc32c(&unsigned))
    }

    fn encode_with(&self, checksum: u32) -> [u8; BLOB_HEADER_BYTES] {
        let mut out = [0; BLOB_HEADER_BYTES];
        let fields: [&[u8]; 7] = [
            &BLOB_SEGMENT_MAGIC,
            &(FormatVersion::CURRENT as u32).to_le_bytes(),
            &checksum.to_le_bytes(),
            &self.database.to_le_bytes(),
            &self.number.0.to_le_bytes(),
            &u32::from(self.origin as u8).to_le_bytes(),
            &self.generation.to_le_bytes(),
        ];
        for (to, from) in out.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        out
    }

    /// The header at the front of `bytes`, which may go on behind it.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((header, _)) = bytes.split_first_chunk::<BLOB_HEADER_BYTES>() else {
            let expected = format!("a blob segment's header of {BLOB_HEADER_BYTES} bytes");
            return Err(Error::new(bytes.len(), expected, format!("{} bytes", bytes.len())));
        };
        let mut input = Reader::new(header, 0);
        let magic = input.take(8)?;
        if magic != BLOB_SEGMENT_MAGIC {
            let found = format!("\"{}\"", magic.escape_ascii());
            return Err(Error::new(0, "the magic of a blob segment, FIRNBLB1", found));
        }
        let (version, found) = (input.u32()?, input.u32()?);
        let mut unsigned = *header;
        unsigned.iter_mut().skip(12).take(4).for_each(|byte| *byte = 0);
        let expected = crc32c(&unsigned);
        if expected != found {
            return Err(Error::new(12, format!("header checksum {expected:08x}"), format!("{found:08x}")));
        }
        FormatVersion::of(version, 8)?;
        let (database, number, origin) = (input.u128()?, SegmentNumber(input.u32()?), input.u32()?);
        let generation = input.u64()?;
        let origin = match origin {
            0 => Origin::Written,
            1 => Origin::Collected,
            other => return Err(Error::new(36, "origin 0 or 1", format!("{other}"))),
        };
        if input.rest().iter().any(|byte| *byte != 0) {
            return Err(Error::new(48, "reserved bytes of zero", "others"));
        }
        Ok(Self { database, number, origin, generation })
    }
}

/// What a sealed segment says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobFooter {
    /// The segment's number.
    pub number: SegmentNumber,
    /// How many values it began with, including those that were given up.
    pub ordinals: u32,
    /// How many relocations it holds.
    pub relocations: u32,
    /// Where its records end and the ordinal table begins.
    pub records_end: u64,
    /// xxh3 of the ordinal table.
    pub table_checksum: u64,
    /// Bytes of all relocations.
    pub relocation_bytes: u64,
    /// Lengths of all its values together.
    pub value_bytes: u64,
}

impl BlobFooter {
    /// Appends the footer's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&BLOB_FOOTER_MAGIC);
        out.extend_from_slice(&(FormatVersion::CURRENT as u32).to_le_bytes());
        for number in [self.number.0, self.ordinals, self.relocations] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.records_end, self.table_checksum, self.relocation_bytes, self.value_bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = xxh3(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// The footer whose bytes are `bytes`, the last [`BLOB_FOOTER_BYTES`] of a file of
    /// `file_bytes`.
    ///
    /// # Errors
    /// Names the first field that is wrong, or says that the parts do not add up to the file.
    /// Offsets are in `bytes`.
    pub fn decode(bytes: &[u8], file_bytes: u64) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let magic = input.take(8)?;
        if magic != BLOB_FOOTER_MAGIC {
            let found = format!("\"{}\"", magic.escape_ascii());
            return Err(Error::new(0, "the magic of a blob segment's footer, FIRNBLBF", found));
        }
        let version = input.u32()?;
        let (number, ordinals, relocations) = (SegmentNumber(input.u32()?), input.u32()?, input.u32()?);
        let (records_end, table_checksum) = (input.u64()?, input.u64()?);
        let (relocation_bytes, value_bytes, found) = (input.u64()?, input.u64()?, input.u64()?);
        input.end("a blob segment's footer")?;
        let expected = xxh3(bytes.get(..BLOB_FOOTER_BYTES - 8).unwrap_or_default());
        if expected != found {
            return Err(Error::new(56, format!("checksum {expected:016x}"), format!("{found:016x}")));
        }
        FormatVersion::of(version, 8)?;
        let footer = Self {
            number,
            ordinals,
            relocations,
            records_end,
            table_checksum,
            relocation_bytes,
            value_bytes,
        };
        footer.check(file_bytes)?;
        Ok(footer)
    }

    fn check(&self, file_bytes: u64) -> Result<()> {
        let is_place = self.records_end.is_multiple_of(8) && self.records_end >= BLOB_HEADER_BYTES as u64;
        if !is_place || self.records_end > BLOB_OFFSET_END {
            let expected = format!("a multiple of 8 from {BLOB_HEADER_BYTES} to {BLOB_OFFSET_END}");
            return Err(Error::new(24, expected, format!("{}", self.records_end)));
        }
        let parts = [self.table_bytes(), self.relocation_bytes, BLOB_FOOTER_BYTES as u64];
        let sum = parts.iter().try_fold(self.records_end, |sum, part| sum.checked_add(*part));
        if sum != Some(file_bytes) {
            let found = format!("{} + {parts:?}", self.records_end);
            return Err(Error::new(24, format!("parts of a file of {file_bytes} bytes"), found));
        }
        Ok(())
    }

    /// Bytes of the ordinal table.
    pub fn table_bytes(&self) -> u64 {
        u64::from(self.ordinals) * ORDINAL_BYTES as u64
    }

    /// Where the relocations begin.
    pub fn relocations_start(&self) -> u64 {
        self.records_end + self.table_bytes()
    }
}

/// Appends the ordinal table for records at `offsets` to `out`; `None` = there is no value of that
/// ordinal.
///
/// # Panics
/// If an offset is no multiple of 8 below [`BLOB_OFFSET_END`].
pub fn encode_ordinal_table(offsets: impl Iterator<Item = Option<u64>>, out: &mut Vec<u8>) {
    for offset in offsets {
        let place = offset.map_or(NOWHERE, |offset| {
            assert!(offset.is_multiple_of(8) && offset < BLOB_OFFSET_END, "{offset} is no record's place");
            (offset >> 3) as u32
        });
        out.extend_from_slice(&place.to_le_bytes());
    }
}

/// Where the records of a sealed segment are, borrowed from its file.
#[derive(Clone, Copy, Debug)]
pub struct OrdinalTable<'a> {
    places: &'a [[u8; 4]],
}

impl<'a> OrdinalTable<'a> {
    /// The table whose bytes are `bytes`, as `footer` describes it.
    ///
    /// # Errors
    /// Another length or checksum.
    pub fn check(bytes: &'a [u8], footer: &BlobFooter) -> Result<Self> {
        let found = xxh3(bytes);
        if found != footer.table_checksum || bytes.len() as u64 != footer.table_bytes() {
            let expected = format!(
                "an ordinal table of {} bytes, checksum {:016x}",
                footer.table_bytes(),
                footer.table_checksum
            );
            return Err(Error::new(0, expected, format!("{} bytes, checksum {found:016x}", bytes.len())));
        }
        Ok(Self::trusted(bytes))
    }

    /// The table whose bytes are `bytes`, which were checked before.
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> Self {
        Self { places: bytes.as_chunks().0 }
    }

    /// Offset of the record of `ordinal`; `None` if there is none.
    #[inline]
    pub fn offset(&self, ordinal: u32) -> Option<u64> {
        let place = u32::from_le_bytes(*self.places.get(ordinal as usize)?);
        (place != NOWHERE).then_some(u64::from(place) << 3)
    }

    /// How many ordinals it has.
    pub fn len(&self) -> u32 {
        self.places.len() as u32
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BlobSegmentHeader {
        BlobSegmentHeader {
            database: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
            number: SegmentNumber(9),
            origin: Origin::Collected,
            generation: 3,
        }
    }

    #[test]
    fn every_flip_in_a_header_is_noticed() {
        let mut bytes = header().encode();
        assert_eq!(BlobSegmentHeader::decode(&bytes), Ok(header()));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(BlobSegmentHeader::decode(&bytes).is_err(), "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
        assert_eq!(BlobSegmentHeader::decode(&bytes[..63]).map_err(|error| error.offset), Err(63));
    }

    #[test]
    fn every_flip_in_a_footer_is_noticed_and_parts_must_add_up() {
        let footer = BlobFooter {
            number: SegmentNumber(9),
            ordinals: 10,
            relocations: 2,
            records_end: 640,
            table_checksum: 5,
            relocation_bytes: 100,
            value_bytes: 500,
        };
        let mut bytes = Vec::new();
        footer.encode(&mut bytes);
        assert_eq!(bytes.len(), BLOB_FOOTER_BYTES);
        assert_eq!(BlobFooter::decode(&bytes, 844), Ok(footer));
        assert!(BlobFooter::decode(&bytes, 845).is_err());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(BlobFooter::decode(&bytes, 844).is_err(), "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
    }

    #[test]
    fn ordinals_lead_to_records_or_nowhere() {
        let offsets = [Some(64), None, Some(BLOB_OFFSET_END - 8)];
        let mut bytes = Vec::new();
        encode_ordinal_table(offsets.into_iter(), &mut bytes);
        let footer = BlobFooter { ordinals: 3, table_checksum: xxh3(&bytes), ..BlobFooter::default() };
        let table = OrdinalTable::check(&bytes, &footer).unwrap();
        assert_eq!([0, 1, 2].map(|ordinal| table.offset(ordinal)), offsets);
        assert_eq!((table.offset(3), table.len()), (None, 3));
        bytes[5] ^= 1;
        assert!(OrdinalTable::check(&bytes, &footer).is_err());
        assert!(OrdinalTable::check(&bytes[4..], &footer).is_err());
    }
}
