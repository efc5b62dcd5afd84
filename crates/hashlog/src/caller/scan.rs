//! Reading all keys, by slot and tag.
//!
//! ```text
//!   cursor ─► bucket of its tag ─► entries by tag ─► chain of each, newest first
//!     record of another keyspace: passed
//!     newest record of a key: given, unless it is a tombstone or has expired
//!     older record of a key that was seen: passed
//! ```
//! A chain is followed to its end, each step within an epoch of its own: links never change. What
//! comes in front of it meanwhile is not seen. Where the log's begin has moved meanwhile, what the
//! chain had may be in front of it by now, and it is followed again.

use std::ops::Range;

use firn_engine::{HashBatch, HashCursor, HashScan, ReadAt, Result};

use super::{Caller, Looked};
use crate::index::{KeyHash, SLOTS};
use crate::keyspaces::ONE_SLOT;
use crate::log::Content;
use crate::ops::Key;
use crate::values::missing;

/// What is passed before a batch ends, in records of memory.
const PASSED_MAX: usize = 4096;

/// What a record of the device counts as.
const DEVICE_RECORD: usize = 64;

/// How many more a scan may pass.
struct Patience {
    left: usize,
}

impl Patience {
    fn pass(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }
}

/// One record of a chain, of any key.
#[derive(Default)]
struct Found {
    key: Vec<u8>,
    keyspace: u32,
    value: Vec<u8>,
    /// Where the chain goes on.
    next: u64,
}

/// What lies at an address of a chain.
enum Step {
    Record(Content),
    OnDevice,
    End,
}

/// What following a chain came to.
#[derive(PartialEq, Eq)]
enum Followed {
    ToItsEnd,
    /// The log's begin has moved.
    Again,
    /// It goes on on the device.
    MustWait,
    /// A value that lies alone is not where this says.
    Gone(Vec<u8>),
}

/// The slots that keys of a keyspace may lie in.
fn slots_of(keyspace: u32) -> Range<usize> {
    match keyspace & ONE_SLOT {
        0 => 0..SLOTS,
        _ => {
            let slot = Key::new(keyspace, &[]).hash.slot();
            slot..slot + 1
        }
    }
}

impl Caller {
    /// Fills `out` with records from a cursor on; `None` if the first of them would have to be
    /// waited for.
    pub(crate) fn scan(
        &mut self,
        at: ReadAt<'_>,
        scan: &HashScan,
        out: &mut HashBatch,
    ) -> Result<Option<()>> {
        self.database.check_open()?;
        self.database.keyspaces.check(scan.keyspace)?;
        let end = self.end_of(at)?;
        out.clear();
        let mut patience = Patience { left: PASSED_MAX };
        let slots = slots_of(scan.keyspace.0);
        let from = (usize::from(scan.from.slot()), scan.from.hash());
        let (mut slot, mut tag) = from.max((slots.start, 0));
        let (mut entries, mut chains) = (Vec::new(), Vec::new());
        while slot < slots.end {
            let next_tag = {
                let (store, _inside) = self.access.enter();
                let next_tag = store.index.entries_from(slot, tag, &mut entries);
                chains.clear();
                chains.extend(entries.iter().map(|entry| (entry.tag(), store.top(*entry))));
                next_tag
            };
            // Of a slot without keys nothing is read but where its run would be.
            patience.pass(usize::from(next_tag.is_some() || !entries.is_empty()));
            for (tag, top) in &chains {
                let is_full = out.records().len() >= scan.limit.records.max(1)
                    || !out.records().is_empty() && out.records().data_bytes() >= scan.limit.bytes;
                let place = HashCursor::new(slot as u16, *tag);
                if is_full || patience.left == 0 {
                    out.end(place);
                    return Ok(Some(()));
                }
                if !self.give_chain((slot, *tag, *top), (scan, end), &mut patience, out)? {
                    let is_any = !out.records().is_empty() || place > Some(scan.from);
                    out.end(place);
                    return Ok(is_any.then_some(()));
                }
            }
            (slot, tag) = next_tag.map_or((slot + 1, 0), |tag| (slot, tag));
            if patience.left == 0 && slot < slots.end {
                out.end(HashCursor::new(slot as u16, tag));
                return Ok(Some(()));
            }
        }
        out.end(None);
        Ok(Some(()))
    }

    /// Adds the records of one chain; `false` if it would have to be waited for, and none was
    /// added.
    fn give_chain(
        &mut self,
        (slot, tag, mut top): (usize, u16, u64),
        (scan, end): (&HashScan, u64),
        patience: &mut Patience,
        out: &mut HashBatch,
    ) -> Result<bool> {
        let count = out.records().len();
        loop {
            match self.follow_chain(top, (scan, end), patience, out)? {
                Followed::ToItsEnd => return Ok(true),
                Followed::MustWait => {
                    out.truncate(count);
                    return Ok(false);
                }
                Followed::Again => {}
                Followed::Gone(reference) if self.top(slot, tag) == top => {
                    return Err(missing(&reference));
                }
                Followed::Gone(_) => {}
            }
            out.truncate(count);
            top = self.top(slot, tag);
        }
    }

    /// The newest record of a chain; 0 if there is none.
    fn top(&mut self, slot: usize, tag: u16) -> u64 {
        let (store, _inside) = self.access.enter();
        store.index.find(KeyHash::of(slot, tag)).map_or(0, |(_, entry)| store.top(entry))
    }

    fn follow_chain(
        &mut self,
        top: u64,
        (scan, end): (&HashScan, u64),
        patience: &mut Patience,
        out: &mut HashBatch,
    ) -> Result<Followed> {
        let begin = self.database.store.log.begin();
        let (mut found, mut at) = (Found::default(), top);
        let mut seen: Vec<Vec<u8>> = Vec::new();
        loop {
            let content = match self.step_any(at, &mut found) {
                Step::Record(content) => Some(content),
                Step::OnDevice if !self.may_wait => return Ok(Followed::MustWait),
                Step::OnDevice => {
                    patience.pass(DEVICE_RECORD);
                    self.read_any(at, &mut found)?
                }
                Step::End => None,
            };
            let Some(content) = content else { break };
            patience.pass(1);
            let is_wanted = at < end && found.keyspace == scan.keyspace.0 && !seen.contains(&found.key);
            at = found.next;
            if is_wanted {
                match self.give(&content, &found, (scan, end), out)? {
                    Followed::ToItsEnd => {}
                    other => return Ok(other),
                }
                seen.push(std::mem::take(&mut found.key));
            }
        }
        let is_same = self.database.store.log.begin() == begin;
        Ok(if is_same { Followed::ToItsEnd } else { Followed::Again })
    }

    /// Adds the newest record of a key, if it says that the key has a value. Answers what keeps the
    /// chain from being followed to its end.
    fn give(
        &mut self,
        content: &Content,
        found: &Found,
        (scan, end): (&HashScan, u64),
        out: &mut HashBatch,
    ) -> Result<Followed> {
        if content.is_tombstone || self.database.has_expired(*content) {
            return Ok(Followed::ToItsEnd);
        }
        if content.is_operand {
            let mut merged = Vec::new();
            match self.look_up(Key::new(found.keyspace, &found.key), end, &mut merged)?.0 {
                Looked::Value => out.push(&found.key, if scan.has_values { &merged } else { &[] }, 0),
                Looked::Expired | Looked::Nothing => {}
                Looked::MustWait => return Ok(Followed::MustWait),
            }
            return Ok(Followed::ToItsEnd);
        }
        let expires_at_ms = content.expires_at_ms;
        match (scan.has_values, content.is_reference) {
            (false, _) => out.push(&found.key, &[], expires_at_ms),
            (true, false) => out.push(&found.key, &found.value, expires_at_ms),
            (true, true) if !self.may_wait => return Ok(Followed::MustWait),
            (true, true) => match self.database.values.read(&found.value)? {
                Some(value) => out.push(&found.key, &value, expires_at_ms),
                None => return Ok(Followed::Gone(found.value.clone())),
            },
        }
        Ok(Followed::ToItsEnd)
    }

    /// What lies at `address`, if that is in memory.
    fn step_any(&mut self, address: u64, found: &mut Found) -> Step {
        let (store, _inside) = self.access.enter();
        if address < store.log.head() {
            return if address >= store.log.begin() { Step::OnDevice } else { Step::End };
        }
        let record = store.log.record(address);
        found.keyspace = record.copy_key(&mut found.key);
        found.next = record.link().previous();
        Step::Record(record.read(&mut found.value))
    }

    /// What lies at `address` on the device; `None` if it was removed.
    fn read_any(&mut self, address: u64, found: &mut Found) -> Result<Option<Content>> {
        let Some(record) = self.database.read_device(address)? else { return Ok(None) };
        found.keyspace = record.keyspace();
        found.key = record.key().to_vec();
        found.value = record.value().to_vec();
        found.next = record.link().previous();
        Ok(Some(record.content()))
    }
}
