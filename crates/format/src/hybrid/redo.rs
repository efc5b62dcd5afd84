//! The redo log of the hashed engine: what changed in memory since the last checkpoint.
//!
//! ```text
//! file:    header (64 bytes) │ entry │ entry │ … │ zeros
//! entry:   bytes u32 LE │ checksum u32 LE │ change │ change │ …
//! change:  address 45 │ … │ a record's word 1 and all that follows it (see `record`)
//! ```
//! An entry is a write: one change, or all of a batch. It counts as a whole or not at all. A change
//! has the whole value, after it, and of several changes of a key that with the greatest (address,
//! sequence) is the newest. The checksum is crc32c of all changes, exclusive-or a mix of the
//! generation, the entry's place and its length. A word of zero ends the entries. So does an entry
//! without changes: the log was ended there, and the next generation goes on.
//!
//! ```text
//! offset size  field       meaning
//!      0    8  magic       "FIRNRED1"
//!      8    4  version     u32 LE, see `FormatVersion`
//!     12    4  checksum    u32 LE, crc32c over the 64 bytes with this field zero
//!     16   16  database    u128 LE, identity of the database
//!     32    8  generation  u64 LE
//!     40    8  index       u64 LE, which of the generation's logs
//!     48   16  boot        u128 LE, run of the machine; 0 = not known
//! ```
//! Since: FormatVersion::V1. Golden: golden/redo-v1-*.{bin,txt}.

use crate::bytes::Reader;
use crate::checksum::{crc32c, mix};
use crate::error::{Error, Result};
use crate::hybrid::record::{ADDRESS_MAX, Shape, State};
use crate::version::FormatVersion;

/// What a redo log begins with.
pub const REDO_MAGIC: [u8; 8] = *b"FIRNRED1";

/// Bytes before the first entry.
pub const REDO_HEADER_BYTES: usize = 64;

/// Bytes of an entry before its first change.
pub const ENTRY_HEAD_BYTES: usize = 8;

/// Which database a redo log belongs to, and to which of its generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoHeader {
    /// Identity of the database that wrote it.
    pub database: u128,
    /// Grows with each checkpoint and each opening.
    pub generation: u64,
    /// Which of the generation's logs this is, from 0.
    pub index: u64,
    /// The run of the machine in which it is written, as the system names it; 0 = not known. As
    /// long as that lasts, no entry is missing before one that is there.
    pub boot: u128,
}

impl RedoHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; REDO_HEADER_BYTES] {
        let unsigned = self.encode_with(0);
        self.encode_with(crc32c(&unsigned))
    }

    fn encode_with(&self, checksum: u32) -> [u8; REDO_HEADER_BYTES] {
        let mut bytes = [0; REDO_HEADER_BYTES];
        let fields: [&[u8]; 7] = [
            &REDO_MAGIC,
            &(FormatVersion::CURRENT as u32).to_le_bytes(),
            &checksum.to_le_bytes(),
            &self.database.to_le_bytes(),
            &self.generation.to_le_bytes(),
            &self.index.to_le_bytes(),
            &self.boot.to_le_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// The header that `bytes` begin with.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some(header) = bytes.get(..REDO_HEADER_BYTES) else {
            let expected = format!("a redo log's header of {REDO_HEADER_BYTES} bytes");
            return Err(Error::new(bytes.len(), expected, format!("{} bytes", bytes.len())));
        };
        let mut fields = Reader::new(header, 0);
        let magic = fields.take(REDO_MAGIC.len())?;
        if magic != REDO_MAGIC {
            return Err(Error::new(0, "the magic of a redo log, FIRNRED1", format!("{magic:02x?}")));
        }
        FormatVersion::of(fields.u32()?, 8)?;
        let found = fields.u32()?;
        let (database, generation, index) = (fields.u128()?, fields.u64()?, fields.u64()?);
        let header = Self { database, generation, index, boot: fields.u128()? };
        let expected = crc32c(&header.encode_with(0));
        if found != expected {
            return Err(Error::new(12, format!("header checksum {expected:08x}"), format!("{found:08x}")));
        }
        Ok(header)
    }
}

/// One record as it was after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoChange<'a> {
    /// Where the record lay.
    pub address: u64,
    /// How often it had been changed there.
    pub sequence: u32,
    /// Of the record; without slack.
    pub shape: Shape,
    /// Of the key.
    pub keyspace: u32,
    /// Milliseconds since the Unix epoch; 0 = never.
    pub expires_at_ms: u64,
    /// What was changed.
    pub key: &'a [u8],
    /// Its value, or an operand.
    pub value: &'a [u8],
}

/// Puts an entry together.
#[derive(Debug, Default)]
pub struct RedoEntry {
    bytes: Vec<u8>,
}

impl RedoEntry {
    /// An entry without changes, in the memory of an earlier one.
    pub fn begin(&mut self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; ENTRY_HEAD_BYTES]);
    }

    /// Adds a change.
    pub fn push(&mut self, change: &RedoChange<'_>) {
        let out = &mut self.bytes;
        let shape = Shape { slack_words: 0, ..change.shape };
        out.extend_from_slice(&change.address.to_le_bytes());
        let (state, lengths) = shape.encode(change.sequence);
        out.extend_from_slice(&state.0.to_le_bytes());
        if let Some(lengths) = lengths {
            out.extend_from_slice(&lengths.to_le_bytes());
        }
        if shape.has_expiry {
            out.extend_from_slice(&change.expires_at_ms.to_le_bytes());
        }
        if shape.has_keyspace {
            out.extend_from_slice(&u64::from(change.keyspace).to_le_bytes());
        }
        for part in [change.key, change.value] {
            out.extend_from_slice(part);
            out.resize(out.len().next_multiple_of(8), 0);
        }
    }

    /// Bytes of the entry so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no change in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= ENTRY_HEAD_BYTES
    }

    /// The entry's bytes for byte `offset` of a log of this generation.
    pub fn finish(&mut self, generation: u64, offset: u64) -> &[u8] {
        let length = self.bytes.len() as u32;
        let body = self.bytes.get(ENTRY_HEAD_BYTES..).unwrap_or_default();
        let checksum = crc32c(body) ^ salt(generation, offset, length);
        let head = u64::from(checksum) << 32 | u64::from(length);
        if let Some(to) = self.bytes.first_chunk_mut() {
            *to = head.to_le_bytes();
        }
        &self.bytes
    }
}

fn salt(generation: u64, offset: u64, length: u32) -> u32 {
    (mix(generation ^ mix(offset ^ mix(u64::from(length)))) >> 32) as u32
}

/// What lies at a place of a redo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedoFound<'a> {
    /// An entry: its changes, as bytes.
    Entry(&'a [u8]),
    /// No entry was ever written here.
    End,
    /// An entry that is not whole.
    Torn,
}

/// What lies at byte `offset` of a log of `generation`, which goes on with `bytes`.
pub fn entry_at(bytes: &[u8], generation: u64, offset: u64) -> RedoFound<'_> {
    let Some(head) = bytes.first_chunk().map(|head| u64::from_le_bytes(*head)) else { return RedoFound::End };
    if head == 0 {
        return RedoFound::End;
    }
    let (length, found) = (head as u32, (head >> 32) as u32);
    match bytes.get(ENTRY_HEAD_BYTES..length as usize) {
        Some(body) if crc32c(body) ^ salt(generation, offset, length) == found => RedoFound::Entry(body),
        _ => RedoFound::Torn,
    }
}

/// Takes the next change off the front of an entry's `bytes`; `None` at the end.
///
/// # Errors
/// They are no change.
pub fn next_change<'a>(bytes: &mut &'a [u8]) -> Result<Option<RedoChange<'a>>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let all = *bytes;
    let mut fields = Reader::new(all, 0);
    let (address, state) = (fields.u64()?, State(fields.u64()?));
    if !(1..=ADDRESS_MAX).contains(&address) || state.is_locked() || state.is_sealed() {
        return Err(Error::new(0, "a change in a redo log", format!("{address:x}, {:x}", state.0)));
    }
    let lengths = if state.is_long() { fields.u64()? } else { 0 };
    let shape = Shape::decode(state, || lengths);
    let expires_at_ms = if shape.has_expiry { fields.u64()? } else { 0 };
    let keyspace = if shape.has_keyspace { fields.u64()? as u32 } else { 0 };
    let mut part = |length: usize| {
        let padded = fields.take(length.next_multiple_of(8))?;
        Ok(padded.get(..length).unwrap_or_default())
    };
    let (key, value) = (part(shape.key_bytes)?, part(shape.value_bytes)?);
    *bytes = fields.peek();
    Ok(Some(RedoChange { address, sequence: state.sequence(), shape, keyspace, expires_at_ms, key, value }))
}
