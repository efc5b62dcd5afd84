//! What a lookup in a run touches, loaded ahead of it: filter line, entries, record.

use std::ops::Range;

use firn_format::Position;
use firn_format::key::key_prefix;
use firn_storage::backend::prefetch;

use super::Run;
use crate::buffer::entry::RunEntry;

/// Entries in a cache line.
const LINE_ENTRIES: usize = 64 / size_of::<RunEntry>();

impl Run {
    /// Begins to load what a lookup of a key with this hash looks at first.
    #[inline]
    pub(crate) fn prefetch_filter(&self, hash: u32) {
        if let Some(line) = self.filter.line(hash) {
            prefetch(line);
        }
    }

    /// Begins to load the entries among which `key` is found, once the filter has arrived; `None`
    /// if it is not here.
    #[inline]
    pub(crate) fn prefetch_entries(&self, hash: u32, key: &[u8]) -> Option<Range<usize>> {
        if !self.filter.contains(hash) {
            return None;
        }
        let group = self.index.group(key_prefix(key.strip_prefix(self.common.as_slice())?, 0));
        self.entries.get(group.start..)?.iter().take(group.len()).step_by(LINE_ENTRIES).for_each(prefetch);
        Some(group)
    }

    /// Where the newest record of `key` lies, by the entries that
    /// [`prefetch_entries`](Self::prefetch_entries) named.
    #[inline]
    pub(crate) fn likely_position(&self, key: &[u8], group: Range<usize>) -> Option<Position> {
        let prefix = key_prefix(key.get(self.common.len()..)?, 0);
        let entries = self.entries.get(group.start..)?.iter().take(group.len());
        entries.into_iter().find(|entry| entry.prefix == prefix).map(RunEntry::position)
    }
}
