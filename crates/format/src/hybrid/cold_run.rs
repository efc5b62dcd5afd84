//! A run of the index of a cold log: where records lie, in the order of their keys' hashes.
//!
//! ```text
//! offset size  field         meaning
//!      0    8  magic         "FIRNRUN1"
//!      8    4  version       u32 LE, see `FormatVersion`
//!     12    4  checksum      u32 LE, crc32c over these 64 bytes with this field zero
//!     16   16  database      u128 LE, identity of the database
//!     32    8  number        u64 LE, of the run
//!     40    8  entries       u64 LE
//!     48    8  tail bytes    u64 LE
//!     56    8  tail checksum u64 LE, xxh3 over the tail
//!     64       zeros up to 4096
//!   4096       pages of 4096 bytes, all but the last one full:
//!                checksum u32 LE, crc32c over the rest, exclusive-or a mix of the page's number
//!                count u32 LE, at most 255
//!                count times an entry: order u64 LE, place u64 LE; then zeros
//!              tail:
//!                first order of each page, u64 LE
//!                count of values u64 LE, then of each: address u64 LE, number u64 LE
//!                count of segments u64 LE, then of each: first address u64 LE, words u64 LE
//!                bytes of the filter u64 LE, then the filter (see `crate::filter`)
//! ```
//! An entry's *order* is the key's hash with its parts in the order in which keys are scanned. Its
//! *place* is the address of a record, 45 bits, and above them how many words the record has, 19
//! bits: 0 for one that is dead, a tombstone, or too long for that. Entries of one order are newest
//! first. *Values* are the files that records of the run refer to; *segments* say how many words of
//! each are those of records that were the newest of their order.
//! Since: FormatVersion::V1. Golden: golden/cold-run-v1-*.{bin,txt}.

use crate::bytes::Reader;
use crate::checksum::{crc32c, mix, xxh3};
use crate::error::{Error, Result};
use crate::hybrid::record::{ADDRESS_BITS, ADDRESS_MAX};
use crate::version::FormatVersion;

/// What a run of a cold log's index begins with.
pub const RUN_MAGIC: [u8; 8] = *b"FIRNRUN1";

/// Bytes of the header, and of each page.
pub const RUN_PAGE_BYTES: usize = 4096;

/// Entries of a page, at most.
pub const RUN_PAGE_ENTRIES: usize = (RUN_PAGE_BYTES - PAGE_HEAD_BYTES) / ENTRY_BYTES;

/// Bytes of the header that say something.
const SIGNED_BYTES: usize = 64;

const PAGE_HEAD_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;

/// Most words that a place says.
const WORDS_MAX: u64 = (1 << (64 - ADDRESS_BITS)) - 1;

/// Where a record lies, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdPlace(pub u64);

impl ColdPlace {
    /// A record of `words` words at `address`; 0 words for one that is dead or a tombstone.
    pub fn new(address: u64, words: u64) -> Self {
        let words = if words > WORDS_MAX { 0 } else { words };
        Self(words << ADDRESS_BITS | address & ADDRESS_MAX)
    }

    /// Where the record begins.
    pub fn address(self) -> u64 {
        self.0 & ADDRESS_MAX
    }

    /// Words of the record, or 0.
    pub fn words(self) -> u64 {
        self.0 >> ADDRESS_BITS
    }

    /// The same record, dead.
    #[must_use]
    pub fn dead(self) -> Self {
        Self(self.address())
    }
}

/// One entry of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdEntry {
    /// The key's hash, in the order of scans.
    pub order: u64,
    /// Its record.
    pub place: ColdPlace,
}

impl ColdEntry {
    /// What entries of a run are sorted by: the newest one of an order first.
    pub fn rank(&self) -> (u64, std::cmp::Reverse<u64>) {
        (self.order, std::cmp::Reverse(self.place.address()))
    }
}

/// What a run's filter has of an order. Frozen.
#[inline]
pub fn filter_hash_of(order: u64) -> u32 {
    (mix(order) >> 32) as u32
}

/// Which run of which database a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunHeader {
    /// Identity of the database.
    pub database: u128,
    /// The run's number.
    pub number: u64,
    /// How many entries it has.
    pub entries: u64,
    /// Bytes behind the last page.
    pub tail_bytes: u64,
    /// xxh3 over them.
    pub tail_checksum: u64,
}

impl RunHeader {
    /// How many pages of entries there are.
    pub fn pages(&self) -> u64 {
        self.entries.div_ceil(RUN_PAGE_ENTRIES as u64)
    }

    /// Where the tail begins in the file.
    pub fn tail_at(&self) -> u64 {
        (1 + self.pages()) * RUN_PAGE_BYTES as u64
    }

    /// The header's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let checksum = crc32c(&self.signed(0));
        let mut out = self.signed(checksum);
        out.resize(RUN_PAGE_BYTES, 0);
        out
    }

    fn signed(&self, checksum: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(RUN_PAGE_BYTES);
        out.extend_from_slice(&RUN_MAGIC);
        out.extend_from_slice(&(FormatVersion::CURRENT as u32).to_le_bytes());
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&self.database.to_le_bytes());
        for field in [self.number, self.entries, self.tail_bytes, self.tail_checksum] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out
    }

    /// The header that `bytes` begin with.
    ///
    /// # Errors
    /// Names the first field that is wrong: too short, another kind of file, a newer format, a
    /// checksum that does not match, bytes that are not zero where they should be.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((header, zeros)) =
            bytes.get(..RUN_PAGE_BYTES).and_then(|all| all.split_at_checked(SIGNED_BYTES))
        else {
            let expected = format!("the header of a cold log's run, {RUN_PAGE_BYTES} bytes");
            return Err(Error::new(bytes.len(), expected, format!("{} bytes", bytes.len())));
        };
        let mut fields = Reader::new(header, 0);
        let magic = fields.take(RUN_MAGIC.len())?;
        if magic != RUN_MAGIC {
            return Err(Error::new(0, "the magic of a cold log's run, FIRNRUN1", format!("{magic:02x?}")));
        }
        FormatVersion::of(fields.u32()?, 8)?;
        let found = fields.u32()?;
        let header = Self {
            database: fields.u128()?,
            number: fields.u64()?,
            entries: fields.u64()?,
            tail_bytes: fields.u64()?,
            tail_checksum: fields.u64()?,
        };
        let expected = crc32c(&header.signed(0));
        if found != expected {
            return Err(Error::new(12, format!("header checksum {expected:08x}"), format!("{found:08x}")));
        }
        if let Some(at) = zeros.iter().position(|byte| *byte != 0) {
            return Err(Error::new(SIGNED_BYTES + at, "zeros up to the first page", "another byte"));
        }
        Ok(header)
    }
}

/// The bytes of page `number`, with at most [`RUN_PAGE_ENTRIES`] of `entries`.
pub fn encode_page(number: u64, entries: &[ColdEntry]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.reserve(RUN_PAGE_BYTES);
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        out.extend_from_slice(&entry.order.to_le_bytes());
        out.extend_from_slice(&entry.place.0.to_le_bytes());
    }
    out.resize(RUN_PAGE_BYTES, 0);
    let checksum = page_checksum(number, &out);
    if let Some(to) = out.first_chunk_mut() {
        *to = checksum.to_le_bytes();
    }
    out
}

/// A page that matches its checksum.
#[derive(Clone, Debug)]
pub struct RunPage {
    bytes: Vec<u8>,
    count: usize,
}

impl RunPage {
    /// Page `number`, which `bytes` are.
    ///
    /// # Errors
    /// The checksum does not match, or there are more entries than a page holds.
    pub fn decode(number: u64, bytes: Vec<u8>) -> Result<Self> {
        let mut fields = Reader::new(&bytes, 0);
        let (found, count) = (fields.u32()?, fields.u32()? as usize);
        let expected = page_checksum(number, &bytes);
        if found != expected {
            return Err(Error::new(0, format!("page checksum {expected:08x}"), format!("{found:08x}")));
        }
        if count > RUN_PAGE_ENTRIES || bytes.len() != RUN_PAGE_BYTES {
            let expected = format!("a page of at most {RUN_PAGE_ENTRIES} entries");
            return Err(Error::new(4, expected, format!("{count} in {} bytes", bytes.len())));
        }
        Ok(Self { bytes, count })
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Entry `index`, which is less than the count.
    pub fn entry(&self, index: usize) -> ColdEntry {
        let at = PAGE_HEAD_BYTES + ENTRY_BYTES * index;
        ColdEntry { order: self.word(at), place: ColdPlace(self.word(at + 8)) }
    }

    /// All entries, in their order.
    pub fn entries(&self) -> impl Iterator<Item = ColdEntry> + '_ {
        (0..self.count).map(|index| self.entry(index))
    }

    /// Entries whose orders are in `from..=to`, in their order.
    pub fn between(&self, from: u64, to: u64) -> impl Iterator<Item = ColdEntry> + '_ {
        let (mut first, mut end) = (0, self.count);
        while first < end {
            let middle = first.midpoint(end);
            match self.entry(middle).order < from {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        (first..self.count).map(|index| self.entry(index)).take_while(move |entry| entry.order <= to)
    }

    fn word(&self, at: usize) -> u64 {
        let word = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }
}

fn page_checksum(number: u64, page: &[u8]) -> u32 {
    crc32c(page.get(4..).unwrap_or_default()) ^ (mix(number) >> 32) as u32
}

/// What a run has besides its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTail {
    /// The first order of each page.
    pub fences: Vec<u64>,
    /// Values that lie alone: the address of the record that refers to one, and its number.
    pub values: Vec<(u64, u64)>,
    /// Segments: the first address of one, and how many of its words are newest.
    pub segments: Vec<(u64, u64)>,
    /// A filter over [`filter_hash_of`] of all orders.
    pub filter: Vec<u8>,
}

impl RunTail {
    /// The tail's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 * self.fences.len() + 16 * self.values.len() + self.filter.len());
        let mut put = |number: u64| out.extend_from_slice(&number.to_le_bytes());
        self.fences.iter().copied().for_each(&mut put);
        for pairs in [&self.values, &self.segments] {
            put(pairs.len() as u64);
            pairs.iter().for_each(|(address, number)| {
                put(*address);
                put(*number);
            });
        }
        put(self.filter.len() as u64);
        out.extend_from_slice(&self.filter);
        out
    }

    /// The tail of the run with this `header`.
    ///
    /// # Errors
    /// `bytes` are not those that the header was made for, or no tail.
    pub fn decode(header: &RunHeader, bytes: &[u8]) -> Result<Self> {
        let offset = header.tail_at() as usize;
        let found = xxh3(bytes);
        if bytes.len() as u64 != header.tail_bytes || found != header.tail_checksum {
            let expected = format!("a tail with checksum {:016x}", header.tail_checksum);
            return Err(Error::new(offset, expected, format!("{found:016x}")));
        }
        let mut fields = Reader::new(bytes, offset);
        let fences = (0..header.pages()).map(|_| fields.u64()).collect::<Result<_>>()?;
        let values = pairs(&mut fields)?;
        let segments = pairs(&mut fields)?;
        let filter_bytes = usize::try_from(fields.u64()?).unwrap_or(usize::MAX);
        let filter = fields.take(filter_bytes)?.to_vec();
        if !filter.is_empty() {
            crate::filter::check(&filter)?;
        }
        if !fields.is_empty() {
            return Err(Error::new(fields.offset(), "the end of a run", "more bytes"));
        }
        Ok(Self { fences, values, segments, filter })
    }
}

/// Pairs of numbers, with their count before them.
fn pairs(fields: &mut Reader<'_>) -> Result<Vec<(u64, u64)>> {
    let count = fields.u64()?;
    (0..count).map(|_| Ok((fields.u64()?, fields.u64()?))).collect()
}
