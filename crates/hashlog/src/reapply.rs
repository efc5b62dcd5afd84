//! Changes of the redo logs, made again: of each key the newest is there in the end.
//!
//! ```text
//!   a generation's changes, in any order ─► is the key's newest record newer? ─► upsert
//!   its operands, oldest first ─► is the key's newest record newer? ─► append
//! ```
//! Of each record that is made again it is remembered which change it was. Records of earlier
//! generations, and those before the cut, are older than any change of this one.

use std::sync::atomic::Ordering;

use firn_engine::{Error, Result};
use firn_format::hybrid::Shape;
use firn_format::hybrid::redo::RedoChange;

use crate::device::Device;
use crate::log::Parts;
use crate::ops::{Access, Attempt, Key, Newest};

/// Words of the shortest record.
const RECORD_WORDS_MIN: u64 = 2;

/// Which of several changes of a key in one generation is the newest: that of the record that lay
/// highest; there the last one.
type Age = (u64, u32);

/// What makes changes again.
pub(crate) struct Reapply<'a> {
    access: &'a mut Access,
    device: &'a Device,
    generation: u64,
    /// Records of this generation begin here.
    base: u64,
    /// Which change each of them is, by its distance from the base.
    ages: Vec<Age>,
    /// Operands of this generation, which are applied when all else is.
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

impl<'a> Reapply<'a> {
    /// Nothing yet, onto what `access` leads to.
    pub(crate) fn new(access: &'a mut Access, device: &'a Device) -> Self {
        Self { access, device, generation: 0, base: u64::MAX, ages: Vec::new(), operands: Vec::new() }
    }

    /// Makes a change of a generation again; none of an earlier generation comes after it.
    pub(crate) fn take(&mut self, generation: u64, change: &RedoChange<'_>) -> Result<()> {
        if generation != self.generation {
            self.end_generation()?;
            self.generation = generation;
            self.base = self.access.store.log.tail.next();
            self.ages.clear();
        }
        let age = (change.address, change.sequence);
        let RedoChange { shape, keyspace, key, value, expires_at_ms, .. } = *change;
        if shape.is_operand {
            let (key, value) = (key.to_vec(), value.to_vec());
            self.operands.push(Operand { age, shape, keyspace, key, value });
            return Ok(());
        }
        self.put(age, &Parts { shape, keyspace, key, value, expires_at_ms })
    }

    /// Ends the last generation.
    pub(crate) fn end(mut self) -> Result<()> {
        self.end_generation()
    }

    fn end_generation(&mut self) -> Result<()> {
        let mut operands = std::mem::take(&mut self.operands);
        operands.sort_by_key(|operand| operand.age);
        operands.iter().try_for_each(|operand| {
            let Operand { age, shape, keyspace, key, value } = operand;
            let (shape, keyspace) = (*shape, *keyspace);
            self.put(*age, &Parts { shape, keyspace, key, value, expires_at_ms: 0 })
        })
    }

    /// Puts a record where its key has no newer one.
    fn put(&mut self, age: Age, parts: &Parts<'_>) -> Result<()> {
        let key = Key::new(parts.keyspace, parts.key);
        loop {
            let outcome = {
                let (store, inside) = self.access.enter();
                match store.find(key).1 {
                    Newest::At(at, _) if self.ages.get(place_of(self.base, at)) > Some(&age) => {
                        return Ok(());
                    }
                    Newest::OnDevice(first) if first >= self.base => Attempt::OnDevice,
                    // What is older stays as it is: its place has no age.
                    Newest::At(at, _) if at >= self.base && !parts.shape.is_operand => {
                        store.upsert(&inside, key, parts)
                    }
                    _ => store.append(&inside, key, parts),
                }
            };
            match outcome {
                Attempt::Done(at) => {
                    self.note(at, age);
                    return Ok(());
                }
                Attempt::Again => {}
                Attempt::OnDevice => {
                    if self.newest_on_device(key)? > Some(age) {
                        return Ok(());
                    }
                    let (store, inside) = self.access.enter();
                    if let Attempt::Done(at) = store.append(&inside, key, parts) {
                        drop(inside);
                        self.note(at, age);
                        return Ok(());
                    }
                }
                Attempt::NoRoom(_) => {}
                Attempt::IndexFull => {
                    let message =
                        "the index needs more memory than index_bytes_max: raise it, or memory_bytes";
                    return Err(Error::invalid(message));
                }
                Attempt::Failed(error) => return Err(error),
            }
            self.make_room()?;
        }
    }

    fn note(&mut self, at: u64, age: Age) {
        let place = place_of(self.base, at);
        if place >= self.ages.len() {
            self.ages.resize(place + 1, Age::default());
        }
        self.ages[place] = age;
    }

    /// Which change the newest record of `key` is, of those of this generation that have left
    /// memory.
    fn newest_on_device(&mut self, key: Key<'_>) -> Result<Option<Age>> {
        let first = {
            let (store, _inside) = self.access.enter();
            match store.find(key).1 {
                Newest::OnDevice(first) => first,
                Newest::At(at, _) => return Ok(self.ages.get(place_of(self.base, at)).copied()),
                Newest::Nowhere => return Ok(None),
            }
        };
        let mut at = first;
        while at >= self.base {
            let flushed = self.access.store.log.markers.flushed.load(Ordering::Acquire);
            let Some(record) = self.device.read(at, flushed)? else { return Ok(None) };
            if record.is_of(key.keyspace, key.bytes) {
                return Ok(self.ages.get(place_of(self.base, at)).copied());
            }
            at = record.link().previous();
        }
        Ok(None)
    }

    /// Writes out what never changes any more, and takes it out of memory.
    fn make_room(&mut self) -> Result<()> {
        let store = &self.access.store;
        store.epochs.run_due();
        let markers = &store.log.markers;
        let from = markers.flushed.load(Ordering::Acquire);
        let to = markers.safe_read_only.load(Ordering::Acquire);
        self.device.flush(&store.log, from, to)?;
        markers.flushed.store(to.max(from), Ordering::Release);
        store.log.evict(&store.epochs);
        Ok(())
    }
}

/// Where the age of the record at `at` is kept; nowhere for older ones.
fn place_of(base: u64, at: u64) -> usize {
    at.checked_sub(base).map_or(usize::MAX, |words| (words / RECORD_WORDS_MIN) as usize)
}
