//! Opening a database for one command.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn::{Builder, Db, EngineKind, PointDb};
use firn_engine::blocking::{Blocking, OrderedBlocking};
use firn_engine::{Durability, Error, KeyspaceId, Stats, WriteOptions};
use firn_format::file_name::{self, FileName};
use firn_server::served::Served;
use firn_storage::Clock;
use firn_storage::backend::refuse_earlier_build;
use firn_tree::storage_error;

use crate::access::Access;
use crate::config_file::Config;
use crate::ending::{Ending, Failure, Result};
use crate::output::report;
use crate::partial::check_whole;
use crate::progress;
use crate::shared_storage::{SharedName, SharedStorage};

/// The directory of a database where none is named.
pub(crate) const DIR: &str = "firn-data";

/// The directory of a database.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Directory {
    /// The database's directory.
    #[arg(long, value_name = "DIR", default_value = DIR)]
    pub(crate) dir: PathBuf,
}

/// The keyspace where none is named.
const KEYSPACE: &str = "default";

/// Which database, and which part of it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Place {
    #[command(flatten)]
    dir: Directory,
    /// The keyspace within it. Default `default`; of a database that `firn serve` has written, the
    /// keys of its clients.
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    #[command(flatten)]
    shared: SharedStorage,
    #[command(flatten)]
    config: Config,
}

impl Place {
    /// The default keyspace of the database in `dir` and where it is `shared`, with default
    /// settings.
    pub(crate) fn of(dir: &Path, shared: &SharedName) -> Self {
        Self {
            dir: Directory { dir: dir.to_owned() },
            keyspace: None,
            shared: SharedStorage { name: shared.clone(), ..SharedStorage::default() },
            config: Config::default(),
        }
    }

    /// The database's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir.dir
    }

    /// Begins to open the database in `dir` with the settings that are said.
    ///
    /// # Errors
    /// The file of settings is wrong.
    pub(crate) fn builder(&self, dir: &Path) -> Result<Builder> {
        let builder = PointDb::builder(dir).settings(self.config.settings()?);
        Ok(match self.config.hash_settings()? {
            Some(hash) => builder.hash_settings(hash),
            None => builder,
        })
    }
}

/// An open database.
pub(crate) struct Database {
    dir: PathBuf,
    db: PointDb,
    /// The same where its engine keeps keys in order.
    ordered: Option<Db>,
    keyspace: KeyspaceId,
    /// What `firn serve` has written, if it has and no keyspace is named.
    served: Option<Served>,
}

impl Database {
    /// Opens the database; shows a sign of life if recovery takes long.
    ///
    /// # Errors
    /// If the directory holds no database (nothing is created then, not even a lock file), or as
    /// [`firn::Builder`] says.
    pub(crate) fn open(place: &Place, access: Access) -> Result<Self> {
        Self::open_as(place, access, None)
    }

    /// As [`open`](Self::open), with the engine that a new database is to have.
    pub(crate) fn open_as(place: &Place, access: Access, engine: Option<EngineKind>) -> Result<Self> {
        Self::open_at(place, access, engine, None)
    }

    /// As [`open_as`](Self::open_as), by another clock than the machine's.
    pub(crate) fn open_at(
        place: &Place,
        access: Access,
        engine: Option<EngineKind>,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<Self> {
        let dir = place.dir.dir.clone();
        check_directory(&dir, place.shared.access_to_directory(access))?;
        check_division(&dir, place.shared.name.shared.as_deref())?;
        let failed = |error: Error| Failure::database(&dir, &error);
        // One of the hashed engine is opened for reading and writing alone.
        let is_hashed = EngineKind::of(&dir).map_err(failed)? == Some(EngineKind::Hash);
        let what = format!("opening {}", dir.display());
        let db = progress::during(&what, |_| {
            let mut builder = place.builder(&dir)?;
            if let Some(engine) = engine {
                builder = builder.engine(engine);
            }
            if let Some(clock) = clock {
                builder = builder.clock(clock);
            }
            let builder =
                builder.create(access == Access::Create).read_only(access == Access::Read && !is_hashed);
            place.shared.set(builder, access)?.open_points().map_err(failed)
        })?;
        let ordered = db.ordered();
        let served = Served::of(&db).map_err(failed)?;
        if served.is_some() && matches!(access, Access::Write | Access::Create) {
            let what = "was written by `firn serve`, which keeps keys in a layout of its own: start it and write with a client, \
                        as in `redis-cli SET KEY VALUE`";
            return Err(Failure::new(Ending::Failed, format!("{} {what}", dir.display())));
        }
        let keyspace = find_keyspace(&db, place, access)?;
        Ok(Self { dir, db, ordered, keyspace, served: served.filter(|_| place.keyspace.is_none()) })
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The database itself.
    pub(crate) fn points(&self) -> &PointDb {
        &self.db
    }

    /// A session of the caller's own.
    pub(crate) fn session(&self) -> Blocking {
        self.db.session()
    }

    /// A session that scans.
    ///
    /// # Errors
    /// The engine keeps keys in no order.
    pub(crate) fn ordered_session(&self) -> Result<OrderedBlocking> {
        let session = self.ordered.as_ref().map(Db::session);
        session.ok_or_else(|| {
            let what = format!(
                "{} is a database of the engine `{}`, whose keys have no order to go over: `firn get` reads one key",
                self.dir.display(),
                self.db.engine_kind()
            );
            Failure::new(Ending::Failed, what)
        })
    }

    /// Whether its engine keeps keys in order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    /// Which engine keeps it.
    pub(crate) fn engine_kind(&self) -> EngineKind {
        self.db.engine_kind()
    }

    /// What clients of `firn serve` have there, if it has written the database and the command
    /// names no keyspace.
    pub(crate) fn served(&self) -> Option<&Served> {
        self.served.as_ref()
    }

    /// Warns where `firn serve` has written this, and a command shows keys of clients alone.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn warn_of_unseen(&self) -> Result<()> {
        match &self.served {
            Some(_) => warn_of_unseen(&self.db, &self.dir),
            None => Ok(()),
        }
    }

    /// The keyspace the command names.
    pub(crate) fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// That keyspace, to read and write it.
    pub(crate) fn records(&self) -> firn::PointKeyspace {
        self.db.in_keyspace(self.keyspace)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.db.stats()
    }

    /// A write that is acknowledged when it survives loss of power.
    pub(crate) fn durable(&self) -> WriteOptions {
        WriteOptions { durability: Some(Durability::Disk), ..WriteOptions::default() }
    }

    /// `error` with the directory it happened in.
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        Failure::database(&self.dir, error)
    }

    /// Ends; what dropping would hide shows here.
    pub(crate) fn close(self) -> Result<()> {
        self.db.close().map_err(|error| self.failure(&error))
    }
}

/// Warns on standard error where `db`, which `firn serve` has written or will write, holds records
/// that its clients never see.
///
/// # Errors
/// What the engine says.
pub(crate) fn warn_of_unseen(db: &PointDb, dir: &Path) -> Result<()> {
    // Without order the first record may only be found behind all those of clients.
    let Some(db) = db.ordered() else { return Ok(()) };
    let Some(id) = db.engine().keyspace(KEYSPACE) else { return Ok(()) };
    let first = db.in_keyspace(id).range(..).and_then(|mut it| it.next().transpose());
    if first.map_err(|error| Failure::database(dir, &error))?.is_some() {
        let dir = dir.display();
        report(format_args!(
            "firn: {dir} holds records that clients of `firn serve` do not see, such as `firn put` writes: \
             `firn scan --dir {dir} --keyspace {KEYSPACE}` shows them"
        ));
    }
    Ok(())
}

/// Refuses a directory with a whole database where `shared` names a place for tables and manifest.
pub(crate) fn check_division(dir: &Path, shared: Option<&str>) -> Result<()> {
    let (Some(shared), Ok(entries)) = (shared, std::fs::read_dir(dir)) else { return Ok(()) };
    let is_manifest = |name: &str| matches!(file_name::parse(name), Some(FileName::ManifestEdit(_)));
    let is_whole = entries.flatten().any(|entry| is_manifest(&entry.file_name().to_string_lossy()));
    match is_whole {
        false => Ok(()),
        true => {
            let dir = dir.display();
            let what = format!(
                "{dir} holds a whole database, and none whose tables lie in {shared}: leave --shared out, or name the \
                 directory of that database's log, which may be new"
            );
            Err(Failure::new(Ending::Failed, what))
        }
    }
}

/// Refuses a directory that is no database before anything is written into it.
pub(crate) fn check_directory(dir: &Path, access: Access) -> Result<()> {
    check_whole(dir)?;
    let refuse = |why: &str| Err(Failure::new(Ending::Failed, format!("{} {why}", dir.display())));
    let remedy = match access {
        Access::Write => "check the path; `firn put --create` makes a database",
        _ => "check the path",
    };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return match access {
                Access::Create => Ok(()),
                _ => refuse(&format!("does not exist; {remedy}")),
            };
        }
        Err(error) => return Err(Failure::file("list", dir, &error)),
    };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // Else a part without a manifest would be called another thing's directory.
    refuse_earlier_build(&dir.display().to_string(), &names)
        .map_err(|error| Failure::database(dir, &storage_error(error)))?;
    let is_ours = |name: &String| file_name::parse(name).is_some();
    let has_manifest =
        names.iter().any(|name| matches!(file_name::parse(name), Some(FileName::ManifestEdit(_))));
    if !has_manifest
        && access != Access::ReadLog
        && access != Access::Create
        && names.iter().any(|name| name == file_name::HOME)
    {
        return refuse("has only the log of a database on shared storage; name that location with --shared");
    }
    match access {
        _ if has_manifest => Ok(()),
        Access::ReadLog if names.iter().all(is_ours) => Ok(()),
        Access::Create if names.iter().all(is_ours) => Ok(()),
        Access::Create => refuse("holds other files and no database; name an empty or new directory"),
        _ => refuse(&format!("holds no database; {remedy}")),
    }
}

fn find_keyspace(db: &PointDb, place: &Place, access: Access) -> Result<KeyspaceId> {
    let engine = db.engine();
    let name = place.keyspace.as_deref().unwrap_or(KEYSPACE);
    match engine.keyspace(name) {
        Some(id) => Ok(id),
        None if access == Access::Create => {
            db.keyspace(name).map_err(|error| Failure::database(&place.dir.dir, &error))
        }
        None => {
            let names: Vec<String> =
                engine.keyspaces().into_iter().map(|(name, _)| format!("'{name}'")).collect();
            let (dir, wanted, names) = (place.dir.dir.display(), name, names.join(", "));
            let message = format!("{dir} has no keyspace '{wanted}'; it has {names}");
            Err(Failure::new(Ending::Failed, message))
        }
    }
}
