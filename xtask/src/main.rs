//! Firn's own build commands: `cargo x help`.

mod repository;
mod source;
mod tidy;
mod cargo;
mod checkout;
mod cures;
mod skew;
mod dist;
mod gate;
mod soak;
mod faults;
mod book;
mod figure;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Firn's own build commands.
#[derive(Parser)]
#[command(name = "cargo x", bin_name = "cargo x")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The gate: format, lints, tidy, tests, models, documentation, seeded tests. Installs what
    /// they need.
    Test(gate::Options),
    /// Check the house rules that a compiler does not make.
    Tidy,
    /// Check the message of a commit; for a hook of git.
    Subject(tidy::subject::Options),
    /// Hours of seeded tests; writes a report to docs/soak/.
    Soak(soak::Options),
    /// Run the tests of what real use broke (docs/internals/faults.md), long forms included;
    /// minutes.
    Faults(faults::Options),
    /// Build the documentation as a site, in target/book; needs mdbook.
    Book,
    /// Take out what keeps known mistakes away, and see the tests fail that are about it; tens of
    /// minutes.
    Cures(cures::Options),
    /// Build an older revision's program, and have it work together with this one's; minutes.
    Skew(skew::Options),
    /// Draw README's plot and table from the measurements that docs/pictures/ratios.toml names.
    Figure,
    /// Build the program as it is installed: stripped, its debug information beside it, with
    /// completions and manual pages; minutes.
    Dist(dist::Options),
    /// Run the simulator (release build) with these arguments:
    /// `cargo x sim metamorphic --seeds 10`.
    Sim {
        /// Handed on as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> Result<ExitCode> {
    let is_good = match Arguments::parse().command {
        Command::Test(options) => gate::run(&options)?,
        Command::Tidy => tidy::run()?,
        Command::Subject(options) => tidy::subject::run(&options)?,
        Command::Soak(options) => soak::run(&options)?,
        Command::Faults(options) => faults::run(&options)?,
        Command::Book => book::run()?,
        Command::Cures(options) => cures::run(&options)?,
        Command::Skew(options) => skew::run(&options)?,
        Command::Figure => figure::run()?,
        Command::Dist(options) => dist::run(&options)?,
        Command::Sim { arguments } => simulate(&arguments)?,
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn simulate(arguments: &[String]) -> Result<bool> {
    let status = cargo::call("cargo")
        .args(["run", "--release", "--quiet", "-p", "firn-sim", "--"])
        .args(arguments)
        .current_dir(repository::root())
        .status()
        .context("cannot run cargo")?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents show commands as code; each must be one that exists.
    #[test]
    fn commands_in_documents_exist() {
        let mut count = 0;
        for document in ["README.md", "CONTRIBUTING.md", "docs/soak/README.md"] {
            let text = std::fs::read_to_string(repository::root().join(document)).expect("the document");
            for command in text.split(['`', '\n']).filter(|code| code.starts_with("cargo x ")) {
                let words = command.split_whitespace().take_while(|word| !word.starts_with(['#', '…']));
                let parsed = Arguments::try_parse_from(words.skip(1));
                assert!(parsed.is_ok(), "{document}: {command}");
                count += 1;
            }
        }
        assert!(count >= 6, "only {count} commands found");
    }
}
