//! GCs: `blob_gc/collect.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::database::{Database, Known, Manifest, Mistake};
use super::homes::{FileName, Home, Map, Name, Records, Sealed, Value, lock};
use crate::model::sync::{locked, step};

/// `BlobGcSpec`.
#[derive(Clone)]
pub(super) struct Spec {
    number: u32,
    pub(super) stem: u32,
    victims: Vec<Victim>,
}

#[derive(Clone)]
struct Victim {
    number: u32,
    known: Known,
    /// Collected segments whose relocations lead to it.
    leading: Vec<u32>,
}

/// A job, and what is held until it is committed.
struct Begun {
    spec: Spec,
    held: Vec<Arc<Sealed>>,
    /// The newest map when it began: for a mistake.
    old_map: Option<Arc<Map>>,
}

/// `BlobGcResult`, with what `relocations` says of the victims' survivors.
#[derive(Clone)]
pub(super) struct Collected {
    pub(super) file: FileName,
    /// By victim and ordinal there, in the order of the output's ordinals.
    survivors: Vec<(u32, usize)>,
    records: Records,
}

/// `BlobGcEdit`.
struct BlobGcEdit {
    dead: BTreeSet<usize>,
    relocations: BTreeMap<u32, BTreeMap<usize, usize>>,
}

impl Database {
    /// Collects the segments in which something is dead.
    pub(crate) fn collect(&self) {
        self.collect_where(|sealed| sealed.died.load(Ordering::Relaxed) > 0, Self::run_job);
    }

    /// The same of all segments.
    pub(crate) fn collect_all(&self) {
        self.collect_where(|_| true, Self::run_job);
    }

    /// `BlobSpace::choose`, `Busy::claim` and `Collecting::collect`; `run` has the job run
    /// somewhere.
    pub(super) fn collect_where(
        &self,
        is_wanted: fn(&Sealed) -> bool,
        run: fn(&Self, &Spec) -> Result<Collected, FileName>,
    ) {
        let chosen = self.choose_blob_gc(is_wanted);
        let stem = self.output_names.draw();
        if let Some(Begun { spec, held, old_map }) = self.blob_gc_spec(&chosen, stem) {
            let result = match run(self, &spec) {
                Ok(result) => result,
                Err(file) => panic!("{file:?} is removed while a job reads it"),
            };
            if !self.commit_blob_gc(&spec, &result, old_map) {
                self.files.remove(result.file);
            }
            drop(held);
        }
        self.output_names.let_go(stem);
        lock(&self.busy).collecting.retain(|number| !chosen.contains(number));
    }

    fn choose_blob_gc(&self, is_wanted: fn(&Sealed) -> bool) -> Vec<u32> {
        let map = self.map();
        // The schedule's lock, in which the map was asked for too: no step is between.
        let mut busy = lock(&self.busy);
        let is_free =
            |number: &u32| self.is_wrong(Mistake::CollectTwice) || !busy.collecting.contains(number);
        let sealed = map.homes.keys().filter_map(|number| map.sealed(*number));
        let wanted = sealed.filter(|sealed| is_wanted(sealed)).map(|sealed| sealed.number);
        let chosen: Vec<u32> = wanted.filter(is_free).collect();
        busy.collecting.extend(&chosen);
        drop(busy);
        chosen
    }

    /// `None` if there is nothing to collect, or one of the segments is gone.
    fn blob_gc_spec(&self, chosen: &[u32], stem: u32) -> Option<Begun> {
        if chosen.is_empty() {
            return None;
        }
        let manifest = locked(&self.manifest);
        let map = self.map();
        let mut spec = Spec { number: self.next_number(), stem, victims: Vec::new() };
        let mut held = Vec::new();
        for number in chosen {
            let known = manifest.segments.get(number)?;
            held.push(Arc::clone(map.sealed(*number)?));
            let leading = manifest.relocations.iter().filter(|(_, holder)| *holder == number);
            let leading = leading.map(|(from, _)| *from).collect();
            spec.victims.push(Victim { number: *number, known: known.clone(), leading });
        }
        held.retain(|_| !self.is_wrong(Mistake::HoldNothing));
        let old_map = self.is_wrong(Mistake::ChangeAnOldMap).then_some(map);
        Some(Begun { spec, held, old_map })
    }

    fn run_job(&self, spec: &Spec) -> Result<Collected, FileName> {
        self.blob_gc_job(spec, 0)
    }

    /// The job, on any machine; which file is missing, if one is.
    pub(super) fn blob_gc_job(&self, spec: &Spec, attempt: u32) -> Result<Collected, FileName> {
        let mut survivors: Vec<(u32, usize)> = Vec::new();
        let mut records: Vec<(Name, Value)> = Vec::new();
        for Victim { number, known, .. } in &spec.victims {
            // Each file is a step of its own.
            step();
            let found = self.files.open(known.file).ok_or(known.file)?;
            for ordinal in (0..known.count).filter(|ordinal| !known.dead.contains(ordinal)) {
                survivors.push((*number, ordinal));
                records.push(found[ordinal]);
            }
        }
        let file = FileName::Output { stem: spec.stem, attempt };
        let records = Arc::new(records);
        step();
        match self.files.create(file, Arc::clone(&records)) {
            true => Ok(Collected { file, survivors, records }),
            false => panic!("{file:?} is made twice"),
        }
    }

    /// `false`, and nothing is changed, if all of it has died meanwhile.
    pub(super) fn commit_blob_gc(&self, spec: &Spec, result: &Collected, old_map: Option<Arc<Map>>) -> bool {
        // `BlobSegment::open`, and `firn_jobs::relocations`, which reads the relocations to the
        // victims in their files.
        step();
        self.files.assert_has(result.file, "it is committed");
        for victim in &spec.victims {
            self.files.assert_has(victim.known.file, "a job reads it");
        }
        let mut manifest = locked(&self.manifest);
        let BlobGcEdit { dead, relocations } = self.gc_edit(result, &manifest);
        if dead.len() == result.records.len() {
            return false;
        }
        let victims: Vec<u32> = spec.victims.iter().map(|victim| victim.number).collect();
        let leading = spec.victims.iter().flat_map(|victim| &victim.leading);
        let leading: Vec<u32> =
            leading.copied().filter(|from| manifest.relocations.contains_key(from)).collect();
        manifest.relocations.retain(|from, _| !leading.contains(from));
        victims.iter().for_each(|number| drop(manifest.segments.remove(number)));
        let mut gone = [leading, victims.clone()].concat();
        gone.retain(|number| !relocations.contains_key(number));
        manifest.relocations.extend(relocations.keys().map(|born| (*born, spec.number)));
        let known = Known { file: result.file, count: result.records.len(), dead: dead.clone() };
        assert!(
            manifest.segments.insert(spec.number, known).is_none(),
            "segment {} is made twice",
            spec.number
        );
        let sealed = Sealed::new(spec.number, result.file, dead.len(), &self.files);
        let map = self.change_map(|map, _| {
            if let Some(old) = &old_map {
                map.homes.clone_from(&old.homes);
            }
            victims.iter().filter_map(|number| map.sealed(*number)).for_each(|victim| self.retire(victim));
            gone.iter().for_each(|number| drop(map.homes.remove(number)));
            map.homes.insert(spec.number, Home::Sealed(Arc::clone(&sealed)));
            for (born, relocation) in relocations {
                map.homes.insert(born, Home::Moved(Arc::new(relocation), Arc::clone(&sealed)));
            }
        });
        self.change_version(|version| version.map = map);
        drop(manifest);
        true
    }

    /// `BlobGcEdit::new`, with `died_since`.
    fn gc_edit(&self, result: &Collected, manifest: &Manifest) -> BlobGcEdit {
        let has_died = |(victim, ordinal): &(u32, usize)| match manifest.segments.get(victim) {
            _ if self.is_wrong(Mistake::ForgetLiveness) => false,
            Some(known) => known.dead.contains(ordinal),
            // Nothing of it lives.
            None => !self.is_wrong(Mistake::BelieveTheGone),
        };
        let survivors = result.survivors.iter().enumerate();
        let dead: BTreeSet<usize> = survivors.filter(|(_, it)| has_died(it)).map(|(at, _)| at).collect();
        let mut relocations: BTreeMap<u32, BTreeMap<usize, usize>> = BTreeMap::new();
        for (at, ((born, ordinal), _)) in result.records.iter().enumerate() {
            relocations.entry(*born).or_default().insert(*ordinal, at);
        }
        relocations.retain(|_, relocation| relocation.values().any(|at| !dead.contains(at)));
        BlobGcEdit { dead, relocations }
    }
}
