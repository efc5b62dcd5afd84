//! What an opening reads in the manifest, and the edits that it makes there.

use firn_engine::{Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, Result};
use firn_format::manifest::Change;
use firn_storage::Storage;
use firn_storage::backend::SharedPart;

use super::log::RecoveredLog;
use super::tables::definition;
use crate::error::from_storage;
use crate::settings::TreeOptions;
use crate::version::Manifest;
use crate::version::state::State;

/// Begins the manifest of a new database, which has its default keyspace.
pub(super) fn start_manifest(options: &TreeOptions, manifest: &mut Manifest) -> Result<()> {
    if manifest.is_new() {
        let id = u128::from(options.seed) << 64 | u128::from(options.clock.unix_ms());
        let settings = KeyspaceSettings::default().to_text();
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
pub(super) fn is_log_here(options: &TreeOptions, state: &State) -> Result<bool> {
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
    let backend = storage.describe();
    let message = if state.log_home == 0 {
        format!(
            "{backend} is a database that lies in one directory, with its log: open it without a shared location"
        )
    } else if home == 0 {
        format!(
            "{backend} is the shared part of a database: open it as such, from the directory that has the log"
        )
    } else {
        format!(
            "the log of {backend} lies in another directory (identity {:032x}): open it there, or take it over, which \
             gives up what was written there and is neither in a table nor acknowledged as `shared`, and ends the process that has it open",
            state.log_home
        )
    };
    Some(Error::new(ErrorKind::Conflict, message))
}

/// Takes the next edit's number, before tables are opened: a process that has the database open
/// could else write more edits than can be read meanwhile.
///
/// Checks that ask nothing of the backend come first: an opening that cannot take over ends no
/// other process.
pub(super) fn fence(options: &TreeOptions, manifest: &mut Manifest, state: &State) -> Result<()> {
    for (id, keyspace) in &state.keyspaces {
        definition(options, *id, keyspace)?;
    }
    manifest.fence(options.storage.shared_part().map_or(0, SharedPart::home)).map_err(from_storage)
}

/// Makes the segments durable that tell where earlier recoveries cut the log.
///
/// A segment that a later opening began says where the one before it ends: what lies there beyond
/// is void. The manifest has said so since; from the next edit on it knows only a cut behind both.
/// If a loss of power took the later segment then, what is void would count again.
pub(super) fn keep_cuts(storage: &dyn Storage, recovered: &RecoveredLog) -> Result<()> {
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
pub(super) fn begin_generation(
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
        changes.extend(keyspaces.map(|id| Change::FlushedThrough { keyspace: *id, position: recovered.end }));
    }
    changes.extend(sealed);
    manifest.commit(&changes).map_err(from_storage)
}
