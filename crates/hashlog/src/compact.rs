//! Compaction: the log's oldest segment goes, and what lives in it is copied to the tail.
//!
//! ```text
//!   oldest segment ─► each record: is it its key's newest? ─► copied in front of its chain
//!   ─► a checkpoint has the copies on the device, and says where the log begins from then on
//!   ─► readers begin there ─► the segment's file goes
//! ```
//! | newest record of the key | what becomes of an older one at the log's beginning |
//! |---|---|
//! | it, a value | copied, if the chain is still as it was seen |
//! | it, a tombstone, expired, or dropped | left; its entry goes, if it was the chain's only record |
//! | it, a value that a filter drops | left; a tombstone is its key's newest |
//! | a newer one | left |
//! | an operand | merged with what it applies to; with a value that expires the whole history is copied |
//!
//! Copies are not in the redo log: until the checkpoint the older records are there too. A reader
//! that has come to a record before the log began elsewhere begins anew.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use firn_engine::{Error, ErrorKind, FilterVerdict, KeyspaceId, Result};
use firn_format::hybrid::Shape;

use crate::chain::{Chain, History, Piece, Resolved};
use crate::database::Database;
use crate::device::DeviceRecord;
use crate::log::{Content, Parts};
use crate::ops::{Access, Attempt, Found, Key, Newest, Seen, Store, parts_of, reference_of, tombstone_of};
use crate::reclaim::Left;
use crate::sync::Patience;
use crate::values::{REFERENCE_BYTES, missing, number_of};

/// The log is not compacted while it is shorter than so many segments.
const SEGMENTS_MIN: u64 = 2;

/// What was left behind is this part of what lives, at most, before a checkpoint is taken for it.
const LEFT_PART: u64 = 8;

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    /// It was copied, in so many words; of a merged one they are the new value's.
    Copied(u64),
    /// It was dead, or what it says lies elsewhere now.
    Dead,
}

/// What becomes of a record that is its key's newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lives,
    Dies,
    /// A filter drops it: a tombstone takes its place, as if it had been deleted now.
    Dropped,
}

/// Where a record stands in its chain.
enum Standing {
    /// It is the newest of its key, in the chain that was found.
    Newest(Found),
    /// An operand is.
    BelowOperand,
    Superseded,
    /// Whether there is a newer one, records on the device from this address on say.
    Unknown(u64),
}

/// What is to be done outside the epoch before a record is tried again.
enum Next {
    Became(Became),
    History,
    /// See whether records on the device from this address on are of the key.
    Verify(u64),
    /// See what becomes of it.
    Judge,
    /// Wait until the tail may go beyond this address.
    WaitForRoom(u64),
    Again,
}

impl Database {
    /// Whether the log's oldest segment is to be compacted, or how much lives is to be estimated to
    /// know that.
    pub(crate) fn may_want_compaction(&self) -> bool {
        let compacted = self.reclaim.progress().compacted;
        let end = self.device.end_of(compacted);
        let flushed = self.store.log.markers.flushed.load(Ordering::Acquire);
        if end > flushed || end > self.snapshots.oldest_end() {
            return false;
        }
        let used = self.store.log.tail.next() - compacted;
        let max = |live: u64| (live as f64 * self.env.settings.space_amplification_max) as u64;
        used > SEGMENTS_MIN * (end - compacted)
            && self.estimated_live_words().is_none_or(|live| used > max(live))
    }

    /// Whether a checkpoint is due for what compaction has left behind.
    pub(crate) fn wants_truncation(&self) -> bool {
        let progress = self.reclaim.progress();
        let left = progress.compacted - self.store.log.begin();
        left > self.estimated_live_words().unwrap_or(0) / LEFT_PART
            && progress.waits_for_checkpoint(self.snapshots.oldest_end())
    }

    /// Compacts the log's oldest segment, if much is dead. Blocks for reading it, and for room in
    /// memory.
    pub(crate) fn compact_if_due(&self) -> Result<()> {
        self.estimate_live_words();
        if self.may_want_compaction() { self.compact() } else { Ok(()) }
    }

    fn compact(&self) -> Result<()> {
        let mut access = self.reclaim.access.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.reclaim.progress().compacted;
        let end = self.device.end_of(from);
        let mut left = Left { end, ..Left::default() };
        let mut copied = 0;
        let mut mover = Mover { database: self, access: &mut access };
        let page_bits = self.store.log.tail.page_words().ilog2();
        self.device.scan((from, end), page_bits, &mut |address, record| {
            // A close does not wait for a whole segment.
            if self.is_closed.load(Ordering::Acquire) {
                return Err(Error::new(ErrorKind::Retry, "the database is being closed"));
            }
            let key = Key::new(record.keyspace(), record.key());
            let became = mover.take(address, key, record)?;
            let content = record.content();
            match became {
                Became::Copied(words) => copied += words,
                Became::Dead => {}
            }
            if let (true, Some(number)) = (content.is_reference, number_of(record.value())) {
                match became {
                    Became::Copied(_) => self.reclaim.note_moved(number),
                    // An earlier try may have copied the record: the copy has the same value.
                    Became::Dead if mover.leads_to_value(key, number)? => {}
                    Became::Dead => left.values.push(number),
                }
            }
            Ok(())
        })?;
        left.copies_end = self.store.log.tail.next();
        self.counters.compacted_bytes.fetch_add(8 * (end - from), Ordering::Relaxed);
        self.counters.copied_bytes.fetch_add(8 * copied, Ordering::Relaxed);
        self.reclaim.progress().leave(left);
        *self.reclaim.estimate() = None;
        Ok(())
    }

    /// Lets go of what lies before the new beginning of the log, which the manifest has. Blocks for
    /// the removal of files.
    pub(crate) fn truncate(&self, removable: Vec<Left>) -> Result<()> {
        let Some(begin) = removable.last().map(|left| left.end) else { return Ok(()) };
        {
            let _stopped = self.store.epochs.stop();
            self.store.log.begin_at(begin);
        }
        self.device.remove_before(begin)?;
        self.values.remove(removable.into_iter().flat_map(|left| left.values))
    }

    /// Removes values whose records were replaced before `cut`, which a checkpoint has.
    pub(crate) fn remove_replaced_values(&self, cut: u64) -> Result<()> {
        let mut gone = Vec::new();
        crate::sync::lock(&self.store.replaced_values).retain(|value| {
            // The record may be a copy: a snapshot that is older sees the one that was copied.
            let seen_from = if self.reclaim.was_moved(value.number) { 0 } else { value.at };
            let may_go = value.by < cut && !self.snapshots.any_sees(seen_from, value.by);
            if may_go {
                gone.push(value.number);
            }
            !may_go
        });
        self.values.remove(gone.into_iter())
    }
}

/// Copies records to the tail.
struct Mover<'a> {
    database: &'a Database,
    access: &'a mut Access,
}

impl Mover<'_> {
    /// Copies the record at `address`, if it lives.
    fn take(&mut self, address: u64, key: Key<'_>, record: &DeviceRecord) -> Result<Became> {
        let content = record.content();
        let is_there = self.database.keyspaces.check(KeyspaceId(key.keyspace)).is_ok();
        let parts = parts_of(key, record.value(), content.expires_at_ms);
        let parts = Parts { shape: Shape { is_reference: content.is_reference, ..parts.shape }, ..parts };
        let (mut verified, mut fate, mut patience) = (None, None, Patience::default());
        loop {
            let next = {
                let (store, _inside) = self.access.enter();
                match standing(store, key, address, verified) {
                    Standing::Superseded => Next::Became(Became::Dead),
                    Standing::BelowOperand if !is_there => Next::Became(Became::Dead),
                    Standing::BelowOperand => Next::History,
                    Standing::Unknown(first) => Next::Verify(first),
                    Standing::Newest(_) if content.is_operand && is_there => Next::History,
                    Standing::Newest(found) => match fate {
                        None => Next::Judge,
                        Some(Fate::Lives) => {
                            put(store, key, found, &parts, Became::Copied(parts.shape.words() as u64))?
                        }
                        Some(Fate::Dies) => match found {
                            Some((place, entry)) if store.top(entry) == address => {
                                match store.index.remove(key.hash, place, entry) {
                                    true => Next::Became(Became::Dead),
                                    false => Next::Again,
                                }
                            }
                            _ => Next::Became(Became::Dead),
                        },
                        Some(Fate::Dropped) => put(store, key, found, &tombstone_of(key), Became::Dead)?,
                    },
                }
            };
            match next {
                Next::Became(became) => return Ok(became),
                Next::History => return self.take_history(address, key),
                Next::Verify(first) => match self.verify(key, address, first)? {
                    Standing::Newest(_) => verified = Some(first),
                    Standing::BelowOperand if is_there => return self.take_history(address, key),
                    _ => return Ok(Became::Dead),
                },
                Next::Judge => fate = Some(self.fate(key, record)?),
                Next::WaitForRoom(beyond) => self.database.wait_for_room(beyond)?,
                Next::Again => patience.wait(),
            }
        }
    }

    /// Looks for a record of `key` on the device between `first`, the newest there, and `address`.
    fn verify(&self, key: Key<'_>, address: u64, first: u64) -> Result<Standing> {
        let mut at = first;
        while at > address {
            let Some(record) = self.database.read_device(at)? else { return Ok(Standing::Superseded) };
            if record.is_of(key.keyspace, key.bytes) {
                return Ok(match record.content().is_operand {
                    true => Standing::BelowOperand,
                    false => Standing::Superseded,
                });
            }
            at = record.link().previous();
        }
        Ok(if at == address { Standing::Newest(None) } else { Standing::Superseded })
    }

    /// What becomes of a record that is the newest of `key`, and no operand.
    fn fate(&self, key: Key<'_>, record: &DeviceRecord) -> Result<Fate> {
        let content = record.content();
        let Ok(keyspace) = self.database.keyspaces.get(KeyspaceId(key.keyspace)) else {
            return Ok(Fate::Dies);
        };
        if content.is_tombstone || self.database.has_expired(content) {
            return Ok(Fate::Dies);
        }
        let Some(filter) = &keyspace.filter else { return Ok(Fate::Lives) };
        let alone = match content.is_reference {
            true => Some(self.database.values.read(record.value())?.ok_or_else(|| missing(record.value()))?),
            false => None,
        };
        Ok(match filter.verdict(key.bytes, alone.as_deref().unwrap_or(record.value())) {
            FilterVerdict::Keep => Fate::Lives,
            FilterVerdict::Drop => Fate::Dropped,
        })
    }

    /// Whether a record of `key` that counts leads to the value `number`, which lies alone.
    fn leads_to_value(&mut self, key: Key<'_>, number: u64) -> Result<bool> {
        let mut chain = Chain { database: self.database, access: self.access };
        let history = chain.history(key, u64::MAX)?;
        let mut pieces = history.base.iter().chain(&history.operands);
        Ok(pieces.any(|piece| piece.value_number() == Some(number)))
    }

    /// Merges what the chain has of `key`, whose newest record is an operand, if the record at
    /// `address` is a part of that.
    fn take_history(&mut self, address: u64, key: Key<'_>) -> Result<Became> {
        let mut patience = Patience::default();
        loop {
            let mut chain = Chain { database: self.database, access: self.access };
            let history = chain.history(key, u64::MAX)?;
            let pieces = history.base.iter().chain(&history.operands);
            if history.operands.is_empty() || pieces.clone().all(|piece| piece.address != address) {
                return Ok(Became::Dead);
            }
            let may_expire = history.base.as_ref().is_some_and(|piece| {
                piece.content.expires_at_ms != 0 && !self.database.has_expired(piece.content)
            });
            let seen = history.seen;
            let merged = match may_expire {
                true => None,
                // What the operator refuses is kept as it is: readers are told.
                false => chain.resolved(key, &history).ok(),
            };
            let done = match merged {
                Some(Resolved::Value(value)) => self.replace(key, seen, &value)?,
                _ => self.copy_history(key, &history)?,
            };
            match done {
                Some(became) => return Ok(became),
                None => patience.wait(),
            }
        }
    }

    /// Gives `key` the merged value, if it still has what was `seen`.
    fn replace(&mut self, key: Key<'_>, seen: Seen, value: &[u8]) -> Result<Option<Became>> {
        let reference;
        let parts = parts_of(key, value, 0);
        let parts = if self.database.store.log.holds(&parts) {
            parts
        } else {
            reference = self.database.values.write(value)?;
            reference_of(key, &reference, 0, false)
        };
        loop {
            let attempt = {
                let (store, inside) = self.access.enter();
                store.change_if(&inside, key, seen, &parts)
            };
            return match attempt {
                // The operands are dead, and so is what they were merged with.
                Attempt::Done(()) => Ok(Some(Became::Dead)),
                Attempt::NoRoom(beyond) => {
                    self.database.wait_for_room(beyond)?;
                    continue;
                }
                Attempt::Again | Attempt::OnDevice | Attempt::IndexFull => Ok(None),
                Attempt::Failed(error) => Err(error),
            };
        }
    }

    /// Copies every record of `history`, oldest first, while no operation is under way; `None` if
    /// the chain has another history by then. Values that lie alone are copied too.
    fn copy_history(&mut self, key: Key<'_>, history: &History) -> Result<Option<Became>> {
        let store = &self.database.store;
        let pieces: Vec<_> = history.base.iter().chain(&history.operands).collect();
        let mut references = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            references.push(match piece.content.is_reference {
                true => Some(self.database.values.write(piece.value())?),
                false => None,
            });
        }
        let parts = |(piece, reference)| copied_parts(key, piece, reference);
        let all: Vec<Parts<'_>> = pieces.iter().copied().zip(&references).map(parts).collect();
        let words: u64 = all.iter().map(|parts| parts.shape.words() as u64).sum();
        if words > store.log.tail.page_words() {
            let message = "more operands of one key than a page of the log holds, over a value that expires";
            return Err(Error::new(ErrorKind::Retry, message));
        }
        loop {
            while !store.log.has_room(words) {
                self.database.wait_for_room(store.log.end_of_room(words))?;
            }
            let stopped = store.epochs.stop();
            let (store, _inside) = self.access.enter_stopped(&stopped);
            if !store.is_as_seen(key, history.seen) {
                return Ok(None);
            }
            if !store.log.has_room(words) {
                continue;
            }
            for parts in &all {
                match store.put_in_front(key.hash, store.index.find(key.hash), parts) {
                    Attempt::Done(_) => {}
                    _ => return Err(Error::bug("a copy that nothing could be in the way of")),
                }
            }
            return Ok(Some(Became::Dead));
        }
    }
}

/// Puts a record in front of the chain that was `found`: then the older one `became` this.
fn put(store: &Store, key: Key<'_>, found: Found, parts: &Parts<'_>, became: Became) -> Result<Next> {
    match store.put_in_front(key.hash, found, parts) {
        Attempt::Done(_) => Ok(Next::Became(became)),
        Attempt::NoRoom(beyond) => Ok(Next::WaitForRoom(beyond)),
        Attempt::Failed(error) => Err(error),
        Attempt::Again | Attempt::OnDevice | Attempt::IndexFull => Ok(Next::Again),
    }
}

/// The parts of a copy of `piece`, whose value, if it lies alone, is where `reference` says.
fn copied_parts<'a>(
    key: Key<'a>,
    piece: &'a Piece,
    reference: &'a Option<[u8; REFERENCE_BYTES]>,
) -> Parts<'a> {
    let Content { is_operand, is_tombstone, is_reference, expires_at_ms, .. } = piece.content;
    let stored = reference.as_ref().map_or(piece.value(), |reference| reference.as_slice());
    let parts = parts_of(key, stored, expires_at_ms);
    Parts { shape: Shape { is_operand, is_tombstone, is_reference, ..parts.shape }, ..parts }
}

/// Where the record at `address` stands, as far as memory says; records on the device from
/// `verified` on are known not to be its key's.
fn standing(store: &Store, key: Key<'_>, address: u64, verified: Option<u64>) -> Standing {
    let (found, newest) = store.find(key);
    match newest {
        Newest::Nowhere => Standing::Superseded,
        Newest::At(at, _) if at == address => Standing::Newest(found),
        Newest::At(_, record) if record.is_operand() => Standing::BelowOperand,
        Newest::At(..) => Standing::Superseded,
        Newest::OnDevice(first) if first == address || verified == Some(first) => Standing::Newest(found),
        // The record is not in the chain: its entry went when it was dead.
        Newest::OnDevice(first) if first < address => Standing::Superseded,
        Newest::OnDevice(first) => Standing::Unknown(first),
    }
}
