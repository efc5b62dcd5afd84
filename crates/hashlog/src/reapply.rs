//! Changes of the redo logs, made again: of each key the newest is there in the end.
//!
//! ```text
//!   a generation's changes, in any order ─► is the key's newest record newer? ─► upsert
//!   its operands, oldest first ─► is the key's newest record newer? ─► append
//! ```
//! Of each record that is made again it is remembered which change it was. Records of earlier
//! generations, and those before the cut, are older than any change of this one.
//!
//! Several threads read the same files, each for a part of the slots. So no two touch one slot, and
//! changes of one key are made by one thread. A thread loads the buckets of some changes into the
//! processor's cache before it makes the first of them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use firn_arena::Words;
use firn_engine::{Error, Result};
use firn_format::hybrid::Shape;
use firn_format::hybrid::redo::RedoChange;
use firn_storage::Storage;

use crate::device::Device;
use crate::error::no_memory;
use crate::index::SLOTS;
use crate::log::Parts;
use crate::ops::{Access, Attempt, Key, Newest, Store};
use crate::parallel::Threads;
use crate::redo::{Recovered, replay};

/// Changes whose buckets are loaded together.
const GROUP: usize = 32;

/// Which of several changes of a key in one generation is the newest: that of the record that lay
/// highest; there the last one.
type Age = (u64, u64);

/// Where changes are made again.
pub(crate) struct Again {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) store: Arc<Store>,
    pub(crate) device: Device,
}

impl Again {
    /// Makes the changes of `logs` again; gives back what they were made in.
    ///
    /// # Errors
    /// Those of the storage; `Invalid` if index_bytes_max is too little.
    pub(crate) fn reapply(self, threads: &Threads, logs: &[Recovered]) -> Result<Self> {
        let mut generations: BTreeMap<u64, Vec<Recovered>> = BTreeMap::new();
        for log in logs {
            generations.entry(log.generation).or_default().push(log.clone());
        }
        generations.into_values().try_fold(self, |again, logs| {
            let bytes = logs.iter().map(|log| log.end).sum();
            let ages = Ages::new(again.store.log.tail.next(), bytes, again.store.log.tail.page_words());
            let parts = threads.count();
            let generation =
                Generation { again, logs, ages: ages.map_err(no_memory)?, parts, flushing: Mutex::new(()) };
            Ok(threads.share_out(generation, parts, Generation::reapply_part)?.again)
        })
    }
}

/// One generation's changes, which threads make again together.
struct Generation {
    again: Again,
    logs: Vec<Recovered>,
    ages: Ages,
    /// Parts that the slots are in.
    parts: usize,
    /// Held by the thread that writes pages out.
    flushing: Mutex<()>,
}

impl Generation {
    /// Makes those changes again whose keys are in one part of the slots.
    fn reapply_part(&self, part: usize) -> Result<()> {
        let access = Access::new(&self.again.store);
        let access = access.ok_or_else(|| Error::bug("the first session finds no place"))?;
        let mut reapply = Reapply { generation: self, access, operands: Vec::new() };
        for log in &self.logs {
            replay(&*self.again.storage, log, &mut |changes| reapply.take(part, changes))?;
        }
        reapply.end()
    }
}

/// Which change each record of a generation is.
struct Ages {
    /// Its records begin here.
    base: u64,
    /// For each word of the log one; a record's first two have its age. Takes memory where there
    /// are any.
    words: Words,
}

impl Ages {
    /// None yet, of records from `base` on, which redo logs of so many bytes have.
    fn new(base: u64, bytes: u64, page_words: u64) -> std::io::Result<Self> {
        // A change is as long as its record; the end of a page may be too short for one.
        let words = bytes / 8 * 2 + 2 * page_words;
        Ok(Self { base, words: Words::zeroed(usize::try_from(words).unwrap_or(usize::MAX))? })
    }

    /// That of the record at `at`; `None` for older ones.
    fn get(&self, at: u64) -> Option<Age> {
        let first = at.checked_sub(self.base)? as usize;
        let word = |index: usize| self.words.word(index).load(Ordering::Relaxed);
        Some((word(first), word(first + 1)))
    }

    fn set(&self, at: u64, (address, sequence): Age) {
        let first = (at - self.base) as usize;
        self.words.word(first).store(address, Ordering::Relaxed);
        self.words.word(first + 1).store(sequence, Ordering::Relaxed);
    }
}

/// What makes changes again on one thread.
struct Reapply<'g> {
    generation: &'g Generation,
    access: Access,
    /// Operands, which are applied when all else is.
    operands: Vec<Operand>,
}

/// One operand of a merge.
struct Operand {
    age: Age,
    shape: Shape,
    keyspace: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Reapply<'_> {
    /// Makes those of `changes` again whose keys are in this `part`.
    fn take(&mut self, part: usize, changes: &[RedoChange<'_>]) -> Result<()> {
        let parts = self.generation.parts;
        let mut group = Vec::with_capacity(GROUP);
        for change in changes {
            let key = Key::new(change.keyspace, change.key);
            if key.hash.slot() * parts / SLOTS != part {
                continue;
            }
            self.access.store.index.prefetch(key.hash);
            group.push((key, change));
            if group.len() == GROUP {
                self.take_group(&group)?;
                group.clear();
            }
        }
        self.take_group(&group)
    }

    fn take_group(&mut self, group: &[(Key<'_>, &RedoChange<'_>)]) -> Result<()> {
        {
            let (store, _inside) = self.access.enter();
            group.iter().for_each(|(key, _)| {
                let _on_device = store.prefetch(key.hash);
            });
        }
        for (key, change) in group {
            let age = (change.address, u64::from(change.sequence));
            let RedoChange { shape, keyspace, key: bytes, value, expires_at_ms, .. } = **change;
            if shape.is_operand {
                let (key, value) = (bytes.to_vec(), value.to_vec());
                self.operands.push(Operand { age, shape, keyspace, key, value });
                continue;
            }
            self.put(age, *key, &Parts { shape, keyspace, key: bytes, value, expires_at_ms })?;
        }
        Ok(())
    }

    /// Applies the operands.
    fn end(&mut self) -> Result<()> {
        let mut operands = std::mem::take(&mut self.operands);
        operands.sort_by_key(|operand| operand.age);
        operands.iter().try_for_each(|operand| {
            let Operand { age, shape, keyspace, key, value } = operand;
            let (shape, keyspace) = (*shape, *keyspace);
            let parts = Parts { shape, keyspace, key, value, expires_at_ms: 0 };
            self.put(*age, Key::new(keyspace, key), &parts)
        })
    }

    /// Puts a record where its key has no newer one.
    fn put(&mut self, age: Age, key: Key<'_>, parts: &Parts<'_>) -> Result<()> {
        let ages = &self.generation.ages;
        loop {
            let outcome = {
                let (store, inside) = self.access.enter();
                let outcome = match store.find(key).1 {
                    Newest::At(at, _) if ages.get(at) > Some(age) => return Ok(()),
                    Newest::OnDevice(first) if first >= ages.base => Attempt::OnDevice,
                    // What is older stays as it is: it has no age.
                    Newest::At(at, _) if at >= ages.base && !parts.shape.is_operand => {
                        store.upsert(&inside, key, parts)
                    }
                    _ => store.append(&inside, key, parts),
                };
                store.index.finish_growth(key.hash.slot());
                outcome
            };
            match outcome {
                Attempt::Done(at) => {
                    ages.set(at, age);
                    return Ok(());
                }
                Attempt::Again => {}
                Attempt::OnDevice => {
                    if self.newest_on_device(key)? > Some(age) {
                        return Ok(());
                    }
                    let (store, inside) = self.access.enter();
                    if let Attempt::Done(at) = store.append(&inside, key, parts) {
                        ages.set(at, age);
                        return Ok(());
                    }
                }
                Attempt::NoRoom(_) => {}
                Attempt::IndexFull => return Err(index_too_small()),
                Attempt::Failed(error) => return Err(error),
            }
            self.make_room()?;
        }
    }

    /// Which change the newest record of `key` is, of those of this generation that have left
    /// memory.
    fn newest_on_device(&mut self, key: Key<'_>) -> Result<Option<Age>> {
        let Generation { ages, again, .. } = self.generation;
        let first = {
            let (store, _inside) = self.access.enter();
            match store.find(key).1 {
                Newest::OnDevice(first) => first,
                Newest::At(at, _) => return Ok(ages.get(at)),
                Newest::Nowhere => return Ok(None),
            }
        };
        let mut at = first;
        while at >= ages.base {
            let flushed = self.access.store.log.markers.flushed.load(Ordering::Acquire);
            let Some(record) = again.device.read(at, flushed)? else { return Ok(None) };
            if record.is_of(key.keyspace, key.bytes) {
                return Ok(ages.get(at));
            }
            at = record.link().previous();
        }
        Ok(None)
    }

    /// Writes out what never changes any more, and takes it out of memory.
    fn make_room(&mut self) -> Result<()> {
        let Generation { flushing, again, .. } = self.generation;
        let _turn = flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let store = &self.access.store;
        store.epochs.run_due();
        store.divide_memory();
        let markers = &store.log.markers;
        let from = markers.flushed.load(Ordering::Acquire);
        let to = markers.safe_read_only.load(Ordering::Acquire);
        again.device.flush(&store.log, from, to)?;
        markers.flushed.store(to.max(from), Ordering::Release);
        store.log.evict(&store.epochs);
        Ok(())
    }
}

/// There is no memory for the entries of an opening.
pub(crate) fn index_too_small() -> Error {
    Error::invalid("the index needs more memory than index_bytes_max: raise it, or memory_bytes")
}
