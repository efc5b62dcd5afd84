//! Firn itself, through its facade.

use std::sync::Arc;

use firn::jobs::socket::Socket;
use firn::storage::ThreadSpawn;
use firn::{Builder, EngineKind, HashSettings};
use firn_engine::settings::EngineSettings;
use firn_engine::{Compression, Error, Result};

use super::{EngineTarget, OpenOptions, Settings, Target, TargetFactory};

/// Opens Firn databases.
#[derive(Clone)]
pub struct FirnFactory {
    name: String,
    engine: EngineKind,
    separate_bytes: Option<u32>,
    space_amplification_max: Option<f64>,
    prepare: Option<Arc<Prepare>>,
}

/// Says more to a builder than this crate knows of.
type Prepare = dyn Fn(Builder, &OpenOptions) -> Result<Builder> + Send + Sync;

impl std::fmt::Debug for FirnFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirnFactory").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Default for FirnFactory {
    fn default() -> Self {
        Self {
            name: "firn".to_owned(),
            engine: EngineKind::Tree,
            separate_bytes: None,
            space_amplification_max: None,
            prepare: None,
        }
    }
}

impl FirnFactory {
    /// Databases with default settings for the memory they are given.
    pub fn new() -> Self {
        Self::default()
    }

    /// Databases of `engine`; those of the hashed one are called `hashlog`.
    pub fn of(engine: EngineKind) -> Self {
        match engine {
            EngineKind::Tree => Self::new(),
            EngineKind::Hash => Self { name: engine.name().to_owned(), engine, ..Self::default() },
        }
    }

    /// Databases whose values of at least `separate_bytes` are separated, under a `name` of
    /// their own. What the run says wins.
    pub fn separated(name: &str, separate_bytes: u32) -> Self {
        Self { name: name.to_owned(), separate_bytes: Some(separate_bytes), ..Self::default() }
    }

    /// The same, which may take `max` bytes of disk for each byte that lives. What the run says
    /// wins.
    #[must_use]
    pub fn within(self, max: f64) -> Self {
        Self { space_amplification_max: Some(max), ..self }
    }

    /// The same, whose builders `prepare` says something to: executors and backends that this crate
    /// does not link.
    #[must_use]
    pub fn prepared_by(
        self,
        prepare: impl Fn(Builder, &OpenOptions) -> Result<Builder> + Send + Sync + 'static,
    ) -> Self {
        Self { prepare: Some(Arc::new(prepare)), ..self }
    }
}

impl TargetFactory for FirnFactory {
    fn name(&self) -> &str {
        &self.name
    }

    fn keeps_order(&self) -> bool {
        self.engine == EngineKind::Tree
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Target>> {
        if self.engine == EngineKind::Hash {
            check_hashed(options)?;
        }
        let mut settings =
            options.memory_bytes.map_or_else(firn::Settings::default, firn::Settings::for_memory);
        if let Some(separate_bytes) = options.separate_bytes.or(self.separate_bytes) {
            settings.engine.separate_bytes = separate_bytes;
        }
        if let Some(space_amplification_max) =
            options.space_amplification_max.or(self.space_amplification_max)
        {
            settings.space_amplification_max = space_amplification_max;
        }
        if let Some(price) = options.read_compaction_price {
            settings.engine.read_compaction_price = price;
        }
        if let Some(compression) = options.compression {
            settings.compression = compression;
        }
        settings.durability = options.durability;
        let builder = firn::PointDb::builder(&options.dir).engine(self.engine);
        let mut builder = builder.settings(settings.clone());
        if let Some(socket) = &options.worker {
            let worker = Socket::new(socket, &options.dir, Arc::new(ThreadSpawn::new()));
            let failed = |error| Error::invalid(format!("cannot use a worker: {error}"));
            builder = builder.executor(Arc::new(worker.map_err(failed)?));
        }
        if let Some(prepare) = &self.prepare {
            builder = prepare(builder, options)?;
        }
        let db = builder.open_points()?;
        let target = EngineTarget::new(
            db.engine(),
            &self.name,
            options.dir.clone(),
            options.durability,
            match self.engine {
                EngineKind::Tree => shown(&settings),
                EngineKind::Hash => {
                    shown(&settings.for_engine(HashSettings::for_memory(settings.memory_bytes)))
                }
            },
        );
        Ok(Box::new(target.closed_by(move || db.close())))
    }
}

/// Refuses what the hashed engine does not follow.
fn check_hashed(options: &OpenOptions) -> Result<()> {
    let refused = [
        (options.separate_bytes.is_some_and(|bytes| bytes > 0), "--separate-bytes"),
        (options.space_amplification_max.is_some(), "--space-amplification-max"),
        (options.read_compaction_price.is_some(), "--read-compaction-price"),
        (options.compression.is_some_and(|compression| compression != Compression::None), "--compression"),
        (options.worker.is_some(), "--worker"),
    ];
    match refused.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, option)) => Err(Error::invalid(format!(
            "the engine `{}` does not follow {option}: leave it out, or measure `{}`",
            EngineKind::Hash,
            EngineKind::Tree
        ))),
    }
}

/// The settings as a report shows them: the `name = value` lines of their text.
fn shown<E: EngineSettings>(settings: &firn_engine::settings::Settings<E>) -> Settings {
    settings
        .to_toml()
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
        .collect()
}
