//! Reading values.

use firn_engine::{KeyspaceId, ReadAt, Result};

use super::{Caller, Tried};
use crate::chain::{Chain, Resolved};
use crate::ops::{Key, Seen};

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// A value, which is where the caller wanted it, and when it expires; 0 = never.
    Value(u64),
    /// One that has expired.
    Expired,
    Nothing,
    /// It would have to be waited for.
    MustWait,
}

impl Looked {
    /// What a lookup that followed the chain has found; `out` gets the value.
    pub(super) fn of(resolved: Resolved, out: &mut Vec<u8>) -> Self {
        out.clear();
        match resolved {
            Resolved::Value(value, expires_at_ms) => {
                *out = value;
                Self::Value(expires_at_ms)
            }
            Resolved::Expired => Self::Expired,
            Resolved::Nothing => Self::Nothing,
        }
    }
}

impl Caller {
    /// The value of `key` in `out`, which is cleared first, and what was seen.
    #[inline]
    pub(crate) fn look_up(&mut self, key: Key<'_>, end: u64, out: &mut Vec<u8>) -> Result<(Looked, Seen)> {
        if let Some(found) = self.look_up_in_memory(key, end, out)? {
            return Ok(found);
        }
        let mut chain = Chain { database: &self.database, access: &mut self.access };
        let (resolved, seen) = chain.resolve(key, end)?;
        Ok((Looked::of(resolved, out), seen))
    }

    /// As [`look_up`](Self::look_up), of what one record in memory says; `None` if it takes more,
    /// and this caller may wait.
    #[inline]
    pub(super) fn look_up_in_memory(
        &mut self,
        key: Key<'_>,
        end: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Looked, Seen)>> {
        match self.attempt(|store, _inside| store.read(key, end, out))? {
            Tried::Done((None, seen)) => return Ok(Some((Looked::Nothing, seen))),
            Tried::Done((Some(content), seen)) => {
                if content.is_tombstone {
                    out.clear();
                    return Ok(Some((Looked::Nothing, seen)));
                }
                if !content.is_operand && !content.is_reference {
                    if self.database.has_expired(content) {
                        out.clear();
                        return Ok(Some((Looked::Expired, seen)));
                    }
                    return Ok(Some((Looked::Value(content.expires_at_ms), seen)));
                }
            }
            Tried::OnDevice => {}
            Tried::MustWait => return Ok(Some((Looked::MustWait, Seen::Absent { moves: 0 }))),
        }
        out.clear();
        Ok((!self.may_wait).then_some((Looked::MustWait, Seen::Absent { moves: 0 })))
    }

    /// As [`look_up`](Self::look_up) for a caller of the contract.
    #[inline]
    pub(crate) fn get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Looked> {
        self.database.check_open()?;
        self.check_key(keyspace, key)?;
        let end = self.end_of(at)?;
        Ok(self.look_up(Key::new(keyspace.0, key), end, out)?.0)
    }
}
