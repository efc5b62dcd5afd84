//! Reading what is there, and the first changes on disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_engine::Result;
use firn_format::blob::SegmentNumber;
use firn_jobs::submit::{Aborted, OutputNames, Reach, Uploads};
use firn_maintenance::is_abandoned;
use firn_storage::Storage;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::log::objects::{Older, stale};
use firn_storage::file::obsolete::ObsoleteFiles;

use super::LogSource;
use super::blobs::{FoundBlobs, sealed_map};
use super::log::RecoveredLog;
use super::manifest::{begin_generation, fence, is_log_here, keep_cuts, start_manifest};
use super::tables::tables_version;
use crate::background::NamedOutputs;
use crate::blobs::BlobMap;
use crate::error::from_storage;
use crate::memory::Balance;
use crate::settings::TreeOptions;
use crate::version::state::State;
use crate::version::{Manifest, Version};

/// What was found, with the first changes on disk made.
pub(crate) struct Begun {
    /// What the manifest said before those changes.
    pub(crate) state: State,
    pub(crate) version: Version,
    pub(crate) recovered: RecoveredLog,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) balance: Balance,
    /// The first number that was never given to a blob segment.
    pub(crate) next_blobs: SegmentNumber,
    /// Log objects that the manifest named.
    pub(crate) older: Option<Older>,
    /// Uploads that an earlier process waited for.
    pub(crate) aborted: Aborted,
    pub(crate) may_follow: bool,
}

/// Reads what `manifest` names, and takes the database: no process that opened it before writes to
/// it afterwards.
///
/// # Errors
/// Whatever is wrong with it. Where another machine has written to it meanwhile, the manifest can
/// tell.
pub(crate) fn begin(options: &TreeOptions, manifest: &mut Manifest) -> Result<Begun> {
    let storage = &options.storage;
    start_manifest(options, manifest)?;
    // Orphan GC asks `obsolete` which files have holders.
    let has_orphan_gc = options.executor.is_some() || storage.shared_part().is_some();
    let obsolete = Arc::new(ObsoleteFiles::new(has_orphan_gc && !options.read_only));
    // It may become that large, and gets its capacity once what else is held is known.
    let cache = Arc::new(BlockCache::new(options.settings.memory_bytes));
    let state = manifest.state().clone();
    let is_here = is_log_here(options, &state)?;
    if !is_here {
        fence(options, manifest, &state)?;
    }
    // Checks that could still refuse the opening come before the end of another machine's log
    // objects, and before its files are given up.
    let balance = Balance::new(&options.settings, options.read_only);
    let mut version = tables_version(options, &state, &cache, (&obsolete, &balance.gap_budget))?;
    let source = LogSource::of(&**storage, manifest, is_here)?;
    let mut found = FoundBlobs::survey(&**storage, &state)?;
    let recovered = source.recover(options, &state, &found, &obsolete)?;
    let (map, Leftovers { older, aborted, may_follow }) =
        change(options, manifest, &mut found, (&version, &recovered), &obsolete)?;
    version.blobs = Arc::new(map);
    let next_blobs = found.next();
    Ok(Begun { state, version, recovered, obsolete, cache, balance, next_blobs, older, aborted, may_follow })
}

/// The first changes on disk, unless the database is only read: a new generation of the log, blob
/// segments sealed, files removed that nothing needs. Returns where values are then, and what is
/// left.
fn change(
    options: &TreeOptions,
    manifest: &mut Manifest,
    found: &mut FoundBlobs,
    (version, recovered): (&Version, &RecoveredLog),
    obsolete: &Arc<ObsoleteFiles>,
) -> Result<(BlobMap, Leftovers)> {
    let (storage, state) = (&options.storage, manifest.state().clone());
    if options.read_only {
        return Ok((found.map(&**storage, &state, obsolete)?, Leftovers::default()));
    }
    let tables = version.live().flat_map(|keyspace| keyspace.levels.tables()).map(|(_, table)| table);
    let generation = state.generation + 1;
    let mut values = found.lost((&**storage, &state), &recovered.references, tables, recovered.lost_from)?;
    values.extend(found.seal(&**storage, &recovered.references, (recovered.end, generation))?);
    keep_cuts(&**storage, recovered)?;
    begin_generation(options, manifest, generation, recovered, values)?;
    let leftovers = remove_leftovers(storage, manifest, recovered, &found.stale, obsolete)?;
    Ok((sealed_map(&**storage, manifest.state(), obsolete)?, leftovers))
}

/// What an opening has found that its database does not begin with.
#[derive(Default)]
struct Leftovers {
    /// Log objects that the manifest names.
    older: Option<Older>,
    aborted: Aborted,
    /// There were processes before, on shared storage. If the last one was killed, what it asked
    /// for may be done after all was listed.
    may_follow: bool,
}

/// Removes files that no edit names: outputs of jobs that never committed, segments beyond the cut,
/// log objects that nothing needs. Aborts uploads of outputs that an earlier process waited for.
/// Whether it can is no error of the opening, and what would take long is left for orphan GC.
fn remove_leftovers(
    storage: &Arc<dyn Storage>,
    manifest: &mut Manifest,
    recovered: &RecoveredLog,
    stale_values: &[String],
    obsolete: &ObsoleteFiles,
) -> Result<Leftovers> {
    use firn_format::file_name::{FileName, parse};
    let files = storage.list().map_err(from_storage)?;
    let mut uploads = Uploads::list(&**storage);
    // A process that takes the database over writes an edit first: what was listed before that is
    // not its own.
    if storage.shared_part().is_some() && !manifest.is_current() {
        return Ok(Leftovers::default());
    }
    let state = manifest.state();
    let older = state.log_objects.and_then(|named| Older::among(&files, named, recovered.next_base));
    let stale_objects = stale(&files, state.log_objects, state.generation);
    // A segment that an opening before left behind may have been made again since it was found.
    let live: BTreeSet<&str> = state.blobs.segments.values().map(|known| known.meta.file.as_str()).collect();
    let shared = state.shared_files();
    for (name, bytes) in &files {
        obsolete.shared.set_length(name, *bytes);
        let leftover = match parse(name) {
            Some(FileName::Table { .. }) => !state.tables.contains_key(name),
            Some(FileName::Tables { .. }) => !shared.contains(name.as_str()),
            Some(FileName::LogSegment { .. }) => recovered.stale.contains(name),
            Some(FileName::BlobSegment(_) | FileName::CollectedBlobs { .. }) => {
                stale_values.contains(name) && !live.contains(name.as_str())
            }
            Some(FileName::LogObject { .. }) => stale_objects.contains(name.as_str()),
            _ => false,
        };
        if leftover {
            match storage.remove(name) {
                // A worker that the process before asked has removed it, or written over it.
                Err(error) if error.kind == firn_storage::ErrorKind::NotFound => {}
                removed => removed.map_err(from_storage)?,
            }
        }
    }
    let abandoned = OutputNames::new(state.generation).abandoned();
    let named = NamedOutputs::of(state);
    uploads.retain(|name| is_abandoned(name, &abandoned, |name| named.contains(name)));
    let aborted = uploads.abort(&**storage, Reach::OPENING, || false);
    let may_follow = storage.shared_part().is_some() && state.generation > 1;
    Ok(Leftovers { older, aborted, may_follow })
}
