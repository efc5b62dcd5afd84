//! The files of the repository as the checks see them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::source::Source;

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Every file that git tracks or would track, by its path from the root, with `/` between
/// components.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    files: BTreeMap<String, File>,
    commits: Vec<Commit>,
}

/// What was committed.
#[derive(Debug)]
pub(crate) struct Commit {
    /// Its first digits.
    pub(crate) hash: String,
    pub(crate) message: String,
}

/// Commits whose messages are judged, at most.
const COMMITS_MAX: &str = "50";

#[derive(Debug)]
struct File {
    bytes: u64,
    /// `None` for files that are not UTF-8.
    text: Option<String>,
}

impl Repository {
    /// Reads the checkout at `root`.
    ///
    /// # Errors
    /// If git cannot list the files or one of them cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("cannot run git, which lists the files to check: install it")?;
        if !listing.status.success() {
            bail!("git ls-files failed: {}", String::from_utf8_lossy(&listing.stderr).trim());
        }
        let mut repository = Self { commits: newest_commits(root)?, ..Self::default() };
        for path in String::from_utf8_lossy(&listing.stdout).split_terminator('\0') {
            let full = root.join(path);
            // A file deleted but not yet staged is listed and absent.
            if full.is_file() {
                let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
                let file = File { bytes: bytes.len() as u64, text: String::from_utf8(bytes).ok() };
                repository.files.insert(path.to_owned(), file);
            }
        }
        Ok(repository)
    }

    /// A repository of these files; for tests of checks.
    #[cfg(test)]
    pub(crate) fn planted(files: &[(&str, &str)]) -> Self {
        let file = |text: &str| File { bytes: text.len() as u64, text: Some(text.to_owned()) };
        Self {
            files: files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect(),
            commits: Vec::new(),
        }
    }

    /// A repository of commits with these messages, called 0, 1 and so on; for tests of checks.
    #[cfg(test)]
    pub(crate) fn with_commits(messages: &[&str]) -> Self {
        let commit =
            |(at, message): (usize, &&str)| Commit { hash: at.to_string(), message: (*message).to_owned() };
        Self { commits: messages.iter().enumerate().map(commit).collect(), ..Self::default() }
    }

    /// The newest commits since the last tag, merges left out.
    pub(crate) fn commits(&self) -> impl Iterator<Item = &Commit> {
        self.commits.iter()
    }

    /// Paths and lengths of all files.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file.bytes))
    }

    /// Paths and contents of all text files.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, file)| Some((path.as_str(), file.text.as_deref()?)))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }

    /// All Rust files, read as source.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, Source<'_>)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs")).map(|(path, text)| (path, Source::new(text)))
    }

    /// Whether `path` is a file or a folder that holds one.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(found, _)| found.starts_with(&folder))
    }

    /// Folders under `crates/` and `xtask`, with a `Cargo.toml`: (folder, manifest text).
    pub(crate) fn crates(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter_map(|(path, text)| {
            let folder = path.strip_suffix("/Cargo.toml")?;
            let is_member =
                folder == "xtask" || folder.strip_prefix("crates/").is_some_and(|rest| !rest.contains('/'));
            is_member.then_some((folder, text))
        })
    }
}

/// What was committed since the last tag, if there is one; of the rest the newest.
fn newest_commits(root: &Path) -> Result<Vec<Commit>> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output();
        let output = output.context("cannot run git: install it")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::Ok(output.status.success().then_some(text))
    };
    let tag = git(&["describe", "--tags", "--abbrev=0"])?;
    let range = tag.map_or("HEAD".to_owned(), |tag| format!("{}..HEAD", tag.trim()));
    let log = ["log", "-z", "--no-merges", "--max-count", COMMITS_MAX, "--format=%h%n%B", &range];
    // A repository without a commit has no log.
    let log = git(&log)?.unwrap_or_default();
    let commits = log.split_terminator('\0').filter_map(|entry| entry.split_once('\n'));
    Ok(commits.map(|(hash, message)| Commit { hash: hash.to_owned(), message: message.to_owned() }).collect())
}
