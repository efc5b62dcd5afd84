//! Keys that commands have found expired: each is counted once, and soon gone.
//!
//! Commands that only read hold no locks, so that they cannot remove what they find. They note it
//! here, and a task removes it between requests (see `duty`). A key that is noted already is not
//! counted again, however often it is looked for until then. Nor is it counted afterwards, by
//! commands that still read a moment at which it was there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory of what is noted; while there is no room, expired keys that are found are neither counted
/// nor removed, and are the next time.
const MEMORY_BYTES_MAX: usize = 4 << 20;

/// Memory of what was removed, and is remembered: what was removed first is forgotten first.
const REMOVED_BYTES_MAX: usize = 1 << 20;

/// Memory that a note takes beside its key.
const NOTE_BYTES: usize = 64;

/// The notes of a server.
#[derive(Debug, Default)]
pub(crate) struct ExpiredKeys {
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    /// The engine's keys, and when what was found there had expired.
    keys: BTreeMap<Vec<u8>, u64>,
    memory_bytes: usize,
    /// The same of keys that were removed since, each in `order` too.
    removed: BTreeMap<Vec<u8>, u64>,
    order: VecDeque<Vec<u8>>,
    removed_bytes: usize,
}

impl ExpiredKeys {
    /// What stands at the engine's key `key` is found to have expired at `expires_at_ms`; whether
    /// that is news.
    pub(crate) fn note(&self, key: &[u8], expires_at_ms: u64) -> bool {
        let mut notes = self.notes();
        if notes.removed.get(key) == Some(&expires_at_ms) {
            return false;
        }
        if let Some(known) = notes.keys.get_mut(key) {
            // Something else may stand there by now, and have expired too.
            return std::mem::replace(known, expires_at_ms) != expires_at_ms;
        }
        let bytes = key.len() + NOTE_BYTES;
        let is_room = notes.memory_bytes + bytes <= MEMORY_BYTES_MAX;
        if is_room {
            notes.memory_bytes += bytes;
            notes.keys.insert(key.to_vec(), expires_at_ms);
        }
        is_room
    }

    /// A key that is to be removed, if it still is what was found.
    pub(crate) fn first(&self) -> Option<Vec<u8>> {
        self.notes().keys.keys().next().cloned()
    }

    /// What had expired at `key` at `expires_at_ms` is removed; whether that it expired was noted.
    pub(crate) fn removed(&self, key: &[u8], expires_at_ms: u64) -> bool {
        let mut notes = self.notes();
        notes.remember(key, expires_at_ms);
        notes.forget(key)
    }

    /// What is noted of `key` holds no more: something else stands there, or nothing.
    pub(crate) fn forget(&self, key: &[u8]) {
        self.notes().forget(key);
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    /// Whether there was something to forget.
    fn forget(&mut self, key: &[u8]) -> bool {
        let is_known = self.keys.remove(key).is_some();
        if is_known {
            self.memory_bytes -= key.len() + NOTE_BYTES;
        }
        is_known
    }

    fn remember(&mut self, key: &[u8], expires_at_ms: u64) {
        if self.removed.insert(key.to_vec(), expires_at_ms).is_none() {
            self.order.push_back(key.to_vec());
            self.removed_bytes += 2 * key.len() + NOTE_BYTES;
        }
        while self.removed_bytes > REMOVED_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.removed.remove(&oldest);
            self.removed_bytes -= 2 * oldest.len() + NOTE_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_expired_is_news_once() {
        let expired = ExpiredKeys::default();
        assert!(expired.note(b"b", 5));
        assert!(expired.note(b"a", 5));
        assert!(!expired.note(b"a", 5));
        assert!(expired.note(b"a", 6), "it was set again");
        assert_eq!(expired.first(), Some(b"a".to_vec()));
        assert!(expired.removed(b"a", 6));
        assert!(!expired.note(b"a", 6), "somebody still reads a moment at which it was there");
        assert!(expired.note(b"a", 7), "it was set again");
        expired.forget(b"a");
        assert_eq!(expired.first(), Some(b"b".to_vec()));
        assert!(expired.note(b"a", 7));
        assert!(!expired.removed(b"c", 1), "nobody had found it");
        assert!(!expired.note(b"c", 1));
    }

    #[test]
    fn notes_have_a_limit() {
        let expired = ExpiredKeys::default();
        let key = |number: u32| [&number.to_be_bytes()[..], &[0; 1000]].concat();
        let note_all = |at| (0..10_000).filter(|number| expired.note(&key(*number), at)).count();
        let noted = note_all(1);
        assert!((3000..5000).contains(&noted), "{noted}");
        while let Some(key) = expired.first() {
            assert!(expired.removed(&key, 1));
        }
        let notes = expired.notes();
        assert_eq!((notes.memory_bytes, notes.removed.len()), (0, notes.order.len()));
        assert!(notes.removed_bytes <= REMOVED_BYTES_MAX && notes.removed.len() > 400);
        drop(notes);
        assert_eq!(note_all(2), noted);
    }
}
