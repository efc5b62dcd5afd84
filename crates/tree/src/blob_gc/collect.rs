//! Collecting segments: what lives in them goes to a new one, and they go.
//!
//! ```text
//!   pick ─► spec: victims, what is dead in them ─► a job ─► the new segment, relocations
//!                    what died meanwhile, translated ──┐          │
//!                                                      └──► one edit ◄┘
//!                                                              └─► the map: victims lead there
//! ```
//! Neither the tree nor a writer notices: records keep the names of their values.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, Weak};

use firn_engine::Result;
use firn_format::blob::{Ordinals, Relocation, SegmentNumber};
use firn_format::manifest::Change;
use firn_jobs::submit::JobKind;
use firn_jobs::{BlobGcResult, BlobGcSpec, JobSpec, Relocations, Victim};
use firn_storage::file::blob::BlobSegment;

use crate::blobs::{BlobStore, Home, Sealed};
use crate::commit::CommitPipeline;
use crate::counters::count;
use crate::error::{from_job, from_storage};
use crate::maintenance::Maintenance;
use crate::version::blobs_state::BlobsState;
use crate::version::catalog::Catalog;
use firn_maintenance::{Answer, answer_to};

/// What a GC works with.
#[derive(Clone, Copy)]
pub(crate) struct Collecting<'d> {
    pub(crate) blobs: &'d BlobStore,
    pub(crate) catalog: &'d Catalog,
    pub(crate) pipeline: &'d CommitPipeline,
    pub(crate) maintenance: &'d Maintenance,
}

impl Collecting<'_> {
    /// Copies what lives in `victims` to a new segment and commits.
    ///
    /// # Errors
    /// `Retry` when the disk is full: nothing changed, the output is removed.
    pub(crate) fn collect(&self, victims: &[SegmentNumber]) -> Result<()> {
        let done = self.try_collect(victims);
        if done.is_err() && !self.maintenance.is_stopping() {
            count(&self.blobs.counters.gc_failure_count, 1);
        }
        done
    }

    fn try_collect(&self, victims: &[SegmentNumber]) -> Result<()> {
        let mut names = self.maintenance.output_names.hold();
        // Held so that their files stay.
        let Some((spec, _inputs)) = self.blob_gc_spec(victims, names.draw()) else { return Ok(()) };
        let stem = spec.output_stem.clone();
        let result = self.run_blob_gc(&spec);
        // There only if no job wrote over it.
        let (files, jobs) = (&self.blobs.files, &self.maintenance.jobs);
        spec.recycled.iter().for_each(|recycled| files.obsolete.remove_later(recycled.clone()));
        if result.is_err() {
            files.remove_outputs(jobs, &[stem]);
        }
        let result = result.map_err(from_job)?;
        let clock = &self.blobs.clock;
        let begun = clock.now();
        let committed = self.commit_blob_gc(&spec, &result);
        // After a failure that is final the edit may be durable: then the output must stay.
        let is_unused = committed.as_ref().is_ok_and(Option::is_none)
            || committed.as_ref().is_err_and(|error| answer_to(error) != Answer::Poisoned);
        if let (Some(segment), true) = (&result.segment, is_unused) {
            files.remove_output(jobs, &segment.file);
        }
        if let Some(gone_bytes) = committed? {
            jobs.history.committed(JobKind::BlobGc, clock.now().saturating_sub(begun));
            self.count_collected(&spec, &result);
            let written = result.segment.as_ref().map_or(0, |segment| segment.bytes);
            self.blobs.pace.space.freed(gone_bytes.saturating_sub(written), clock.now());
        }
        Ok(())
    }

    fn count_collected(&self, spec: &BlobGcSpec, result: &BlobGcResult) {
        let (counters, segment) = (&self.blobs.counters, result.segment.as_ref());
        count(&counters.gc_count, 1);
        count(&counters.gc_read_bytes, spec.input_bytes());
        count(&counters.gc_write_bytes, segment.map_or(0, |segment| segment.bytes));
        let survivor_bytes = segment.map_or(0, |segment| segment.value_bytes);
        count(&counters.survivor_count, segment.map_or(0, |segment| segment.ordinals.into()));
        count(&counters.survivor_bytes, survivor_bytes);
        count(&counters.gc_segment_count, spec.victims.len() as u64);
        let victims = spec.victims.iter();
        count(&counters.dropped_count, victims.clone().map(|victim| victim.dead.len()).sum());
        let value_bytes: u64 = victims.map(|victim| victim.segment.value_bytes).sum();
        count(&counters.dropped_bytes, value_bytes.saturating_sub(survivor_bytes));
    }

    /// The job that collects `victims`, and the open files; `None` if one of them is gone.
    fn blob_gc_spec(
        &self,
        victims: &[SegmentNumber],
        output_stem: String,
    ) -> Option<(BlobGcSpec, Vec<Arc<Sealed>>)> {
        let manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, map) = (manifest.state(), self.blobs.map());
        let mut spec = BlobGcSpec {
            database: state.database,
            number: self.blobs.next_number(),
            victims: Vec::new(),
            output_stem,
            recycled: None,
        };
        let mut inputs = Vec::new();
        for number in victims {
            let known = state.blobs.segments.get(number)?;
            let Some(Home::Sealed(sealed)) = map.known(*number) else { return None };
            let leading = state.blobs.relocations.iter().filter(|(_, place)| place.holder == *number);
            spec.victims.push(Victim {
                segment: (*known.meta).clone(),
                origin: sealed.segment.header().origin,
                dead: (*known.dead).clone(),
                relocations: leading.map(|(from, place)| (*from, *place)).collect(),
            });
            inputs.push(Arc::clone(sealed));
        }
        spec.recycled = self.blobs.files.outputs.values().take_one();
        Some((spec, inputs))
    }

    fn run_blob_gc(&self, spec: &BlobGcSpec) -> firn_jobs::Result<BlobGcResult> {
        let results = self.maintenance.jobs.run(vec![JobSpec::from(spec.clone())])?;
        let missing = || firn_jobs::Error::new(firn_jobs::ErrorKind::Invalid, "a job without a result");
        let result = results.into_iter().next().ok_or_else(missing)?.into_blob_gc()?;
        firn_jobs::verify_blob_gc(spec, &result)?;
        Ok(result)
    }

    /// Makes the GC durable, then visible; bytes of the segments that go with it. `None`,
    /// and nothing changed, if all of its values have died meanwhile.
    fn commit_blob_gc(&self, spec: &BlobGcSpec, result: &BlobGcResult) -> Result<Option<u64>> {
        let Some(meta) = &result.segment else { return Ok(None) };
        let storage = &*self.blobs.files.storage;
        let segment = BlobSegment::open(storage, meta, true).map_err(from_storage)?;
        let relocations = firn_jobs::relocations(spec, storage).map_err(from_job)?;
        firn_jobs::read_relocations(&segment, result, &relocations).map_err(from_job)?;
        // A loss of power that cut the log below could leave values that nothing refers to, where
        // no recovery looks for them.
        self.pipeline.log.sync_through(meta.sealed_at).map_err(from_storage)?;
        // The name of the output must not be lost where the edit that uses it is not.
        storage.sync_dir().map_err(from_storage)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let edit = BlobGcEdit::new(spec, result, &relocations, &manifest.state().blobs);
        if edit.dead.len() == u64::from(meta.ordinals) {
            return Ok(None);
        }
        manifest.commit(&edit.changes).map_err(from_storage)?;
        let sealed = self.blobs.sealed((segment, Weak::new()), meta.clone(), &edit.dead);
        let map = self.blobs.change_map(|map, _| {
            for victim in &spec.victims {
                if let Some(Home::Sealed(sealed)) = map.known(victim.segment.number) {
                    sealed.retire();
                }
            }
            edit.gone.iter().for_each(|number| map.remove(*number));
            map.insert(meta.number, Home::Sealed(Arc::clone(&sealed)));
            for relocation in edit.relocations {
                map.insert(relocation.victim, Home::Moved(Arc::new(relocation), Arc::clone(&sealed)));
            }
        });
        self.catalog.change_version(|version| version.blobs = map);
        drop(manifest);
        self.pipeline.balance_memory();
        Ok(Some(edit.gone_bytes))
    }
}

/// What a GC changes.
struct BlobGcEdit {
    changes: Vec<Change>,
    /// Values of the output that have died since the job was made.
    dead: Ordinals,
    /// Relocations that something refers through.
    relocations: Vec<Relocation>,
    /// Numbers that nothing refers to any more.
    gone: Vec<SegmentNumber>,
    /// Bytes of victims that were there still.
    gone_bytes: u64,
}

impl BlobGcEdit {
    fn new(spec: &BlobGcSpec, result: &BlobGcResult, relocations: &Relocations, state: &BlobsState) -> Self {
        let dead = died_since(spec, relocations, state);
        let mut edit =
            Self { changes: Vec::new(), dead, relocations: Vec::new(), gone: Vec::new(), gone_bytes: 0 };
        if let Some(segment) = &result.segment {
            edit.changes.push(Change::AddBlobSegment { segment: segment.clone() });
        }
        let mut led: BTreeSet<SegmentNumber> = BTreeSet::new();
        for (relocation, (victim, place)) in relocations.made.iter().zip(&result.relocations) {
            let (base, survivors) = (relocation.base, relocation.survivor_count());
            let dead = edit.dead.rank(base + survivors) - edit.dead.rank(base);
            if dead < u64::from(survivors) {
                edit.changes.push(Change::Relocation { victim: *victim, place: *place });
                edit.relocations.push(relocation.clone());
                led.insert(*victim);
            }
        }
        for (victim, _) in spec.victims.iter().flat_map(|victim| &victim.relocations) {
            if !led.contains(victim) && state.relocations.contains_key(victim) {
                edit.changes.push(Change::DropRelocation { victim: *victim });
                edit.gone.push(*victim);
            }
        }
        for number in spec.victims.iter().map(|victim| victim.segment.number) {
            if let Some(known) = state.segments.get(&number) {
                edit.changes.push(Change::RemoveBlobSegment { number });
                edit.gone_bytes += known.meta.bytes;
            }
            if !led.contains(&number) {
                edit.gone.push(number);
            }
        }
        if let (Some(segment), false) = (&result.segment, edit.dead.is_empty()) {
            edit.changes.push(Change::DeadMap { number: segment.number, dead: edit.dead.clone() });
        }
        edit
    }
}

/// The output's ordinals of what died since the job was made.
fn died_since(spec: &BlobGcSpec, relocations: &Relocations, state: &BlobsState) -> Ordinals {
    let mut dead = Ordinals::new();
    for (victim, own) in spec.victims.iter().zip(&relocations.own) {
        let Some(own) = own else { continue };
        let now = match state.segments.get(&victim.segment.number) {
            Some(known) => {
                let mut now = (*known.dead).clone();
                now.remove_all(&victim.dead);
                now
            }
            // Nothing of it lives.
            None => victim.survivors(),
        };
        for ordinal in now.iter().filter_map(|ordinal| own.translate(ordinal)) {
            dead.insert(ordinal);
        }
    }
    dead
}
