//! The value of a key that takes more than one record, or more than memory, to know.

use firn_engine::{Error, ErrorKind, KeyspaceId, MergeOperator, Result};

use crate::database::Database;
use crate::log::Content;
use crate::ops::{Access, Key, Seen, parts_of};
use crate::read_cache::ReadCache;
use crate::trail::{Fetched, History, Next, Piece, Trail};

/// One session's way along chains.
pub(crate) struct Chain<'a> {
    pub(crate) database: &'a Database,
    pub(crate) access: &'a mut Access,
}

/// What the history of a key comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// The value, and when it expires: 0 = never, or operands were merged into it.
    Value(Vec<u8>, u64),
    Expired,
    Nothing,
}

impl Chain<'_> {
    /// The value of `key` in records below `end`, whatever it takes: reads the device, and merges
    /// operands.
    #[cold]
    pub(crate) fn resolve(&mut self, key: Key<'_>, end: u64) -> Result<(Resolved, Seen)> {
        let history = self.history(key, end)?;
        self.settle(key, end, &history)
    }

    /// The value that `history` of `key` below `end` comes to; a copy goes to the read cache.
    pub(crate) fn settle(&mut self, key: Key<'_>, end: u64, history: &History) -> Result<(Resolved, Seen)> {
        if end == u64::MAX {
            self.copy_to_cache(key, history);
        }
        Ok((self.resolved(key, history)?, history.seen))
    }

    /// Puts a value that was read from the device into the read cache, where one record has it.
    pub(crate) fn copy_to_cache(&mut self, key: Key<'_>, history: &History) {
        let Some(piece) = history.base.as_ref().filter(|_| !matches!(history.seen, Seen::Record { .. }))
        else {
            return;
        };
        let Content { is_tombstone, is_reference, expires_at_ms, .. } = piece.content;
        if history.operands.is_empty() && !is_tombstone && !is_reference {
            let parts = parts_of(key, &piece.stored, expires_at_ms);
            let wants_evict = {
                let (store, inside) = self.access.enter();
                store.put_in_cache(&inside, key, history.seen, &parts);
                store.cache.as_ref().is_some_and(ReadCache::wants_evict)
            };
            if wants_evict {
                self.database.maintenance.schedule.wake();
            }
        }
    }

    /// What `history` of `key` comes to now.
    pub(crate) fn resolved(&self, key: Key<'_>, history: &History) -> Result<Resolved> {
        let History { base, operands, .. } = history;
        let base = base.as_ref().filter(|piece| !piece.content.is_tombstone);
        let has_expired = base.is_some_and(|piece| self.database.has_expired(piece.content));
        let base = base.filter(|_| !has_expired);
        if operands.is_empty() {
            return Ok(match base {
                Some(piece) => Resolved::Value(piece.value().to_vec(), piece.content.expires_at_ms),
                None if has_expired => Resolved::Expired,
                None => Resolved::Nothing,
            });
        }
        let keyspace = self.database.keyspaces.get(KeyspaceId(key.keyspace))?;
        let operands: Vec<&[u8]> = operands.iter().map(Piece::value).collect();
        let base = base.map(Piece::value);
        Ok(Resolved::Value(merged(keyspace.operator.as_deref(), key, base, &operands)?, 0))
    }

    /// What the chain of `key` has of it below `end`.
    pub(crate) fn history(&mut self, key: Key<'_>, end: u64) -> Result<History> {
        let mut trail = Trail::new(self.access, key, end);
        let mut fetched = None;
        loop {
            match trail.follow(self.access, fetched.take())? {
                Next::Wants(wanted) => fetched = Some(self.database.fetch(&wanted)),
                Next::Done(history) => return Ok(history),
            }
        }
    }

    /// What the chains of `keys` have of them below `end`, in their order: all wait for the device
    /// together. `None` for a key of which so much is to be read that it should be read by itself.
    pub(crate) fn histories(&mut self, keys: &[Key<'_>], end: u64) -> Result<Vec<Option<History>>> {
        let mut histories: Vec<Option<History>> = keys.iter().map(|_| None).collect();
        let mut trails: Vec<(usize, Trail<'_>, Option<Result<Fetched>>)> = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            trails.push((index, Trail::new(self.access, *key, end), None));
        }
        while !trails.is_empty() {
            let (mut waiting, mut wanted) = (Vec::new(), Vec::new());
            for (index, mut trail, fetched) in trails.drain(..) {
                match trail.follow(self.access, fetched)? {
                    Next::Done(history) => histories[index] = Some(history),
                    Next::Wants(wants) => {
                        waiting.push((index, trail));
                        wanted.push(wants);
                    }
                }
            }
            let fetched = self.database.fetch_together(&wanted);
            let answered = waiting.into_iter().zip(fetched);
            // What is long was not fetched: its key is left out.
            trails.extend(
                answered.filter_map(|((index, trail), fetched)| Some((index, trail, Some(fetched?)))),
            );
        }
        Ok(histories)
    }
}

impl Database {
    /// Whether a value with this content is not there any more.
    pub(crate) fn has_expired(&self, content: Content) -> bool {
        content.expires_at_ms != 0 && content.expires_at_ms <= self.now_ms()
    }
}

/// What `operator` makes of operands, oldest first.
fn merged(
    operator: Option<&dyn MergeOperator>,
    key: Key<'_>,
    base: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let operator = operator.ok_or_else(|| Error::bug("an operand in a keyspace without merge operator"))?;
    operator.merge(key.bytes, base, operands).ok_or_else(|| {
        let (name, key) = (operator.name(), key.bytes.escape_ascii());
        let message = format!("the merge operator {name:?} cannot apply the operands of key \"{key}\"");
        Error::new(ErrorKind::Corrupt, message)
    })
}
