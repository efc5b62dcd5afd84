//! Options from three places, one over the other: a file below the environment below the command
//! line.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use firn::{EngineKind, HashSettings, Settings};
use firn_engine::settings::{EngineSettings as _, nearest};

use super::options::Options;
use crate::config_file::{ConfigFile, SERVE_TABLE};
use crate::ending::{Ending, Failure, Result};

/// What names of the environment begin with.
const PREFIX: &str = "FIRN_SERVE_";

/// The engine's `background_nice` where it is not set: workers are as many as processors, and
/// clients wait for them.
const BACKGROUND_NICE: i64 = 10;

/// What holds, and which source said so.
#[derive(Debug)]
pub(crate) struct Effective {
    pub(super) options: Options,
    pub(super) settings: Settings,
    /// What the hashed engine alone is told; `None` = what follows from the others.
    pub(super) hash: Option<HashSettings>,
    /// By option: where it was said.
    sources: Vec<(&'static str, &'static str)>,
    /// What the file says to the engine.
    engine: toml::Table,
}

/// Options as a command line of their own, to have one parser for all.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    options: Options,
}

impl Effective {
    /// Lays `flags` over the `environment` over what `config` says.
    ///
    /// # Errors
    /// Unknown names, with those that there are; values that do not fit; a file that cannot be
    /// read.
    pub(crate) fn new(
        flags: Options,
        environment: impl Iterator<Item = (OsString, OsString)>,
        config: Option<&Path>,
    ) -> Result<Self> {
        let config = config.map_or_else(|| Ok(ConfigFile::default()), ConfigFile::read)?;
        let file = from_file(&config)?;
        let environment = from_environment(environment)?;
        let defaults = Options::defaults();
        let layers =
            [("flag", &flags), ("environment", &environment), ("file", &file), ("default", &defaults)];
        let said = layers.map(|(source, options)| (source, options.values()));
        let source_of = |index: usize| {
            let is_said =
                |values: &[(&str, Option<toml::Value>)]| values.get(index).is_some_and(|it| it.1.is_some());
            said.iter().find(|(_, values)| is_said(values)).map_or("default", |(source, _)| *source)
        };
        let sources = Options::NAMES
            .iter()
            .enumerate()
            .map(|(index, name)| (*name, source_of(index)))
            .collect::<Vec<_>>();
        let options = flags.over(environment).over(file).over(defaults);
        for (name, source) in &sources {
            check_alone(name, source, &options, &config)?;
        }
        let engine = config.engine.clone();
        let hash = engine.contains_key(HashSettings::TABLE).then(|| config.hash_settings()).transpose()?;
        let settings = engine_settings(config, &options)?;
        Ok(Self { options, settings, hash, sources, engine })
    }

    /// Whether some source says the option `name`, so that it is not the default.
    pub(super) fn is_said(&self, name: &str) -> bool {
        self.sources.iter().any(|(known, source)| *known == name && *source != "default")
    }

    /// Every setting with where it comes from, as a file that could be read back.
    pub(crate) fn to_toml(&self) -> String {
        let values = self.options.values();
        let own =
            |name: &str| self.sources.iter().find(|(known, _)| *known == name).map(|(_, source)| *source);
        let said = |name: &str| own(name).filter(|source| *source != "default");
        let mut text = String::new();
        let engine = match self.options.engine {
            Some(EngineKind::Hash) => {
                let hash = self.hash.clone();
                let follows = || HashSettings::for_memory(self.settings.memory_bytes);
                self.settings.clone().for_engine(hash.unwrap_or_else(follows)).to_toml()
            }
            _ => self.settings.to_toml(),
        };
        let mut table = Some(&self.engine);
        for line in engine.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                text.push_str(&format!("\n{line}\n"));
                table = self.engine.get(name).and_then(toml::Value::as_table);
                continue;
            }
            let name = line.split(' ').next().unwrap_or_default();
            let in_file = table.is_some_and(|table| table.contains_key(name)).then_some("file");
            text.push_str(&format!("{line:<40} # {}\n", said(name).or(in_file).unwrap_or("default")));
        }
        text.push_str(&format!("\n[{SERVE_TABLE}]\n"));
        for (name, value) in values {
            // These are told above.
            if is_of_engine(name) {
                continue;
            }
            let source = own(name).unwrap_or("default");
            text.push_str(&match value {
                Some(value) => format!("{:<40} # {source}\n", format!("{name} = {value}")),
                None => format!("{:<40} # {source}: not set\n", format!("# {name} =")),
            });
        }
        text
    }
}

/// Whether options tell the engine the setting `name`.
fn is_of_engine(name: &str) -> bool {
    matches!(name, "memory_bytes" | "durability")
}

/// Refuses a setting of the engine that the option `name` gives a wrong value, in the words of the
/// `source` that says it. Together with what `file` says it would be the file's fault.
fn check_alone(name: &str, source: &str, options: &Options, file: &ConfigFile) -> Result<()> {
    let value = options.values().into_iter().find(|(known, _)| *known == name && is_of_engine(name));
    let Some((_, Some(value))) = value else { return Ok(()) };
    let alone = toml::Table::from_iter([(name.to_owned(), value)]);
    let Err(error) = Settings::from_toml(&alone.to_string()) else { return Ok(()) };
    let wrong = |spelt: String| format!("{spelt} is wrong: {error}");
    Err(match source {
        "flag" => Failure::new(Ending::Usage, wrong(format!("--{}", name.replace('_', "-")))),
        "environment" => Failure::new(Ending::Usage, wrong(in_environment(name))),
        _ => file.failure(wrong(in_file(name))),
    })
}

/// The option `name` as a file has it.
fn in_file(name: &str) -> String {
    format!("`{name}` of [{SERVE_TABLE}]")
}

/// The option `name` as the environment has it.
fn in_environment(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase())
}

/// The engine's settings: the file's, but for what options say. Sizes that are not set follow from
/// the memory.
fn engine_settings(mut file: ConfigFile, options: &Options) -> Result<Settings> {
    for (name, value) in options.values() {
        if let (true, Some(value)) = (is_of_engine(name), value) {
            file.engine.insert(name.to_owned(), value);
        }
    }
    file.engine.entry("background_nice").or_insert(BACKGROUND_NICE.into());
    file.settings()
}

/// What the table [`SERVE_TABLE`] of `file` says.
fn from_file(file: &ConfigFile) -> Result<Options> {
    let pairs = file.serve.iter().map(|(name, value)| {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Boolean(is) => (if *is { "yes" } else { "no" }).to_owned(),
            value => value.to_string(),
        };
        (name.clone(), OsString::from(text))
    });
    parsed(pairs, &in_file).map_err(|what| file.failure(what))
}

/// What `file` amounts to, as a file: all of the engines' settings, and of the server's those that
/// it names.
///
/// # Errors
/// A setting is wrong, with what to write.
pub(crate) fn checked(file: &ConfigFile) -> Result<String> {
    let mut text = file.engines_to_toml()?;
    let said: Vec<String> = from_file(file)?
        .values()
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} = {}\n", value?)))
        .collect();
    if !said.is_empty() {
        text.push_str(&format!("\n[{SERVE_TABLE}]\n{}", said.concat()));
    }
    Ok(text)
}

fn from_environment(environment: impl Iterator<Item = (OsString, OsString)>) -> Result<Options> {
    let pairs = environment.filter_map(|(name, value)| {
        let name = name.to_str()?.strip_prefix(PREFIX)?.to_ascii_lowercase();
        Some((name, value))
    });
    parsed(pairs, &in_environment).map_err(|what| Failure::new(Ending::Usage, what))
}

/// Names and values as options; `named` gives a name as its source writes it.
fn parsed(
    pairs: impl Iterator<Item = (String, OsString)>,
    named: &dyn Fn(&str) -> String,
) -> std::result::Result<Options, String> {
    let mut options = Options::default();
    for (name, value) in pairs {
        if !Options::NAMES.contains(&name.as_str()) {
            let wrong = named(&name);
            return Err(match nearest(&name, Options::NAMES.iter().copied()) {
                Some(near) => format!("there is no {wrong}: did you mean {}?", named(near)),
                None => {
                    let known: Vec<String> = Options::NAMES.iter().map(|name| named(name)).collect();
                    format!("there is no {wrong}; there are {}", known.join(", "))
                }
            });
        }
        let mut argument = OsString::from(format!("--{}=", name.replace('_', "-")));
        argument.push(&value);
        let line = Line::try_parse_from([argument]).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            // What is behind the option's name, which is not how it was written.
            let why = first.rsplit_once("': ").map_or(first, |(_, why)| why);
            format!("{} = {} is wrong: {why}", named(&name), value.to_string_lossy())
        })?;
        options = line.options.over(options);
    }
    Ok(options)
}

#[cfg(test)]
mod tests;
