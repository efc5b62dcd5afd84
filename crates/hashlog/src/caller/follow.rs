//! The value of a key that takes more than one record, or more than memory, to know.
//!
//! The chain is followed step by step, each within an epoch of its own: links never change, and
//! what has left memory meanwhile lies on the device under the same address.

use std::sync::atomic::Ordering;

use firn_engine::{Error, ErrorKind, KeyspaceId, MergeOperator, Result};

use super::{Caller, Looked};
use crate::log::Content;
use crate::ops::{Key, Newest, Seen};

/// What one step along a chain found.
enum Step {
    /// A record of the key; the chain goes on with the address.
    Record(Content, Vec<u8>, u64),
    /// The chain goes on here, on the device.
    OnDevice(u64),
    End,
}

impl Caller {
    /// As [`look_up`](Self::look_up), whatever it takes: reads the device, and merges operands.
    #[cold]
    pub(super) fn follow(&mut self, key: Key<'_>, end: u64, out: &mut Vec<u8>) -> Result<(Looked, Seen)> {
        out.clear();
        let begin = self.database.store.log.begin();
        let top = {
            let (store, _inside) = self.access.enter();
            store.index.find(key.hash).map_or(0, |(_, entry)| entry.address())
        };
        let mut seen = None;
        let mut operands = Vec::new();
        let mut at = top;
        let base = loop {
            let (content, value, next) = match self.step(key, at, end, &mut seen)? {
                Step::Record(content, value, next) => (content, value, next),
                Step::OnDevice(address) => {
                    seen.get_or_insert(Seen::Below { top });
                    let flushed = self.database.store.log.markers.flushed.load(Ordering::Acquire);
                    self.database.counters.device_reads.fetch_add(1, Ordering::Relaxed);
                    match self.database.device.read(address, flushed)? {
                        Some(record) if address < end && record.is_of(key.keyspace, key.bytes) => {
                            (record.content(), record.value().to_vec(), record.link().previous())
                        }
                        Some(record) => {
                            at = record.link().previous();
                            continue;
                        }
                        None => break None,
                    }
                }
                Step::End => break None,
            };
            let value = if content.is_reference { self.database.values.read(&value)? } else { value };
            if !content.is_operand {
                break Some((content, value));
            }
            operands.push(value);
            at = next;
        };
        // What was there when the first address was read may have been moved and removed since.
        if self.database.store.log.begin() != begin {
            return self.follow(key, end, out);
        }
        let seen = seen.unwrap_or(Seen::Nothing);
        let base = base.filter(|(content, _)| !content.is_tombstone);
        let has_expired = base.as_ref().is_some_and(|(content, _)| {
            content.expires_at_ms != 0 && content.expires_at_ms <= self.database.now_ms()
        });
        let base = base.filter(|_| !has_expired).map(|(_, value)| value);
        if operands.is_empty() {
            return Ok(match base {
                Some(value) => {
                    *out = value;
                    (Looked::Value, seen)
                }
                None if has_expired => (Looked::Expired, seen),
                None => (Looked::Nothing, seen),
            });
        }
        operands.reverse();
        let keyspace = self.database.keyspaces.get(KeyspaceId(key.keyspace))?;
        *out = merged(keyspace.operator.as_deref(), key, base.as_deref(), &operands)?;
        Ok((Looked::Value, seen))
    }

    /// The next record of `key` in memory from the address `at` on. What is seen first is noted.
    fn step(&mut self, key: Key<'_>, at: u64, end: u64, seen: &mut Option<Seen>) -> Result<Step> {
        let (store, _inside) = self.access.enter();
        Ok(match store.walk(key, at, end) {
            Newest::At(address, record) => {
                let mut value = Vec::new();
                let content = record.read(&mut value);
                seen.get_or_insert(Seen::Record { address, sequence: content.sequence });
                Step::Record(content, value, record.link().previous())
            }
            Newest::OnDevice(address) => Step::OnDevice(address),
            Newest::Nowhere => Step::End,
        })
    }
}

/// What `operator` makes of operands, oldest first.
fn merged(
    operator: Option<&dyn MergeOperator>,
    key: Key<'_>,
    base: Option<&[u8]>,
    operands: &[Vec<u8>],
) -> Result<Vec<u8>> {
    let operator = operator.ok_or_else(|| Error::bug("an operand in a keyspace without merge operator"))?;
    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
    operator.merge(key.bytes, base, &operands).ok_or_else(|| {
        let (name, key) = (operator.name(), key.bytes.escape_ascii());
        let message = format!("the merge operator {name:?} cannot apply the operands of key \"{key}\"");
        Error::new(ErrorKind::Corrupt, message)
    })
}
