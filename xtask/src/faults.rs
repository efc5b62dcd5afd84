//! `cargo x faults`: the tests of what real use broke, their long forms included.

use anyhow::{Context, Result};

use crate::cargo;
use crate::repository::root;

/// What `cargo x faults` takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Run the rows whose tests' names contain this alone, for example `t4_`.
    #[arg(default_value = "faults::")]
    filter: String,
    /// Leave out the long forms: what the gate runs.
    #[arg(long)]
    short: bool,
    /// Tests at once. Most of the long forms wait, so more than there are processors.
    #[arg(long, default_value_t = 8)]
    threads: usize,
}

/// Runs them by what the gate has built; `Ok(true)` if none failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let status = cargo::call("cargo")
        .args(arguments(options))
        .current_dir(root())
        .status()
        .context("cannot run cargo")?;
    Ok(status.success())
}

fn arguments(options: &Options) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["test", "--workspace", "--lib", "--test", "it", "--no-fail-fast", "--"].map(str::to_owned).to_vec();
    arguments.push(options.filter.clone());
    if !options.short {
        arguments.push("--include-ignored".to_owned());
    }
    arguments.extend(["--test-threads".to_owned(), options.threads.to_string()]);
    arguments
}
