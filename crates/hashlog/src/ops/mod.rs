//! Operations on one key, as far as memory has what they need.
//!
//! Each file has one operation, and at its head what it does by where the newest record of the key
//! lies. An attempt runs within one epoch and never waits. What keeps it from ending is its answer
//! ([`Attempt`]), and the caller begins anew outside the epoch.

mod read;
mod upsert;
mod delete;
mod rmw;
mod copies;
mod together;

pub(crate) use read::Seen;

use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Result};
use firn_format::hybrid::Shape;

use crate::cold::{Cold, ColdKey};
use crate::division::Division;
use crate::epoch::{Epochs, Inside, Participant, Stopped};
use crate::index::{Entry, Index, Inserted, KeyHash, Place};
use crate::keyspaces::{ONE_SLOT, SLOT_IN_KEY, slot_in_key};
use crate::log::{Log, Parts, Record, Room};
use crate::read_cache::ReadCache;
use crate::redo::Redo;
use crate::stripes::Stripes;
use crate::sync::{AtomicBool, Mutex, lock};

/// A key as the engine looks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'k> {
    pub(crate) keyspace: u32,
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: KeyHash,
}

impl<'k> Key<'k> {
    #[inline]
    pub(crate) fn new(keyspace: u32, bytes: &'k [u8]) -> Self {
        let of_keyspace = u64::from(keyspace).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = KeyHash::new(firn_format::key::key_hash(bytes) ^ of_keyspace);
        let hash = match keyspace & (ONE_SLOT | SLOT_IN_KEY) {
            0 => hash,
            SLOT_IN_KEY => slot_in_key(bytes).map_or(hash, |slot| hash.in_slot(slot)),
            _ => hash.in_slot_of(of_keyspace),
        };
        Self { keyspace, bytes, hash }
    }

    /// The same key, as the cold log looks for it.
    pub(crate) fn cold(self) -> ColdKey<'k> {
        ColdKey { order: self.hash.order(), keyspace: self.keyspace, bytes: self.bytes }
    }
}

/// What an attempt came to.
#[derive(Debug)]
#[must_use]
pub(crate) enum Attempt<T> {
    Done(T),
    /// Another thread was faster: begin anew.
    Again,
    /// There is no memory for a new record until the log's limit is beyond this address.
    NoRoom(u64),
    /// The index has no memory for a new entry.
    IndexFull,
    /// What is wanted lies on the device, if anywhere.
    OnDevice,
    /// Nothing was done, or the error says otherwise.
    Failed(Error),
}

impl<T> Attempt<T> {
    /// The same with what `f` makes of the result.
    #[inline]
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::Done(result) => Attempt::Done(f(result)),
            Self::Again => Attempt::Again,
            Self::NoRoom(beyond) => Attempt::NoRoom(beyond),
            Self::IndexFull => Attempt::IndexFull,
            Self::OnDevice => Attempt::OnDevice,
            Self::Failed(error) => Attempt::Failed(error),
        }
    }
}

/// Where the newest record of a key is.
#[derive(Clone, Copy)]
pub(crate) enum Newest<'l> {
    /// In memory, at this address.
    At(u64, Record<'l>),
    /// On the device, if anywhere: the chain goes on there.
    OnDevice(u64),
    Nowhere,
}

/// A value that lies alone, whose record another one took the place of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacedValue {
    pub(crate) number: u64,
    /// The address of its record.
    pub(crate) at: u64,
    /// The address of the other one.
    pub(crate) by: u64,
}

/// The entry of a key's chain, as an operation found it.
pub(crate) type Found = Option<(Place, Entry)>;

/// Index and log: what operations work on.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) index: Index,
    pub(crate) log: Log,
    pub(crate) cache: Option<ReadCache>,
    pub(crate) division: Division,
    /// What compaction has taken out of the log.
    pub(crate) cold: Cold,
    /// What makes a change survive the process; `None` where only checkpoints do.
    pub(crate) redo: Option<Redo>,
    /// Writes were made since the opening that the redo log does not know: what is found may be
    /// one of them.
    pub(crate) has_unlogged: AtomicBool,
    pub(crate) epochs: Arc<Epochs>,
    /// Held by batches while their records become visible one by one.
    pub(crate) stripes: Stripes,
    /// Values that lie alone, and that no reader of the latest finds any more.
    pub(crate) replaced_values: Mutex<Vec<ReplacedValue>>,
}

impl Store {
    /// Bytes of what finds records.
    fn finding_bytes(&self) -> u64 {
        self.index.bytes() + self.cold.memory_bytes()
    }

    /// Whether memory is to be divided anew.
    pub(crate) fn wants_division(&self) -> bool {
        self.division.is_due(&self.log, self.cache.as_ref(), self.finding_bytes())
    }

    /// Divides memory by what there is now.
    pub(crate) fn divide_memory(&self) {
        self.index.set_reserved(self.division.reserved_bytes(self.cold.memory_bytes()));
        self.division.make(&self.epochs, &self.log, self.cache.as_ref(), self.finding_bytes());
    }

    /// The chain of `key`, and its newest record there. For callers that are inside an epoch.
    #[inline]
    pub(crate) fn find(&self, key: Key<'_>) -> (Found, Newest<'_>) {
        let Some((place, entry)) = self.index.find(key.hash) else { return (None, Newest::Nowhere) };
        (Some((place, entry)), self.walk(key, self.top(entry), u64::MAX))
    }

    /// The newest record of the chain that `entry` leads to, in the log.
    #[inline]
    pub(crate) fn top(&self, entry: Entry) -> u64 {
        match &self.cache {
            Some(cache) if entry.is_copy() => cache.record(entry.target()).link().previous(),
            _ => entry.target(),
        }
    }

    /// Loads the record that the chain of a key begins with into the processor's cache. Answers its
    /// address, if it is on the device; 0 if the log has no such chain.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) -> Option<u64> {
        match (self.index.find(hash), &self.cache) {
            (Some((_, entry)), Some(cache)) if entry.is_copy() => cache.prefetch(entry.target()),
            (Some((_, entry)), _) if entry.target() < self.log.head() => return Some(entry.target()),
            (Some((_, entry)), _) => self.log.prefetch(entry.target()),
            (None, _) => return Some(0),
        }
        None
    }

    /// The newest record of `key` before `end`, in the chain from `address` on.
    #[inline]
    pub(crate) fn walk(&self, key: Key<'_>, mut address: u64, end: u64) -> Newest<'_> {
        let head = self.log.head();
        loop {
            if address < head {
                return match address >= self.log.begin() {
                    true => Newest::OnDevice(address),
                    false => Newest::Nowhere,
                };
            }
            let record = self.log.record(address);
            if address < end && record.is_of(key.keyspace, key.bytes) {
                return Newest::At(address, record);
            }
            address = record.link().previous();
        }
    }

    /// Puts a record in front of the chain that was `found`, and has the redo log know it.
    #[inline]
    pub(crate) fn publish(
        &self,
        inside: &Inside<'_>,
        key: Key<'_>,
        found: (Found, Newest<'_>),
        parts: &Parts<'_>,
    ) -> Attempt<u64> {
        let Some((redo, writer)) = self.redo_of(inside) else {
            return self.publish_silently(key, found, parts);
        };
        if let Err(error) = redo.catch_up() {
            return Attempt::Failed(error);
        }
        let published = self.publish_silently(key, found, parts);
        if let Attempt::Done(address) = &published {
            let change = parts.change(*address, 0);
            if let Err(error) = redo.append_made(writer, |entry| entry.push(&change)) {
                return Attempt::Failed(not_durable(error));
            }
        }
        published
    }

    /// Refuses a write while one before it, which reads find, does not survive what it should.
    #[inline]
    pub(crate) fn catch_up(&self) -> Result<()> {
        self.redo.as_ref().map_or(Ok(()), Redo::catch_up)
    }

    /// Puts a record in front of the chain of `key`, whatever that has.
    pub(crate) fn append(&self, inside: &Inside<'_>, key: Key<'_>, parts: &Parts<'_>) -> Attempt<u64> {
        self.publish(inside, key, self.find(key), parts)
    }

    /// Whether the newest record of `key` that is in memory lies at `end` or above. What is on the
    /// device does not: no snapshot outlives the memory of what was written after it.
    pub(crate) fn is_newer(&self, key: Key<'_>, end: u64) -> bool {
        match self.find(key).1 {
            Newest::At(address, _) => address >= end,
            Newest::OnDevice(address) => address >= end,
            Newest::Nowhere => false,
        }
    }

    /// The redo log, and which writer the operation is there; `None` where only a checkpoint is to
    /// have what it changes.
    #[inline]
    pub(crate) fn redo_of(&self, inside: &Inside<'_>) -> Option<(&Redo, usize)> {
        self.redo.as_ref().zip(inside.writer)
    }

    /// Has the redo log know of a change in place that is about to be made.
    #[inline]
    pub(crate) fn log_change(&self, inside: &Inside<'_>, parts: &Parts<'_>, at: (u64, u32)) -> Result<()> {
        match self.redo_of(inside) {
            Some((redo, writer)) => redo.append_change(writer, &parts.change(at.0, at.1)),
            None => Ok(()),
        }
    }

    /// Puts a record in front of the chain that was `found`, where the key's newest record was too.
    /// The redo log does not know it.
    pub(crate) fn publish_silently(
        &self,
        key: Key<'_>,
        (found, newest): (Found, Newest<'_>),
        parts: &Parts<'_>,
    ) -> Attempt<u64> {
        let published = self.put_in_front(key.hash, found, parts);
        if let Attempt::Done(by) = &published {
            self.note_replaced(newest, *by, parts);
        }
        published
    }

    /// Remembers the value that lies alone, and that the record at `by` takes the place of.
    fn note_replaced(&self, newest: Newest<'_>, by: u64, parts: &Parts<'_>) {
        if let Newest::At(at, record) = newest
            && !parts.shape.is_operand
            && let Some(number) = record.value_alone()
        {
            lock(&self.replaced_values).push(ReplacedValue { number, at, by });
        }
    }

    /// Puts a record in front of the chain that was `found`, unless a batch holds it: then `Again`.
    pub(crate) fn put_in_front(&self, hash: KeyHash, found: Found, parts: &Parts<'_>) -> Attempt<u64> {
        match self.stripes.is_held(hash) {
            true => Attempt::Again,
            false => self.put_in_front_alone(hash, found, parts),
        }
    }

    /// Frees the entry of a key, which is `old`: no record of its chain counts any more. `false` if
    /// it is not `old` any more, or a batch holds it.
    pub(crate) fn remove_chain(&self, hash: KeyHash, place: Place, old: Entry) -> bool {
        !self.stripes.is_held(hash) && self.index.free_entry(hash, place, old)
    }

    /// Puts a record in front of the chain that was `found`. For an opening, and for a caller that
    /// has stopped all others.
    pub(crate) fn put_in_front_alone(&self, hash: KeyHash, found: Found, parts: &Parts<'_>) -> Attempt<u64> {
        let words = parts.shape.words();
        let address = match self.log.tail.reserve(words as u64) {
            Room::At(address) => address,
            Room::Turned(address) => {
                self.log.turn(&self.epochs, address);
                address
            }
            Room::Full(beyond) => return Attempt::NoRoom(beyond),
        };
        let record = self.log.reserved(address, words);
        record.fill(parts, found.map_or(0, |(_, entry)| self.top(entry)));
        let is_published = match found {
            Some((place, entry)) => self.index.lead_to(place, entry, address),
            None => match self.index.insert(hash, address) {
                Inserted::New => true,
                Inserted::Existing(..) => false,
                Inserted::Full => {
                    self.log.record(address).invalidate();
                    return Attempt::IndexFull;
                }
            },
        };
        if is_published {
            return Attempt::Done(address);
        }
        self.log.record(address).invalidate();
        Attempt::Again
    }
}

/// A change that is made, and does not survive the process.
pub(crate) fn not_durable(error: Error) -> Error {
    not_surviving("the process", error)
}

/// A change that is made, and does not survive `what` yet, as it should.
pub(crate) fn not_surviving(what: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Retry => {
            let message = format!("the write is done and reads find it, but it does not survive {what} yet");
            Error::new(ErrorKind::NotDurable, message).because(error)
        }
        _ => error,
    }
}

/// The parts of a record with a value.
#[inline]
pub(crate) fn parts_of<'a>(key: Key<'a>, value: &'a [u8], expires_at_ms: u64) -> Parts<'a> {
    let shape = Shape {
        key_bytes: key.bytes.len(),
        value_bytes: value.len(),
        has_expiry: expires_at_ms != 0,
        has_keyspace: key.keyspace != 0,
        ..Shape::default()
    };
    Parts { shape: shape.fitted(), keyspace: key.keyspace, key: key.bytes, value, expires_at_ms }
}

/// The parts of a record with an operand.
pub(crate) fn operand_of<'a>(key: Key<'a>, operand: &'a [u8]) -> Parts<'a> {
    let parts = parts_of(key, operand, 0);
    Parts { shape: Shape { is_operand: true, ..parts.shape }, ..parts }
}

/// The parts of a record whose value, or operand, lies alone.
pub(crate) fn reference_of<'a>(
    key: Key<'a>,
    reference: &'a [u8],
    expires_at_ms: u64,
    is_operand: bool,
) -> Parts<'a> {
    let parts = parts_of(key, reference, expires_at_ms);
    Parts { shape: Shape { is_reference: true, is_operand, ..parts.shape }, ..parts }
}

/// The parts of a record that says that its key has no value.
pub(crate) fn tombstone_of(key: Key<'_>) -> Parts<'_> {
    let parts = parts_of(key, &[], 0);
    Parts { shape: Shape { is_tombstone: true, ..parts.shape }, ..parts }
}

/// Threads of background work that may be amid an operation.
const BACKGROUND_PLACES: usize = 16;

/// One session's way into the store.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) store: Arc<Store>,
    participant: Participant,
}

impl Access {
    /// `None` if there are too many.
    pub(crate) fn new(store: &Arc<Store>) -> Option<Self> {
        Some(Self { store: Arc::clone(store), participant: store.epochs.join()? })
    }

    /// For a session: leaves places to background work.
    pub(crate) fn for_session(store: &Arc<Store>) -> Option<Self> {
        let participant = store.epochs.join_leaving(BACKGROUND_PLACES)?;
        Some(Self { store: Arc::clone(store), participant })
    }

    /// Has the redo log know, or not, what operations from now on change.
    #[inline]
    pub(crate) fn set_logged(&mut self, is_logged: bool) {
        self.participant.is_logged = is_logged;
    }

    /// Whether what the next operation finds [may be unlogged](Store::may_be_unlogged).
    pub(crate) fn may_find_unlogged(&mut self) -> bool {
        let (store, inside) = self.enter();
        store.may_be_unlogged(&inside)
    }

    /// Which writer of the redo log this is.
    pub(crate) fn writer(&self) -> usize {
        self.participant.writer
    }

    /// Has the redo log take this one's changes for those of another `writer`: both are one
    /// session's, one after another.
    pub(crate) fn write_as(&mut self, writer: usize) {
        self.participant.writer = writer;
    }

    /// The store, within an epoch.
    #[inline]
    pub(crate) fn enter(&mut self) -> (&Store, Inside<'_>) {
        (&self.store, self.participant.enter())
    }

    /// The store, within an epoch of the one that has stopped all others.
    pub(crate) fn enter_stopped(&mut self, stopped: &Stopped<'_>) -> (&Store, Inside<'_>) {
        (&self.store, self.participant.enter_stopped(stopped))
    }
}

#[cfg(test)]
mod tests;
