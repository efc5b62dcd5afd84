//! From versions of a key, newest first, to its value.

use firn_engine::{Error, ErrorKind, MergeOperator, Result};
use firn_format::{Kind, Sequence};

use crate::database::Database;

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
    /// Older versions matter.
    Older,
}

/// Now, asked only where a record expires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a>(pub(crate) &'a Database);

impl Now<'_> {
    fn ms(self) -> u64 {
        self.0.now_ms()
    }
}

/// Versions of one key seen so far.
///
/// Fed newest first: [`cover`](Self::cover) with a place's range tombstone before the place's own versions, then
/// [`take`](Self::take) for each version, then [`end_place`](Self::end_place).
#[derive(Debug)]
pub(crate) struct Resolution<'a> {
    key: &'a [u8],
    now: Now<'a>,
    operator: Option<&'a dyn MergeOperator>,
    covered: Option<Sequence>,
    newest: Option<Sequence>,
    /// Newest first.
    operands: Vec<Vec<u8>>,
}

impl<'a> Resolution<'a> {
    pub(crate) fn new(key: &'a [u8], now: Now<'a>, operator: Option<&'a dyn MergeOperator>) -> Self {
        Self { key, now, operator, covered: None, newest: None, operands: Vec::new() }
    }

    /// Sequence of the newest version or range tombstone seen.
    pub(crate) fn newest(&self) -> Option<Sequence> {
        self.newest
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
        }
        if self.covered > Some(hit.sequence) {
            return self.finish(None, out);
        }
        match hit.kind {
            Kind::Put if hit.expires_at_ms != 0 && hit.expires_at_ms <= self.now.ms() => {
                self.finish(None, out)
            }
            Kind::Put if self.operands.is_empty() => {
                out.clear();
                out.extend_from_slice(hit.value);
                Ok(Resolved::Value)
            }
            Kind::Put => self.finish(Some(hit.value), out),
            Kind::Delete => self.finish(None, out),
            Kind::Merge => {
                self.operands.push(hit.value.to_vec());
                Ok(Resolved::Older)
            }
            Kind::DeleteRange | Kind::PutReference | Kind::Purge => {
                Err(Error::bug(format!("a {:?} record where a version of a key belongs", hit.kind)))
            }
        }
    }

    /// No place has another version that is not older than everything a range tombstone seen so far covers.
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

    fn finish(&mut self, base: Option<&[u8]>, out: &mut Vec<u8>) -> Result<Resolved> {
        out.clear();
        if self.operands.is_empty() {
            return match base {
                Some(value) => {
                    out.extend_from_slice(value);
                    Ok(Resolved::Value)
                }
                None => Ok(Resolved::Absent),
            };
        }
        let operator =
            self.operator.ok_or_else(|| Error::bug("a merge record in a keyspace without an operator"))?;
        let operands: Vec<&[u8]> = self.operands.iter().rev().map(Vec::as_slice).collect();
        match operator.merge(self.key, base, &operands) {
            Some(value) => {
                *out = value;
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
