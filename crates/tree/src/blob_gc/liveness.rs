//! What an edit does to separated values: derived from what the files themselves say.
//!
//! ```text
//!   references of what goes (tables, flushed runs) - references of what comes (tables) = what dies
//!                                          values that left the tree: all of them are referred to
//!   obsolete before ─► was dead before;  obsolete from now on (see `obsolete`) ─► dies now
//! ```
//! What dies is known by the names that values were born with, and dies where those lead. The
//! executor that made the files is not asked. Nothing may come that does not go: then something was
//! made up, or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use firn_engine::{Error, ErrorKind, Result};
use firn_format::blob::{Ordinals, SegmentNumber};
use firn_format::manifest::{BlobSegmentMeta, Change, RelocationTarget};
use firn_format::table::ReferenceSet;

use super::obsolete::obsolete_now;
use super::seal::NewlySealed;
use crate::blobs::{BlobMap, BlobStore, Home};
use crate::counters::count;
use crate::error::from_storage;
use crate::version::Table;
use crate::version::blobs_state::BlobsState;
use crate::version::catalog::Catalog;

/// What an edit is to do to values. Until it is dropped no other thread seals segments.
#[derive(Debug, Default)]
pub(crate) struct BlobEdit<'v> {
    sealed: Vec<NewlySealed>,
    /// The keyspace whose references go, and whether they go with the keyspace itself.
    keyspace: u32,
    is_dropped: bool,
    /// References that go.
    dead: ReferenceSet,
    /// References of tables that are to be obsolete, unless they are or their values are dead.
    newly_obsolete: ReferenceSet,
    _sealing: Option<MutexGuard<'v, ()>>,
}

impl BlobStore {
    /// What becomes of values when references go and come. Those that are `going` go from
    /// `keyspace`; those that are `newly_obsolete` are followed no more. The tables `added` come,
    /// with the values that have `left` the tree. Seals the segments that are concerned, waiting
    /// for writers that still copy values to them.
    ///
    /// # Errors
    /// `Corrupt` if a value comes that neither goes nor has left the tree; what reading and sealing
    /// say.
    pub(crate) fn plan_blobs<'t>(
        &self,
        catalog: &Catalog,
        keyspace: u32,
        (mut going, newly_obsolete): (ReferenceSet, ReferenceSet),
        added: impl Iterator<Item = &'t Arc<Table>>,
        left: &[BlobSegmentMeta],
    ) -> Result<BlobEdit<'_>> {
        let mut coming = references_of(added)?;
        if going.is_empty() && coming.is_empty() && newly_obsolete.is_empty() {
            return Ok(BlobEdit::default());
        }
        for segment in left {
            let referred = coming.take(segment.number);
            if referred.len() != u64::from(segment.ordinals) || referred.last() >= Some(segment.ordinals) {
                return Err(not_conserved(
                    "a value has left the tree that nothing refers to, or one that is none",
                ));
            }
        }
        let concerned: BTreeSet<SegmentNumber> = going.segments().map(|(segment, _)| segment).collect();
        if going.remove_all(&coming) > 0 {
            return Err(not_conserved("a value is referred to that was not before"));
        }
        let sealing = self.lock_sealing();
        let mut sealed = self.seal(&concerned, &catalog.version)?;
        for meta in left {
            sealed.push(self.newly_sealed(meta.clone(), Ordinals::new(), Weak::new())?);
        }
        let (is_dropped, _sealing) = (false, Some(sealing));
        Ok(BlobEdit { sealed, keyspace, is_dropped, dead: going, newly_obsolete, _sealing })
    }

    /// What becomes of values when a keyspace goes with all that refers to them. Values in segments
    /// that are not sealed yet are found dead when these are sealed.
    ///
    /// # Errors
    /// What reading tables and heads says.
    pub(crate) fn plan_dropped_blobs(&self, catalog: &Catalog, keyspace: u32) -> Result<BlobEdit<'_>> {
        let sealing = self.lock_sealing();
        let version = catalog.version.load_full();
        let state = version.keyspace(keyspace)?;
        // All that there are, also where a damaged database refers to one twice: dropping the
        // keyspace is what helps.
        let mut dead = ReferenceSet::default();
        for (_, table) in state.levels.tables() {
            dead.add_all(&table.reader().references().map_err(from_storage)?);
        }
        // What the buffer holds is told by the heads of the segments that it may refer to.
        let (values, map) = {
            // Together: after a GC that is committed in between, one would know what the
            // other does not.
            let manifest = catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            (manifest.state().blobs.clone(), self.map())
        };
        for (number, segment) in &values.segments {
            let Some(Home::Sealed(sealed)) = map.known(*number) else { continue };
            if segment.meta.sealed_at <= state.flushed_through {
                continue;
            }
            for ordinal in (0..segment.meta.ordinals).filter(|ordinal| !segment.dead.contains(*ordinal)) {
                let head = sealed.segment.head(ordinal).map_err(from_storage)?;
                if let Some(head) = head.filter(|head| head.keyspace == keyspace) {
                    dead.insert(head.segment, head.ordinal);
                }
            }
        }
        Ok(BlobEdit { keyspace, is_dropped: true, dead, _sealing: Some(sealing), ..BlobEdit::default() })
    }
}

/// Values that `tables` refer to. Reads a byte or two for each.
///
/// # Errors
/// `Corrupt` if two of them refer to the same value; what reading says.
pub(crate) fn references_of<'t>(tables: impl Iterator<Item = &'t Arc<Table>>) -> Result<ReferenceSet> {
    let mut all = ReferenceSet::default();
    for table in tables {
        let references = table.reader().references().map_err(from_storage)?;
        if all.is_empty() {
            all = references;
        } else if all.add_all(&references) > 0 {
            let message =
                format!("{}: refers to a value that another table refers to too", table.meta().file);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
    }
    Ok(all)
}

fn not_conserved(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a job's outputs do not hold what its inputs held: {what}"))
}

impl BlobEdit<'_> {
    /// Seals of segments that take nothing more, and nothing else.
    pub(super) fn of_seals<'v>(sealed: Vec<NewlySealed>, sealing: MutexGuard<'v, ()>) -> BlobEdit<'v> {
        BlobEdit { sealed, _sealing: Some(sealing), ..BlobEdit::default() }
    }

    /// Appends the changes to `changes`, by what `state` says and `map`, the newest, leads to; what
    /// they come to.
    ///
    /// # Errors
    /// A value dies that is not there: a bug.
    pub(crate) fn changes(
        &self,
        state: &BlobsState,
        map: &BlobMap,
        changes: &mut Vec<Change>,
    ) -> Result<LivenessChange> {
        let mut liveness = LivenessChange::default();
        let mut dead = self.dead_by_holder(state, map, changes)?;
        for sealed in &self.sealed {
            changes.push(Change::AddBlobSegment { segment: sealed.meta.clone() });
            dead.entry(sealed.meta.number).or_default().add_all(&sealed.dead);
        }
        for (number, dying) in dead {
            let known = state.segments.get(&number);
            let new = self.sealed.iter().find(|sealed| sealed.meta.number == number);
            let ordinals = match (known, new) {
                (Some(known), _) => known.meta.ordinals,
                (None, Some(new)) => new.meta.ordinals,
                (None, None) => return Err(Error::bug(format!("values of unknown segment {number} die"))),
            };
            let dead_before = known.map(|known| &*known.dead);
            let idle = idle_relocations(state, map, number, |ordinal| {
                dead_before.map_or(0, |dead| dead.rank(ordinal)) + dying.rank(ordinal)
            });
            changes.extend(idle.iter().map(|victim| Change::DropRelocation { victim: *victim }));
            liveness.gone.extend(idle);
            if dead_before.map_or(0, Ordinals::len) + dying.len() == u64::from(ordinals) {
                changes.push(Change::RemoveBlobSegment { number });
                liveness.gone.push(number);
            } else if !dying.is_empty() {
                changes.push(Change::DeadMap { number, dead: dying.clone() });
                liveness.died.push((number, dying));
            }
        }
        Ok(liveness)
    }

    /// What dies, by where it is now; appends to `changes` what is obsolete from now on, and what
    /// is not any more.
    fn dead_by_holder(
        &self,
        state: &BlobsState,
        map: &BlobMap,
        changes: &mut Vec<Change>,
    ) -> Result<BTreeMap<SegmentNumber, Ordinals>> {
        let keyspace = self.keyspace;
        let mut dying = self.dead.clone();
        let was_obsolete =
            state.obsolete.get(&keyspace).map(|obsolete| self.dead.common(obsolete)).unwrap_or_default();
        dying.remove_all(&was_obsolete);
        // Dropping the keyspace says the same of all of them.
        if !was_obsolete.is_empty() && !self.is_dropped {
            changes.push(Change::RemoveObsolete { keyspace, references: was_obsolete });
        }
        let obsolete = obsolete_now(&self.newly_obsolete, &self.dead, state, map);
        if !obsolete.is_empty() {
            dying.add_all(&obsolete);
            changes.push(Change::AddObsolete { keyspace, references: obsolete });
        }
        let mut by_holder: BTreeMap<SegmentNumber, Ordinals> = BTreeMap::new();
        for (number, dying) in dying.segments() {
            let Some(Home::Moved(relocation, _)) = map.known(number) else {
                by_holder.entry(number).or_default().add_all(dying);
                continue;
            };
            let holder = by_holder.entry(relocation.segment).or_default();
            for ordinal in dying.iter() {
                let Some(now) = relocation.translate(ordinal) else {
                    return Err(Error::bug(format!("value {ordinal} of segment {number} dies twice")));
                };
                holder.insert(now);
            }
        }
        Ok(by_holder)
    }

    fn is_nothing(&self) -> bool {
        self.sealed.is_empty() && self.dead.is_empty() && self.newly_obsolete.is_empty()
    }
}

/// What an edit's deaths come to.
#[derive(Debug, Default)]
pub(crate) struct LivenessChange {
    /// Segments, and collected ones, to whose values nothing refers any more.
    gone: Vec<SegmentNumber>,
    /// Of the others, what died.
    died: Vec<(SegmentNumber, Ordinals)>,
}

/// Segments whose relocations lead to `holder`, and of whose values there nothing lives;
/// `dead_below` counts the dead ones below an ordinal.
pub(super) fn idle_relocations(
    state: &BlobsState,
    map: &BlobMap,
    holder: SegmentNumber,
    dead_below: impl Fn(u32) -> u64,
) -> Vec<SegmentNumber> {
    let leads = |(_, place): &(&SegmentNumber, &RelocationTarget)| place.holder == holder;
    let victims = state.relocations.iter().filter(leads).map(|(victim, _)| *victim);
    let is_idle = |victim: &SegmentNumber| {
        let Some(Home::Moved(relocation, _)) = map.known(*victim) else { return false };
        let (base, count) = (relocation.base, relocation.survivor_count());
        dead_below(base + count) - dead_below(base) == u64::from(count)
    };
    victims.filter(is_idle).collect()
}

impl BlobStore {
    /// `edit` is durable: what it sealed is read as sealed, and what is gone by `liveness` goes.
    /// The map for the next version, if there is another one.
    pub(crate) fn install(&self, edit: &mut BlobEdit<'_>, liveness: &LivenessChange) -> Option<Arc<BlobMap>> {
        if edit.is_nothing() {
            return None;
        }
        let sealed = std::mem::take(&mut edit.sealed);
        let map = self.change_map(|map, open| {
            self.remove_shared_later(&sealed, open);
            for (number, home) in self.homes(sealed) {
                map.insert(number, home);
                open.iter().filter(|active| active.number() == number).for_each(|active| active.forget());
                open.retain(|active| active.number() != number);
            }
            for number in &liveness.gone {
                if let Some(Home::Sealed(sealed)) = map.known(*number) {
                    count(&self.counters.wholly_dead_count, 1);
                    count(&self.counters.wholly_dead_bytes, sealed.meta.bytes);
                    self.pace.space.gone(sealed.meta.bytes);
                    sealed.retire();
                }
                map.remove(*number);
            }
            for (number, ordinals) in &liveness.died {
                if let Some(Home::Sealed(sealed)) = map.known(*number) {
                    sealed.died(ordinals);
                }
            }
        });
        Some(map)
    }
}
