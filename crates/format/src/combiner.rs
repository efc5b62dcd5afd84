//! Bytes on their way into files: they survive the process, and reach their files many at a time.
//!
//! ```text
//! header (4096 bytes), then SLOTS slots of SLOT_BYTES
//!
//! header  offset size  field      meaning
//!              0    8  magic      "FIRNCMB1"
//!              8    4  version    u32 LE, FormatVersion
//!             12    4  slots      u32 LE, SLOTS
//!             16    4  slot bytes u32 LE, SLOT_BYTES
//!             20    4  reserved   zero
//!             24    8  checksum   u64 LE, xxh3 over bytes 0..24
//!             32       zeros
//!
//! slot    offset size  field      meaning
//!              0    8  salt       u64 LE, another one each time that the slot is emptied
//!              8    4  name bytes u32 LE, 1 to 100
//!             12    4  reserved   zero
//!             16  104  name       of the file that the pieces belong to, then zeros
//!            120    8  checksum   u64 LE, xxh3 over bytes 0..120
//!            128       zeros
//!           4096    *  entries    PIECES_MAX entries of 24 bytes
//!          28672    *  data       DATA_BYTES
//!
//! entry   offset size  field      meaning
//!              0    8  offset     u64 LE, where the piece goes in its file
//!              8    4  bytes      u32 LE, its length, not zero
//!             12    4  at         u32 LE, where it lies in the slot's data
//!             16    8  checksum   u64 LE, of the salt, bytes 0..16 and the piece, as `xxh3_of_two`
//! ```
//! Several slots may be for the same file; whatever their order, the pieces of all of them belong
//! into it. An entry counts if its checksum is right, whatever the others are. It belongs to the
//! name and the salt that the head of its slot has. A slot with a wrong head holds nothing, nor
//! does a file with a wrong header; a loss of power leaves such. Since: FormatVersion::V1. Golden:
//! golden/combiner-v1-slots.{bin,txt}, of which the zeros at the end are left out.

use crate::bytes::Reader;
use crate::checksum::{xxh3, xxh3_of_two};
use crate::error::{Error, Result};
use crate::file_name;
use crate::version::FormatVersion;

/// What the file begins with.
pub const COMBINER_MAGIC: [u8; 8] = *b"FIRNCMB1";
/// Bytes before the first slot.
pub const HEADER_BYTES: usize = 4096;
/// Slots of a file.
pub const SLOTS: usize = 4;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = DATA_START + DATA_BYTES;
/// Bytes of the whole file.
pub const COMBINER_BYTES: usize = HEADER_BYTES + SLOTS * SLOT_BYTES;
/// Bytes of a slot that pieces have.
pub const DATA_BYTES: usize = 64 << 10;
/// Pieces of a slot.
pub const PIECES_MAX: usize = 1024;
/// Bytes of a slot's head: zeros there, and it holds nothing.
pub const SLOT_HEAD_BYTES: usize = 128;

const NAME_START: usize = 16;
const HEAD_SUMMED_BYTES: usize = 120;
const ENTRIES_START: usize = 4096;
const ENTRY_BYTES: usize = 24;
/// Where the data of a slot begins in it.
pub(crate) const DATA_START: usize = ENTRIES_START + PIECES_MAX * ENTRY_BYTES;

/// The header of a file of slots.
pub fn encode_header() -> [u8; 32] {
    let mut out = [0; 32];
    put(&mut out, 0, &COMBINER_MAGIC);
    put(&mut out, 8, &(FormatVersion::CURRENT as u32).to_le_bytes());
    put(&mut out, 12, &(SLOTS as u32).to_le_bytes());
    put(&mut out, 16, &(SLOT_BYTES as u32).to_le_bytes());
    let checksum = xxh3(out.get(..24).unwrap_or_default());
    put(&mut out, 24, &checksum.to_le_bytes());
    out
}

/// Checks the header that `bytes`, a whole file, begin with.
///
/// # Errors
/// Names the first field that is wrong.
pub fn decode_header(bytes: &[u8]) -> Result<()> {
    let mut input = Reader::new(bytes, 0);
    let magic = input.take(8)?;
    if magic != COMBINER_MAGIC {
        return Err(Error::new(
            0,
            "the magic of a combiner, FIRNCMB1",
            format!("\"{}\"", magic.escape_ascii()),
        ));
    }
    FormatVersion::of(input.u32()?, 8)?;
    for (offset, expected) in [(12, SLOTS as u32), (16, SLOT_BYTES as u32), (20, 0)] {
        let found = input.u32()?;
        if found != expected {
            return Err(Error::new(offset, format!("{expected}"), format!("{found}")));
        }
    }
    let (expected, found) = (xxh3(bytes.get(..24).unwrap_or_default()), input.u64()?);
    if expected != found {
        return Err(Error::new(24, format!("checksum {expected:016x}"), format!("{found:016x}")));
    }
    match bytes.len() {
        COMBINER_BYTES => Ok(()),
        bytes => Err(Error::new(bytes, format!("{COMBINER_BYTES} bytes"), format!("{bytes}"))),
    }
}

/// The bytes of slot `index` of a whole file.
pub fn slot_range(index: usize) -> std::ops::Range<usize> {
    let start = HEADER_BYTES + index * SLOT_BYTES;
    start..start + SLOT_BYTES
}

/// Whose pieces a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHead {
    /// Of the checksums of its entries.
    pub salt: u64,
    /// The file's name.
    pub name: String,
}

impl SlotHead {
    /// Writes it to the front of `slot`. Entries that are there belong to it only if they have its
    /// salt.
    ///
    /// # Panics
    /// If the name is not one that a file may have, or `slot` is no slot.
    pub fn write(&self, slot: &mut [u8]) {
        assert!(file_name::is_valid(&self.name), "a file called {:?}", self.name);
        let mut head = [0; SLOT_HEAD_BYTES];
        put(&mut head, 0, &self.salt.to_le_bytes());
        put(&mut head, 8, &(self.name.len() as u32).to_le_bytes());
        put(&mut head, NAME_START, self.name.as_bytes());
        let checksum = xxh3(head.get(..HEAD_SUMMED_BYTES).unwrap_or_default());
        put(&mut head, HEAD_SUMMED_BYTES, &checksum.to_le_bytes());
        put(slot, 0, &head);
    }

    /// The head of `slot`; `None` if it holds nothing.
    pub fn read(slot: &[u8]) -> Option<Self> {
        let head = slot.get(..SLOT_HEAD_BYTES)?;
        let mut input = Reader::new(head, 0);
        let salt = input.u64().ok()?;
        let name_bytes = input.u32().ok()? as usize;
        let name = head.get(NAME_START..NAME_START.checked_add(name_bytes)?)?;
        let checksum = u64::from_le_bytes(*head.get(HEAD_SUMMED_BYTES..)?.first_chunk()?);
        let name = std::str::from_utf8(name).ok().filter(|name| file_name::is_valid(name))?;
        let is_whole = head.get(..HEAD_SUMMED_BYTES).is_some_and(|summed| xxh3(summed) == checksum);
        is_whole.then(|| Self { salt, name: name.to_owned() })
    }
}

/// A slot holds nothing from now on.
///
/// # Panics
/// If `slot` is no slot.
pub fn clear_slot(slot: &mut [u8]) {
    put(slot, 0, &[0; SLOT_HEAD_BYTES]);
}

/// Where a piece goes, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// In its file.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
    /// In the slot's data.
    pub at: u32,
}

impl Piece {
    fn front(&self, salt: u64) -> [u8; 24] {
        let mut front = [0; 24];
        put(&mut front, 0, &self.offset.to_le_bytes());
        put(&mut front, 8, &self.bytes.to_le_bytes());
        put(&mut front, 12, &self.at.to_le_bytes());
        put(&mut front, 16, &salt.to_le_bytes());
        front
    }

    /// Puts `bytes` into `slot`, whose head has `salt`, as piece `index`, to go to `offset` of the
    /// file and to lie `at` the data's byte.
    ///
    /// # Panics
    /// If there is no such piece, or no room for it.
    pub fn write(slot: &mut [u8], salt: u64, index: usize, (offset, at): (u64, usize), bytes: &[u8]) -> Self {
        assert!(
            index < PIECES_MAX && at + bytes.len() <= DATA_BYTES && !bytes.is_empty(),
            "no room for a piece"
        );
        let piece = Self { offset, bytes: bytes.len() as u32, at: at as u32 };
        put(slot, DATA_START + at, bytes);
        let mut entry = piece.front(salt);
        let checksum = xxh3_of_two(&entry, bytes);
        put(&mut entry, 16, &checksum.to_le_bytes());
        put(slot, ENTRIES_START + index * ENTRY_BYTES, &entry);
        piece
    }

    /// Its bytes in `slot`; `None` if they would not lie inside.
    pub fn bytes<'s>(&self, slot: &'s [u8]) -> Option<&'s [u8]> {
        let data = slot.get(DATA_START..)?;
        data.get(self.at as usize..(self.at as usize).checked_add(self.bytes as usize)?)
    }
}

/// The pieces of `slot`, with their bytes, in the order in which they came.
pub fn pieces<'s>(slot: &'s [u8], head: &SlotHead) -> impl Iterator<Item = (Piece, &'s [u8])> + use<'s> {
    let salt = head.salt;
    let entries = slot.get(ENTRIES_START..DATA_START).unwrap_or_default();
    entries.chunks_exact(ENTRY_BYTES).filter_map(move |entry| {
        let mut input = Reader::new(entry, 0);
        let (offset, bytes, at) = (input.u64().ok()?, input.u32().ok()?, input.u32().ok()?);
        let piece = Piece { offset, bytes, at };
        let found = piece.bytes(slot).filter(|bytes| !bytes.is_empty())?;
        (xxh3_of_two(&piece.front(salt), found) == input.u64().ok()?).then_some((piece, found))
    })
}

/// Copies `bytes` to `at` of `out`.
///
/// # Panics
/// If they do not fit.
fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    match out.get_mut(at..at + bytes.len()) {
        Some(place) => place.copy_from_slice(bytes),
        None => panic!("{} bytes at {at} do not fit {} bytes", bytes.len(), out.len()),
    }
}
