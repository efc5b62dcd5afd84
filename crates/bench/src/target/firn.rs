//! Firn itself, through its facade.

use firn_engine::Result;

use super::{EngineTarget, OpenOptions, Settings, Target, TargetFactory};

/// Opens Firn databases.
#[derive(Clone, Debug)]
pub struct FirnFactory {
    name: String,
    settings: Option<firn::Settings>,
}

impl Default for FirnFactory {
    fn default() -> Self {
        Self { name: "firn".to_owned(), settings: None }
    }
}

impl FirnFactory {
    /// Databases with default settings for the memory they are given.
    pub fn new() -> Self {
        Self::default()
    }

    /// Databases with `settings`, under a `name` of their own; the memory of the run, if it names one, wins.
    pub fn with_settings(name: &str, settings: firn::Settings) -> Self {
        Self { name: name.to_owned(), settings: Some(settings) }
    }
}

impl TargetFactory for FirnFactory {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Target>> {
        let mut settings = match (&self.settings, options.memory_bytes) {
            (Some(settings), None) => settings.clone(),
            (Some(settings), Some(memory_bytes)) => firn::Settings { memory_bytes, ..settings.clone() },
            (None, Some(memory_bytes)) => firn::Settings::for_memory(memory_bytes),
            (None, None) => firn::Settings::default(),
        };
        settings.durability = options.durability;
        let db = firn::Db::builder(&options.dir).settings(settings.clone()).open()?;
        let target = EngineTarget::new(
            db.engine(),
            &self.name,
            options.dir.clone(),
            options.durability,
            shown(&settings),
        );
        Ok(Box::new(target.closed_by(move || db.close())))
    }
}

/// The settings as a report shows them: the `name = value` lines of their text.
fn shown(settings: &firn::Settings) -> Settings {
    settings
        .to_toml()
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
        .collect()
}
