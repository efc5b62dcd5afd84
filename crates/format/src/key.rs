//! Positions, sequences and kinds of record.

use std::fmt;

/// A place in the one order in which a database's writes happened: a byte position in its log.
///
/// Grows with every write and is never reused. Positions of one database can be compared; their
/// difference has no meaning to callers. A write acknowledged with position `p` is covered by every
/// recovery that reports an end greater than or equal to `p`. Records lie at multiples of 8; below
/// 2^59.
///
/// Positions are divided into granules of [`GRANULE_BYTES`]. A log segment begins at a granule's
/// first position and takes as many whole granules as its capacity needs. So a position names its
/// segment by a shift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// Span of positions that belongs to one segment: 4 MiB.
pub const GRANULE_BYTES: u64 = 1 << GRANULE_SHIFT;
/// log2 of [`GRANULE_BYTES`].
pub const GRANULE_SHIFT: u32 = 22;
/// First position past every possible one.
pub const POSITION_END: Position = Position(1 << 59);

/// The order of records: log position / 8, 56 bits, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Greater than every real sequence.
    pub const MAX: Sequence = Sequence((1 << 56) - 1);
}

impl Position {
    /// The sequence of a record at this position (rounded down to 8 bytes).
    pub fn sequence(self) -> Sequence {
        Sequence(self.0 >> 3)
    }

    /// The granule this position lies in.
    pub fn granule(self) -> u64 {
        self.0 >> GRANULE_SHIFT
    }
}

impl Sequence {
    /// The log position of the record with this sequence.
    pub fn position(self) -> Position {
        Position(self.0 << 3)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a record is. Numbers are frozen (see `golden/enums.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Key and value.
    Put = 1,
    /// The key has no value.
    Delete = 2,
    /// Key and an operand of the keyspace's merge operator.
    Merge = 3,
    /// Keys from `key` to `value` (excluded) have no value.
    DeleteRange = 4,
    /// Key and a [reference](crate::blob::Reference) into a blob segment.
    PutReference = 5,
    /// A promise that no reader reaches a range of keys (reserved).
    Purge = 6,
}

impl Kind {
    /// Inverse of `as u8`.
    pub fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::Merge,
            4 => Kind::DeleteRange,
            5 => Kind::PutReference,
            6 => Kind::Purge,
            _ => return None,
        })
    }
}

/// Sequence and kind in one word: sequence in the upper 56 bits, kind in the lower 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trailer(pub u64);

impl Trailer {
    /// Both in one word.
    pub fn new(sequence: Sequence, kind: Kind) -> Self {
        Self(sequence.0 << 8 | kind as u64)
    }

    /// The upper 56 bits.
    pub fn sequence(self) -> Sequence {
        Sequence(self.0 >> 8)
    }

    /// The lower 8 bits, if they are a kind.
    pub fn kind(self) -> Option<Kind> {
        Kind::from_u8((self.0 & 0xff) as u8)
    }
}

/// The hash of a user key that filters and hash tables use: xxh3, 64 bits, seed 0. Frozen.
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// The 8 bytes of `key` after its first `skip` bytes as a big-endian number, zero-filled.
///
/// Orders keys that share those first bytes as far as 8 bytes can tell.
#[inline]
pub fn key_prefix(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(word) = rest.first_chunk() {
        return u64::from_be_bytes(*word);
    }
    let mut word = [0; 8];
    let taken = rest.len().min(8);
    if let (Some(to), Some(from)) = (word.get_mut(..taken), rest.get(..taken)) {
        to.copy_from_slice(from);
    }
    u64::from_be_bytes(word)
}

/// One version of one key, as merges and cursors see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// Where it stands in the order of writes.
    pub sequence: Sequence,
    /// What it is; never `DeleteRange` (range tombstones travel beside entries).
    pub kind: Kind,
    /// Milliseconds since the Unix epoch from which it counts as deleted; 0 = never.
    pub expires_at_ms: u64,
    /// Value or operand; empty for `Delete`.
    pub value: &'a [u8],
}
