//! `firn man`: manual pages.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::build_info;
use crate::ending::{Ending, Failure, Result};
use crate::output::Output;

/// Print a manual page, or write all of them.
///
/// `firn man serve | man -l -` shows one. A package puts all of them into man1.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The command whose page is printed: `serve`, `bench ycsb`. Default: the program.
    #[arg(value_name = "NAME")]
    command: Vec<String>,
    /// Write the pages of all commands into this directory: firn.1, firn-serve.1, ...
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    to: Option<PathBuf>,
}

/// Prints or writes pages of `program`, which is all of the command line.
pub(crate) fn run(arguments: &Arguments, mut program: Command) -> Result<Ending> {
    // Only then each command knows its whole name.
    program.build();
    match &arguments.to {
        Some(folder) => write_all(&program, folder)?,
        None => {
            let mut found = &program;
            for name in &arguments.command {
                found = found.find_subcommand(name).ok_or_else(|| unknown(found, name))?;
            }
            let mut output = Output::new();
            // What the output has refused is told at the end.
            let _ = page(found).render(&mut output);
            output.finish()?;
        }
    }
    Ok(Ending::Done)
}

fn unknown(command: &Command, name: &str) -> Failure {
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let what = match names.as_slice() {
        [] => format!("{} has no commands within it, such as {name:?}", command.get_name()),
        names => format!("there is no command {name:?}; there are {}", names.join(", ")),
    };
    Failure::new(Ending::Usage, what)
}

fn page(command: &Command) -> Man {
    // One line: the version that commands tell has several, and those within have none.
    Man::new(command.clone()).source(build_info::name()).manual("Firn")
}

/// Writes the pages of `command` and of all within it.
fn write_all(command: &Command, folder: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = folder.join(format!("{name}.1"));
    let mut text = Vec::new();
    let written = page(command).render(&mut text).and_then(|()| std::fs::write(&path, &text));
    written.map_err(|error| Failure::file("write", &path, &error))?;
    let mut within = command.get_subcommands().filter(|within| within.get_name() != "help");
    within.try_for_each(|within| write_all(within, folder))
}
