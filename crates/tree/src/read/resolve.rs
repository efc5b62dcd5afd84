//! From versions of a key, newest first, to its value.

use firn_engine::{Error, ErrorKind, MergeOperator, Result};
use firn_format::{Kind, Sequence};
use firn_storage::file::table::ReadMode;

use crate::blobs::BlobMap;
use crate::reads::Reads;
use crate::version::Version;

/// One version of the key, as a place found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit<'v> {
    pub(crate) sequence: Sequence,
    pub(crate) kind: Kind,
    pub(crate) expires_at_ms: u64,
    pub(crate) value: &'v [u8],
}

/// Whether the versions seen so far decide the key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// The key has a value; it is in `out`.
    Value,
    /// The key has no value.
    Absent,
    /// The key has no value: it has expired.
    Expired,
    /// Older versions matter.
    Older,
    /// The value is separated, and to read it would be to wait for the device.
    Miss,
    /// The value is separated and was asked for; its reference is in `out`. Only for
    /// [`Wants::Ahead`].
    Asked,
}

/// What is wanted of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Only the sequence of the newest version: answered as [`Resolved::Absent`] whatever that
    /// version is. Looks at no value, and asks no operator.
    Newest,
    /// Only whether there is a value, as if the clock had not moved: an expired one counts.
    Stored,
    /// The bytes from `start` to `end`; what lies beyond the value's end is left out.
    Part { start: usize, end: usize },
    /// That a separated value is asked for and not waited for; others as a whole.
    Ahead,
}

impl Wants {
    pub(crate) const ALL: Self = Self::Part { start: 0, end: usize::MAX };
}

/// Versions of one key seen so far.
///
/// Fed newest first: [`cover`](Self::cover) with a place's range tombstone before the place's own
/// versions, then [`take`](Self::take) for each version, then [`end_place`](Self::end_place).
#[derive(Debug)]
pub(crate) struct Resolution<'a> {
    key: &'a [u8],
    reads: &'a Reads,
    values: &'a BlobMap,
    wants: Wants,
    mode: ReadMode,
    operator: Option<&'a dyn MergeOperator>,
    covered: Option<Sequence>,
    newest: Option<Sequence>,
    beside: Option<u64>,
    expires_at_ms: u64,
    /// Newest first.
    operands: Vec<Vec<u8>>,
}

impl<'a> Resolution<'a> {
    pub(crate) fn new(
        key: &'a [u8],
        (reads, version): (&'a Reads, &'a Version),
        (wants, mode): (Wants, ReadMode),
        operator: Option<&'a dyn MergeOperator>,
    ) -> Self {
        let values = &*version.blobs;
        Self {
            key,
            reads,
            values,
            wants,
            mode,
            operator,
            covered: None,
            newest: None,
            beside: None,
            expires_at_ms: 0,
            operands: Vec::new(),
        }
    }

    /// Sequence of the newest version or range tombstone seen.
    pub(crate) fn newest(&self) -> Option<Sequence> {
        self.newest
    }

    /// Bytes that were read from blobs, of the value or of what it was made of; `None` if it
    /// lies in the tree.
    pub(crate) fn beside(&self) -> Option<u64> {
        self.beside
    }

    /// When the value that was found expires; 0 = never, or operands were merged into it.
    pub(crate) fn expires_at_ms(&self) -> u64 {
        self.expires_at_ms
    }

    /// A place holds a range tombstone over the key.
    #[inline]
    pub(crate) fn cover(&mut self, sequence: Option<Sequence>) {
        if sequence > self.covered {
            self.covered = sequence;
        }
    }

    /// Takes the next older version.
    #[inline]
    pub(crate) fn take(&mut self, hit: Hit<'_>, out: &mut Vec<u8>) -> Result<Resolved> {
        if self.newest.is_none() {
            self.newest = Some(hit.sequence).max(self.covered);
            if self.wants == Wants::Newest {
                return Ok(Resolved::Absent);
            }
        }
        if self.covered > Some(hit.sequence) {
            return self.finish(None, out);
        }
        match hit.kind {
            // The time is asked only where a record expires.
            Kind::Put | Kind::PutReference
                if hit.expires_at_ms != 0
                    && self.wants != Wants::Stored
                    && hit.expires_at_ms <= self.reads.catalog.now_ms() =>
            {
                let resolved = self.finish(None, out)?;
                Ok(if resolved == Resolved::Absent { Resolved::Expired } else { resolved })
            }
            Kind::Put | Kind::PutReference => {
                if self.operands.is_empty() {
                    self.expires_at_ms = hit.expires_at_ms;
                }
                match hit.kind {
                    Kind::Put => self.finish(Some(hit.value), out),
                    _ => self.follow(hit.value, out),
                }
            }
            Kind::Delete => self.finish(None, out),
            Kind::Merge if self.wants == Wants::Stored => Ok(Resolved::Value),
            Kind::Merge => {
                self.operands.push(hit.value.to_vec());
                Ok(Resolved::Older)
            }
            Kind::DeleteRange | Kind::Purge => {
                Err(Error::bug(format!("a {:?} record where a version of a key belongs", hit.kind)))
            }
        }
    }

    /// No place has another version that is not older than everything a range tombstone seen so far
    /// covers.
    #[inline]
    pub(crate) fn end_place(&mut self, out: &mut Vec<u8>) -> Result<Resolved> {
        if self.covered.is_none() {
            return Ok(Resolved::Older);
        }
        self.newest = self.newest.max(self.covered);
        self.finish(None, out)
    }

    /// There are no more versions.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Result<Resolved> {
        self.finish(None, out)
    }

    /// The value, or what the operands make of it, is separated.
    #[inline(never)]
    fn follow(&mut self, reference: &[u8], out: &mut Vec<u8>) -> Result<Resolved> {
        out.clear();
        let (values, found) = (&self.reads.blobs, (reference, self.key.len()));
        match self.wants {
            Wants::Newest | Wants::Stored => return Ok(Resolved::Value),
            // No byte of it is wanted, only whether there is a value.
            Wants::Part { start, end } if self.operands.is_empty() && start >= end => {
                return Ok(Resolved::Value);
            }
            Wants::Ahead if self.operands.is_empty() => {
                values.ask(self.values, found, self.mode)?;
                out.extend_from_slice(reference);
                return Ok(Resolved::Asked);
            }
            Wants::Part { start, end } if self.operands.is_empty() => {
                let is_read = values.read(self.values, found, start..end, self.mode, out)?;
                self.beside = is_read.then_some(out.len() as u64);
                return Ok(if is_read { Resolved::Value } else { Resolved::Miss });
            }
            Wants::Part { .. } | Wants::Ahead => {}
        }
        let mut base = Vec::new();
        match values.read(self.values, found, 0..usize::MAX, self.mode, &mut base)? {
            true => {
                self.beside = Some(base.len() as u64);
                self.finish(Some(&base), out)
            }
            false => Ok(Resolved::Miss),
        }
    }

    #[inline]
    fn finish(&mut self, base: Option<&[u8]>, out: &mut Vec<u8>) -> Result<Resolved> {
        out.clear();
        if !self.operands.is_empty() {
            return self.merge(base, out);
        }
        match (base, self.wants) {
            (None, _) => return Ok(Resolved::Absent),
            (Some(value), Wants::Part { start, end }) => {
                out.extend_from_slice(value.get(start..end.min(value.len())).unwrap_or_default());
            }
            (Some(value), Wants::Ahead) => out.extend_from_slice(value),
            (Some(_), Wants::Newest | Wants::Stored) => {}
        }
        Ok(Resolved::Value)
    }

    fn merge(&mut self, base: Option<&[u8]>, out: &mut Vec<u8>) -> Result<Resolved> {
        let operator =
            self.operator.ok_or_else(|| Error::bug("a merge record in a keyspace without an operator"))?;
        let operands: Vec<&[u8]> = self.operands.iter().rev().map(Vec::as_slice).collect();
        match operator.merge(self.key, base, &operands) {
            Some(value) => {
                *out = value;
                if let Wants::Part { start, end } = self.wants {
                    out.truncate(end);
                    out.drain(..start.min(out.len()));
                }
                Ok(Resolved::Value)
            }
            None => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "merge operator {:?} cannot apply {} operands to a key",
                    operator.name(),
                    operands.len()
                ),
            )),
        }
    }
}
