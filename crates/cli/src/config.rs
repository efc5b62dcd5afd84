//! `firn config`: settings as text.

use std::path::PathBuf;

use firn::{HashSettings, Settings};

use crate::config_file::ConfigFile;
use crate::ending::{Ending, Result};
use crate::output::Output;
use crate::serve::{Effective, Options, checked};

/// Print every setting with its meaning, default and range, as TOML; or check a settings file.
///
/// What every engine is told stands first; what one engine alone is told is a table of its own. In
/// each, settings for experts come last: their defaults hold until a measurement says otherwise.
///
/// Without a file the defaults are printed. With one, the settings it amounts to: what it names,
/// and for the rest the defaults that follow; of the table [serve], which `firn serve` alone uses,
/// what it names. A file that is wrong is refused with the setting, its value and what to write.
#[derive(clap::Args)]
#[command(after_help = Settings::to_names::<HashSettings>())]
pub(crate) struct Arguments {
    /// The settings file to check.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what `firn serve` would run with, and of each setting whether it comes from the file,
    /// from the environment (FIRN_SERVE_...) or is the default.
    #[arg(long)]
    serve: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let text = match &arguments.config {
        file if arguments.serve => {
            Effective::new(Options::default(), std::env::vars_os(), file.as_deref())?.to_toml()
        }
        None => ConfigFile::default().engines_to_toml()?,
        Some(path) => checked(&ConfigFile::read(path)?)?,
    };
    let mut output = Output::new();
    output.bytes(text.as_bytes());
    output.finish()?;
    Ok(Ending::Done)
}
