//! Which machine's database it is, and how another one comes to have it.
//!
//! | the newest redo logs lie | opened | what happens |
//! |---|---|---|
//! | here, or there are none yet | in any way | they are read |
//! | on another machine | to take over | a fence is written, files here go, and what was not in a checkpoint is given up |
//! | on another machine | otherwise | refused |
//! | in the one directory of a database that is opened as shared, or the reverse | in any way | refused |
//!
//! A machine that loses the database finds out with its next edit, and writes nothing from then on.
//! It acknowledges no write as `shared` without an edit.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, Result};
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::ADDRESS_MIN;
use firn_format::hybrid::redo::{REDO_HEADER_BYTES, RedoHeader};
use firn_format::manifest::Change;
use firn_storage::Storage;
use firn_storage::backend::SharedPart;
use firn_storage::file::manifest::load;

use crate::error::from_storage;
use crate::redo::Begun;
use crate::settings::HashOptions;
use crate::state::{Manifest, State};
use crate::tier::{Parts, Tier};

/// Edits after which one restates everything.
const EDITS_MAX: u64 = 64;

/// How often an opening begins again because another machine was faster.
const RACES_MAX: usize = 10;

/// A database that is this opening's, as far as its manifest says.
pub(crate) struct Owned {
    pub(crate) manifest: Manifest,
    /// What the manifest says, as far as it counts here.
    pub(crate) state: State,
    /// Where all files but the manifest are made.
    pub(crate) local: Arc<dyn Storage>,
    /// What other machines reach.
    pub(crate) tier: Option<Arc<Tier>>,
    home: u128,
    /// Files of another machine count no more.
    is_taken_over: bool,
}

impl Owned {
    /// The redo logs that there should be.
    pub(crate) fn begun(&self) -> Begun {
        begun(&self.state)
    }

    /// The changes that make it this opening's.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let redo = self.begun().next();
        let mut changes = vec![Change::RedoBegun { redo }];
        if self.is_taken_over {
            changes.push(Change::HybridCut { address: self.state.cut, redo });
        }
        if self.tier.is_some() {
            changes.push(Change::LogHome { id: self.home });
        }
        changes
    }
}

fn begun(state: &State) -> Begun {
    Begun { database: state.database, first: state.redo, through: state.redo_through }
}

/// Reads the manifest of the database of `options`, or begins one, and fences another machine that
/// has it. `check` asks nothing of the storage, and comes before that.
///
/// # Errors
/// `Conflict` where another machine has the database, unless it is to be taken over; `Invalid`
/// where there is none, or the local directory has another one's files.
pub(crate) fn own(options: &HashOptions, check: &dyn Fn(&State) -> Result<()>) -> Result<Owned> {
    let mut reached = 0;
    for _ in 0..RACES_MAX {
        let mut manifest = load_manifest(options, reached)?;
        check(manifest.state())?;
        match own_loaded(options, &mut manifest) {
            Ok((state, is_taken_over)) => return Ok(with_parts(options, manifest, state, is_taken_over)),
            // What was read may be gone since.
            Err(_) if manifest.is_overtaken() => reached = manifest.reached(),
            Err(error) => return Err(error),
        }
    }
    let backend = options.storage.describe();
    let message = format!(
        "{backend} is being opened, or written to, on other machines all the time: stop them, or try again"
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// What counts of the state of `manifest`, and whether it is taken over.
fn own_loaded(options: &HashOptions, manifest: &mut Manifest) -> Result<(State, bool)> {
    let state = manifest.state().clone();
    let part = options.storage.shared_part();
    let is_here = match conflict(&*options.storage, &state) {
        None => true,
        Some(_) if state.home != 0 && part.is_some() && options.take_over => false,
        Some(conflict) => return Err(conflict),
    };
    let Some(part) = part else { return Ok((state, false)) };
    let (local, _) = part.parts();
    check_local(&**local, Some(state.database))?;
    if is_here {
        return Ok((state, false));
    }
    manifest.fence(part.home()).map_err(from_storage)?;
    forget(&**local)?;
    let redo = begun(&state).next();
    Ok((State { redo, ..state }, true))
}

fn with_parts(options: &HashOptions, manifest: Manifest, state: State, is_taken_over: bool) -> Owned {
    let Some(part) = options.storage.shared_part() else {
        let local = Arc::clone(&options.storage);
        return Owned { manifest, state, local, tier: None, home: 0, is_taken_over };
    };
    let (local, shared) = part.parts();
    let (local, shared) = (Arc::clone(local), Arc::clone(shared));
    let parts = Parts { local: Arc::clone(&local), shared, clock: Arc::clone(&options.clock) };
    let generation = begun(&state).next();
    let tier = Tier::new(parts, generation, options.settings.engine.local_bytes_max);
    Owned { manifest, state, local, tier: Some(Arc::new(tier)), home: part.home(), is_taken_over }
}

/// That the newest redo logs of the database of `state` do not lie in `storage`, if so.
pub(crate) fn conflict(storage: &dyn Storage, state: &State) -> Option<Error> {
    let home = storage.shared_part().map_or(0, SharedPart::home);
    if state.home == home {
        return None;
    }
    let backend = storage.describe();
    let message = if state.home == 0 {
        format!("{backend} is a database that lies in one directory: open it without a shared location")
    } else if home == 0 {
        format!(
            "{backend} is the shared part of a database: open it as such, from the directory that has the log"
        )
    } else {
        format!(
            "the log of {backend} lies in another directory (identity {:032x}): open it there, or take it over, which \
             gives up what was written there and is in no checkpoint, and ends the process that has it open",
            state.home
        )
    };
    Some(Error::new(ErrorKind::Conflict, message))
}

/// Refuses the directory `local` of a database on shared storage if it has files of another one
/// than `database`.
fn check_local(local: &dyn Storage, database: Option<u128>) -> Result<()> {
    for (name, _) in local.list().map_err(from_storage)? {
        let is_strange = match (file_name::parse(&name), database) {
            (Some(FileName::ManifestEdit(_)), _) => true,
            (Some(FileName::Redo { .. }), Some(database)) => {
                database_of(local, &name)?.is_some_and(|found| found != database)
            }
            (Some(name), None) => is_of_engine(&name),
            _ => false,
        };
        if is_strange {
            let directory = local.describe();
            let message = format!(
                "{directory} has files of another database ({name}): name another directory, or an empty one"
            );
            return Err(Error::invalid(message));
        }
    }
    Ok(())
}

/// The database of the redo log `name`; `None` if its header is none.
fn database_of(local: &dyn Storage, name: &str) -> Result<Option<u128>> {
    let file = local.open_read(name).map_err(from_storage)?;
    let mut header = vec![0; REDO_HEADER_BYTES.min(file.len() as usize)];
    file.read_at(0, &mut header).map_err(from_storage)?;
    Ok(RedoHeader::decode(&header).ok().map(|header| header.database))
}

/// Whether a file of this name is made in the local directory.
fn is_of_engine(name: &FileName) -> bool {
    matches!(
        name,
        FileName::HybridSegment(_)
            | FileName::ColdSegment(_)
            | FileName::ColdRun(_)
            | FileName::Redo { .. }
            | FileName::Value(_)
    )
}

/// Removes what this machine has written before another one had the database.
fn forget(local: &dyn Storage) -> Result<()> {
    for (name, _) in local.list().map_err(from_storage)? {
        if file_name::parse(&name).is_some_and(|name| is_of_engine(&name)) {
            local.remove(&name).map_err(from_storage)?;
        }
    }
    local.sync_dir().map_err(from_storage)
}

fn load_manifest(options: &HashOptions, reached: u64) -> Result<Manifest> {
    let loaded = load::<State>(&*options.storage, reached).map_err(from_storage)?;
    let is_new = loaded.is_none();
    if is_new && !options.create {
        let backend = options.storage.describe();
        let message = format!("{backend} holds no database; create one by opening it for writing");
        return Err(Error::invalid(message));
    }
    let components = (Arc::clone(&options.storage), Arc::clone(&options.clock));
    let mut manifest = Manifest::new(components, loaded, EDITS_MAX);
    if is_new {
        let part = options.storage.shared_part();
        part.map_or(Ok(()), |part| check_local(&**part.parts().0, None))?;
        let bits = |bytes: u64| (bytes / 8).ilog2();
        let engine = &options.settings.engine;
        let default = KeyspaceSettings::default().to_text();
        let mut changes = vec![
            Change::Database { id: fastrand::Rng::with_seed(options.seed).u128(..) },
            Change::Hashed { page_bits: bits(engine.page_bytes), segment_bits: bits(engine.segment_bytes) },
            Change::Keyspace { id: KEYSPACE_DEFAULT.0, name: "default".to_owned(), settings: default },
            Change::HybridCut { address: ADDRESS_MIN, redo: 1 },
        ];
        changes.extend(part.map(|part| Change::LogHome { id: part.home() }));
        manifest.commit(&changes).map_err(from_storage)?;
    }
    Ok(manifest)
}
