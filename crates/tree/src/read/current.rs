//! The key that a scan resolves.

use firn_format::key::Entry;
use firn_format::{Kind, Sequence};

use super::resolve::Hit;

/// The key being resolved, or the last resolved one, and what was found of it. Memory is reused
/// from key to key.
#[derive(Default)]
pub(super) struct Current {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// When the value expires; 0 = never.
    pub(super) expires_at_ms: u64,
    /// Backward: versions of the key, oldest first.
    pub(super) versions: Vec<Held>,
}

impl Current {
    /// `key` is resolved next.
    #[inline]
    pub(super) fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.versions.clear();
    }

    /// Whether `key` is the one.
    #[inline]
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        self.key.as_slice() == key
    }

    /// Holds a version that is newer than all others held, and forgets those that it hides.
    #[inline]
    pub(super) fn hold_newer(&mut self, entry: &Entry<'_>) {
        if entry.kind != Kind::Merge {
            self.versions.clear();
        }
        self.versions.push(Held::of(entry));
    }
}

/// A version kept while the walk moves on.
pub(super) struct Held {
    sequence: Sequence,
    kind: Kind,
    expires_at_ms: u64,
    value: Vec<u8>,
}

impl Held {
    pub(super) fn of(entry: &Entry<'_>) -> Self {
        let Entry { sequence, kind, expires_at_ms, value, .. } = *entry;
        Self { sequence, kind, expires_at_ms, value: value.to_vec() }
    }

    pub(super) fn hit(&self) -> Hit<'_> {
        let Self { sequence, kind, expires_at_ms, value } = self;
        Hit { sequence: *sequence, kind: *kind, expires_at_ms: *expires_at_ms, value }
    }
}
