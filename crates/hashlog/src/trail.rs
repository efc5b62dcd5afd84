//! The way along the records of a key, step by step: it says what it wants of the device, and goes
//! on once it has that. So the ways of many keys may wait for the device together.
//!
//! Each step in memory is within an epoch of its own: links never change, and what has left memory
//! meanwhile lies on the device under the same address. What is gone from there too was moved or
//! replaced: then all begins anew. What the chain does not have may be in the cold log, which is
//! older.

use firn_engine::{Error, Result};

use crate::cold::{ColdFetched, ColdRecord, ColdSearch, ColdStep, ColdWanted};
use crate::device::DeviceRecord;
use crate::log::Content;
use crate::ops::{Access, Key, Newest, Seen, Store};
use crate::values::{missing, number_of};

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
    pub(crate) stored: Vec<u8>,
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

/// What the way wants of the device.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The record at this address of the log.
    Record(u64),
    Cold(ColdWanted),
    /// The value that lies alone where this says.
    Value(Vec<u8>),
}

/// What it got.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// `None` if it was removed.
    Record(Option<DeviceRecord>),
    Cold(ColdFetched),
    /// `None` if it was removed.
    Value(Option<Vec<u8>>),
}

/// What following it came to.
pub(crate) enum Next {
    Wants(Wanted),
    Done(History),
}

/// The way along the records of one key that are older than `end`.
#[derive(Debug)]
pub(crate) struct Trail<'k> {
    pub(crate) key: Key<'k>,
    end: u64,
    began: Began,
    seen: Option<Seen>,
    /// Newest first.
    operands: Vec<Piece>,
    /// Where the chain goes on, or the record that is wanted.
    at: u64,
    /// Its value is wanted; the chain goes on at the address.
    referring: Option<(Piece, u64)>,
    cold: Option<ColdSearch>,
}

/// What there was when the way began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Began {
    /// How often records had begun to leave the log.
    moves: u64,
    /// Where log and cold log begin.
    begins: (u64, u64),
    /// The newest record of the chain; 0 if there is none.
    top: u64,
}

impl Began {
    fn now(access: &mut Access, key: Key<'_>) -> Self {
        let (moves, begins) = (access.store.cold.moves(), begins(&access.store));
        let (store, _inside) = access.enter();
        let top = store.index.find(key.hash).map_or(0, |(_, entry)| store.top(entry));
        Self { moves, begins, top }
    }
}

/// A record of the key, and where its chain goes on.
struct Found {
    address: u64,
    content: Content,
    stored: Vec<u8>,
    next: u64,
}

/// What the chain has next.
enum Step {
    Found(Found),
    Wants(Wanted),
    End,
}

/// What a way comes to, unless what it found may have been moved meanwhile.
enum Walked {
    Wants(Wanted),
    Ended(History),
    /// A value is not where a record says.
    Gone(Error),
}

impl<'k> Trail<'k> {
    /// The beginning of the way.
    pub(crate) fn new(access: &mut Access, key: Key<'k>, end: u64) -> Self {
        let began = Began::now(access, key);
        Self { key, end, began, seen: None, operands: Vec::new(), at: began.top, referring: None, cold: None }
    }

    /// Follows it until it ends, or wants something: at first with nothing, then with what it
    /// wanted.
    ///
    /// # Errors
    /// That of what was fetched; `Corrupt` where a record leads to a value that is not there.
    pub(crate) fn follow(
        &mut self,
        access: &mut Access,
        mut fetched: Option<Result<Fetched>>,
    ) -> Result<Next> {
        loop {
            let walked = self.walk(access, fetched.take())?;
            // What was there at first may have been moved, and removed, since.
            match walked {
                Walked::Wants(wanted) => return Ok(Next::Wants(wanted)),
                Walked::Ended(history) if begins(&access.store) == self.began.begins => {
                    return Ok(Next::Done(history));
                }
                Walked::Gone(error) if Began::now(access, self.key) == self.began => return Err(error),
                Walked::Ended(_) | Walked::Gone(_) => *self = Self::new(access, self.key, self.end),
            }
        }
    }

    fn walk(&mut self, access: &mut Access, mut fetched: Option<Result<Fetched>>) -> Result<Walked> {
        if let Some((piece, next)) = self.referring.take() {
            let Some(value) = value_of(fetched.take())? else {
                return Ok(Walked::Gone(missing(&piece.stored)));
            };
            if let Some(base) = self.take(Piece { alone: Some(value), ..piece }, next) {
                return Ok(self.ended(Some(base)));
            }
        }
        loop {
            let found = match self.step(access, fetched.take())? {
                Step::Wants(wanted) => return Ok(Walked::Wants(wanted)),
                Step::End => return Ok(self.ended(None)),
                Step::Found(found) => found,
            };
            let Found { address, content, stored, next } = found;
            let piece = Piece { address, content, stored, alone: None };
            if content.is_reference {
                let wanted = Wanted::Value(piece.stored.clone());
                self.referring = Some((piece, next));
                return Ok(Walked::Wants(wanted));
            }
            if let Some(base) = self.take(piece, next) {
                return Ok(self.ended(Some(base)));
            }
        }
    }

    /// Keeps an operand; anything else ends the way, and comes back.
    fn take(&mut self, piece: Piece, next: u64) -> Option<Piece> {
        if !piece.content.is_operand {
            return Some(piece);
        }
        self.operands.push(piece);
        self.at = next;
        None
    }

    fn ended(&mut self, base: Option<Piece>) -> Walked {
        let mut operands = std::mem::take(&mut self.operands);
        operands.reverse();
        let seen = self.seen.unwrap_or(Seen::Absent { moves: self.began.moves });
        Walked::Ended(History { base, operands, seen })
    }

    /// The next record of the key.
    fn step(&mut self, access: &mut Access, fetched: Option<Result<Fetched>>) -> Result<Step> {
        if self.cold.is_some() {
            let fetched = fetched.map(|fetched| match fetched? {
                Fetched::Cold(fetched) => Ok(fetched),
                other => Err(unwanted(&other)),
            });
            return self.step_cold(access, fetched);
        }
        match fetched.transpose()? {
            None => {}
            Some(Fetched::Record(None)) => return Ok(Step::End),
            Some(Fetched::Record(Some(record))) => {
                let next = record.link().previous();
                if self.at < self.end && record.is_of(self.key.keyspace, self.key.bytes) {
                    return Ok(Step::Found(found(self.at, &record, next)));
                }
                self.at = next;
            }
            Some(other) => return Err(unwanted(&other)),
        }
        if let Some(step) = self.step_in_memory(access) {
            return Ok(step);
        }
        let cold = &access.store.cold;
        if cold.is_empty() {
            return Ok(Step::End);
        }
        self.cold = Some(cold.search(self.key.cold()));
        self.step_cold(access, None)
    }

    /// The next record in memory, or what is on the device; `None` if the log has no more. What is
    /// seen first is noted.
    fn step_in_memory(&mut self, access: &mut Access) -> Option<Step> {
        let (store, _inside) = access.enter();
        match store.walk(self.key, self.at, self.end) {
            Newest::At(address, record) => {
                let mut stored = Vec::new();
                let content = record.read(&mut stored);
                self.seen.get_or_insert(Seen::Record { address, sequence: content.sequence });
                Some(Step::Found(Found { address, content, stored, next: record.link().previous() }))
            }
            Newest::OnDevice(address) => {
                self.seen.get_or_insert(Seen::Below { top: self.began.top });
                self.at = address;
                Some(Step::Wants(Wanted::Record(address)))
            }
            Newest::Nowhere => None,
        }
    }

    fn step_cold(&mut self, access: &Access, fetched: Option<Result<ColdFetched>>) -> Result<Step> {
        let Some(search) = &mut self.cold else { return Ok(Step::End) };
        Ok(match search.step(&access.store.cold, self.key.cold(), fetched)? {
            ColdStep::Wants(wanted) => Step::Wants(Wanted::Cold(wanted)),
            ColdStep::Found(ColdRecord { address, record }) => Step::Found(found(address, &record, 0)),
            ColdStep::Nothing => Step::End,
        })
    }
}

/// Where log and cold log begin.
fn begins(store: &Store) -> (u64, u64) {
    (store.log.begin(), store.cold.begin())
}

fn found(address: u64, record: &DeviceRecord, next: u64) -> Found {
    Found { address, content: record.content(), stored: record.value().to_vec(), next }
}

/// The value that was wanted.
fn value_of(fetched: Option<Result<Fetched>>) -> Result<Option<Vec<u8>>> {
    match fetched.transpose()? {
        Some(Fetched::Value(value)) => Ok(value),
        Some(other) => Err(unwanted(&other)),
        None => Err(Error::bug("a value that is wanted was not fetched")),
    }
}

fn unwanted(fetched: &Fetched) -> Error {
    Error::bug(format!("what was fetched is not what is wanted: {fetched:?}"))
}
