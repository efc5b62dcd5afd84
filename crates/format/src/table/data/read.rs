//! Searching a data block in place.

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;

use super::TRAILER_LENGTH_SHIFT;
use crate::error::{Error, Result};
use crate::key::{Kind, Sequence, Trailer};
use crate::varint;

/// Cache lines of keys that are loaded ahead of a search: the keys of a block of 4 KiB with values
/// of 50 bytes.
const TOUCHED_LINES: usize = 16;

/// Where the parts of a payload lie; found once per block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub(super) keys_at: usize,
    pub(super) restarts_at: usize,
    pub(super) restart_count: usize,
}

/// A payload with its shape. Every access is checked: a payload that is not a data block gives
/// errors.
#[derive(Clone, Copy, Debug)]
pub struct DataBlock<'a> {
    pub(super) payload: &'a [u8],
    pub(super) shape: Shape,
}

/// The answer to a point search in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Find {
    /// The newest version below the given sequence.
    Found {
        /// Sequence and kind.
        trailer: Trailer,
        /// Milliseconds since the Unix epoch; 0 = never.
        expires_at_ms: u64,
        /// Its value in the payload.
        value: Range<usize>,
    },
    /// No such version here or in later blocks.
    Absent,
    /// The block ends before a greater key: versions may follow in the next one.
    Beyond,
}

/// One entry's header, decoded.
pub(super) struct Head {
    pub(super) shared: usize,
    pub(super) suffix: Range<usize>,
    pub(super) trailer: Trailer,
    pub(super) expires_at_ms: u64,
    pub(super) value_bytes: usize,
    /// Where the next entry begins (payload offset).
    pub(super) next: usize,
}

impl Shape {
    /// Where in the payload the keys and the restarts are.
    pub fn parts(&self) -> (Range<usize>, Range<usize>) {
        (self.keys_at..self.restarts_at, self.restarts_at..self.restarts_at + self.restart_count * 8)
    }

    /// The shape of `payload`.
    ///
    /// # Errors
    /// The tail does not fit the payload.
    #[inline]
    pub fn of(payload: &[u8]) -> Result<Self> {
        Self::read(payload).ok_or_else(|| {
            let tail = payload.len().saturating_sub(8);
            Error::new(
                tail,
                "the tail of a data block",
                format!("{:02x?}", payload.get(tail..).unwrap_or_default()),
            )
        })
    }

    #[inline]
    fn read(payload: &[u8]) -> Option<Self> {
        let (rest, tail) = payload.split_last_chunk::<8>()?;
        let tail = u64::from_le_bytes(*tail);
        let (keys_bytes, restart_count) = (tail as u32 as usize, (tail >> 32) as usize);
        let restarts_at = rest.len().checked_sub(restart_count.checked_mul(8)?)?;
        let keys_at = restarts_at.checked_sub(keys_bytes)?;
        Some(Self { keys_at, restarts_at, restart_count })
    }
}

impl<'a> DataBlock<'a> {
    /// `payload` as a data block.
    ///
    /// # Errors
    /// The tail does not fit the payload.
    #[inline]
    pub fn new(payload: &'a [u8]) -> Result<Self> {
        Ok(Self { payload, shape: Shape::of(payload)? })
    }

    /// `payload` whose shape was found before.
    #[inline]
    pub fn with_shape(payload: &'a [u8], shape: Shape) -> Self {
        Self { payload, shape }
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The newest version of `key` with a sequence below `before`. No allocation.
    ///
    /// # Errors
    /// The payload is not a data block.
    #[inline]
    pub fn find(&self, key: &[u8], before: Sequence) -> Result<Find> {
        self.touch_keys();
        let (mut at, mut value_at) = self.seek_restart(key, before)?;
        // Invariant of the loop: the previous entry sorts before what is sought, and its key and
        // `key` have exactly `matched` bytes in common.
        let mut matched = 0;
        while at < self.shape.restarts_at {
            let head = self.head(at)?;
            let value = value_at..value_at + head.value_bytes;
            (at, value_at) = (head.next, value.end);
            if head.shared > matched {
                continue;
            }
            if head.shared < matched {
                if head.shared > 0 {
                    return Ok(Find::Absent);
                }
                // Perhaps a restart, which shares nothing on paper: compare all of it.
                matched = 0;
            }
            let suffix = self.payload.get(head.suffix.clone()).unwrap_or_default();
            let rest = key.get(matched..).unwrap_or_default();
            let common = super::common_bytes(suffix, rest);
            match suffix.get(common).cmp(&rest.get(common)) {
                Ordering::Less => matched += common,
                Ordering::Equal if head.trailer.sequence() >= before => matched += common,
                Ordering::Equal if value.end <= self.shape.keys_at => {
                    let Head { trailer, expires_at_ms, .. } = head;
                    return Ok(Find::Found { trailer, expires_at_ms, value });
                }
                Ordering::Equal => return Err(self.broken(at, "a value inside the block")),
                Ordering::Greater => return Ok(Find::Absent),
            }
        }
        Ok(Find::Beyond)
    }

    /// Begins to load the lines of the keys. The search needs several of them and finds each only
    /// after the one before; so their misses overlap.
    #[inline]
    fn touch_keys(&self) {
        let keys = self.payload.get(self.shape.keys_at..self.shape.restarts_at).unwrap_or_default();
        for line in keys.chunks(64).take(TOUCHED_LINES) {
            black_box(line.first().copied());
        }
    }

    /// Key and value offsets of the last restart that sorts before (`key`, `before`), or of the
    /// first.
    #[inline]
    fn seek_restart(&self, key: &[u8], before: Sequence) -> Result<(usize, usize)> {
        if self.shape.restart_count <= 1 {
            return self.restart(0);
        }
        let last = self.last_restart(|head, suffix| match suffix.cmp(key) {
            Ordering::Less => true,
            Ordering::Equal => head.trailer.sequence() >= before,
            Ordering::Greater => false,
        })?;
        self.restart(last.unwrap_or(0))
    }

    /// The last restart for which `is_before` holds; it must hold for a front part of them.
    #[inline]
    pub(super) fn last_restart(&self, is_before: impl Fn(&Head, &[u8]) -> bool) -> Result<Option<usize>> {
        let (mut low, mut high) = (0, self.shape.restart_count);
        while low < high {
            let middle = low + (high - low) / 2;
            let (at, _) = self.restart(middle)?;
            let head = self.head(at)?;
            if is_before(&head, self.payload.get(head.suffix.clone()).unwrap_or_default()) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.checked_sub(1))
    }

    /// Payload offsets of the entry and of the value at restart `index`.
    #[inline]
    pub(super) fn restart(&self, index: usize) -> Result<(usize, usize)> {
        let at = self.shape.restarts_at + index * 8;
        let word = (index < self.shape.restart_count)
            .then(|| self.payload.get(at..)?.first_chunk::<8>())
            .flatten()
            .map(|word| u64::from_le_bytes(*word));
        match word.map(|word| (word as u32 as usize + self.shape.keys_at, (word >> 32) as usize)) {
            Some((key_at, value_at)) if key_at < self.shape.restarts_at => Ok((key_at, value_at)),
            _ => Err(self.broken(at, "a restart inside the block")),
        }
    }

    /// The header of the entry at payload offset `at`.
    #[inline]
    pub(super) fn head(&self, at: usize) -> Result<Head> {
        self.read_head(at).ok_or_else(|| self.broken(at, "an entry"))
    }

    #[inline]
    fn read_head(&self, at: usize) -> Option<Head> {
        let entry = self.payload.get(at..self.shape.restarts_at)?;
        let (shared, unshared, value, head_bytes) = match entry {
            [shared, unshared, value, ..] if (shared | unshared | value) < 0x80 => {
                (u64::from(*shared), u64::from(*unshared), u64::from(*value), 3)
            }
            _ => {
                let (shared, a) = varint::read(entry)?;
                let (unshared, b) = varint::read(entry.get(a..)?)?;
                let (value, c) = varint::read(entry.get(a + b..)?)?;
                (shared, unshared, value, a + b + c)
            }
        };
        let rest = entry.get(head_bytes..)?;
        let unshared = usize::try_from(unshared).ok().filter(|unshared| *unshared <= rest.len())?;
        let suffix = at + head_bytes..at + head_bytes + unshared;
        let (trailer, trailer_bytes) = self.trailer(suffix.end)?;
        let mut next = suffix.end + trailer_bytes;
        let mut expires_at_ms = 0;
        if value & 1 == 1 {
            expires_at_ms = u64::from_le_bytes(*self.payload.get(next..)?.first_chunk::<8>()?);
            next += 8;
        }
        if next > self.shape.restarts_at {
            return None;
        }
        let value_bytes = usize::try_from(value >> 1).ok().filter(|bytes| *bytes <= self.shape.keys_at)?;
        Some(Head { shared: shared as usize, suffix, trailer, expires_at_ms, value_bytes, next })
    }

    /// The trailer at payload offset `at`, and how many bytes it has.
    #[inline]
    fn trailer(&self, at: usize) -> Option<(Trailer, usize)> {
        // Of a short one the restarts or the tail are behind: there are always 8 bytes.
        let word = u64::from_le_bytes(*self.payload.get(at..)?.first_chunk::<8>()?);
        let length = word >> TRAILER_LENGTH_SHIFT & 0xf;
        let bytes = match length {
            0 => 8,
            1..8 => length as usize,
            _ => return None,
        };
        let stored = word & u64::MAX >> (64 - 8 * bytes);
        Some((Trailer(stored & !(0xf << TRAILER_LENGTH_SHIFT)), bytes))
    }

    #[cold]
    pub(super) fn broken(&self, at: usize, expected: &str) -> Error {
        let found = self.payload.get(at..).unwrap_or_default();
        Error::new(at, expected, format!("{:02x?}", found.get(..16).unwrap_or(found)))
    }
}

/// The kind of a stored entry, or an error at `at`.
pub(super) fn stored_kind(trailer: Trailer, at: usize) -> Result<Kind> {
    match trailer.kind() {
        Some(kind @ (Kind::Put | Kind::Delete | Kind::Merge | Kind::PutReference)) => Ok(kind),
        _ => Err(Error::new(at, "kind put, delete or merge", format!("{}", trailer.0 & 0xff))),
    }
}
