//! How a database is opened: data and components.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_engine::settings::EngineSettings as _;
use firn_engine::{CompactionFilter, Durability, Error, MergeOperator, PrefixExtractor, Result, Semantics};
use firn_hashlog::{HashLog, HashOptions, HashSettings};
use firn_jobs::Executor;
use firn_storage::backend::{Divided, Local, LocalOptions, OpenWith, Registry};
use firn_storage::{Clock, Spawn, Storage, SystemClock, ThreadSpawn};
use firn_tree::{Tree, TreeOptions};

use crate::identity::fresh_id;
use crate::{Db, EngineKind, PointDb, Settings, machine};

/// How a database is opened: settings are data, everything else is a component.
///
/// [`Db::builder`] and [`PointDb::builder`] begin it. [`open`](Self::open) ends it with a [`Db`],
/// [`open_points`](Self::open_points) with a [`PointDb`] over either engine.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// use std::sync::Arc;
/// use firn::storage::backend::Memory;
/// use firn::{Db, Settings};
///
/// // In memory, as tests of an application want it.
/// let db = Db::builder("a name")
///     .storage(Arc::new(Memory::new()))
///     .settings(Settings::for_memory(16 << 20))
///     .open()?;
/// db.put("k", "v")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Builder {
    path: PathBuf,
    engine: Option<EngineKind>,
    settings: Settings,
    hash: Option<HashSettings>,
    semantics: Semantics,
    storage: Option<Arc<dyn Storage>>,
    registry: Registry,
    shared: Option<Shared>,
    clock: Arc<dyn Clock>,
    executor: Option<Arc<dyn Executor>>,
    create: bool,
    read_only: bool,
    take_over: bool,
}

/// The part of a database that other machines reach, or what it is called.
#[derive(Debug)]
enum Shared {
    Backend(Arc<dyn Storage>),
    Named(String, OpenWith),
}

impl Db {
    /// Opens the database in the directory `path` with default settings, creating it if there is
    /// none.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Opens with settings and components of one's own.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }
}

impl PointDb {
    /// Opens the database in the directory `path`, whichever engine keeps it, with default
    /// settings; creates one of the ordered engine if there is none.
    ///
    /// # Errors
    /// As [`Builder::open_points`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open_points()
    }

    /// Opens with settings and components of one's own: end it with [`Builder::open_points`].
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// use firn::{EngineKind, PointDb, Settings};
    ///
    /// let visits = PointDb::builder("visits")
    ///     .engine(EngineKind::Hash)
    ///     .settings(Settings::for_memory(64 << 20))
    /// #   .storage(storage)
    ///     .open_points()?;
    /// visits.in_default().add("home", 1)?;
    /// assert_eq!(visits.in_default().add("home", 1)?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }
}

impl Builder {
    /// Default settings, the machine's clock, a local directory, nothing registered.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            engine: None,
            settings: Settings::default(),
            hash: None,
            semantics: Semantics::new(),
            storage: None,
            registry: Registry::new(),
            shared: None,
            clock: Arc::new(SystemClock::new()),
            executor: None,
            create: true,
            read_only: false,
            take_over: false,
        }
    }

    /// Replaces all settings. Begin with [`Settings::for_memory`], from which sizes follow.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// use firn::{Db, Durability, Settings};
    ///
    /// let settings = Settings { durability: Durability::Disk, ..Settings::for_memory(64 << 20) };
    /// let db = Db::builder("example").settings(settings)
    /// #   .storage(storage)
    ///     .open()?;
    /// assert_eq!(db.stats().memory_bytes_max, 64 << 20);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The engine that keeps the database. Default: that of the database which is there, and
    /// [`Tree`](EngineKind::Tree) for a new one. [`open_points`](Self::open_points) opens databases
    /// of either engine, [`open`](Self::open) those of the ordered one.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// use firn::{Db, EngineKind};
    ///
    /// let db = Db::builder("example").engine(EngineKind::Hash)
    /// #   .storage(storage)
    ///     .open_points()?;
    /// db.put("k", "v")?;
    /// assert!(db.ordered().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Replaces the settings that the hashed engine alone has. Default: what follows from
    /// [`Settings::memory_bytes`]. Begin with that. Without effect on a database of the ordered
    /// engine.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// use firn::{EngineKind, EngineSettings, HashSettings, PointDb, Settings};
    ///
    /// let memory_bytes = 64 << 20;
    /// let own = HashSettings { redo_bytes_max: 16 << 20, ..HashSettings::for_memory(memory_bytes) };
    /// let builder = PointDb::builder("example").engine(EngineKind::Hash);
    /// let db = builder.settings(Settings::for_memory(memory_bytes)).hash_settings(own)
    /// #   .storage(storage)
    ///     .open_points()?;
    /// db.put("k", "v")?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hash_settings(mut self, settings: HashSettings) -> Self {
        self.hash = Some(settings);
        self
    }

    /// Whether a missing database is created. Default yes.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens beside other readers and changes nothing on disk; excludes a writer. Default no.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Registers a merge operator; keyspaces name it.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.semantics = self.semantics.with_merge_operator(operator);
        self
    }

    /// Registers a compaction filter; keyspaces name it.
    #[must_use]
    pub fn compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Self {
        self.semantics = self.semantics.with_compaction_filter(filter);
        self
    }

    /// Registers a prefix extractor; keyspaces name it.
    #[must_use]
    pub fn prefix_extractor(mut self, extractor: Arc<dyn PrefixExtractor>) -> Self {
        self.semantics = self.semantics.with_prefix_extractor(extractor);
        self
    }

    /// Puts the files elsewhere than in a local directory; the path is then only a name.
    #[must_use]
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Puts finished files (tables, sealed blob segments) and the manifest at `backend`, which
    /// other machines reach. The log and the files that grow stay in the local directory. Of the
    /// hashed engine each checkpoint is there, whole.
    ///
    /// The database can then be opened on another machine, and compactions can run wherever that
    /// backend is reached. At most one process writes to it: the one that opened it last. Copies
    /// copy what lies there. Put a directory whose file server may be away for a moment into a
    /// [`Mounted`](firn_storage::backend::Mounted) one: otherwise a read that fails there ends
    /// writing.
    #[must_use]
    pub fn shared(mut self, backend: Arc<dyn Storage>) -> Self {
        self.shared = Some(Shared::Backend(backend));
        self
    }

    /// As [`shared`](Self::shared), with the backend that the [registry](Self::registry) opens for
    /// `name`: a directory, `file:///DIRECTORY`, or the URL of a registered scheme. A database that
    /// is opened read-only makes no directory, whatever `with` says.
    #[must_use]
    pub fn shared_at(mut self, name: impl Into<String>, with: OpenWith) -> Self {
        self.shared = Some(Shared::Named(name.into(), with));
        self
    }

    /// Opens names of backends by `registry`. Default: directories alone ([`Registry::new`]); crate
    /// `firn-objects` registers object stores.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Opens a database on shared storage whose log lies on another machine, which is otherwise a
    /// `Conflict`. Writes of that log are given up, unless they are in a table or were acknowledged
    /// as [`Shared`](firn_engine::Durability::Shared). A process that has the database open there
    /// writes nothing any more. Default no.
    #[must_use]
    pub fn take_over(mut self, take_over: bool) -> Self {
        self.take_over = take_over;
        self
    }

    /// Takes time from `clock`.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Runs compactions on `executor` instead of on background threads of the database. It must
    /// reach the same files and know the same operators and filters.
    ///
    /// Its results are checked before they count. The database does itself what the executor
    /// refuses, fails at, answers wrongly or keeps for too long (half a minute, more for large
    /// jobs). `Stats` says how often, and why the last time.
    #[must_use]
    pub fn executor(mut self, executor: Arc<dyn Executor>) -> Self {
        self.executor = Some(executor);
        self
    }

    /// Opens a database whose keys are in order. Blocks for recovery.
    ///
    /// # Errors
    /// `Conflict` if another process has it open; `Corrupt` with file and offset. `Invalid` for
    /// settings out of range, a `memory_bytes` that sizes do not follow, a directory that is no
    /// database, a newer format, an operator that is not registered, or a name of a backend that
    /// the registry does not open. `Invalid` also for a database of another engine than the one
    /// asked for, and for one of the hashed engine, which has no order.
    pub fn open(mut self) -> Result<Db> {
        match self.kind()? {
            EngineKind::Tree => self.open_tree(),
            EngineKind::Hash => Err(Error::invalid(format!(
                "{} is a database of the engine `{}`, whose keys have no order: open it by Builder::open_points",
                self.name(),
                EngineKind::Hash
            ))),
        }
    }

    /// Opens a database of any engine, for calls that need no order of keys. Blocks for recovery;
    /// that of the hashed engine reads the whole log.
    ///
    /// [`PointDb::ordered`] leads to the other calls where the engine has them.
    ///
    /// # Errors
    /// As [`open`](Self::open), but that a database of the hashed engine is opened. It takes no
    /// executor and no `read_only`: `Invalid`.
    pub fn open_points(mut self) -> Result<PointDb> {
        match self.kind()? {
            EngineKind::Tree => self.open_tree().map(|db| PointDb::clone(&db)),
            EngineKind::Hash => self.open_hashed(),
        }
    }

    /// The engine that keeps the database, or will keep the new one. A directory that has never
    /// seen a database on shared storage does not tell.
    fn kind(&mut self) -> Result<EngineKind> {
        let mut found = match &self.storage {
            Some(storage) => EngineKind::of_storage(&**storage)?,
            // What cannot be opened says so when it is to be.
            None => EngineKind::of(&self.path).unwrap_or(None),
        };
        if found.is_none()
            && let Some(shared) = self.open_shared()?
        {
            found = EngineKind::of_storage(&*shared)?;
        }
        match self.engine {
            Some(engine) => engine.check(found, &self.name()),
            None => Ok(found.unwrap_or_default()),
        }
    }

    /// The part that other machines reach, if there is one.
    fn open_shared(&mut self) -> Result<Option<Arc<dyn Storage>>> {
        let backend = match &self.shared {
            None => return Ok(None),
            Some(Shared::Backend(backend)) => Arc::clone(backend),
            Some(Shared::Named(name, with)) => {
                let with = OpenWith { create: with.create && !self.read_only, ..with.clone() };
                self.registry.open(name, &with).map_err(firn_tree::storage_error)?
            }
        };
        self.shared = Some(Shared::Backend(Arc::clone(&backend)));
        Ok(Some(backend))
    }

    /// This directory, and the part that other machines reach, if there is one.
    fn open_parts(&mut self, open_files_max: usize) -> Result<Arc<dyn Storage>> {
        // Of a database on shared storage a machine that has never seen it has nothing yet.
        let create = (self.create || self.shared.is_some()) && !self.read_only;
        let storage = local(self.storage.take(), &self.path, create, open_files_max)?;
        let Some(shared) = self.open_shared()? else { return Ok(storage) };
        let divided = Divided::open(storage, shared, fresh_id());
        Ok(Arc::new(divided.map_err(firn_tree::storage_error)?))
    }

    /// What the database is called in messages.
    fn name(&self) -> String {
        match &self.storage {
            Some(storage) => storage.describe(),
            None => self.path.display().to_string(),
        }
    }

    fn open_tree(mut self) -> Result<Db> {
        check_memory(&self.settings)?;
        self.settings.validate()?;
        let mut settings = self.settings.clone();
        if settings.page_cache_bytes == 0 {
            settings.page_cache_bytes = machine::page_cache_bytes(settings.memory_bytes);
        }
        let storage = self.open_parts(settings.open_files_max)?;
        let clock = Arc::clone(&self.clock);
        let spawn = Arc::new(ThreadSpawn::with_background_nice(settings.background_nice));
        let tree = Tree::open(TreeOptions {
            storage,
            settings,
            semantics: self.semantics,
            clock: self.clock,
            background: firn_tree::Background::Threads(Arc::clone(&spawn) as Arc<dyn Spawn>),
            executor: self.executor,
            seed: fresh_id() as u64,
            create: self.create,
            read_only: self.read_only,
            take_over: self.take_over,
        })?;
        let engine = Arc::<Tree>::clone(&tree);
        Ok(Db::over(PointDb::new(EngineKind::Tree, engine, spawn, clock), tree))
    }

    fn open_hashed(mut self) -> Result<PointDb> {
        self.check_hashed()?;
        let own = self.hash.clone().unwrap_or_else(|| HashSettings::for_memory(self.settings.memory_bytes));
        let settings = self.settings.clone().for_engine(own);
        settings.validate()?;
        let storage = self.open_parts(settings.open_files_max)?;
        let clock = Arc::clone(&self.clock);
        let spawn = Arc::new(ThreadSpawn::with_background_nice(settings.background_nice));
        let engine = HashLog::open(&HashOptions {
            storage,
            settings,
            semantics: self.semantics,
            clock: self.clock,
            background: firn_hashlog::Background::Threads(Arc::clone(&spawn) as Arc<dyn Spawn>),
            seed: fresh_id() as u64,
            create: self.create,
            take_over: self.take_over,
        })?;
        Ok(PointDb::new(EngineKind::Hash, engine, spawn, clock))
    }

    /// Refuses what the hashed engine does not offer.
    fn check_hashed(&self) -> Result<()> {
        let refused = [
            (
                self.take_over && self.shared.is_none(),
                "in one directory is written to by no other machine: leave take-over out",
            ),
            (self.executor.is_some(), "has no jobs for workers: leave the executor out"),
            (self.read_only, "is opened for reading and writing alone: leave read-only out"),
            (
                self.settings.durability == Durability::Shared && self.shared.is_none(),
                "in one directory has no writes that other machines find: choose the durability `process` or `disk`, or \
                 name a shared location",
            ),
        ];
        match refused.into_iter().find(|(is_asked, _)| *is_asked) {
            None => Ok(()),
            Some((_, why)) => {
                let (name, kind) = (self.name(), EngineKind::Hash);
                Err(Error::invalid(format!("{name}: a database of the engine `{kind}` {why}")))
            }
        }
    }
}

/// Where the files of the directory `path` are, if `storage` does not say.
fn local(
    storage: Option<Arc<dyn Storage>>,
    path: &Path,
    create: bool,
    open_files_max: usize,
) -> Result<Arc<dyn Storage>> {
    if let Some(storage) = storage {
        return Ok(storage);
    }
    let local = Local::open(path, LocalOptions { create }).map_err(firn_tree::storage_error)?;
    Ok(match open_files_max {
        0 => Arc::new(local),
        max => Arc::new(local.with_open_files_max(max)),
    })
}

/// Refuses settings whose memory was changed and nothing that follows from it.
fn check_memory(settings: &Settings) -> Result<()> {
    let Settings { memory_bytes, engine, .. } = settings;
    let (default, fitting) = (Settings::default(), Settings::for_memory(*memory_bytes));
    if *engine != default.engine || *engine == fitting.engine {
        return Ok(());
    }
    let default = default.memory_bytes;
    Err(Error::invalid(format!(
        "memory_bytes is {memory_bytes}, but all sizes that follow from it are those for {default}: begin with \
         Settings::for_memory({memory_bytes}), or leave these sizes out of the settings file"
    )))
}
