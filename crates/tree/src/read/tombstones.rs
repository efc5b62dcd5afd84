//! The range tombstones that a walk may meet.

use std::sync::Arc;

use firn_format::Sequence;
use firn_format::tombstone::FragmentList;

use crate::buffer::Run;
use crate::memtable::RangeDeletes;
use crate::version::Table;

/// The range tombstones of one place.
pub(super) enum Tombstones {
    Memtable(Arc<RangeDeletes>),
    Run(Arc<Run>),
    Table(Arc<Table>),
}

impl Tombstones {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Tombstones::Memtable(lists) => lists.is_empty(),
            Tombstones::Run(run) => run.range_tombstones().is_empty(),
            Tombstones::Table(table) => table.reader().tombstones().is_empty(),
        }
    }

    fn lists(&self) -> impl Iterator<Item = &FragmentList> {
        let (many, one) = match self {
            Tombstones::Memtable(deletes) => (deletes.lists(), None),
            Tombstones::Run(run) => (&[][..], Some(&**run.range_tombstones())),
            Tombstones::Table(table) => (&[][..], Some(table.reader().tombstones())),
        };
        many.iter().map(|list| &**list).chain(one)
    }
}

/// The range tombstones over the keys of one walk. They are searched once for all keys that are
/// covered alike. Where there are many, a search costs more than all else that a walk does for a
/// key.
pub(super) struct Covers {
    places: Vec<Tombstones>,
    before: Sequence,
    /// Of every key from `start` to before `end`, `newest` is the newest range tombstone. Nothing
    /// is known at first.
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    newest: Option<Sequence>,
    is_known: bool,
}

impl Covers {
    /// The tombstones of `places` that are seen below `before`.
    pub(super) fn new(places: Vec<Tombstones>, before: Sequence) -> Self {
        Self { places, before, start: Vec::new(), end: None, newest: None, is_known: false }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Sequence of the newest one over `key`.
    pub(super) fn newest(&mut self, key: &[u8]) -> Option<Sequence> {
        let is_inside =
            self.is_known && self.start.as_slice() <= key && self.end.as_deref().is_none_or(|end| key < end);
        if !is_inside {
            self.search(key);
        }
        self.newest
    }

    fn search(&mut self, key: &[u8]) {
        let (mut start, mut end, mut newest): (&[u8], Option<&[u8]>, _) = (&[], None, None);
        for list in self.places.iter().flat_map(Tombstones::lists) {
            let stretch = list.stretch_around(key, self.before);
            start = start.max(stretch.start);
            end = match (end, stretch.end) {
                (Some(end), Some(other)) => Some(end.min(other)),
                (end, other) => end.or(other),
            };
            newest = newest.max(stretch.newest);
        }
        self.start.clear();
        self.start.extend_from_slice(start);
        self.end = end.map(<[u8]>::to_vec);
        (self.newest, self.is_known) = (newest, true);
    }
}
