//! One commit of a flush or a compaction, and what it does to values: `edits/commit.rs`,
//! `blob_gc/liveness.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::database::{Database, Known, Manifest, Memtable, Mistake, Table};
use super::homes::{FileName, Home, Map, Name, Sealed};
use super::write::{NewlySealed, references_of};
use crate::model::sync::locked;

/// References that go.
pub(super) type Going = BTreeSet<Name>;

/// `Edit`.
pub(super) struct Edit {
    pub(super) removed: Vec<Arc<Table>>,
    pub(super) added: Table,
    pub(super) going: Going,
    /// References of older tables that no reader will follow any more.
    pub(super) newly_obsolete: Going,
    /// A segment of values that have left the tree.
    pub(super) left: Option<NewlySealed>,
    pub(super) flushed: Vec<Arc<Memtable>>,
    /// What was the newest map when the job began: for a mistake.
    pub(super) old_map: Option<Arc<Map>>,
}

/// `BlobEdit`, but for its lock.
pub(super) struct BlobEdit {
    pub(super) sealed: Vec<NewlySealed>,
    pub(super) dead: Going,
    pub(super) newly_obsolete: Going,
}

/// `LivenessChange`.
pub(super) struct LivenessChange {
    gone: Vec<u32>,
    died: Vec<(u32, usize)>,
}

impl Database {
    /// `Edits::commit`.
    pub(super) fn commit(&self, edit: Edit) {
        let Edit { removed, added, mut going, newly_obsolete, left, flushed, old_map } = edit;
        // `plan_blobs`.
        let coming: Going = references_of(&added).collect();
        let is_conserved =
            |name: &Name| going.contains(name) || left.as_ref().is_some_and(|it| it.number == name.0);
        assert!(coming.iter().all(is_conserved), "a value is referred to that was not before");
        let concerned: BTreeSet<u32> = going.iter().map(|name| name.0).collect();
        going.retain(|name| !coming.contains(name));
        let sealing = (!self.is_wrong(Mistake::SealUnlocked)).then(|| locked(&self.sealing));
        let mut sealed = match self.is_wrong(Mistake::FlushUnsealed) {
            true => Vec::new(),
            false => self.seal(&concerned),
        };
        sealed.extend(left);
        let values = BlobEdit { sealed, dead: going, newly_obsolete };
        let mut manifest = locked(&self.manifest);
        if self.version.load().is_dropped {
            let output = values.sealed.iter().filter(|new| matches!(new.file, FileName::Output { .. }));
            return output.for_each(|new| self.files.remove(new.file));
        }
        let newest = self.map();
        let liveness = self.changes(&mut manifest, &values, old_map.as_ref().unwrap_or(&newest));
        drop((newest, old_map));
        let map = self.install(values, liveness);
        self.change_version(|version| {
            version.map = map;
            version.tables.retain(|table| !removed.iter().any(|gone| Arc::ptr_eq(gone, table)));
            // Of a flush: above all that there is; of a compaction, which takes all that there is:
            // below what was flushed meanwhile.
            let at = if flushed.is_empty() { version.tables.len() } else { 0 };
            version.tables.insert(at, Arc::new(added));
            version.runs.retain(|run| !flushed.iter().any(|gone| Arc::ptr_eq(gone, run)));
        });
        drop(manifest);
        drop(sealing);
    }

    /// `BlobEdit::changes`, which are committed at once.
    pub(super) fn changes(&self, manifest: &mut Manifest, edit: &BlobEdit, map: &Map) -> LivenessChange {
        let mut liveness = LivenessChange { gone: Vec::new(), died: Vec::new() };
        let mut dying = edit.dead.clone();
        if !self.is_wrong(Mistake::DieTwice) {
            dying.retain(|name| !manifest.obsolete.contains(name));
        }
        manifest.obsolete.retain(|name| !edit.dead.contains(name));
        let obsolete: Going = edit
            .newly_obsolete
            .iter()
            .filter(|name| self.is_wrong(Mistake::BelieveTheFound) || is_live(manifest, map, **name))
            .filter(|name| !edit.dead.contains(name))
            .copied()
            .collect();
        manifest.obsolete.extend(&obsolete);
        dying.extend(obsolete);
        let mut dead = dead_by_holder(&dying, map);
        for NewlySealed { number, file, count, dead: dying } in &edit.sealed {
            let known = Known { file: *file, count: *count, dead: BTreeSet::new() };
            assert!(manifest.segments.insert(*number, known).is_none(), "segment {number} is sealed twice");
            dead.entry(*number).or_default().extend(dying);
        }
        for (number, dying) in dead {
            let Some(known) = manifest.segments.get_mut(&number) else {
                panic!("a value dies where it is not: segment {number} is gone")
            };
            for ordinal in &dying {
                assert!(known.dead.insert(*ordinal), "a value dies twice");
            }
            let idle = idle_relocations(manifest, map, number);
            manifest.relocations.retain(|victim, _| !idle.contains(victim));
            liveness.gone.extend(idle);
            let known = &manifest.segments[&number];
            if known.dead.len() == known.count {
                assert!(
                    !manifest.relocations.values().any(|holder| *holder == number),
                    "a relocation leads nowhere"
                );
                manifest.segments.remove(&number);
                liveness.gone.push(number);
            } else {
                liveness.died.push((number, dying.len()));
            }
        }
        liveness
    }

    /// `BlobStore::install`.
    pub(super) fn install(&self, edit: BlobEdit, liveness: LivenessChange) -> Arc<Map> {
        self.change_map(|map, open| {
            for NewlySealed { number, file, .. } in edit.sealed {
                map.homes.insert(number, Home::Sealed(Sealed::new(number, file, 0, &self.files)));
                open.retain(|active| active.number != number);
            }
            for number in liveness.gone {
                if let Some(sealed) = map.sealed(number) {
                    self.retire(sealed);
                }
                map.homes.remove(&number);
            }
            for (number, count) in liveness.died {
                if let Some(sealed) = map.sealed(number) {
                    sealed.died.fetch_add(count, Ordering::Relaxed);
                }
            }
        })
    }
}

/// `lives` in `blob_gc/obsolete.rs`.
fn is_live(manifest: &Manifest, map: &Map, (born, ordinal): Name) -> bool {
    let place = match map.homes.get(&born) {
        Some(Home::Moved(relocation, holder)) => relocation.get(&ordinal).map(|now| (holder.number, *now)),
        _ => Some((born, ordinal)),
    };
    let is_alive =
        |(holder, now)| manifest.segments.get(&holder).is_some_and(|known| !known.dead.contains(&now));
    place.is_some_and(is_alive)
}

fn dead_by_holder(dying: &Going, map: &Map) -> BTreeMap<u32, BTreeSet<usize>> {
    let mut by_holder: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (born, ordinal) in dying {
        let (holder, now) = match map.homes.get(born) {
            Some(Home::Moved(relocation, holder)) => match relocation.get(ordinal) {
                Some(now) => (holder.number, *now),
                None => panic!("value {ordinal} of segment {born} dies twice"),
            },
            _ => (*born, *ordinal),
        };
        by_holder.entry(holder).or_default().insert(now);
    }
    by_holder
}

/// Relocations to `holder` all of whose values are dead there.
fn idle_relocations(manifest: &Manifest, map: &Map, holder: u32) -> Vec<u32> {
    let leading = manifest.relocations.iter().filter(|(_, to)| **to == holder).map(|(victim, _)| *victim);
    let is_idle = |victim: &u32| {
        let Some(Home::Moved(relocation, _)) = map.homes.get(victim) else { return false };
        relocation.values().all(|ordinal| manifest.segments[&holder].dead.contains(ordinal))
    };
    leading.filter(is_idle).collect()
}
