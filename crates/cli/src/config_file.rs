//! The file of settings that every command takes: what the engine is told, and a table of what
//! `firn serve` is.

use std::path::{Path, PathBuf};

use firn::{HashSettings, Settings, TreeSettings};
use firn_engine::settings::EngineSettings;

use crate::ending::{Ending, Failure, Result};

/// The table that `firn serve` alone uses.
pub(crate) const SERVE_TABLE: &str = "serve";

/// The settings file of a command.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Config {
    /// A file of settings, as `firn config` prints them; without one the defaults hold. Its table
    /// [serve] is for `firn serve` alone.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Config {
    /// The engine's settings by it.
    ///
    /// # Errors
    /// As [`ConfigFile::read`]; a setting is wrong.
    pub(crate) fn settings(&self) -> Result<Settings> {
        match &self.config {
            None => Ok(Settings::default()),
            Some(path) => ConfigFile::read(path)?.settings(),
        }
    }

    /// The settings of the hashed engine by it; `None` = those that follow from the others.
    ///
    /// # Errors
    /// As [`settings`](Self::settings).
    pub(crate) fn hash_settings(&self) -> Result<Option<HashSettings>> {
        match &self.config {
            None => Ok(None),
            Some(path) => ConfigFile::read(path)?.hash_settings().map(Some),
        }
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// To the engine.
    pub(crate) engine: toml::Table,
    /// To the server.
    pub(crate) serve: toml::Table,
}

impl ConfigFile {
    /// What the file at `path` says. Values are not looked at.
    ///
    /// # Errors
    /// It cannot be read; it is not TOML; it has tables that there are not.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
        let mut file = Self { path: path.to_owned(), ..Self::default() };
        file.engine = match text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(_) => {
                // The engine's settings say best where it is wrong.
                let error = Settings::from_toml(&text).err();
                return Err(file.failure(error.map_or_else(String::new, |error| error.to_string())));
            }
        };
        file.serve = match file.engine.remove(SERVE_TABLE) {
            None => toml::Table::new(),
            Some(toml::Value::Table(table)) => table,
            Some(_) => {
                return Err(file.failure(format!("`{SERVE_TABLE}` must be a table: write [{SERVE_TABLE}]")));
            }
        };
        let known = [TreeSettings::TABLE, HashSettings::TABLE];
        match file.engine.iter().find(|(name, value)| value.is_table() && !known.contains(&name.as_str())) {
            Some((name, _)) => {
                let [tree, hash] = known;
                let what =
                    format!("there is no table [{name}]; there are [{tree}], [{hash}] and [{SERVE_TABLE}]");
                Err(file.failure(what))
            }
            None => Ok(file),
        }
    }

    /// What every engine and the ordered engine are told by it.
    ///
    /// # Errors
    /// A setting is wrong, with what to write.
    pub(crate) fn settings(&self) -> Result<Settings> {
        self.of_engine()
    }

    /// What the hashed engine alone is told by it.
    ///
    /// # Errors
    /// A setting is wrong, with what to write.
    pub(crate) fn hash_settings(&self) -> Result<HashSettings> {
        self.of_engine().map(|settings| settings.engine)
    }

    /// All settings of the engines by it, as a file.
    ///
    /// # Errors
    /// A setting is wrong, with what to write.
    pub(crate) fn engines_to_toml(&self) -> Result<String> {
        // The first one says best what is wrong above all tables.
        let tree = self.settings()?.to_toml();
        Ok(format!("{tree}\n{}", self.of_engine::<HashSettings>()?.table_to_toml()))
    }

    fn of_engine<E: EngineSettings>(&self) -> Result<firn_engine::settings::Settings<E>> {
        let is_of_another = |name: &str, value: &toml::Value| value.is_table() && name != E::TABLE;
        let mut own = self.engine.clone();
        own.retain(|name, value| !is_of_another(name, value));
        let settings = firn_engine::settings::Settings::from_toml(&own.to_string());
        settings.map_err(|error| self.failure(error.to_string()))
    }

    /// What is wrong with it.
    pub(crate) fn failure(&self, what: String) -> Failure {
        Failure::new(Ending::Failed, format!("{}: {what}", self.path.display()))
    }
}
