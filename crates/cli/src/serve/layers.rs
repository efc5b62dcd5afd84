//! Options from three places, one over the other: a file below the environment below the command
//! line.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use firn::Settings;

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
        let sources =
            Options::NAMES.iter().enumerate().map(|(index, name)| (*name, source_of(index))).collect();
        let options = flags.over(environment).over(file).over(defaults);
        let engine = config.engine.clone();
        let settings = engine_settings(config, &options)?;
        Ok(Self { options, settings, sources, engine })
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
        let engine = self.settings.to_toml();
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
            if matches!(name, "memory_bytes" | "durability") {
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

/// The engine's settings: the file's, but for what options say. Sizes that are not set follow from
/// the memory.
fn engine_settings(mut file: ConfigFile, options: &Options) -> Result<Settings> {
    for (name, value) in options.values() {
        if let (true, Some(value)) = (matches!(name, "memory_bytes" | "durability"), value) {
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
    parsed(pairs, &|name| format!("`{name}` of [{SERVE_TABLE}]")).map_err(|what| file.failure(what))
}

/// What `file` amounts to, as a file: all of the engine's settings, and of the server's those that
/// it names.
///
/// # Errors
/// A setting is wrong, with what to write.
pub(crate) fn checked(file: &ConfigFile) -> Result<String> {
    let mut text = file.settings()?.to_toml();
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
    let named = |name: &str| format!("{PREFIX}{}", name.to_ascii_uppercase());
    parsed(pairs, &named).map_err(|what| Failure::new(Ending::Usage, what))
}

/// Names and values as options; `named` gives a name as its source writes it.
fn parsed(
    pairs: impl Iterator<Item = (String, OsString)>,
    named: &dyn Fn(&str) -> String,
) -> std::result::Result<Options, String> {
    let mut options = Options::default();
    for (name, value) in pairs {
        if !Options::NAMES.contains(&name.as_str()) {
            let known: Vec<String> = Options::NAMES.iter().map(|name| named(name)).collect();
            return Err(format!("there is no {}; there are {}", named(&name), known.join(", ")));
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
mod tests {
    use super::*;

    fn with(environment: &[(&str, &str)], file: &str) -> Result<Effective> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("firn.toml");
        std::fs::write(&path, file).expect("it is written");
        let flags = Options { bind: Some([127, 0, 0, 7].into()), ..Options::default() };
        let environment: Vec<(OsString, OsString)> =
            environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        Effective::new(flags, environment.into_iter(), Some(&path))
    }

    #[test]
    fn flags_go_over_the_environment_over_the_file() {
        let file = "memory_bytes = \"1 GiB\"\n[tree]\nblock_bytes = \"8 KiB\"\n\
                    [serve]\nport = 1\nbind = \"127.0.0.2\"\nthreads = 3\nprotected_mode = false\n\
                    tenant = \"team\"\nweight = 2\nstore_rates = \"reads=5k, write-bytes=1M\"\n";
        let environment = [("FIRN_SERVE_PORT", "2"), ("FIRN_SERVE_MEMORY_BYTES", "64M"), ("OTHER", "x")];
        let effective = with(&environment, file).unwrap();
        let options = &effective.options;
        assert_eq!((options.bind, options.port), (Some([127, 0, 0, 7].into()), Some(2)));
        assert_eq!((options.threads, options.protected_mode), (Some(3), Some(false)));
        let settings = &effective.settings;
        assert_eq!((settings.memory_bytes, settings.engine.block_bytes), (64 << 20, 8 << 10));
        assert_eq!(effective.settings.background_nice, 10);
        assert_eq!(with(&[], "background_nice = 0").unwrap().settings.background_nice, 0);
        let text = effective.to_toml();
        for (start, source) in [
            ("bind = \"127.0.0.7\" ", "# flag"),
            ("port = 2 ", "# environment"),
            ("threads = 3 ", "# file"),
            ("protected_mode = \"no\" ", "# file"),
            ("tenant = \"team\" ", "# file"),
            ("weight = 2.0 ", "# file"),
            ("store_rates = \"reads=5000,write-bytes=1048576\"", "# file"),
            ("log_format = \"text\" ", "# default"),
            ("http_port = 9379 ", "# default"),
            ("# worker = ", "# default: not set"),
            ("memory_bytes = \"64 MiB\" ", "# environment"),
            ("block_bytes = \"8 KiB\" ", "# file"),
            ("table_bytes = ", "# default"),
        ] {
            let line = text.lines().find(|line| line.starts_with(start));
            assert!(line.is_some_and(|line| line.ends_with(source)), "{start}: {text}");
        }
        // What is printed amounts to the same when it is read.
        let again = with(&[], &text).unwrap();
        let shares = |options: &Options| (options.tenant.clone(), options.weight, options.store_rates);
        assert_eq!(shares(&again.options), shares(&effective.options));
        assert_eq!((&again.options.tenant, again.options.weight), (&Some("team".to_owned()), Some(2.0)));
        assert_eq!((&again.options.port, &again.settings), (&effective.options.port, &effective.settings));
        assert_eq!(again.options.log_level, options.log_level);
    }

    #[test]
    fn what_nobody_knows_is_refused_with_what_there_is() {
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a [&'a str]);
        let cases: [Case<'_>; 12] = [
            (&[("FIRN_SERVE_WEIGHT", "0")], "", &["FIRN_SERVE_WEIGHT = 0 is wrong", "0.001 to 1000"]),
            (&[], "[serve]\ntenant = \"\"", &["`tenant` of [serve] = ", "1 to 256 bytes"]),
            (&[("FIRN_SERVE_PROT", "1")], "", &["no FIRN_SERVE_PROT", "FIRN_SERVE_PORT, FIRN_SERVE_BIND"]),
            (&[("FIRN_SERVE_PORT", "x")], "", &["FIRN_SERVE_PORT = x is wrong", "invalid digit"]),
            (&[], "[serve]\nprot = 1", &["firn.toml", "no `prot` of [serve]", "`http_port` of [serve]"]),
            (&[], "[serve]\nnetwork = \"pigeons\"", &["`pigeons` is none of auto, ring, epoll"]),
            (&[], "serve = 1", &["write [serve]"]),
            (&[], "[serve]\nthreads = 0", &["`threads` of [serve] = 0 is wrong", "at least 1"]),
            (&[("FIRN_SERVE_THREADS", "0")], "", &["FIRN_SERVE_THREADS = 0 is wrong", "at least 1"]),
            (&[], "background_nice = -20", &["`background_nice = -20` must be 0 to 19"]),
            (&[], "[server]\nport = 1", &["there is no table [server]; there are [tree] and [serve]"]),
            (&[], "memory_byte = 1", &["did you mean `memory_bytes`?"]),
        ];
        for (environment, file, words) in cases {
            let said = with(environment, file).unwrap_err().to_string();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}
