//! Reading what is there, and the first changes on disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_engine::{Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, Result};
use firn_format::manifest::Change;
use firn_jobs::submit::{Aborted, OutputNames, Reach, Uploads};
use firn_maintenance::is_abandoned;
use firn_storage::Storage;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::obsolete::ObsoleteFiles;
use firn_storage::place::SharedPart;

use super::{Begun, definition, spawn_of, tables_version};
use crate::background::NamedOutputs;
use crate::blob_gc::{FoundValues, sealed_map};
use crate::blobs::ValueMap;
use crate::error::from_storage;
use crate::groups::{Older, recover_restored, restore, stale};
use crate::memory::Balance;
use crate::recovery::{RecoveredLog, log_elsewhere, recover_log};
use crate::settings::TreeOptions;
use crate::version::state::State;
use crate::version::{Manifest, Version};

/// Reads what `manifest` names, and takes the database: no process that opened it before writes to
/// it afterwards.
///
/// # Errors
/// Whatever is wrong with it. Where another machine has written to it meanwhile, the manifest can
/// tell.
pub(super) fn begin(options: &TreeOptions, manifest: &mut Manifest) -> Result<Begun> {
    let storage = &options.storage;
    start_manifest(options, manifest)?;
    // Orphan GC asks it which files have holders.
    let is_swept = options.executor.is_some() || storage.shared_part().is_some();
    let obsolete = Arc::new(ObsoleteFiles::new(is_swept && !options.read_only));
    // It may become that large, and gets its capacity once what else is held is known.
    let cache = Arc::new(BlockCache::new(options.settings.memory_bytes));
    let state = manifest.state().clone();
    let is_here = is_log_here(options, &state)?;
    if !is_here {
        fence(options, manifest, &state)?;
    }
    // Checks that could still refuse the opening come before the end of another machine's groups,
    // and before its files are given up.
    let balance = Balance::new(&options.settings, options.read_only);
    let mut version = tables_version(options, &state, &cache, (&obsolete, &balance.gap_budget))?;
    let restored = match state.groups.filter(|_| !is_here) {
        Some(named) => Some(restore(&**storage, manifest, named)?),
        None => None,
    };
    let mut found = FoundValues::survey(&**storage, &state)?;
    let recovered = match restored {
        Some(restored) => recover_restored(storage, &state, &found, &obsolete, spawn_of(options), &restored)?,
        None if is_here => {
            recover_log(storage, &state, &found, &obsolete, spawn_of(options), !options.read_only)?
        }
        None => log_elsewhere(storage, &state)?,
    };
    let (map, Leftovers { older, aborted, may_follow }) =
        change(options, manifest, &mut found, (&version, &recovered), &obsolete)?;
    version.values = Arc::new(map);
    let next_values = found.next();
    Ok(Begun { state, version, recovered, obsolete, cache, balance, next_values, older, aborted, may_follow })
}

/// Begins the manifest of a new database, which has its default keyspace.
fn start_manifest(options: &TreeOptions, manifest: &mut Manifest) -> Result<()> {
    if manifest.is_new() {
        let id = u128::from(options.seed) << 64 | u128::from(options.clock.unix_ms());
        let settings = crate::version::set::to_text(&KeyspaceSettings::default());
        manifest
            .commit(&[
                Change::Database { id },
                Change::Keyspace { id: KEYSPACE_DEFAULT.0, name: "default".to_owned(), settings },
            ])
            .map_err(from_storage)?;
    }
    Ok(())
}

/// Whether the newest log of the database of `state` lies here.
///
/// # Errors
/// `Conflict` if it does not, unless that is to be so.
fn is_log_here(options: &TreeOptions, state: &State) -> Result<bool> {
    let may_take_over = options.take_over && !options.read_only;
    match log_conflict(&*options.storage, state) {
        None => Ok(true),
        Some(_) if state.log_home != 0 && options.storage.shared_part().is_some() && may_take_over => {
            Ok(false)
        }
        Some(conflict) => Err(conflict),
    }
}

/// That the newest log of the database of `state` does not lie in `storage`, if so, and where it
/// does.
pub(crate) fn log_conflict(storage: &dyn Storage, state: &State) -> Option<Error> {
    let home = storage.shared_part().map_or(0, SharedPart::home);
    // A new one has no log anywhere.
    if state.log_home == home || state.generation == 0 {
        return None;
    }
    let place = storage.describe();
    let told = if state.log_home == 0 {
        format!(
            "{place} is a database that lies in one directory, with its log: open it without a shared place"
        )
    } else if home == 0 {
        format!(
            "{place} is the shared part of a database: open it as such, from the directory that has the log"
        )
    } else {
        format!(
            "the log of {place} lies in another directory (identity {:032x}): open it there, or take it over, which \
             gives up what was written there and is neither in a table nor acknowledged as `shared`, and ends the process that has it open",
            state.log_home
        )
    };
    Some(Error::new(ErrorKind::Conflict, told))
}

/// Takes the next edit's number, before tables are opened: a process that has the database open
/// could else write more edits than can be read meanwhile.
///
/// Checks that ask nothing of the place come first: an opening that cannot take over ends no other
/// process.
fn fence(options: &TreeOptions, manifest: &mut Manifest, state: &State) -> Result<()> {
    for (id, keyspace) in &state.keyspaces {
        definition(options, *id, keyspace)?;
    }
    manifest.fence(options.storage.shared_part().map_or(0, SharedPart::home)).map_err(from_storage)
}

/// The first changes on disk, unless the database is only read: a new generation of the log, value
/// segments sealed, files removed that nothing needs. Returns where values are then, and what is
/// left.
fn change(
    options: &TreeOptions,
    manifest: &mut Manifest,
    found: &mut FoundValues,
    (version, recovered): (&Version, &RecoveredLog),
    obsolete: &Arc<ObsoleteFiles>,
) -> Result<(ValueMap, Leftovers)> {
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

/// Makes the segments durable that tell where earlier recoveries cut the log.
///
/// A segment that a later opening began says where the one before it ends: what lies there beyond
/// is void. The manifest has said so since; from the next edit on it knows only a cut behind both.
/// If a loss of power took the later segment then, what is void would count again.
fn keep_cuts(storage: &dyn Storage, recovered: &RecoveredLog) -> Result<()> {
    let Some(first) = recovered.segments.first().map(|segment| segment.header().generation) else {
        return Ok(());
    };
    let mut is_any = false;
    for segment in recovered.segments.iter().filter(|segment| segment.header().generation > first) {
        if let Some(file) = segment.file() {
            file.sync().map_err(from_storage)?;
            is_any = true;
        }
    }
    if is_any { storage.sync_dir().map_err(from_storage) } else { Ok(()) }
}

/// Makes what lies beyond the cut void; before the first new frame.
fn begin_generation(
    options: &TreeOptions,
    manifest: &mut Manifest,
    generation: u64,
    recovered: &RecoveredLog,
    sealed: Vec<Change>,
) -> Result<()> {
    let mut changes = vec![
        Change::LogCut { position: recovered.end, generation },
        Change::Tick { ms: options.clock.unix_ms() },
    ];
    changes.extend(options.storage.boot_id().map(|id| Change::Boot { id }));
    if let Some(shared) = options.storage.shared_part() {
        changes.push(Change::LogHome { id: shared.home() });
    }
    changes.push(Change::DurableThrough { position: recovered.durable_through });
    if recovered.lost_from < recovered.end {
        // What was lost is not looked for again.
        let keyspaces = manifest.state().keyspaces.keys();
        changes.extend(keyspaces.map(|id| Change::DrainedThrough { keyspace: *id, position: recovered.end }));
    }
    changes.extend(sealed);
    manifest.commit(&changes).map_err(from_storage)
}

/// What an opening has found that its database does not begin with.
#[derive(Default)]
struct Leftovers {
    /// Groups that the manifest names.
    older: Option<Older>,
    aborted: Aborted,
    /// There were processes before, on shared storage. If the last one was killed, what it asked
    /// for may be done after all was listed.
    may_follow: bool,
}

/// Removes files that no edit names: outputs of jobs that never committed, segments beyond the cut,
/// groups that nothing needs. Aborts uploads of outputs that an earlier process waited for. Whether
/// it can is no error of the opening, and what would take long is left for orphan GC.
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
    let older = state.groups.and_then(|named| Older::among(&files, named, recovered.next_base));
    let stale_groups = stale(&files, state.groups, state.generation);
    // A segment that an opening before left behind may have been made again since it was found.
    let live: BTreeSet<&str> = state.values.segments.values().map(|known| known.meta.file.as_str()).collect();
    let shared = state.shared_files();
    for (name, bytes) in &files {
        obsolete.shared.set_length(name, *bytes);
        let leftover = match parse(name) {
            Some(FileName::Table { .. }) => !state.tables.contains_key(name),
            Some(FileName::Tables { .. }) => !shared.contains(name.as_str()),
            Some(FileName::LogSegment { .. }) => recovered.stale.contains(name),
            Some(FileName::ValueSegment(_) | FileName::CollectedValues { .. }) => {
                stale_values.contains(name) && !live.contains(name.as_str())
            }
            Some(FileName::Group { .. }) => stale_groups.contains(name.as_str()),
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
