//! Keys that commands have found expired: each is counted once, and soon gone.
//!
//! Commands that only read hold no locks, so that they cannot remove what they find. They note it here, and the task that
//! does what is to be done between requests removes it. A key that is noted already is not counted again, however often it is
//! looked for until then.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory of what is noted; while there is no room, expired keys that are found are neither counted nor removed, and are the
/// next time.
const MEMORY_BYTES_MAX: usize = 4 << 20;

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
}

impl ExpiredKeys {
    /// What stands at the engine's key `key` is found to have expired at `expires_at_ms`; whether that is news.
    pub(crate) fn note(&self, key: &[u8], expires_at_ms: u64) -> bool {
        let mut notes = self.notes();
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

    /// What had expired at `key` is gone; whether it was noted.
    pub(crate) fn forget(&self, key: &[u8]) -> bool {
        let mut notes = self.notes();
        let is_known = notes.keys.remove(key).is_some();
        if is_known {
            notes.memory_bytes -= key.len() + NOTE_BYTES;
        }
        is_known
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert!(expired.forget(b"a"));
        assert!(!expired.forget(b"a"));
        assert_eq!(expired.first(), Some(b"b".to_vec()));
    }

    #[test]
    fn notes_have_a_limit() {
        let expired = ExpiredKeys::default();
        let key = |number: u32| [&number.to_be_bytes()[..], &[0; 1000]].concat();
        let noted = (0..10_000).filter(|number| expired.note(&key(*number), 1)).count();
        assert!((3000..5000).contains(&noted), "{noted}");
        assert!(!expired.note(b"k", 1) || expired.forget(b"k"));
        while let Some(key) = expired.first() {
            assert!(expired.forget(&key));
        }
        assert_eq!((0..10_000).filter(|number| expired.note(&key(*number), 1)).count(), noted);
    }
}
