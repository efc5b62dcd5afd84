//! Reading all keys, by slot and tag.
//!
//! ```text
//!   cursor ─► bucket of its tag ─► entries by tag ─► chain of each, newest first
//!     record of another keyspace: passed
//!     newest record of a key: given, unless it is a tombstone or has expired
//!     older record of a key that was seen: passed
//!   then the tag's records in the cold log, likewise
//! ```
//! A chain is followed to its end, each step within an epoch of its own: links never change. What
//! comes in front of it meanwhile is not seen. Where the log's begin has moved meanwhile, what the
//! chain had may be in front of it by now, and it is followed again.

use std::ops::Range;

use firn_engine::{HashBatch, HashCursor, HashScan, ReadAt, Result};
use firn_format::hybrid::cold_run::ColdEntry;

use super::{Caller, Looked};
use crate::device::DeviceRecord;
use crate::index::{Entry, KeyHash, SLOTS};
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

impl Found {
    /// Holds what `record` says, and answers what it is.
    fn take(&mut self, record: &DeviceRecord) -> Content {
        self.keyspace = record.keyspace();
        self.key = record.key().to_vec();
        self.value = record.value().to_vec();
        self.next = record.link().previous();
        record.content()
    }
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

/// One chain, as a scan found it.
struct Chained {
    slot: usize,
    tag: u16,
    /// Its newest record in the log; 0 if there is none.
    top: u64,
    /// Records of its tag in the cold log, the newest first of those that have one hash.
    cold: Vec<ColdEntry>,
    /// Where the log and the cold log began before this was found.
    begins: (u64, u64),
}

/// Records of the cold log that are looked for together.
const COLD_ENTRIES: u64 = 512;

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
        while slot < slots.end {
            if !self.may_wait && !self.database.store.cold.is_empty() {
                let place = HashCursor::new(slot as u16, tag);
                let is_any = !out.records().is_empty() || place > Some(scan.from);
                out.end(place);
                return Ok(is_any.then_some(()));
            }
            let (chains, next_tag) = self.chains_from(slot, tag)?;
            // Of a slot without keys nothing is read but where its run would be.
            patience.pass(usize::from(next_tag.is_some() || !chains.is_empty()));
            for chained in chains {
                let is_full = out.records().len() >= scan.limit.records.max(1)
                    || !out.records().is_empty() && out.records().data_bytes() >= scan.limit.bytes;
                let place = HashCursor::new(slot as u16, chained.tag);
                if is_full || patience.left == 0 {
                    out.end(place);
                    return Ok(Some(()));
                }
                if !self.give_chain(chained, (scan, end), &mut patience, out)? {
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

    /// Some chains of `slot` from `tag` on, in the order of their tags, and the first tag behind
    /// them; `None` behind the last one.
    fn chains_from(&mut self, slot: usize, tag: u16) -> Result<(Vec<Chained>, Option<u16>)> {
        loop {
            let begins = self.begins();
            let found = self.chains_as_of(begins, slot, tag)?;
            // What was to be found elsewhere by then is not missed.
            if self.begins() == begins {
                return Ok(found);
            }
        }
    }

    fn chains_as_of(
        &mut self,
        begins: (u64, u64),
        slot: usize,
        tag: u16,
    ) -> Result<(Vec<Chained>, Option<u16>)> {
        let mut entries = Vec::new();
        let mut chains = Vec::new();
        let mut next_tag = {
            let (store, _inside) = self.access.enter();
            let next_tag = store.index.entries_from(slot, tag, &mut entries);
            let chain = |entry: &Entry| {
                let (tag, top) = (entry.tag(), store.top(*entry));
                Chained { slot, tag, top, cold: Vec::new(), begins }
            };
            chains.extend(entries.iter().map(chain));
            next_tag
        };
        // Looked at after the log: what leaves the log meanwhile is there.
        let cold = &self.database.store.cold;
        if cold.is_empty() {
            return Ok((chains, next_tag));
        }
        let tags = (COLD_ENTRIES << 16) / cold.entries_of_slots(SLOTS as u64).max(COLD_ENTRIES);
        let step = tag.checked_add(u16::try_from(tags).unwrap_or(u16::MAX).max(1));
        next_tag = next_tag.into_iter().chain(step).min();
        let last_tag = next_tag.map_or(u16::MAX, |next| next - 1);
        chains.retain(|chained| chained.tag <= last_tag);
        let (from, to) = (KeyHash::orders_of(slot, tag).0, KeyHash::orders_of(slot, last_tag).1);
        for entry in cold.entries(from, to)? {
            let tag = KeyHash::tag_of(entry.order);
            let at = chains.partition_point(|chained| chained.tag < tag);
            if chains.get(at).is_none_or(|chained| chained.tag != tag) {
                chains.insert(at, Chained { slot, tag, top: 0, cold: Vec::new(), begins });
            }
            chains[at].cold.push(entry);
        }
        Ok((chains, next_tag))
    }

    /// Adds the records of one chain; `false` if it would have to be waited for, and none was
    /// added.
    fn give_chain(
        &mut self,
        mut chained: Chained,
        (scan, end): (&HashScan, u64),
        patience: &mut Patience,
        out: &mut HashBatch,
    ) -> Result<bool> {
        let count = out.records().len();
        let (slot, tag) = (chained.slot, chained.tag);
        loop {
            match self.follow_chain(&chained, (scan, end), patience, out)? {
                Followed::ToItsEnd => return Ok(true),
                Followed::MustWait => {
                    out.truncate(count);
                    return Ok(false);
                }
                Followed::Again => {}
                Followed::Gone(reference) if self.is_same(&chained)? => {
                    return Err(missing(&reference));
                }
                Followed::Gone(_) => {}
            }
            out.truncate(count);
            chained = self.chained(slot, tag)?;
        }
    }

    /// A chain as it is now.
    fn chained(&mut self, slot: usize, tag: u16) -> Result<Chained> {
        let begins = self.begins();
        let top = {
            let (store, _inside) = self.access.enter();
            store.index.find(KeyHash::of(slot, tag)).map_or(0, |(_, entry)| store.top(entry))
        };
        let (from, to) = KeyHash::orders_of(slot, tag);
        Ok(Chained { slot, tag, top, cold: self.database.store.cold.entries(from, to)?, begins })
    }

    fn is_same(&mut self, chained: &Chained) -> Result<bool> {
        let now = self.chained(chained.slot, chained.tag)?;
        Ok(now.top == chained.top && now.cold == chained.cold)
    }

    /// Where the log and the cold log begin.
    fn begins(&self) -> (u64, u64) {
        (self.database.store.log.begin(), self.database.store.cold.begin())
    }

    fn follow_chain(
        &mut self,
        chained: &Chained,
        (scan, end): (&HashScan, u64),
        patience: &mut Patience,
        out: &mut HashBatch,
    ) -> Result<Followed> {
        let (mut found, mut at) = (Found::default(), chained.top);
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
        for entry in &chained.cold {
            let mut at = entry.place.address();
            while at >= chained.begins.1 {
                if !self.may_wait {
                    return Ok(Followed::MustWait);
                }
                patience.pass(DEVICE_RECORD);
                let Some(record) = self.database.store.cold.read(at, 0)? else { return Ok(Followed::Again) };
                at = record.link().previous();
                let content = found.take(&record);
                if found.keyspace != scan.keyspace.0 || seen.contains(&found.key) {
                    continue;
                }
                match self.give(&content, &found, (scan, end), out)? {
                    Followed::ToItsEnd => {}
                    other => return Ok(other),
                }
                seen.push(std::mem::take(&mut found.key));
            }
        }
        Ok(if self.begins() == chained.begins { Followed::ToItsEnd } else { Followed::Again })
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
                Looked::Value(_) => out.push(&found.key, if scan.has_values { &merged } else { &[] }, 0),
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
        Ok(self.database.read_device(address)?.map(|record| found.take(&record)))
    }
}
