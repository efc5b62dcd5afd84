//! Segments that take no more values become sealed ones.
//!
//! ```text
//!   full, or a flush's tables will refer to it
//!     ─► every place settled ─► ordinal table, footer, sync ─► an edit
//! ```
//! No table refers to a segment that is not sealed. After a crash only log records tell of the
//! values of unsealed segments, and say where they are.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use firn_engine::{Error, ErrorKind, Result};
use firn_format::blob::{Ordinals, SegmentNumber};
use firn_format::file_name;
use firn_format::manifest::BlobSegmentMeta;
use firn_storage::Storage;
use firn_storage::file::blob::{BlobSegment, End};

use super::liveness::BlobEdit;
use crate::blobs::active::{Active, Settled};
use crate::blobs::{BlobStore, Home};
use crate::commit::CommitPipeline;
use crate::counters::count;
use crate::error::from_storage;
use crate::version::catalog::Catalog;
use crate::version::{Manifest, Version};

/// A segment that was sealed, and is not yet in the manifest.
#[derive(Debug)]
pub(crate) struct NewlySealed {
    pub(crate) meta: BlobSegmentMeta,
    /// Open before an edit names it: where that fails nothing has changed yet.
    pub(super) segment: BlobSegment,
    /// Places that were given up, and values of keyspaces that are gone.
    pub(crate) dead: Ordinals,
    /// The segment as it was while it took values; a reader of an older version may have it still.
    pub(crate) active: Weak<Active>,
}

impl BlobStore {
    /// Seals all segments of `wanted`, waiting for writers that still copy values to them. Blocks
    /// for syncs. Holds no version meanwhile: files that GCs leave would stay as long.
    ///
    /// # Errors
    /// `Retry` when the disk is full, or what was sealed cannot be opened for now. Segments that
    /// were not sealed are sealed by a later call.
    pub(crate) fn seal(
        &self,
        wanted: &BTreeSet<SegmentNumber>,
        version: &ArcSwap<Version>,
    ) -> Result<Vec<NewlySealed>> {
        let open = self.unsynced();
        let wanted = open.into_iter().filter(|active| wanted.contains(&active.number()));
        wanted
            .map(|active| {
                active.seal();
                let settled = loop {
                    match active.settled() {
                        Some(settled) => break settled,
                        // A writer with a place needs nothing from the thread that waits here.
                        None => std::thread::yield_now(),
                    }
                };
                // Now, and not before the first of them was sealed: a keyspace may be new, and have
                // its first value here.
                let keyspaces = version.load().ids();
                let (mut meta, dead) = seal_one(&active, &settled, &keyspaces)?;
                count(&self.counters.sync_count, 1);
                self.share(&mut meta)?;
                self.newly_sealed(meta, dead, Arc::downgrade(&active))
            })
            .collect()
    }

    /// Opens the segment of `meta`, which no edit names yet.
    ///
    /// # Errors
    /// What reading says.
    pub(super) fn newly_sealed(
        &self,
        meta: BlobSegmentMeta,
        dead: Ordinals,
        active: Weak<Active>,
    ) -> Result<NewlySealed> {
        let segment = BlobSegment::open(&*self.files.storage, &meta, true).map_err(from_storage)?;
        Ok(NewlySealed { meta, segment, dead, active })
    }

    /// Puts the file of a sealed segment where all machines reach it, where there is such a
    /// backend; `meta` names it there then.
    fn share(&self, meta: &mut BlobSegmentMeta) -> Result<()> {
        share_sealed(&*self.files.storage, self.generation, meta)
    }

    /// Segments that no edit names.
    pub(crate) fn open_numbers(&self) -> BTreeSet<SegmentNumber> {
        self.unsynced().iter().map(|active| active.number()).collect()
    }

    /// Segments that take no more values, and whose places are all settled.
    pub(crate) fn to_be_sealed(&self) -> BTreeSet<SegmentNumber> {
        let open = self.unsynced();
        open.iter().filter(|active| active.is_settled()).map(|active| active.number()).collect()
    }

    /// No other thread seals segments until the answer is dropped.
    pub(crate) fn lock_sealing(&self) -> MutexGuard<'_, ()> {
        self.sealing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the files of `open` segments removed that were sealed, and lie where all machines reach
    /// them.
    pub(super) fn remove_shared_later(&self, sealed: &[NewlySealed], open: &[Arc<Active>]) {
        for active in open {
            let is_shared =
                |new: &NewlySealed| new.meta.number == active.number() && new.meta.file != active.open.name();
            if sealed.iter().any(is_shared) {
                self.files.obsolete.remove_later(active.open.name().to_owned());
            }
        }
    }

    /// What was sealed, for readers.
    pub(super) fn homes(&self, sealed: Vec<NewlySealed>) -> Vec<(SegmentNumber, Home)> {
        let home = |new: NewlySealed| {
            // What was given up is counted with what else died.
            let (number, none) = (new.meta.number, Ordinals::new());
            (number, Home::Sealed(self.sealed((new.segment, new.active), new.meta, &none)))
        };
        sealed.into_iter().map(home).collect()
    }
}

/// Seals what takes no more values and is settled, and says so in an edit of its own; of many
/// segments the oldest `most`. Blocks for syncs.
///
/// # Errors
/// `Retry` when the disk is full: nothing changed that readers see.
pub(crate) fn seal_blobs(
    blobs: &BlobStore,
    catalog: &Catalog,
    pipeline: &CommitPipeline,
    most: usize,
) -> Result<()> {
    // No keyspace is dropped either until this is over; see `plan_dropped_blobs`.
    let sealing = blobs.lock_sealing();
    // Before the manifest is locked, so that other edits need not wait for the device.
    let oldest = blobs.to_be_sealed().into_iter().take(most).collect();
    let sealed = blobs.seal(&oldest, &catalog.version)?;
    blobs.files.storage.sync_dir().map_err(from_storage)?;
    let mut manifest = catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
    if commit_seals(blobs, catalog, &mut manifest, sealing, sealed)? {
        pipeline.balance_memory();
    }
    Ok(())
}

/// Says in an edit that segments are sealed, with `sealing` as it was locked before they were;
/// whether there was anything to say. The directory was synced since then, so that no name is lost
/// where the edit is not. Blocks for the syncs of a publication.
///
/// # Errors
/// As [`seal_blobs`].
pub(crate) fn commit_seals(
    blobs: &BlobStore,
    catalog: &Catalog,
    manifest: &mut Manifest,
    sealing: MutexGuard<'_, ()>,
    sealed: Vec<NewlySealed>,
) -> Result<bool> {
    let mut edit = BlobEdit::of_seals(sealed, sealing);
    let mut changes = Vec::new();
    let liveness = edit.changes(&manifest.state().blobs, &blobs.map(), &mut changes)?;
    if changes.is_empty() {
        return Ok(false);
    }
    manifest.commit(&changes).map_err(from_storage)?;
    let map = blobs.install(&mut edit, &liveness);
    if let Some(map) = &map {
        catalog.change_version(|version| version.blobs = Arc::clone(map));
    }
    Ok(map.is_some())
}

/// Puts the file of a sealed segment where all machines reach it, where there is such a backend;
/// `meta` names it there then. The log's `generation` is this process's.
///
/// # Errors
/// What reading and writing say.
pub(crate) fn share_sealed(storage: &dyn Storage, generation: u64, meta: &mut BlobSegmentMeta) -> Result<()> {
    let Some(shared) = storage.shared_part() else { return Ok(()) };
    // Two machines may take the next generation at once, until one of them has said so in the
    // manifest.
    let stem = format!("{generation:08x}-{:032x}-{:08x}", shared.home(), meta.number.0);
    // A name is never made again: what was begun under it may still be written, or removed.
    for attempt in 0..ATTEMPTS_MAX {
        let name = file_name::collected_blobs(&stem, attempt);
        match shared.share(&meta.file, &name) {
            Err(error) if error.kind == firn_storage::ErrorKind::Exists => {}
            Err(error) => return Err(from_storage(error)),
            Ok(()) => {
                meta.file = name;
                return Ok(());
            }
        }
    }
    Err(Error::new(
        ErrorKind::Retry,
        format!("{} was shared too often without an edit that says so", meta.file),
    ))
}

/// Segments that are sealed by one edit where no call waits for them: flushes wait for that, and a
/// failure has all of them sealed again.
pub(crate) const SEALED_AT_ONCE_MAX: usize = 4;

/// How often a segment is shared in one generation at most.
const ATTEMPTS_MAX: u32 = 1000;

/// What the manifest is to know of a segment, and which of its values are dead: places that were
/// given up, and values of others than `keyspaces`.
fn seal_one(
    active: &Active,
    settled: &Settled,
    keyspaces: &BTreeSet<u32>,
) -> Result<(BlobSegmentMeta, Ordinals)> {
    if settled.values.len() as u64 + u64::from(settled.given_up) != u64::from(settled.ordinals) {
        let Settled { ordinals, given_up, values, .. } = settled;
        let message = format!("of {ordinals} values {} are written and {given_up} given up", values.len());
        return Err(Error::bug(message));
    }
    let mut offsets = vec![None; settled.ordinals as usize];
    let mut dead = Ordinals::new();
    let mut value_bytes = 0;
    for written in &settled.values {
        if let Some(offset) = offsets.get_mut(written.ordinal as usize) {
            *offset = Some(written.offset);
        }
        value_bytes += u64::from(written.value_bytes);
        if !keyspaces.contains(&written.keyspace) {
            // Its keyspace was dropped before a flush could tell that it died.
            dead.insert(written.ordinal);
        }
    }
    let given_up = offsets.iter().zip(0..).filter(|(offset, _)| offset.is_none());
    for (_, ordinal) in given_up {
        dead.insert(ordinal);
    }
    let end = End { number: active.number(), offsets, records_end: settled.end, value_bytes };
    let meta = active.open.seal(&end).map_err(from_storage)?;
    Ok((BlobSegmentMeta { sealed_at: settled.frames_end, ..meta }, dead))
}

#[cfg(test)]
mod tests;
