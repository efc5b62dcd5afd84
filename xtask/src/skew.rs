//! `cargo x skew REVISION`: builds the program of an older revision, and runs the tests that have
//! both builds work together.
//!
//! Not part of the gate. Before the first release formats are changed in place, so that no revision
//! is sure to have the formats and the command line of today. It is for a fleet of builds with the
//! same ones, and for releases.
//!
//! ```text
//!   REVISION ─► target/skew/checkout ─► its `firn`, kept as target/skew/firn-HASH ─► tests of `old_builds`
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::checkout;
use crate::repository::root;

/// What `cargo x skew` takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The older build, as git names it. Its formats and its command line are to be those of today.
    revision: String,
}

/// The tests of the program that are run, by the module that they are in.
pub(crate) const TESTS: &str = "old_builds::";

/// Runs the tests with the old build; `Ok(true)` if none failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let root = root();
    let hash = checkout::resolve(&root, &options.revision)?;
    let program = build(&root, &hash)?;
    println!("with the build of {}, {}:", options.revision, program.display());
    test(&root, &program)
}

/// The program of revision `hash`; what was built before is taken as it is, since a revision never
/// changes.
fn build(root: &Path, hash: &str) -> Result<PathBuf> {
    let program = root.join(format!("target/skew/firn-{hash}"));
    // Two of these at once would build each other's revision.
    std::fs::create_dir_all(root.join("target/skew")).context("cannot make target/skew")?;
    let lock = File::create(root.join("target/skew/lock")).context("cannot make a file in target/skew")?;
    lock.lock().context("cannot lock target/skew")?;
    if program.exists() {
        return Ok(program);
    }
    let checkout = checkout::of(root, "skew", hash)?;
    let target = root.join("target/skew/target");
    println!("building firn of {hash}, in some minutes the first time");
    let status = cargo::call("cargo")
        .args(["build", "--quiet", "--locked", "--package", "firn-cli", "--bin", "firn"])
        .env("CARGO_TARGET_DIR", &target)
        // The checkout does not change.
        .env("CARGO_INCREMENTAL", "0")
        // It says by itself what it is built with.
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO_BUILD_TARGET")
        .current_dir(&checkout)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "firn of {hash} does not build here: name another revision");
    // Whole at once: a copy that was interrupted must not be taken for the program.
    let copy = program.with_extension("new");
    let built = target.join("debug/firn");
    std::fs::copy(&built, &copy).with_context(|| format!("cannot copy {}", built.display()))?;
    std::fs::rename(&copy, &program).with_context(|| format!("cannot name {}", program.display()))?;
    Ok(program)
}

/// Runs the tests, by what the gate has built: for one package alone most crates would be built
/// again.
fn test(root: &Path, program: &Path) -> Result<bool> {
    let status = cargo::call("cargo")
        .args(["test", "--quiet", "--workspace", "--test", "it", "--", "--ignored", "--nocapture"])
        .args(["--test-threads", "1", TESTS])
        .env("FIRN_OLD_BUILD", program)
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    Ok(status.success())
}
