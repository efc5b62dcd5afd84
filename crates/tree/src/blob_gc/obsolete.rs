//! References that no reader follows any more, found while what hides them is flushed.
//!
//! ```text
//!   a flushed put or delete ─► the newest older version of its key in tables:
//!                              a reference, and no snapshot between them
//!                           ─► obsolete with the flush's edit: its value is dead
//! ```
//! A value would be found dead only when a compaction meets the two records. Rewriting tables so
//! often that this is soon costs more than asking for each flushed key. The table's record stays
//! until it is compacted, and whatever it refers to may be gone by then. So compactions are told
//! which references are obsolete, and drop their records without following them.
//!
//! A reader of the version that the edit makes, or of a later one, meets no obsolete reference. Its
//! reads begin at the newer record, which is in a table by the same edit. Older snapshots would
//! have kept the reference from being obsolete. Readers of versions before have the files that
//! those know.

use firn_format::blob::{Reference, SegmentNumber};
use firn_format::key::{Entry, key_hash};
use firn_format::table::ReferenceSet;
use firn_format::{Kind, Sequence};
use firn_storage::file::table::Lookup;

use crate::blobs::{BlobMap, Home};
use crate::version::Levels;
use crate::version::blobs_state::BlobsState;

/// What the records of a flush, in the order of a cursor, leave without readers in the tables
/// below.
#[derive(Debug)]
pub(crate) struct NewlyObsolete<'d> {
    levels: &'d Levels,
    /// Rising.
    snapshots: &'d [Sequence],
    /// The key that is being flushed.
    key: Vec<u8>,
    /// Sequence of the oldest of its records so far that hides all before it.
    hidden_before: Option<Sequence>,
    found: ReferenceSet,
}

impl<'d> NewlyObsolete<'d> {
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

    /// What is not found here is found by a compaction, as is all that no flush asks for. Damage is
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

/// References of `newly_obsolete` whose values are not dead by `state` and `map`, which say the
/// same. What has died since they were found is left out, and what is `going` with the same edit.
pub(super) fn obsolete_now(
    newly_obsolete: &ReferenceSet,
    going: &ReferenceSet,
    state: &BlobsState,
    map: &BlobMap,
) -> ReferenceSet {
    let mut obsolete = newly_obsolete.clone();
    obsolete.remove_all(going);
    let mut dead = ReferenceSet::default();
    for (segment, ordinals) in obsolete.segments() {
        let dead_of = |ordinal: &u32| match map.known(segment) {
            Some(Home::Moved(relocation, _)) => {
                relocation.translate(*ordinal).is_none_or(|now| is_dead(state, relocation.segment, now))
            }
            _ => is_dead(state, segment, *ordinal),
        };
        for ordinal in ordinals.iter().filter(dead_of) {
            dead.insert(segment, ordinal);
        }
    }
    obsolete.remove_all(&dead);
    obsolete
}

/// Whether nothing refers to a value of `segment`, or there is no such segment.
fn is_dead(state: &BlobsState, segment: SegmentNumber, ordinal: u32) -> bool {
    state.segments.get(&segment).is_none_or(|known| known.dead.contains(ordinal))
}
