//! The value of a key that takes more than one record, or more than memory, to know.
//!
//! The chain is followed step by step, each within an epoch of its own: links never change, and
//! what has left memory meanwhile lies on the device under the same address. What is gone from
//! there too was moved or replaced: then all begins anew. What the chain does not have may be in
//! the cold log, which is older.

use std::sync::atomic::Ordering;

use firn_engine::{Error, ErrorKind, KeyspaceId, MergeOperator, Result};

use crate::cold::ColdRecord;
use crate::database::Database;
use crate::log::Content;
use crate::ops::{Access, Key, Newest, Seen, parts_of};
use crate::read_cache::ReadCache;
use crate::values::{missing, number_of};

/// One session's way along chains.
pub(crate) struct Chain<'a> {
    pub(crate) database: &'a Database,
    pub(crate) access: &'a mut Access,
}

/// What a chain has of a key, as of one moment.
#[derive(Debug)]
pub(crate) struct History {
    /// The newest record that is not an operand: a value, or what says that there is none.
    pub(crate) base: Option<Piece>,
    /// Newer operands, oldest first.
    pub(crate) operands: Vec<Piece>,
    pub(crate) seen: Seen,
}

/// What one record says.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) content: Content,
    /// As the record has it: the value, or where it lies.
    stored: Vec<u8>,
    /// The value, where it lies alone.
    alone: Option<Vec<u8>>,
}

impl Piece {
    /// The number of the value, where it lies alone.
    pub(crate) fn value_number(&self) -> Option<u64> {
        self.content.is_reference.then(|| number_of(&self.stored)).flatten()
    }

    /// The value.
    pub(crate) fn value(&self) -> &[u8] {
        self.alone.as_deref().unwrap_or(&self.stored)
    }
}

/// What the history of a key comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// The value, and when it expires: 0 = never, or operands were merged into it.
    Value(Vec<u8>, u64),
    Expired,
    Nothing,
}

/// What one step along a chain found.
enum Step {
    /// A record of the key, and its address; the chain goes on with the last number.
    Record(u64, Content, Vec<u8>, u64),
    /// The chain goes on here, on the device.
    OnDevice(u64),
    End,
}

impl Chain<'_> {
    /// The value of `key` in records below `end`, whatever it takes: reads the device, and merges
    /// operands.
    #[cold]
    pub(crate) fn resolve(&mut self, key: Key<'_>, end: u64) -> Result<(Resolved, Seen)> {
        let history = self.history(key, end)?;
        if end == u64::MAX {
            self.copy_to_cache(key, &history);
        }
        Ok((self.resolved(key, &history)?, history.seen))
    }

    /// Puts a value that was read from the device into the read cache, where one record has it.
    fn copy_to_cache(&mut self, key: Key<'_>, history: &History) {
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
        loop {
            let store = &self.database.store;
            let begins = || (store.log.begin(), store.cold.begin());
            let (moves, begin) = (store.cold.moves(), begins());
            let top = self.top(key);
            let history = self.history_from(key, (top, moves), end)?;
            // What was there at first may have been moved, and removed, since.
            match history {
                Ok(history) if begins() == begin => return Ok(history),
                Err(gone) if self.top(key) == top && begins() == begin && store.cold.moves() == moves => {
                    return Err(gone);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// The newest record of the key's chain; 0 if there is none.
    fn top(&mut self, key: Key<'_>) -> u64 {
        let (store, _inside) = self.access.enter();
        store.index.find(key.hash).map_or(0, |(_, entry)| store.top(entry))
    }

    /// As [`history`](Self::history), along the chain that begins at `top`; the inner error says
    /// that a value is not where a record says.
    fn history_from(&mut self, key: Key<'_>, (top, moves): (u64, u64), end: u64) -> Result<Result<History>> {
        let mut seen = None;
        let mut operands = Vec::new();
        let mut at = top;
        let base = loop {
            let (address, content, stored, next) = match self.step(key, at, end, &mut seen)? {
                Step::Record(address, content, stored, next) => (address, content, stored, next),
                Step::OnDevice(address) => {
                    seen.get_or_insert(Seen::Below { top });
                    match self.database.read_device(address)? {
                        Some(record) if address < end && record.is_of(key.keyspace, key.bytes) => {
                            (address, record.content(), record.value().to_vec(), record.link().previous())
                        }
                        Some(record) => {
                            at = record.link().previous();
                            continue;
                        }
                        None => break None,
                    }
                }
                Step::End => match self.database.store.cold.newest(key.cold())? {
                    Some(ColdRecord { address, record }) => {
                        (address, record.content(), record.value().to_vec(), 0)
                    }
                    None => break None,
                },
            };
            let alone = match content.is_reference {
                true => match self.database.values.read(&stored)? {
                    Some(value) => Some(value),
                    None => return Ok(Err(missing(&stored))),
                },
                false => None,
            };
            let piece = Piece { address, content, stored, alone };
            if !content.is_operand {
                break Some(piece);
            }
            operands.push(piece);
            at = next;
        };
        operands.reverse();
        Ok(Ok(History { base, operands, seen: seen.unwrap_or(Seen::Absent { moves }) }))
    }

    /// The next record of `key` in memory from the address `at` on. What is seen first is noted.
    fn step(&mut self, key: Key<'_>, at: u64, end: u64, seen: &mut Option<Seen>) -> Result<Step> {
        let (store, _inside) = self.access.enter();
        Ok(match store.walk(key, at, end) {
            Newest::At(address, record) => {
                let mut value = Vec::new();
                let content = record.read(&mut value);
                seen.get_or_insert(Seen::Record { address, sequence: content.sequence });
                Step::Record(address, content, value, record.link().previous())
            }
            Newest::OnDevice(address) => Step::OnDevice(address),
            Newest::Nowhere => Step::End,
        })
    }
}

impl Database {
    /// Whether a value with this content is not there any more.
    pub(crate) fn has_expired(&self, content: Content) -> bool {
        content.expires_at_ms != 0 && content.expires_at_ms <= self.now_ms()
    }

    /// The record at `address`, which is on the device; `None` if it was removed.
    pub(crate) fn read_device(&self, address: u64) -> Result<Option<crate::device::DeviceRecord>> {
        let flushed = self.store.log.markers.flushed.load(Ordering::Acquire);
        self.counters.device_reads.fetch_add(1, Ordering::Relaxed);
        self.device.read(address, flushed)
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
