//! References that no reader follows any more, found while what hides them is drained.
//!
//! ```text
//!   a drained put or delete ─► the newest older version of its key in tables:
//!                              a reference, and no snapshot between them
//!                           ─► stale with the drain's edit: its value is dead
//! ```
//! A value would be found dead only when a compaction meets the two records. Rewriting tables so
//! often that this is soon costs more than asking for each drained key. The table's record stays
//! until it is compacted, and whatever it refers to may be gone by then. So compactions are told
//! which references are stale, and drop their records without following them.
//!
//! A reader of the version that the edit makes, or of a later one, meets no stale reference. Its
//! reads begin at the newer record, which is in a table by the same edit. Older snapshots would
//! have kept the reference from being stale. Readers of versions before have the files that those
//! know.

use firn_format::key::{Entry, key_hash};
use firn_format::table::ReferenceSet;
use firn_format::value::{Reference, SegmentNumber};
use firn_format::{Kind, Sequence};
use firn_storage::file::table::Lookup;

use crate::blobs::{Home, ValueMap};
use crate::version::Levels;
use crate::version::values_state::ValuesState;

/// What the records of a drain, in the order of a cursor, leave without readers in the tables
/// below.
#[derive(Debug)]
pub(crate) struct Outlived<'d> {
    levels: &'d Levels,
    /// Rising.
    snapshots: &'d [Sequence],
    /// The key that is being drained.
    key: Vec<u8>,
    /// Sequence of the oldest of its records so far that hides all before it.
    hidden_before: Option<Sequence>,
    found: ReferenceSet,
}

impl<'d> Outlived<'d> {
    /// `None` where no table refers to values: then there is nothing to be found.
    pub(crate) fn below(levels: &'d Levels, snapshots: &'d [Sequence]) -> Option<Self> {
        let (key, hidden_before, found) = (Vec::new(), None, ReferenceSet::default());
        levels.has_references().then_some(Self { levels, snapshots, key, hidden_before, found })
    }

    /// Takes the next record. Never waits for the device.
    #[inline]
    pub(crate) fn take(&mut self, entry: &Entry<'_>) {
        if self.key != entry.key {
            self.end_key();
            self.key.clear();
            self.key.extend_from_slice(entry.key);
        }
        if matches!(entry.kind, Kind::Put | Kind::PutReference | Kind::Delete) {
            self.hidden_before = Some(entry.sequence);
        }
    }

    /// All that was found.
    pub(crate) fn end(mut self) -> ReferenceSet {
        self.end_key();
        self.found
    }

    /// What is not found here is found by a compaction, as is all that no drain asks for. Damage is
    /// told by the read that needs what is damaged.
    fn end_key(&mut self) {
        let Some(before) = self.hidden_before.take() else { return };
        let hash = (key_hash(&self.key) >> 32) as u32;
        for table in self.levels.sorted_runs().flat_map(|run| run.spanning(&self.key)) {
            let hit = match table.reader().peek(&self.key, hash, before) {
                Ok(Lookup::Absent) => continue,
                Ok(Lookup::Found(hit)) => hit,
                Ok(Lookup::Miss) | Err(_) => return,
            };
            let sees = |sequence| self.snapshots.partition_point(|snapshot| *snapshot <= sequence);
            if hit.kind() == Kind::PutReference
                && sees(hit.sequence()) == sees(before)
                && let Ok(reference) = Reference::decode(hit.value())
            {
                self.found.insert(reference.segment, reference.ordinal);
            }
            return;
        }
    }
}

/// References of `outlived` whose values are not dead by `state` and `map`, which say the same.
/// What has died since they were found is left out, and what is `going` with the same edit.
pub(super) fn newly_stale(
    outlived: &ReferenceSet,
    going: &ReferenceSet,
    state: &ValuesState,
    map: &ValueMap,
) -> ReferenceSet {
    let mut stale = outlived.clone();
    stale.remove_all(going);
    let mut dead = ReferenceSet::default();
    for (segment, ordinals) in stale.segments() {
        let dead_of = |ordinal: &u32| match map.known(segment) {
            Some(Home::Moved(redirect, _)) => {
                redirect.translate(*ordinal).is_none_or(|now| is_dead(state, redirect.segment, now))
            }
            _ => is_dead(state, segment, *ordinal),
        };
        for ordinal in ordinals.iter().filter(dead_of) {
            dead.insert(segment, ordinal);
        }
    }
    stale.remove_all(&dead);
    stale
}

/// Whether nothing refers to a value of `segment`, or there is no such segment.
fn is_dead(state: &ValuesState, segment: SegmentNumber, ordinal: u32) -> bool {
    state.segments.get(&segment).is_none_or(|known| known.dead.contains(ordinal))
}
