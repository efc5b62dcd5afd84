//! Whether messages of commits have the form that all have: of the newest ones, and of one that is
//! about to be committed (`cargo x subject FILE`).
//!
//! Whether a summary is imperative is for its author and reviewers; the rest a program can say.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::Finding;
use super::prose::person_in;
use crate::repository::{Repository, root};

/// What `cargo x subject` takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The file with the message, as git hands it to a hook `commit-msg`.
    file: PathBuf,
}

/// Most characters of a subject.
const SUBJECT_CHARS_MAX: usize = 72;

/// What a commit may be about beside a crate and a folder of the root.
const AREAS: &[&str] = &["ci", "crates", "gate", "style", "tests", "tidy"];

/// What git makes of a commit that is to be folded into another one.
const FOLDED: &[&str] = &["fixup! ", "squash! ", "amend! "];

/// The newest commits; of each the hash stands where files have their path.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for commit in repository.commits() {
        let faults = faults(&commit.message);
        findings.extend(faults.into_iter().map(|fault| Finding::new(&commit.hash, 1, fault)));
    }
    findings
}

/// Reads the message and says what is wrong with it; `Ok(true)` if nothing is.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let file = options.file.display();
    let message = std::fs::read_to_string(&options.file).with_context(|| format!("cannot read {file}"))?;
    let areas = areas(&Repository::read(&root())?);
    let faults = faults_of_new(&message, &areas);
    for fault in &faults {
        println!("{file}: {fault}");
    }
    Ok(faults.is_empty())
}

/// Crates by their folders, folders of the root, and what has no folder.
fn areas(repository: &Repository) -> BTreeSet<String> {
    let crates = repository.crates().map(|(folder, _)| folder.trim_start_matches("crates/"));
    let folders = repository.sizes().filter_map(|(path, _)| path.split_once('/')).map(|(folder, _)| folder);
    let folders = folders.filter(|folder| !folder.starts_with('.'));
    crates.chain(folders).chain(AREAS.iter().copied()).map(str::to_owned).collect()
}

/// What is wrong with a message that is about to be committed.
fn faults_of_new(message: &str, areas: &BTreeSet<String>) -> Vec<String> {
    let is_kept = |line: &&str| !line.starts_with('#');
    let message: Vec<&str> =
        message.lines().take_while(|line| !line.contains(">8")).filter(is_kept).collect();
    let message = message.join("\n");
    let message = message.trim_start();
    if FOLDED.iter().any(|begin| message.starts_with(begin)) || message.starts_with("Merge ") {
        return Vec::new();
    }
    let mut faults = faults(message);
    let prefix = message.split_once(": ").map_or("", |(prefix, _)| prefix);
    let unknown = prefix.split(", ").filter(|area| is_area(area) && !areas.contains(*area));
    let known: Vec<&str> = areas.iter().map(String::as_str).collect();
    faults.extend(unknown.map(|area| format!("no area is called `{area}`; there are {}", known.join(", "))));
    faults
}

/// What is wrong with a message, whatever crates there were when it was written.
fn faults(message: &str) -> Vec<String> {
    let mut lines = message.lines();
    let subject = lines.next().unwrap_or_default();
    let mut faults = Vec::new();
    let (prefix, summary) = subject.split_once(": ").unwrap_or_default();
    if summary.is_empty() || !prefix.split(", ").all(is_area) {
        faults.push("write `area: summary`, of several areas `area, area: summary`".to_owned());
    }
    let count = subject.chars().count();
    if count > SUBJECT_CHARS_MAX {
        faults.push(format!(
            "the subject has {count} characters, the limit is {SUBJECT_CHARS_MAX}: say the rest in the body"
        ));
    }
    if summary.starts_with(char::is_uppercase) {
        faults.push("begin the summary with a verb in lower case".to_owned());
    }
    if subject.ends_with('.') {
        faults.push("end the subject without a full stop".to_owned());
    }
    if let Some(person) = person_in(subject) {
        faults.push(format!("`{person}` in the subject: name the component that acts"));
    }
    if lines.next().is_some_and(|second| !second.trim().is_empty()) {
        faults.push("leave the second line blank".to_owned());
    }
    faults
}

/// Whether `text` has the form of a crate's or an area's name.
fn is_area(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_of_a_subject_is_named() {
        let long = format!("tree: {}", "x".repeat(67));
        let cases = [
            ("", "write `area: summary`"),
            ("Store a value", "write `area: summary`"),
            ("tree:store a value", "write `area: summary`"),
            ("Tree: store a value", "write `area: summary`"),
            ("tree,server: store a value", "write `area: summary`"),
            (&long, "has 73 characters, the limit is 72"),
            ("tree: Store a value", "in lower case"),
            ("tree: store a value.", "without a full stop"),
            ("tree: tell who stored it", "`who` in the subject"),
            ("tree: store a value\nand another\n", "second line blank"),
        ];
        for (message, part) in cases {
            let faults = faults(message);
            assert_eq!(faults.len(), 1, "{message}: {faults:?}");
            assert!(faults[0].contains(part), "{message}: {faults:?}");
        }
        let good = format!("job-service, s3-server: {}\n\nIt says nobody's name.", "x".repeat(48));
        assert_eq!(faults(&good), [""; 0]);
    }

    #[test]
    fn a_new_message_is_of_a_known_area_and_its_comments_are_not_judged() {
        let files = [("crates/tree/Cargo.toml", ""), ("docs/a.md", ""), (".ci/run", "")];
        let areas = areas(&Repository::planted(&files));
        let faults = |message: &str| faults_of_new(message, &areas);
        for good in [
            "# Please enter a message.\ntree, docs: store a value\n# On branch x\n",
            "ci: run the gate\n# --- >8 ---\ndiff --git a/x b/x\n",
            "fixup! tree: store a value",
            "Merge branch 'x'",
        ] {
            assert_eq!(faults(good), [""; 0], "{good}");
        }
        let unknown = faults("bush, tree: store a value");
        assert_eq!(unknown.len(), 1);
        assert!(unknown[0].starts_with("no area is called `bush`; there are ci, crates, docs, gate"));
    }

    #[test]
    fn commits_of_another_form_are_found() {
        let messages = ["tree: store a value\n\nIt was not.\n", "Store a value.\n", "fixup! tree: store\n"];
        let found: Vec<String> =
            check(&Repository::with_commits(&messages)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "1:1: write `area: summary`, of several areas `area, area: summary`",
                "1:1: end the subject without a full stop",
                "2:1: write `area: summary`, of several areas `area, area: summary`",
            ]
        );
    }
}
