//! Collecting segments: what lives in them goes to a new one, and they go.
//!
//! ```text
//!   pick ─► spec: victims, what is dead in them ─► a job ─► the new segment, redirects
//!                    what died meanwhile, translated ──┐          │
//!                                                      └──► one edit ◄┘
//!                                                              └─► the map: victims lead there
//! ```
//! Neither the tree nor a writer notices: records keep the names of their values.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, Weak};

use firn_engine::Result;
use firn_format::manifest::Change;
use firn_format::value::{Ordinals, Redirect, SegmentNumber};
use firn_jobs::submit::JobKind;
use firn_jobs::{CollectResult, CollectSpec, JobSpec, Redirects, Victim};
use firn_storage::file::value::ValueSegment;

use crate::background::Maintenance;
use crate::blobs::{BlobStore, Home, Sealed};
use crate::commit::CommitPipeline;
use crate::counters::count;
use crate::error::{from_job, from_storage};
use crate::version::catalog::Catalog;
use crate::version::values_state::ValuesState;
use firn_maintenance::{Answer, answer_to};

/// What a collection works with.
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
            count(&self.blobs.counters.collection_failure_count, 1);
        }
        done
    }

    fn try_collect(&self, victims: &[SegmentNumber]) -> Result<()> {
        let mut names = self.maintenance.output_names.hold();
        // Held so that their files stay.
        let Some((spec, _inputs)) = self.collect_spec(victims, names.draw()) else { return Ok(()) };
        let stem = spec.output_stem.clone();
        let result = self.run_collection(&spec);
        // There only if no job wrote over it.
        let (files, jobs) = (&self.blobs.files, &self.maintenance.jobs);
        spec.recycled.iter().for_each(|recycled| files.obsolete.remove_later(recycled.clone()));
        if result.is_err() {
            files.remove_outputs(jobs, &[stem]);
        }
        let result = result.map_err(from_job)?;
        let clock = &self.blobs.clock;
        let begun = clock.now();
        let committed = self.commit_collection(&spec, &result);
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

    fn count_collected(&self, spec: &CollectSpec, result: &CollectResult) {
        let (counters, segment) = (&self.blobs.counters, result.segment.as_ref());
        count(&counters.collection_count, 1);
        count(&counters.collection_read_bytes, spec.input_bytes());
        count(&counters.collection_write_bytes, segment.map_or(0, |segment| segment.bytes));
        let survivor_bytes = segment.map_or(0, |segment| segment.value_bytes);
        count(&counters.survivor_count, segment.map_or(0, |segment| segment.ordinals.into()));
        count(&counters.survivor_bytes, survivor_bytes);
        count(&counters.collected_segment_count, spec.victims.len() as u64);
        let victims = spec.victims.iter();
        count(&counters.dropped_count, victims.clone().map(|victim| victim.dead.len()).sum());
        let value_bytes: u64 = victims.map(|victim| victim.segment.value_bytes).sum();
        count(&counters.dropped_bytes, value_bytes.saturating_sub(survivor_bytes));
    }

    /// The job that collects `victims`, and the open files; `None` if one of them is gone.
    fn collect_spec(
        &self,
        victims: &[SegmentNumber],
        output_stem: String,
    ) -> Option<(CollectSpec, Vec<Arc<Sealed>>)> {
        let manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, map) = (manifest.state(), self.blobs.map());
        let mut spec = CollectSpec {
            database: state.database,
            number: self.blobs.next_number(),
            victims: Vec::new(),
            output_stem,
            recycled: None,
        };
        let mut inputs = Vec::new();
        for number in victims {
            let known = state.values.segments.get(number)?;
            let Some(Home::Sealed(sealed)) = map.known(*number) else { return None };
            let leading = state.values.redirects.iter().filter(|(_, place)| place.holder == *number);
            spec.victims.push(Victim {
                segment: (*known.meta).clone(),
                origin: sealed.segment.header().origin,
                dead: (*known.dead).clone(),
                redirects: leading.map(|(from, place)| (*from, *place)).collect(),
            });
            inputs.push(Arc::clone(sealed));
        }
        spec.recycled = self.blobs.files.outputs.values().take_one();
        Some((spec, inputs))
    }

    fn run_collection(&self, spec: &CollectSpec) -> firn_jobs::Result<CollectResult> {
        let results = self.maintenance.jobs.run(vec![JobSpec::from(spec.clone())])?;
        let missing = || firn_jobs::Error::new(firn_jobs::ErrorKind::Invalid, "a job without a result");
        let result = results.into_iter().next().ok_or_else(missing)?.into_collect()?;
        firn_jobs::verify_collect(spec, &result)?;
        Ok(result)
    }

    /// Makes the collection durable, then visible; bytes of the segments that go with it. `None`,
    /// and nothing changed, if all of its values have died meanwhile.
    fn commit_collection(&self, spec: &CollectSpec, result: &CollectResult) -> Result<Option<u64>> {
        let Some(meta) = &result.segment else { return Ok(None) };
        let storage = &*self.blobs.files.storage;
        let segment = ValueSegment::open(storage, meta, true).map_err(from_storage)?;
        let redirects = firn_jobs::redirects(spec, storage).map_err(from_job)?;
        firn_jobs::read_redirects(&segment, result, &redirects).map_err(from_job)?;
        // A loss of power that cut the log below could leave values that nothing refers to, where
        // no recovery looks for them.
        self.pipeline.log.sync_through(meta.sealed_at).map_err(from_storage)?;
        // The name of the output must not be lost where the edit that uses it is not.
        storage.sync_dir().map_err(from_storage)?;
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let edit = CollectionEdit::new(spec, result, &redirects, &manifest.state().values);
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
            for redirect in edit.redirects {
                map.insert(redirect.victim, Home::Moved(Arc::new(redirect), Arc::clone(&sealed)));
            }
        });
        self.catalog.change_version(|version| version.values = map);
        drop(manifest);
        self.pipeline.balance_memory();
        Ok(Some(edit.gone_bytes))
    }
}

/// What a collection changes.
struct CollectionEdit {
    changes: Vec<Change>,
    /// Values of the output that have died since the job was made.
    dead: Ordinals,
    /// Redirects that something refers through.
    redirects: Vec<Redirect>,
    /// Numbers that nothing refers to any more.
    gone: Vec<SegmentNumber>,
    /// Bytes of victims that were there still.
    gone_bytes: u64,
}

impl CollectionEdit {
    fn new(spec: &CollectSpec, result: &CollectResult, redirects: &Redirects, state: &ValuesState) -> Self {
        let dead = died_since(spec, redirects, state);
        let mut edit =
            Self { changes: Vec::new(), dead, redirects: Vec::new(), gone: Vec::new(), gone_bytes: 0 };
        if let Some(segment) = &result.segment {
            edit.changes.push(Change::AddValueSegment { segment: segment.clone() });
        }
        let mut led: BTreeSet<SegmentNumber> = BTreeSet::new();
        for (redirect, (victim, place)) in redirects.made.iter().zip(&result.redirects) {
            let (base, survivors) = (redirect.base, redirect.survivor_count());
            let dead = edit.dead.rank(base + survivors) - edit.dead.rank(base);
            if dead < u64::from(survivors) {
                edit.changes.push(Change::Redirect { victim: *victim, place: *place });
                edit.redirects.push(redirect.clone());
                led.insert(*victim);
            }
        }
        for (victim, _) in spec.victims.iter().flat_map(|victim| &victim.redirects) {
            if !led.contains(victim) && state.redirects.contains_key(victim) {
                edit.changes.push(Change::DropRedirect { victim: *victim });
                edit.gone.push(*victim);
            }
        }
        for number in spec.victims.iter().map(|victim| victim.segment.number) {
            if let Some(known) = state.segments.get(&number) {
                edit.changes.push(Change::RemoveValueSegment { number });
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
fn died_since(spec: &CollectSpec, redirects: &Redirects, state: &ValuesState) -> Ordinals {
    let mut dead = Ordinals::new();
    for (victim, own) in spec.victims.iter().zip(&redirects.own) {
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
