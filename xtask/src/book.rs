//! `cargo x book`: the documentation as a site.

use anyhow::{Context, Result};

use crate::cargo;
use crate::repository::root;

/// Builds it into `target/book`; `Ok(true)` if there was nothing to warn of.
///
/// # Errors
/// If mdBook cannot be run.
pub(crate) fn run() -> Result<bool> {
    let built = cargo::call("mdbook").arg("build").current_dir(root()).output();
    let built = built.context("cannot run mdbook: `cargo install --locked mdbook` brings it")?;
    let output = [built.stdout, built.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    print!("{output}");
    Ok(built.status.success() && !warns(&output))
}

/// Whether a line of the log is of a level above `INFO`.
fn warns(log: &str) -> bool {
    log.lines().any(|line| line.split_whitespace().any(|word| matches!(word, "WARN" | "ERROR")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_fails_the_step() {
        assert!(!warns(" INFO Book building has started\n INFO Running the html backend\n"));
        assert!(warns(" INFO Book building has started\n WARN unclosed HTML tag `<base>` found in `a.md`\n"));
    }
}
