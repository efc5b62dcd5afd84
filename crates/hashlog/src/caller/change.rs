//! Changing a value by what it is: read, decide, and write if it is still as it was read.

use firn_engine::{Change, KeyspaceId, Position, Result, Rmw, RmwAnswer, UpdateFn, check_value_bytes};

use super::{Caller, Looked, Tried};
use crate::ops::{Attempt, Key, parts_of, reference_of, tombstone_of};

impl Caller {
    /// Replaces the value of `key` by what `f` makes of it; `None` if it would have to be waited
    /// for, and nothing was done.
    pub(crate) fn update(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        f: &mut dyn FnMut(Option<&[u8]>) -> Result<Change>,
        expires_at_ms: u64,
    ) -> Result<Option<Position>> {
        self.check_key(keyspace, key)?;
        let key = Key::new(keyspace.0, key);
        let mut value = std::mem::take(&mut self.scratch);
        let result = self.update_with(key, f, expires_at_ms, &mut value);
        self.scratch = value;
        result
    }

    fn update_with(
        &mut self,
        key: Key<'_>,
        f: &mut dyn FnMut(Option<&[u8]>) -> Result<Change>,
        expires_at_ms: u64,
        value: &mut Vec<u8>,
    ) -> Result<Option<Position>> {
        let mut patience = crate::sync::Patience::default();
        loop {
            let (looked, seen) = self.look_up(key, u64::MAX, value)?;
            self.wait_for_batch(key);
            let current = match looked {
                Looked::Value(_) => Some(value.as_slice()),
                Looked::Expired | Looked::Nothing => None,
                Looked::MustWait => return Ok(None),
            };
            let new = match f(current)? {
                Change::Keep => return Ok(Some(self.database.snapshots.given())),
                Change::Put(new) => Some(new),
                Change::Delete => None,
            };
            let mut reference = None;
            let parts = match &new {
                None if matches!(looked, Looked::Nothing) && !self.access.may_find_unlogged() => {
                    self.database.store.catch_up()?;
                    return Ok(Some(self.database.snapshots.given()));
                }
                None => tombstone_of(key),
                Some(new) => {
                    check_value_bytes(new.len() as u64, self.value_bytes_max())?;
                    let parts = parts_of(key, new, expires_at_ms);
                    if self.database.store.log.holds(&parts) {
                        parts
                    } else {
                        let written = reference.insert(self.database.values.write(new)?);
                        reference_of(key, written, expires_at_ms, false)
                    }
                }
            };
            let mut is_other = false;
            let tried =
                self.attempt_write(|store, inside| match store.change_if(inside, key, seen, &parts) {
                    // Outside the epoch it is read again.
                    Attempt::Again | Attempt::OnDevice => {
                        is_other = true;
                        Attempt::Done(())
                    }
                    other => other,
                })?;
            if let (Tried::Done((position, ())), false) = (&tried, is_other) {
                self.count_written(key.bytes.len() + new.as_ref().map_or(0, Vec::len));
                return Ok(Some(*position));
            }
            if let Some(reference) = reference {
                self.database.values.forget(&reference);
            }
            match tried {
                Tried::Done(_) => patience.wait(),
                Tried::OnDevice | Tried::MustWait => return Ok(None),
            }
        }
    }

    /// Waits until a batch that what was read of `key` may be a part of is whole, and will be
    /// recovered whole: what is made of its value must not survive without the rest of it.
    fn wait_for_batch(&self, key: Key<'_>) {
        self.database.store.stripes.seen(key.hash);
    }

    /// As [`update`](Self::update) with a function of the caller's.
    pub(crate) fn update_fn(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        f: &mut UpdateFn,
        expires_at_ms: u64,
    ) -> Result<Option<Position>> {
        self.update(keyspace, key, &mut |value| Ok(f(value)), expires_at_ms)
    }

    /// Does `rmw` to the value of `key`; `None` if it would have to be waited for, and nothing was
    /// done.
    pub(crate) fn rmw(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        expires_at_ms: u64,
    ) -> Result<Option<(Position, RmwAnswer)>> {
        self.check_key(keyspace, key)?;
        if !self.keeps_pace()? {
            return Ok(None);
        }
        if let (Rmw::Add(by), 0) = (rmw, expires_at_ms) {
            let found = Key::new(keyspace.0, key);
            let added = {
                let (store, inside) = self.access.enter();
                let snapshots = &self.database.snapshots;
                let is_whole = || !store.stripes.is_held(found.hash);
                store
                    .add_in_place(&inside, found, by, is_whole)
                    .map(|sum| sum.map(|sum| (sum, snapshots.next())))
            };
            if let Some(added) = added {
                let (sum, position) = added.inspect_err(|error| self.database.note_final(error))?;
                self.count_written(key.len() + 8);
                return Ok(Some((position, RmwAnswer::Sum(sum))));
            }
        }
        let mut answer = None;
        let max = self.value_bytes_max();
        let mut f = |value: Option<&[u8]>| {
            let (change, answered) = rmw.apply(value, max)?;
            answer = Some(answered);
            Ok(change)
        };
        let position = self.update(keyspace, key, &mut f, expires_at_ms)?;
        Ok(position.zip(answer))
    }
}
