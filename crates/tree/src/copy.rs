//! A consistent copy of the database: immutable files, linked; those that lie on shared storage,
//! copied.

use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};

use firn_engine::{DatabaseCopy, Error, Result};
use firn_format::manifest::EditEncoder;
use firn_format::{Position, file_name};
use firn_storage::Storage;
use firn_storage::backend::copy;

use crate::blob_gc::commit_seals;
use crate::blobs::BlobStore;
use crate::commit::CommitPipeline;
use crate::commit::roll::Freeze;
use crate::error::from_storage;
use crate::version::catalog::Catalog;
use crate::version::{Manifest, Version};

/// Makes `path` a database with everything acknowledged so far and nothing that is written
/// later.
///
/// The active segment is ended first, so that only files that never grow again are linked.
/// Blocks for a log sync, for sealing values, for the links, and for copying what lies on
/// shared storage. Commits wait for all but the copying.
///
/// # Errors
/// What reading and writing say; then `path` is empty, and can be asked for again, unless the
/// message says otherwise.
pub(crate) fn copy_to(
    pipeline: &CommitPipeline,
    catalog: &Catalog,
    blobs: &BlobStore,
    path: &Path,
) -> Result<DatabaseCopy> {
    let cut = pipeline.log.advance().map_err(from_storage)?;
    pipeline.freeze_all()?;
    let Held { active, sealing, mut manifest, version } = hold(pipeline, catalog, blobs)?;
    // A keyspace may have flushed more since the segment was ended. Then the copy ends where
    // that does, or batches would be in one keyspace and not in another.
    let flushed = version.live().map(|keyspace| keyspace.flushed_through).max().unwrap_or_default();
    let end = active.max(flushed);
    pipeline.log.sync_through(end).map_err(from_storage)?;
    // What the linked records refer to is written to no more.
    let open = blobs.open_numbers();
    let sealed = blobs.seal(&open, &catalog.version)?;
    blobs.files.storage.sync_dir().map_err(from_storage)?;
    if commit_seals(blobs, catalog, &mut manifest, sealing, sealed)? {
        pipeline.balance_memory();
    }
    let segments: Vec<_> =
        version.segments.segments().iter().filter(|segment| segment.base() < end).collect();
    segments.iter().for_each(|segment| segment.keep_file());
    let mut names: Vec<String> = segments.iter().map(|segment| segment.name().to_owned()).collect();
    for (_, table) in version.live().flat_map(|keyspace| keyspace.levels.tables()) {
        table.leave_no_file();
        names.push(file_name::file_of(&table.meta().file).to_owned());
    }
    // One file may hold tables of several keyspaces.
    names.sort_unstable();
    names.dedup();
    blobs.map().leave_no_files();
    names.extend(manifest.state().blobs.segments.values().map(|segment| segment.meta.file.clone()));
    let shared = blobs.files.storage.shared_part();
    let is_shared = |name: &String| shared.is_some_and(|shared| shared.is_shared(name));
    let (far, near): (Vec<String>, Vec<String>) = names.into_iter().partition(is_shared);
    let backend = blobs.files.storage.link_into(&near, path).map_err(from_storage)?;
    // The copy's log ends with the last linked segment, and is on the device through there.
    let mut state = manifest.state().clone();
    let replayed = segments.last().map(|segment| segment.position(segment.region().published()));
    let log_end = replayed.unwrap_or_default().max(state.log_start());
    state.durable_through = log_end;
    state.cut = log_end;
    // All of the copy lies in one backend.
    (state.log_home, state.log_objects) = (0, None);
    let mut edit = EditEncoder::default();
    state.restate(&mut |change| edit.push(&change));
    let edit = edit.finish(1, true, state.generation);
    // Tables and sealed segments stay for as long as they are held; what is in memory need not
    // stay with them.
    let tables = version.live().flat_map(|keyspace| keyspace.levels.tables());
    let kept = (tables.map(|(_, table)| Arc::clone(table)).collect::<Vec<_>>(), blobs.map());
    drop(segments);
    drop(version);
    drop(manifest);
    complete(&*blobs.files.storage, &*backend, (&near, &far), &edit)?;
    drop(kept);
    let position = log_end.max(cut);
    Ok(DatabaseCopy { path: path.to_owned(), position })
}

/// A moment of a database: no edit is committed until it is dropped.
struct Held<'d> {
    /// Where the active segment begins; what lies below is on the device.
    active: Position,
    sealing: MutexGuard<'d, ()>,
    manifest: MutexGuard<'d, Manifest>,
    version: Arc<Version>,
}

/// Holds a moment at which everything in tables is older than the active segment, or was flushed
/// out of it. Ends segments until it is so.
fn hold<'d>(pipeline: &CommitPipeline, catalog: &'d Catalog, blobs: &'d BlobStore) -> Result<Held<'d>> {
    loop {
        let active = pipeline.log.settled_base();
        // Frames below that other threads still write belong to the copy too.
        pipeline.log.wait_published(active).map_err(from_storage)?;
        pipeline.log.sync_through(active).map_err(from_storage)?;
        let sealing = blobs.lock_sealing();
        // No edit is committed while the files of this version are linked, so none of them can go.
        let manifest = catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let version = catalog.version.load_full();
        let ingested = version.live().map(|keyspace| keyspace.ingested_through).max().unwrap_or_default();
        if ingested <= active {
            return Ok(Held { active, sealing, manifest, version });
        }
        // What was written before those tables came lies in the segment that is active, and belongs
        // to the copy as they do.
        drop((sealing, manifest, version));
        pipeline.roll(active, Freeze::All)?;
    }
}

/// Makes `backend`, which has the files `near`, a database: copies the files `far` of `storage`
/// into it and says so in `edit`. Durable on return.
///
/// # Errors
/// What reading and writing say; then all of it was removed, `near` too, or the message says
/// that it was not.
fn complete(
    storage: &dyn Storage,
    backend: &dyn Storage,
    (near, far): (&[String], &[String]),
    edit: &[u8],
) -> Result<()> {
    let manifest = file_name::manifest_edit(1);
    let copied = far.iter().try_for_each(|name| copy((storage, name), (backend, name)));
    let made = copied.and_then(|()| backend.sync_dir());
    let made = made.and_then(|()| backend.publish(&manifest, edit));
    made.map_err(|error| {
        let error = from_storage(error);
        // Without a manifest it is no database, whatever else cannot be removed.
        let made = std::iter::once(&manifest).chain(far).chain(near);
        match made.filter(|name| is_left(backend.remove(name))).count() {
            0 => error,
            left => {
                let backend = backend.describe();
                let message = format!(
                    "{left} files of a copy that failed cannot be removed: remove {backend} before it is used again"
                );
                Error::new(error.kind(), message).because(error)
            }
        }
    })
}

fn is_left(removed: firn_storage::Result<()>) -> bool {
    removed.is_err_and(|error| error.kind != firn_storage::ErrorKind::NotFound)
}
