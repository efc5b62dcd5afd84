//! `firn completions`: what a shell completes.

use clap::Command;
use clap_complete::Shell;

use crate::ending::{Ending, Result};
use crate::output::Output;

/// Print what a shell needs to complete commands and options.
///
/// For bash: `firn completions bash > /etc/bash_completion.d/firn`, or, for one user,
/// ~/.local/share/bash-completion/completions/firn. For zsh a file `_firn` in a directory of
/// $fpath, for fish ~/.config/fish/completions/firn.fish.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints it for `program`, which is all of the command line.
pub(crate) fn run(arguments: &Arguments, mut program: Command) -> Result<Ending> {
    let name = program.get_name().to_owned();
    // What it writes to must not fail, and a reader may go away.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    let mut output = Output::new();
    output.bytes(&script);
    output.finish()?;
    Ok(Ending::Done)
}
