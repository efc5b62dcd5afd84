//! Which commit the program is built of, for `firn --version` and all that it tells people:
//! `FIRN_COMMIT` is a short hash, with `-dirty` where files differ from it, or `unknown`.
//!
//! Of a checkout that is this repository's own git is asked. Where there is none, as in a
//! container, the environment's `FIRN_BUILD_COMMIT` may say it. This crate alone is built again
//! where a commit changes: others are handed the value.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the environment says of the commit is found under this name.
const GIVEN: &str = "FIRN_BUILD_COMMIT";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = std::env::var_os(GIVEN).and_then(|said| said.into_string().ok());
    let commit = given.filter(|said| !said.is_empty());
    let commit = commit.or_else(|| of_checkout(&root)).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=FIRN_COMMIT={commit}");
    println!("cargo::rerun-if-env-changed={GIVEN}");
    watched(&root).iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
}

/// What git says of the checkout at `root`; `None` if that is none, or lies within another one.
fn of_checkout(root: &Path) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let hash = git(root, &["rev-parse", "--short=10", "HEAD"])?;
    let changes = git(root, &["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changes.is_empty() { hash } else { format!("{hash}-dirty") })
}

/// What changes with a commit, or with the files of the program.
fn watched(root: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("build.rs")];
    let of_git = ["HEAD", "logs/HEAD"].map(|name| git(root, &["rev-parse", "--git-path", name]));
    paths.extend(of_git.into_iter().flatten().map(|path| root.join(path)));
    if let Ok(crates) = std::fs::read_dir(root.join("crates")) {
        paths.extend(crates.flatten().map(|entry| entry.path().join("src")));
    }
    // A path that is not there would have the script run each time.
    paths.retain(|path| path.exists());
    paths
}

fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).current_dir(root).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
