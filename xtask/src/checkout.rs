//! Checkouts of other revisions, beside the one that is worked in.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

/// The hash of `revision`.
///
/// # Errors
/// The clone at `root` lacks it; the message says what to do.
pub(crate) fn resolve(root: &Path, revision: &str) -> Result<String> {
    let commit = format!("{revision}^{{commit}}");
    let mut command = Command::new("git");
    command.args(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).current_dir(root);
    let output = command.output().context("cannot run git: install it")?;
    ensure!(
        output.status.success(),
        "this clone has no revision {revision}: if it is a shallow one, `git fetch --unshallow` brings all of them; else name one that `git log` shows"
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A checkout of `hash` at target/`folder`/checkout, of its own, so that no other work tree is
/// touched; kept for the next time.
pub(crate) fn of(root: &Path, folder: &str, hash: &str) -> Result<PathBuf> {
    let checkout = root.join("target").join(folder).join("checkout");
    if switch(root, &checkout, hash).is_err() {
        // There is none, or one that was interrupted, or another clone's that came with a copy of
        // target.
        if checkout.exists() {
            std::fs::remove_dir_all(&checkout)
                .with_context(|| format!("cannot remove {}", checkout.display()))?;
        }
        succeed(Command::new("git").args(["worktree", "prune"]).current_dir(root))?;
        let at = checkout.to_string_lossy();
        let add = ["worktree", "add", "--force", "--detach", &*at, hash];
        succeed(Command::new("git").args(add).current_dir(root))?;
    }
    Ok(checkout)
}

/// Has the checkout, which must be one of the clone at `root`, be of `hash`.
fn switch(root: &Path, checkout: &Path, hash: &str) -> Result<()> {
    ensure!(checkout.join(".git").exists(), "there is no checkout");
    let clone = |at: &Path| {
        let which = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        succeed(Command::new("git").args(which).current_dir(at)).map(|output| output.stdout)
    };
    ensure!(clone(checkout)? == clone(root)?, "it is another clone's");
    let checked_out = ["checkout", "--quiet", "--force", "--detach", hash];
    succeed(Command::new("git").args(checked_out).current_dir(checkout)).map(drop)
}

/// Runs `command`, which must end well.
pub(crate) fn succeed(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_is_not_there_is_named_with_what_to_do() {
        let root = crate::repository::root();
        let head = resolve(&root, "HEAD").expect("there is one");
        assert!(head.len() == 40 && resolve(&root, &head).expect("the same") == head, "{head}");
        for gone in ["0123456789012345678901234567890123456789", "no-such-branch", "--all"] {
            let error = resolve(&root, gone).expect_err("it is not there").to_string();
            assert!(error.contains(gone) && error.contains("git fetch --unshallow"), "{error}");
        }
    }
}
