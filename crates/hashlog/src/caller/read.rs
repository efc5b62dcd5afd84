//! Reading values.

use firn_engine::{KeyspaceId, ReadAt, Result, Values};

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

/// How often several keys are read again before operations are stopped for them.
const TRIES_MAX: u32 = 16;

impl Caller {
    /// The value of `key` in `out`, which is cleared first, and what was seen.
    #[inline]
    pub(crate) fn look_up(&mut self, key: Key<'_>, end: u64, out: &mut Vec<u8>) -> Result<(Looked, Seen)> {
        match self.attempt(|store, _inside| store.read(key, end, out))? {
            Tried::Done((None, seen)) => return Ok((Looked::Nothing, seen)),
            Tried::Done((Some(content), seen)) => {
                if content.is_tombstone {
                    out.clear();
                    return Ok((Looked::Nothing, seen));
                }
                if !content.is_operand && !content.is_reference {
                    if self.database.has_expired(content) {
                        out.clear();
                        return Ok((Looked::Expired, seen));
                    }
                    return Ok((Looked::Value(content.expires_at_ms), seen));
                }
            }
            Tried::OnDevice => {}
            Tried::MustWait => return Ok((Looked::MustWait, Seen::Absent { moves: 0 })),
        }
        if !self.may_wait {
            out.clear();
            return Ok((Looked::MustWait, Seen::Absent { moves: 0 }));
        }
        let mut chain = Chain { database: &self.database, access: &mut self.access };
        let (resolved, seen) = chain.resolve(key, end)?;
        out.clear();
        let looked = match resolved {
            Resolved::Value(value, expires_at_ms) => {
                *out = value;
                Looked::Value(expires_at_ms)
            }
            Resolved::Expired => Looked::Expired,
            Resolved::Nothing => Looked::Nothing,
        };
        Ok((looked, seen))
    }

    /// Loads what lookups of `keys` touch first: the bucket of each, then the record that it leads
    /// to, also from the device. Does not wait for that.
    pub(crate) fn prefetch(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) {
        let (store, _inside) = self.access.enter();
        let hash = |key: &&[u8]| Key::new(keyspace.0, key).hash;
        keys.iter().for_each(|key| store.index.prefetch(hash(key)));
        for key in keys {
            if let Some(address) = store.prefetch(hash(key)) {
                self.database.device.will_read(address);
            }
        }
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

    /// Values of several keys as of one moment; `None` if they would have to be waited for.
    pub(crate) fn multi_get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
    ) -> Result<Option<()>> {
        self.database.check_open()?;
        keys.iter().try_for_each(|key| self.check_key(keyspace, key))?;
        let end = self.end_of(at)?;
        if end != u64::MAX || keys.len() < 2 {
            return Ok(self.read_all(end, keyspace, keys, out, &mut Vec::new())?.then_some(()));
        }
        if self.may_wait {
            self.prefetch(keyspace, keys);
        }
        let mut seen = Vec::new();
        for _ in 0..TRIES_MAX {
            seen.clear();
            if !self.read_all(end, keyspace, keys, out, &mut seen)? {
                return Ok(None);
            }
            if self.is_still_so(keyspace, keys, &seen)? {
                return Ok(Some(()));
            }
        }
        let snapshot = self.database.snapshot()?;
        let end = self.database.snapshots.end_of(&snapshot)?;
        Ok(self.read_all(end, keyspace, keys, out, &mut seen)?.then_some(()))
    }

    /// Reads `keys` one after another until `out` is full; `seen` gets what each was seen as, and
    /// the count of its stripe before. `false` if one would have to be waited for.
    fn read_all(
        &mut self,
        end: u64,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
        seen: &mut Vec<(u64, Seen)>,
    ) -> Result<bool> {
        out.clear();
        let mut value = std::mem::take(&mut self.scratch);
        let mut is_done = true;
        for key in keys {
            let key = Key::new(keyspace.0, key);
            let stripe = self.database.store.stripes.seen(key.hash);
            let (looked, found) = self.look_up(key, end, &mut value)?;
            match looked {
                Looked::Value(expires_at_ms) => out.push_until(&value, expires_at_ms),
                Looked::Expired => out.push_expired(),
                Looked::Nothing => out.push(None),
                Looked::MustWait => {
                    is_done = false;
                    break;
                }
            }
            seen.push((stripe, found));
            if out.is_full() {
                break;
            }
        }
        self.scratch = value;
        Ok(is_done)
    }

    /// Whether every key that was read is as it was seen: then all were so at this moment.
    fn is_still_so(&mut self, keyspace: KeyspaceId, keys: &[&[u8]], seen: &[(u64, Seen)]) -> Result<bool> {
        for (key, (stripe, seen)) in keys.iter().zip(seen) {
            let key = Key::new(keyspace.0, key);
            let is_so = {
                let (store, _inside) = self.access.enter();
                store.is_as_seen(key, *seen)
            };
            if !is_so || self.database.store.stripes.now(key.hash) != *stripe {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
