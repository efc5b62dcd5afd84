//! A log object: what the log and its values got, where other machines find it.
//!
//! ```text
//! offset size  field       meaning
//!      0    8  magic       "FIRNGRP1"
//!      8    4  version     u32 LE, see `FormatVersion`
//!     12    4  kind        u32 LE, see `LogObjectKind`
//!     16   16  database    u128 LE, identity of the database
//!     32    8  generation  u64 LE, of the log that it is of
//!     40    8  number      u64 LE, one more than that of the log object before
//!     48    8  bytes       u64 LE, bytes of pieces
//!     56    8  checksum    u64 LE, xxh3 of the pieces, seeded with the xxh3 of bytes 0..56
//!     64       pieces, one after another, up to the end of the file
//!
//! piece:    0   64  header      of a log segment or a blob segment, as the segment has it
//!          64    8  offset      u64 LE, where in the segment's file the bytes lie; behind the header
//!          72    8  bytes       u64 LE
//!          80       the bytes
//! ```
//! Recovery takes the log objects of a generation from the number that the manifest names on. Their
//! pieces, written out, give the segments' files as far as they are needed. Since:
//! FormatVersion::V1. Golden: golden/log-object-v1-*.{bin,txt}.

use crate::blob::BlobSegmentHeader;
use crate::blob::segment::{BLOB_HEADER_BYTES, BLOB_SEGMENT_MAGIC};
use crate::bytes::Reader;
use crate::checksum::xxh3_of_two;
use crate::error::{Error, Result};
use crate::log::{SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, SegmentHeader};
use crate::version::FormatVersion;

/// What a log object begins with.
pub const LOG_OBJECT_MAGIC: [u8; 8] = *b"FIRNGRP1";
/// Bytes before the first piece.
pub const LOG_OBJECT_HEADER_BYTES: usize = 64;
/// Bytes of the header that its checksum covers.
const SIGNED_BYTES: usize = LOG_OBJECT_HEADER_BYTES - 8;

/// Whose a log object is, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogObjectId {
    /// Identity of the database.
    pub database: u128,
    /// Of the log.
    pub generation: u64,
    /// One more than that of the log object before.
    pub number: u64,
}

/// A log object, borrowed from its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogObject<'a> {
    /// Whose it is.
    pub id: LogObjectId,
    /// What its pieces mean.
    pub kind: LogObjectKind,
    /// None at the end of a generation's log objects.
    pub pieces: Vec<Piece<'a>>,
}

/// What the pieces of a log object mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogObjectKind {
    /// The frames in it, and those in parts before it, are whole, and so are the values that they
    /// refer to.
    Whole = 1,
    /// It has no pieces: no log object of its generation follows, nor ever will.
    End = 2,
    /// What is in it counts with the next whole one. Where that is missing, the last frame may be
    /// there in part.
    Part = 3,
}

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Which segment.
    pub segment: PieceOf,
    /// Where in its file the bytes lie; behind the header.
    pub offset: u64,
    /// What lies there.
    pub bytes: &'a [u8],
}

/// The segment that a piece is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceOf {
    /// Of the log: frames.
    Log(SegmentHeader),
    /// Of separated values: records.
    Values(BlobSegmentHeader),
}

impl LogObjectKind {
    fn from_u32(number: u32) -> Result<Self> {
        match number {
            1 => Ok(Self::Whole),
            2 => Ok(Self::End),
            3 => Ok(Self::Part),
            _ => Err(Error::newer(12, "kind 1, 2 or 3", format!("{number}"))),
        }
    }
}

impl PieceOf {
    /// The first bytes of the segment's file.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        match self {
            Self::Log(header) => header.encode(),
            Self::Values(header) => header.encode(),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        // One length for both.
        const { assert!(SEGMENT_HEADER_BYTES == BLOB_HEADER_BYTES) };
        let start = reader.offset();
        let bytes = reader.take(SEGMENT_HEADER_BYTES)?;
        let decoded = match bytes.first_chunk::<8>() {
            Some(&SEGMENT_MAGIC) => SegmentHeader::decode(bytes).map(Self::Log),
            Some(&BLOB_SEGMENT_MAGIC) => BlobSegmentHeader::decode(bytes).map(Self::Values),
            found => {
                let found = found.map(|magic| magic.escape_ascii().to_string()).unwrap_or_default();
                Err(Error::new(0, "the magic of a log segment or a blob segment", found))
            }
        };
        decoded.map_err(|error| error.based(start))
    }

    fn database(&self) -> u128 {
        match self {
            Self::Log(header) => header.database,
            Self::Values(header) => header.database,
        }
    }
}

impl Piece<'_> {
    /// Appends the piece.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.segment.encode());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&(self.bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(self.bytes);
    }
}

impl LogObjectId {
    /// The bytes of a log object of encoded `pieces`; there are none at the end.
    pub fn encode(&self, kind: LogObjectKind, pieces: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(LOG_OBJECT_HEADER_BYTES + pieces.len());
        out.extend_from_slice(&LOG_OBJECT_MAGIC);
        out.extend_from_slice(&(FormatVersion::CURRENT as u32).to_le_bytes());
        out.extend_from_slice(&(kind as u32).to_le_bytes());
        out.extend_from_slice(&self.database.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&(pieces.len() as u64).to_le_bytes());
        let checksum = xxh3_of_two(&out, pieces);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(pieces);
        out
    }
}

impl<'a> LogObject<'a> {
    /// The log object that is all of `bytes`. Allocates in proportion to them.
    ///
    /// # Errors
    /// Names the first field that is wrong: another kind of file, a newer format, a length or
    /// checksum that does not match, a piece that is none.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let Some((header, pieces)) = bytes.split_at_checked(LOG_OBJECT_HEADER_BYTES) else {
            let expected = format!("a log object's header of {LOG_OBJECT_HEADER_BYTES} bytes");
            return Err(Error::new(bytes.len(), expected, format!("{} bytes", bytes.len())));
        };
        let mut input = Reader::new(header, 0);
        let magic = input.take(8)?;
        if magic != LOG_OBJECT_MAGIC {
            let found = format!("\"{}\"", magic.escape_ascii());
            return Err(Error::new(0, "the magic of a log object, FIRNGRP1", found));
        }
        FormatVersion::of(input.u32()?, 8)?;
        let kind = input.u32()?;
        let id = LogObjectId { database: input.u128()?, generation: input.u64()?, number: input.u64()? };
        let (length, found) = (input.u64()?, input.u64()?);
        if length != pieces.len() as u64 {
            let found = format!("{} bytes", pieces.len());
            return Err(Error::new(48, format!("{length} bytes of pieces"), found));
        }
        let expected = xxh3_of_two(header.get(..SIGNED_BYTES).unwrap_or_default(), pieces);
        if expected != found {
            return Err(Error::new(
                56,
                format!("log object checksum {expected:016x}"),
                format!("{found:016x}"),
            ));
        }
        let kind = LogObjectKind::from_u32(kind)?;
        if kind == LogObjectKind::End && !pieces.is_empty() {
            return Err(Error::new(48, "no pieces at the end of all log objects", format!("{length} bytes")));
        }
        Ok(Self { id, kind, pieces: decode_pieces(id.database, pieces)? })
    }
}

fn decode_pieces(database: u128, bytes: &[u8]) -> Result<Vec<Piece<'_>>> {
    let mut input = Reader::new(bytes, LOG_OBJECT_HEADER_BYTES);
    let mut pieces = Vec::new();
    while !input.is_empty() {
        let start = input.offset();
        let segment = PieceOf::decode(&mut input)?;
        if segment.database() != database {
            let found = format!("{:032x}", segment.database());
            return Err(Error::new(
                start + 16,
                format!("database {database:032x}, as the log object's"),
                found,
            ));
        }
        let (at, offset) = (input.offset(), input.u64()?);
        if offset < SEGMENT_HEADER_BYTES as u64 {
            let expected = format!("an offset of at least {SEGMENT_HEADER_BYTES}");
            return Err(Error::new(at, expected, format!("{offset}")));
        }
        let (at, length) = (input.offset(), input.u64()?);
        let length = usize::try_from(length)
            .map_err(|_| Error::new(at, "a length that fits in memory", format!("{length}")))?;
        pieces.push(Piece { segment, offset, bytes: input.take(length)? });
    }
    Ok(pieces)
}
