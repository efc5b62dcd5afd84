//! Reading several keys at once: what is not in memory they wait for together.
//!
//! ```text
//!   keys, some at a time ─► what memory has ─► the rest: ways along their records, in rounds ─► values, in order
//! ```
//! A round asks the device for one thing for each key: a page of a run, or a record. Ways take as
//! many rounds as the longest of them has steps.

use firn_engine::{KeyspaceId, ReadAt, Result, Values};

use super::{Caller, Looked};
use crate::chain::Chain;
use crate::ops::{Key, Seen};

/// How often several keys are read again before operations are stopped for them.
const TRIES_MAX: u32 = 16;

/// Keys that go together.
const TOGETHER_MAX: usize = 64;

/// Bytes of values from memory that wait for values of keys before them.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// What is known of a key.
enum Known {
    /// What was found, and the end of its value among those that wait.
    Is(Looked, usize),
    /// It is one of those that are looked for together.
    Asked,
}

/// Keys that go together, as far as they are known.
struct Together<'k> {
    end: u64,
    /// Each key, the count of its stripe before it was looked at, and what was seen of it.
    keys: Vec<(Key<'k>, u64, Seen, Known)>,
    /// Of keys behind the first one that is looked for.
    waiting: Vec<u8>,
}

impl Caller {
    /// Asks the device for what lookups of `keys` read first. Does not wait for that.
    pub(crate) fn ask_for(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) {
        for (key, address) in self.load_buckets(keyspace, keys) {
            match address {
                0 => self.database.store.cold.will_read(key.hash.order()),
                address => self.database.device.will_read(address),
            }
        }
    }

    /// Loads into the processor's cache what lookups of `keys` touch in memory. Answers those that
    /// take the device.
    pub(crate) fn prefetch<'k>(&mut self, keyspace: KeyspaceId, keys: &[&'k [u8]]) -> Vec<&'k [u8]> {
        let mut on_device = self.load_buckets(keyspace, keys);
        let cold = &self.database.store.cold;
        on_device.retain(|(key, address)| *address != 0 || cold.may_have(key.hash.order()));
        on_device.into_iter().map(|(key, _)| key.bytes).collect()
    }

    /// Has the read cache keep what `keys` have on the device, as far as it keeps such values. They
    /// wait for the device together.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn load(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) -> Result<()> {
        self.database.check_open()?;
        keys.iter().try_for_each(|key| self.check_key(keyspace, key))?;
        let mut chain = Chain { database: &self.database, access: &mut self.access };
        for keys in keys.chunks(TOGETHER_MAX) {
            let keys: Vec<Key<'_>> = keys.iter().map(|key| Key::new(keyspace.0, key)).collect();
            for (key, history) in keys.iter().zip(chain.histories(&keys, u64::MAX)?) {
                if let Some(history) = history {
                    chain.copy_to_cache(*key, &history);
                }
            }
        }
        Ok(())
    }

    /// Values of several keys as of one moment; `None` if they would have to be waited for.
    pub(crate) fn multi_get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
    ) -> Result<Option<()>> {
        self.database.check_open()?;
        keys.iter().try_for_each(|key| self.check_key(keyspace, key))?;
        let end = self.end_of(at)?;
        let mut seen = Vec::new();
        if end != u64::MAX || keys.len() < 2 {
            return Ok(self.read_all(end, keyspace, keys, out, &mut seen)?.then_some(()));
        }
        for _ in 0..TRIES_MAX {
            seen.clear();
            if !self.read_all(end, keyspace, keys, out, &mut seen)? {
                return Ok(None);
            }
            if self.is_still_so(keyspace, keys, &seen)? {
                return Ok(Some(()));
            }
        }
        let snapshot = self.database.snapshot()?;
        let end = self.database.snapshots.end_of(&snapshot)?;
        Ok(self.read_all(end, keyspace, keys, out, &mut seen)?.then_some(()))
    }

    /// Reads `keys` until `out` is full; `seen` gets what each was seen as, and the count of its
    /// stripe before. `false` if one would have to be waited for.
    fn read_all(
        &mut self,
        end: u64,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
        seen: &mut Vec<(u64, Seen)>,
    ) -> Result<bool> {
        out.clear();
        while out.len() < keys.len() && (out.is_empty() || !out.is_full()) {
            let rest = &keys[out.len()..];
            let rest = &rest[..rest.len().min(TOGETHER_MAX)];
            let mut together = Together { end, keys: Vec::new(), waiting: Vec::new() };
            if rest.len() > 1 {
                let _on_device = self.load_buckets(keyspace, rest);
            }
            if !self.look_in_memory(keyspace, rest, &mut together, (out, seen))? {
                return Ok(false);
            }
            self.look_together(together, (out, seen))?;
        }
        Ok(true)
    }

    /// Loads into the processor's cache what lookups of `keys` touch in memory. Answers keys whose
    /// chain begins on the device, with its address; 0 where the log has no chain.
    fn load_buckets<'k>(&mut self, keyspace: KeyspaceId, keys: &[&'k [u8]]) -> Vec<(Key<'k>, u64)> {
        let (store, _inside) = self.access.enter();
        let key = |key: &&'k [u8]| Key::new(keyspace.0, key);
        keys.iter().for_each(|bytes| store.index.prefetch(key(bytes).hash));
        keys.iter().map(key).filter_map(|key| Some((key, store.prefetch(key.hash)?))).collect()
    }

    /// Reads what memory has of `keys`: to `out`, until one is not there. What follows waits for
    /// that one. `false` if this caller may not.
    fn look_in_memory<'k>(
        &mut self,
        keyspace: KeyspaceId,
        keys: &[&'k [u8]],
        together: &mut Together<'k>,
        (out, seen): (&mut Values, &mut Vec<(u64, Seen)>),
    ) -> Result<bool> {
        let mut value = std::mem::take(&mut self.scratch);
        let mut is_done = true;
        for key in keys {
            let key = Key::new(keyspace.0, key);
            let stripe = self.database.store.stripes.seen(key.hash);
            let (known, found) = match self.look_up_in_memory(key, together.end, &mut value)? {
                Some((Looked::MustWait, _)) => {
                    is_done = false;
                    break;
                }
                Some((looked, found)) if together.keys.is_empty() => {
                    push(looked, &value, out);
                    seen.push((stripe, found));
                    match out.is_full() {
                        true => break,
                        false => continue,
                    }
                }
                Some((looked, found)) => {
                    together.waiting.extend_from_slice(&value);
                    (Known::Is(looked, together.waiting.len()), found)
                }
                None => (Known::Asked, Seen::Absent { moves: 0 }),
            };
            together.keys.push((key, stripe, found, known));
            if together.waiting.len() >= WAITING_BYTES_MAX {
                break;
            }
        }
        self.scratch = value;
        Ok(is_done)
    }

    /// Has the device read what memory did not have; adds all keys of `together` to `out`, in their
    /// order, until it is full.
    fn look_together(
        &mut self,
        together: Together<'_>,
        (out, seen): (&mut Values, &mut Vec<(u64, Seen)>),
    ) -> Result<()> {
        let Together { end, keys, waiting } = together;
        if keys.is_empty() {
            return Ok(());
        }
        let is_asked = |known: &Known| matches!(known, Known::Asked);
        let asked: Vec<Key<'_>> =
            keys.iter().filter(|(.., known)| is_asked(known)).map(|(key, ..)| *key).collect();
        let mut chain = Chain { database: &self.database, access: &mut self.access };
        let mut histories = chain.histories(&asked, end)?.into_iter();
        let (mut value, mut start) = (Vec::new(), 0);
        for (key, mut stripe, mut found, known) in keys {
            match known {
                Known::Is(looked, value_end) => {
                    push(looked, &waiting[start..value_end], out);
                    start = value_end;
                }
                Known::Asked => {
                    let looked = match histories.next().flatten() {
                        Some(history) => {
                            let mut chain = Chain { database: &self.database, access: &mut self.access };
                            let (resolved, was) = chain.settle(key, end, &history)?;
                            found = was;
                            Looked::of(resolved, &mut value)
                        }
                        None => {
                            stripe = self.database.store.stripes.seen(key.hash);
                            let looked;
                            (looked, found) = self.look_up(key, end, &mut value)?;
                            looked
                        }
                    };
                    push(looked, &value, out);
                }
            }
            seen.push((stripe, found));
            if out.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Whether every key that was read is as it was seen: then all were so at this moment.
    fn is_still_so(&mut self, keyspace: KeyspaceId, keys: &[&[u8]], seen: &[(u64, Seen)]) -> Result<bool> {
        for (key, (stripe, seen)) in keys.iter().zip(seen) {
            let key = Key::new(keyspace.0, key);
            let is_so = {
                let (store, _inside) = self.access.enter();
                store.is_as_seen(key, *seen)
            };
            if !is_so || self.database.store.stripes.now(key.hash) != *stripe {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Adds what was found of a key.
fn push(looked: Looked, value: &[u8], out: &mut Values) {
    match looked {
        Looked::Value(expires_at_ms) => out.push_until(value, expires_at_ms),
        Looked::Expired => out.push_expired(),
        Looked::Nothing | Looked::MustWait => out.push(None),
    }
}
