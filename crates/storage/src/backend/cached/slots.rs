//! Which block lies in which slot, and which goes next.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A file, for as long as it is open or has blocks here; a name that was removed and comes again is
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId(u64);

/// A block of a file, by its number.
pub(super) type Key = (FileId, u64);

/// Where a block lies.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The number of its slot.
    pub(super) slot: usize,
    /// Which filling of that slot it is.
    pub(super) filling: u64,
    /// The checksum of each of its pieces.
    pub(super) sums: Arc<[u64]>,
}

/// Slots of one length. The block that goes is one that was not asked for since the hand came by
/// last (CLOCK).
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    slots_max: usize,
    /// Slots that have no block.
    free: Vec<usize>,
    hand: usize,
    blocks: BTreeMap<Key, usize>,
    names: HashMap<String, FileId>,
    files: HashMap<FileId, File>,
    next_file: u64,
    evictions: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// `None`: it is free, or being filled.
    key: Option<Key>,
    filling: u64,
    was_used: bool,
    sums: Option<Arc<[u64]>>,
}

#[derive(Debug)]
struct File {
    name: String,
    bytes: u64,
    handles: usize,
    blocks: usize,
}

/// A slot that is being filled.
#[derive(Debug)]
#[must_use]
pub(super) struct Taken {
    pub(super) slot: usize,
    filling: u64,
}

impl Slots {
    pub(super) fn new(slots_max: usize) -> Self {
        Self { slots_max, ..Self::default() }
    }

    /// How many slots have a block.
    pub(super) fn held(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// One more handle of the file `name`, of `bytes` bytes; `None` if one of another length is
    /// known by that name.
    pub(super) fn open(&mut self, name: &str, bytes: u64) -> Option<FileId> {
        if let Some(id) = self.names.get(name) {
            let file = self.files.get_mut(id).filter(|file| file.bytes == bytes)?;
            file.handles += 1;
            return Some(*id);
        }
        let id = FileId(self.next_file);
        self.next_file += 1;
        self.names.insert(name.to_owned(), id);
        self.files.insert(id, File { name: name.to_owned(), bytes, handles: 1, blocks: 0 });
        Some(id)
    }

    /// One handle of `file` fewer. Its blocks stay.
    pub(super) fn close(&mut self, file: FileId) {
        if let Some(known) = self.files.get_mut(&file) {
            known.handles = known.handles.saturating_sub(1);
        }
        self.forget_unused(file);
    }

    /// The next file called `name` is another one; the blocks of the old one are given up.
    pub(super) fn forget(&mut self, name: &str) {
        let Some(id) = self.names.remove(name) else { return };
        self.files.remove(&id);
        let keys: Vec<Key> = self.blocks.range((id, 0)..=(id, u64::MAX)).map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.vacate(key));
    }

    /// Whether the block `key` is here. It stays no longer for that.
    pub(super) fn has(&self, key: Key) -> bool {
        self.blocks.contains_key(&key)
    }

    /// The block `key`, which is used now.
    pub(super) fn find(&mut self, key: Key) -> Option<Found> {
        let slot = *self.blocks.get(&key)?;
        let known = self.slots.get_mut(slot)?;
        known.was_used = true;
        Some(Found { slot, filling: known.filling, sums: Arc::clone(known.sums.as_ref()?) })
    }

    /// A slot for another block; the block that was there is gone. `None` if there is none.
    pub(super) fn take(&mut self) -> Option<Taken> {
        if let Some(slot) = self.free.pop() {
            return self.begin(slot);
        }
        if self.slots.len() < self.slots_max {
            self.slots.push(Slot::default());
            return self.begin(self.slots.len() - 1);
        }
        // Twice around: once for blocks that were used.
        for _ in 0..2 * self.slots.len() {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let known = self.slots.get_mut(slot)?;
            let Some(key) = known.key else { continue };
            if !std::mem::take(&mut known.was_used) {
                self.vacate(key);
                self.evictions += 1;
                self.free.pop();
                return self.begin(slot);
            }
        }
        None
    }

    fn begin(&mut self, slot: usize) -> Option<Taken> {
        let known = self.slots.get_mut(slot)?;
        known.filling += 1;
        Some(Taken { slot, filling: known.filling })
    }

    /// The slot has the block `key`, whose pieces have these checksums; nothing if its file was
    /// forgotten meanwhile.
    pub(super) fn fill(&mut self, taken: Taken, key: Key, sums: Arc<[u64]>) {
        let Some(file) = self.files.get_mut(&key.0).filter(|_| !self.blocks.contains_key(&key)) else {
            return self.give_back(taken);
        };
        let Some(slot) = self.slots.get_mut(taken.slot) else { return };
        file.blocks += 1;
        *slot = Slot { key: Some(key), filling: taken.filling, was_used: false, sums: Some(sums) };
        self.blocks.insert(key, taken.slot);
    }

    /// The slot could not be filled.
    pub(super) fn give_back(&mut self, taken: Taken) {
        self.free.push(taken.slot);
    }

    /// Gives up the block `key` if it is still the one that was `found`; whether it was.
    pub(super) fn drop_bad(&mut self, key: Key, found: &Found) -> bool {
        let is_same = self.blocks.get(&key) == Some(&found.slot)
            && self.slots.get(found.slot).is_some_and(|slot| slot.filling == found.filling);
        if is_same {
            self.vacate(key);
        }
        is_same
    }

    /// Makes the slot of the block `key` free.
    fn vacate(&mut self, key: Key) {
        let Some(slot) = self.blocks.remove(&key) else { return };
        if let Some(known) = self.slots.get_mut(slot) {
            *known = Slot { filling: known.filling, ..Slot::default() };
            self.free.push(slot);
        }
        if let Some(file) = self.files.get_mut(&key.0) {
            file.blocks -= 1;
        }
        self.forget_unused(key.0);
    }

    fn forget_unused(&mut self, file: FileId) {
        if self.files.get(&file).is_some_and(|known| known.handles == 0 && known.blocks == 0)
            && let Some(known) = self.files.remove(&file)
        {
            self.names.remove(&known.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(slots: &mut Slots, key: Key) {
        let taken = slots.take().unwrap();
        slots.fill(taken, key, Arc::new([key.1]));
    }

    #[test]
    fn what_was_asked_for_stays_and_what_is_removed_goes() {
        let mut slots = Slots::new(3);
        let a = slots.open("a", 100).unwrap();
        assert_eq!(slots.open("a", 99), None, "another length");
        let b = slots.open("b", 100).unwrap();
        (0..3).for_each(|block| put(&mut slots, (a, block)));
        assert_eq!(slots.find((a, 0)).unwrap().sums[..], [0]);
        put(&mut slots, (b, 7));
        assert!(slots.find((a, 0)).is_some() && slots.find((a, 1)).is_none(), "the first one not used goes");
        assert_eq!((slots.held(), slots.evictions()), (3, 1));
        slots.forget("a");
        assert!(slots.find((a, 0)).is_none());
        assert_eq!(slots.held(), 1);
        put(&mut slots, (a, 5));
        assert!(slots.find((a, 5)).is_none(), "its file is gone");
        assert_ne!(slots.open("a", 50), Some(a), "another file of that name");
        let found = slots.find((b, 7)).unwrap();
        assert!(slots.drop_bad((b, 7), &found) && !slots.drop_bad((b, 7), &found));
        assert_eq!(slots.held(), 0);
        slots.close(b);
        assert_eq!(slots.names.len(), 1, "nobody has it open, and nothing of it is here");
        let taken = [slots.take(), slots.take(), slots.take()];
        assert!(taken.iter().all(Option::is_some) && slots.take().is_none(), "all are being filled");
    }
}
