//! Records of the log's oldest segment, one after another: what becomes of each.

use firn_engine::{Error, ErrorKind, FilterVerdict, KeyspaceId, Result};
use firn_format::hybrid::Shape;

use crate::chain::{Chain, Resolved};
use crate::cold::Appender;
use crate::database::Database;
use crate::device::DeviceRecord;
use crate::index::KeyHash;
use crate::log::{Content, Parts};
use crate::ops::{Access, Attempt, Found, Key, Newest, Seen, Store, parts_of, reference_of, tombstone_of};
use crate::sync::Patience;
use crate::trail::{History, Piece};
use crate::values::{REFERENCE_BYTES, missing, number_of};

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
pub(super) enum Fate {
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
    /// It belongs in the cold log.
    Move,
    /// A tombstone does, if the cold log may have its key.
    Delete,
    History,
    /// See whether records on the device from this address on are of the key.
    Verify(u64),
    /// See what becomes of it.
    Judge,
    /// Wait until the tail may go beyond this address.
    WaitForRoom(u64),
    Again,
}

/// Copies records to where they belong.
pub(super) struct Mover<'a> {
    pub(super) database: &'a Database,
    access: &'a mut Access,
    appender: Appender,
    /// Records stay in the log: they are copied to its end.
    stay: bool,
    /// Records of the log whose copies are in the appender, or that need none.
    moved: Vec<(KeyHash, u64)>,
    /// Values that lie alone, and only dead records lead to.
    values: Vec<u64>,
    /// Words that were copied.
    copied: u64,
}

impl<'a> Mover<'a> {
    /// That moves records to the cold log.
    pub(super) fn new(database: &'a Database, access: &'a mut Access) -> Self {
        let appender = Appender::new(&database.store.cold);
        Self { database, access, appender, stay: false, moved: Vec::new(), values: Vec::new(), copied: 0 }
    }

    /// That copies records to the end of the log, apart from those that operands apply to.
    pub(super) fn keeping(database: &'a Database, access: &'a mut Access) -> Self {
        Self { stay: true, ..Self::new(database, access) }
    }

    /// Ends the move; answers values that only dead records lead to, and how many words were
    /// copied.
    pub(super) fn end(mut self) -> Result<(Vec<u64>, u64)> {
        self.write()?;
        Ok((self.values, self.copied))
    }

    /// Copies those of `records` that live.
    pub(super) fn take_all(&mut self, records: &mut Vec<(u64, DeviceRecord)>) -> Result<()> {
        for (_, record) in &*records {
            let key = Key::new(record.keyspace(), record.key());
            self.access.store.index.prefetch(key.hash);
        }
        for (address, record) in &*records {
            let key = Key::new(record.keyspace(), record.key());
            let unknown = {
                let (store, _inside) = self.access.enter();
                match standing(store, key, *address, None) {
                    Standing::Unknown(first) => Some(first),
                    _ => None,
                }
            };
            // Outside the epoch: the system may make it wait.
            if let Some(first) = unknown {
                self.database.device.will_read(first);
            }
        }
        for (address, record) in records.drain(..) {
            let key = Key::new(record.keyspace(), record.key());
            let became = self.take(address, key, &record)?;
            if let Became::Copied(words) = became {
                self.copied += words;
            }
            if let (true, Some(number)) = (record.content().is_reference, number_of(record.value())) {
                match became {
                    Became::Copied(_) => self.database.reclaim.note_moved(number),
                    // An earlier try may have copied the record: the copy has the same value.
                    Became::Dead if self.leads_to_value(key, number, address)? => {}
                    Became::Dead => self.values.push(number),
                }
            }
        }
        Ok(())
    }

    /// Copies the record at `address`, if it lives.
    fn take(&mut self, address: u64, key: Key<'_>, record: &DeviceRecord) -> Result<Became> {
        let content = record.content();
        let is_there = self.database.keyspaces.check(KeyspaceId(key.keyspace)).is_ok();
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
                        Some(Fate::Lives) if self.stay => {
                            let parts = copied_parts(key, record);
                            let copied = Became::Copied(parts.shape.words() as u64);
                            put(store, key, found, &parts, copied)?
                        }
                        Some(Fate::Lives) => Next::Move,
                        Some(Fate::Dies) => Next::Delete,
                        Some(Fate::Dropped) => put(store, key, found, &tombstone_of(key), Became::Dead)?,
                    },
                }
            };
            match next {
                Next::Became(became) => return Ok(became),
                Next::Move => return self.move_to_cold(address, key, record),
                Next::Delete => {
                    self.delete(address, key, is_there)?;
                    return Ok(Became::Dead);
                }
                Next::History => return self.take_history(address, key, record),
                Next::Verify(first) => match self.verify(key, address, first)? {
                    Standing::Newest(_) => verified = Some(first),
                    Standing::BelowOperand if is_there => return self.take_history(address, key, record),
                    _ => return Ok(Became::Dead),
                },
                Next::Judge => fate = Some(self.fate(key, record)?),
                Next::WaitForRoom(beyond) => self.database.wait_for_room(beyond)?,
                Next::Again => patience.wait(),
            }
        }
    }

    /// Copies a record that is no operand to the cold log.
    fn move_to_cold(&mut self, address: u64, key: Key<'_>, record: &DeviceRecord) -> Result<Became> {
        let parts = copied_parts(key, record);
        self.append(address, key, &parts)?;
        Ok(Became::Copied(parts.shape.words() as u64))
    }

    /// Lets go of a record that says that its key has no value. What the cold log may have of the
    /// key is older, and is not to be found any more.
    fn delete(&mut self, address: u64, key: Key<'_>, is_there: bool) -> Result<()> {
        let order = key.hash.order();
        if is_there && (self.database.store.cold.may_have(order) || self.appender.has(order)) {
            return self.append(address, key, &tombstone_of(key));
        }
        // Other keys' records below it in the chain may be in the appender still.
        self.moved.push((key.hash, address));
        Ok(())
    }

    fn append(&mut self, address: u64, key: Key<'_>, parts: &Parts<'_>) -> Result<()> {
        let cold = &self.database.store.cold;
        if self.appender.is_full(cold, parts.shape.words() as u64) {
            self.write()?;
        }
        self.appender.push(cold, key.hash.order(), parts);
        self.moved.push((key.hash, address));
        Ok(())
    }

    /// Has readers find what was appended, then lets go of what it was copied from.
    fn write(&mut self) -> Result<()> {
        self.appender.write(&self.database.store.cold)?;
        for (hash, address) in std::mem::take(&mut self.moved) {
            self.let_go(hash, address);
        }
        Ok(())
    }

    /// Frees the entry of a chain that begins with the record at `address`: what it leads to is
    /// older, and left or copied.
    fn let_go(&mut self, hash: KeyHash, address: u64) {
        let mut patience = Patience::default();
        loop {
            let is_gone = {
                let (store, _inside) = self.access.enter();
                match store.index.find(hash) {
                    Some((place, entry)) if store.top(entry) == address => {
                        store.remove_chain(hash, place, entry)
                    }
                    _ => true,
                }
            };
            if is_gone {
                return;
            }
            patience.wait();
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

    /// Has the system load what [`is_overwritten`](Self::is_overwritten) reads first.
    pub(super) fn ask_for_newer(&mut self, records: &[(u64, DeviceRecord)]) {
        for (_, record) in records {
            let on_device = {
                let (store, _inside) = self.access.enter();
                match store.find(Key::new(record.keyspace(), record.key())).1 {
                    Newest::OnDevice(first) => Some(first),
                    _ => None,
                }
            };
            if let Some(first) = on_device {
                self.database.device.will_read(first);
            }
        }
    }

    /// Whether the log has a value or a tombstone of `key` that was not copied: what the cold log
    /// has of it is older, and counts no more.
    pub(super) fn is_overwritten(&mut self, key: Key<'_>) -> Result<bool> {
        // What lies before was copied, and is in chains all the same until it leaves the log.
        let compacted = self.database.reclaim.progress().compacted;
        let mut at = {
            let (store, _inside) = self.access.enter();
            match store.find(key).1 {
                Newest::At(address, record) => return Ok(address >= compacted && !record.is_operand()),
                Newest::OnDevice(first) => first,
                Newest::Nowhere => return Ok(false),
            }
        };
        while at >= compacted.max(1) {
            let Some(record) = self.database.read_device(at)? else { return Ok(false) };
            if record.is_of(key.keyspace, key.bytes) {
                return Ok(!record.content().is_operand);
            }
            at = record.link().previous();
        }
        Ok(false)
    }

    /// What becomes of a record that is the newest of `key`, and no operand.
    pub(super) fn fate(&self, key: Key<'_>, record: &DeviceRecord) -> Result<Fate> {
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

    /// Whether a record of `key` that counts leads to the value `number`, which lies alone. The one
    /// at `address` is dead.
    pub(super) fn leads_to_value(&mut self, key: Key<'_>, number: u64, address: u64) -> Result<bool> {
        if self.database.keyspaces.check(KeyspaceId(key.keyspace)).is_err() {
            return Ok(false);
        }
        let mut chain = Chain { database: self.database, access: self.access };
        let history = chain.history(key, u64::MAX)?;
        let mut counting = history
            .base
            .iter()
            .chain(&history.operands)
            .filter(|piece| piece.address != address && !self.database.has_expired(piece.content));
        Ok(counting.any(|piece| piece.value_number() == Some(number)))
    }

    /// Merges what there is of `key`, whose newest record is an operand, if the record at `address`
    /// is one of the operands; the value that they apply to is copied.
    fn take_history(&mut self, address: u64, key: Key<'_>, record: &DeviceRecord) -> Result<Became> {
        let mut patience = Patience::default();
        loop {
            let mut chain = Chain { database: self.database, access: self.access };
            let history = chain.history(key, u64::MAX)?;
            let pieces = history.base.iter().chain(&history.operands);
            if history.operands.is_empty() || pieces.clone().all(|piece| piece.address != address) {
                return Ok(Became::Dead);
            }
            if history.base.as_ref().is_some_and(|piece| piece.address == address) {
                return match record.content().is_tombstone {
                    true => self.delete(address, key, true).map(|()| Became::Dead),
                    false => self.move_to_cold(address, key, record),
                };
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
                Some(Resolved::Value(value, _)) => self.replace(key, seen, &value)?,
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
        let mut reference = None;
        let parts = parts_of(key, value, 0);
        let parts = if self.database.store.log.holds(&parts) {
            parts
        } else {
            reference_of(key, reference.insert(self.database.values.write(value)?), 0, false)
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
                Attempt::Again | Attempt::OnDevice | Attempt::IndexFull => {
                    forget(self.database, reference.iter());
                    Ok(None)
                }
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
        let parts = |(piece, reference)| parts_of_piece(key, piece, reference);
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
                forget(self.database, references.iter().flatten());
                return Ok(None);
            }
            if !store.log.has_room(words) {
                continue;
            }
            for parts in &all {
                match store.put_in_front_alone(key.hash, store.index.find(key.hash), parts) {
                    Attempt::Done(_) => {}
                    _ => return Err(Error::bug("a copy that nothing could be in the way of")),
                }
            }
            return Ok(Some(Became::Dead));
        }
    }
}

/// Removes values that lie alone of records that were not made.
fn forget<'r>(database: &Database, references: impl Iterator<Item = &'r [u8; REFERENCE_BYTES]>) {
    references.for_each(|reference| database.values.forget(reference));
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

/// The parts of a copy of a `record` that is no operand and has a value.
fn copied_parts<'a>(key: Key<'a>, record: &'a DeviceRecord) -> Parts<'a> {
    let content = record.content();
    let parts = parts_of(key, record.value(), content.expires_at_ms);
    Parts { shape: Shape { is_reference: content.is_reference, ..parts.shape }, ..parts }
}

/// The parts of a copy of `piece`, whose value, if it lies alone, is where `reference` says.
fn parts_of_piece<'a>(
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
