//! What an opening reads before anything is changed: the log on the device, and the redo logs.
//!
//! ```text
//!   redo logs, by one thread ─► how far their entries count
//!   segments, one a thread at a time ─► records, each checked ─► groups of (hash, address)
//!     a group: load all its buckets ─► each entry leads to the newest record of its chain
//! ```
//! An entry ends up leading to the greatest address, so segments may come in any order.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::hybrid::redo::RedoChange;
use firn_storage::Storage;

use crate::device::{Contents, Device, Part};
use crate::index::{Inserted, KeyHash};
use crate::keyspaces::check_made;
use crate::ops::{Access, Key, Store};
use crate::parallel::Threads;
use crate::reapply::index_too_small;
use crate::redo::{Begun, Look, Recovered, find};
use crate::values::{Values, number_of};

/// Entries whose buckets are loaded together.
const GROUP: usize = 32;

/// A database whose files are read.
pub(crate) struct Rebuild {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) store: Arc<Store>,
    pub(crate) device: Device,
    pub(crate) values: Values,
    /// Redo logs that there should be.
    pub(crate) begun: Begun,
    /// Keyspaces from this number on were never made.
    pub(crate) next_keyspace: u64,
}

/// What the files have besides entries of the index.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Redo logs, as far as they count.
    pub(crate) logs: Vec<Recovered>,
    /// Values that lie alone, and that the redo logs refer to.
    pub(crate) of_redo: BTreeSet<u64>,
    /// Those that the log refers to.
    pub(crate) of_log: BTreeSet<u64>,
    /// What each part of the log begins and ends with, by its first address.
    seams: Vec<(u64, Part)>,
}

/// What the threads have together.
struct Reading {
    from: Rebuild,
    /// The log, at most a segment at a time.
    parts: Vec<(u64, u64)>,
    found: Mutex<Found>,
}

impl Rebuild {
    /// Reads the log of `range` into the index, and looks how far the redo logs count. Gives itself
    /// back, and what was found.
    ///
    /// # Errors
    /// `Corrupt`, with file and offset, for what is not as it was written; `Invalid` if
    /// index_bytes_max is too little; those of the storage.
    pub(crate) fn read(self, threads: &Threads, range: (u64, u64)) -> Result<(Self, Found)> {
        let parts = self.device.parts(range);
        let items = parts.len() + 1;
        let reading = Reading { from: self, parts, found: Mutex::default() };
        let Reading { from, found, .. } = threads.share_out(reading, items, Reading::read_item)?;
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        from.check_seams(&mut found.seams)?;
        Ok((from, found))
    }

    /// Refuses zeros where a record should be, between parts of the log.
    fn check_seams(&self, seams: &mut [(u64, Part)]) -> Result<()> {
        seams.sort_unstable_by_key(|(from, _)| *from);
        let mut last = Part::default();
        for (from, part) in seams {
            self.device.check_seam(last, self.store.log.tail.page_words().ilog2(), (*from, *part))?;
            last = *part;
        }
        // A checkpoint is cut where a record ends.
        last.zeros().map_or(Ok(()), |zeros| Err(self.device.zeros_at(zeros)))
    }

    fn check_keyspace(&self, id: u32, location: impl FnOnce() -> Location) -> Result<()> {
        check_made(id, self.next_keyspace, location)
    }
}

impl Reading {
    /// The redo logs first, then a part of the log each.
    fn read_item(&self, item: usize) -> Result<()> {
        match item.checked_sub(1) {
            None => self.find_redo_logs(),
            Some(part) => self.read_part(self.parts[part]),
        }
    }

    fn find_redo_logs(&self) -> Result<()> {
        let mut needed = Needed { from: &self.from, live: BTreeSet::new() };
        let logs = find(&*self.from.storage, self.from.begun, &mut needed)?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        (found.logs, found.of_redo) = (logs, needed.live);
        Ok(())
    }

    fn read_part(&self, range: (u64, u64)) -> Result<()> {
        let Rebuild { store, device, .. } = &self.from;
        let mut entries = Entries::new(store)?;
        let (mut contents, mut live) = (Contents::default(), Vec::new());
        let page_bits = store.log.tail.page_words().ilog2();
        let part = device.scan_part(range, page_bits, &mut |address, record| {
            self.from.check_keyspace(record.keyspace(), || device.location(address))?;
            let content = record.content();
            if content.is_reference {
                live.extend(number_of(record.value()));
            }
            contents.add_record(record.keyspace(), content, record.words());
            entries.add(Key::new(record.keyspace(), record.key()).hash, address)
        })?;
        entries.put()?;
        device.count(range.0, &contents);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.of_log.extend(live);
        found.seams.push((range.0, part));
        Ok(())
    }
}

/// Entries on their way into the index.
struct Entries {
    access: Access,
    group: Vec<(KeyHash, u64)>,
}

impl Entries {
    fn new(store: &Arc<Store>) -> Result<Self> {
        let access = Access::new(store).ok_or_else(|| Error::bug("an opening finds no place"))?;
        Ok(Self { access, group: Vec::with_capacity(GROUP) })
    }

    fn add(&mut self, hash: KeyHash, address: u64) -> Result<()> {
        self.access.store.index.prefetch(hash);
        self.group.push((hash, address));
        if self.group.len() < GROUP { Ok(()) } else { self.put() }
    }

    fn put(&mut self) -> Result<()> {
        let (store, _inside) = self.access.enter();
        for (hash, address) in self.group.drain(..) {
            put(store, hash, address)?;
        }
        Ok(())
    }
}

/// Has the chain of a key begin at `address`, unless it does behind.
fn put(store: &Store, hash: KeyHash, address: u64) -> Result<()> {
    loop {
        match store.index.insert(hash, address) {
            Inserted::New => {
                store.index.finish_growth(hash.slot());
                return Ok(());
            }
            Inserted::Existing(_, entry) if entry.target() >= address => return Ok(()),
            Inserted::Existing(place, entry) if store.index.lead_to(place, entry, address) => return Ok(()),
            Inserted::Existing(..) => {}
            Inserted::Full => return Err(index_too_small()),
        }
    }
}

/// What is looked at in changes of the redo logs besides keys and values.
struct Needed<'r> {
    from: &'r Rebuild,
    /// Values that lie alone and are referred to.
    live: BTreeSet<u64>,
}

impl Look for Needed<'_> {
    fn look(&mut self, change: &RedoChange<'_>, name: &str, is_same_run: bool) -> Result<bool> {
        self.from.check_keyspace(change.keyspace, || Location { file: name.to_owned(), offset: None })?;
        if !change.shape.is_reference {
            return Ok(true);
        }
        self.live.extend(number_of(change.value));
        if is_same_run {
            return Ok(true);
        }
        // It was written before the change, and may not have been synced.
        match self.from.values.read(change.value) {
            Ok(value) => Ok(value.is_some()),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }
}
