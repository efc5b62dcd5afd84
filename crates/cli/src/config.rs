//! `firn config`: settings as text.

use std::path::PathBuf;

use firn::Settings;

use crate::database::read_settings;
use crate::ending::{Ending, Result};
use crate::output::Output;

/// Print every setting with its meaning, default and range, as TOML; or check a settings file.
///
/// Without a file the defaults are printed. With one, the settings it amounts to: what it names, and for the rest
/// the defaults that follow. A file that is wrong is refused with the setting, its value and what to write.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The settings file to check.
    #[arg(long)]
    file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let settings = match &arguments.file {
        None => Settings::default(),
        Some(path) => read_settings(path)?,
    };
    let mut output = Output::new();
    output.bytes(settings.to_toml().as_bytes());
    output.finish()?;
    Ok(Ending::Done)
}
