//! Absolute paths that exist on one machine only.

use super::Finding;
use crate::repository::Repository;

/// First components of paths that belong to a person or a machine.
const HOMES: &[&str] = &["home", "root", "Users", "work", "workspace", "mnt", "scratch", "builds"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.texts() {
        for (index, line) in text.lines().enumerate() {
            for home in HOMES.iter().filter(|home| has_absolute(line, home)) {
                let message = format!("a path below /{home} exists on one machine only: make it relative");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// Whether `/home/…` stands in `line` as the beginning of a path.
fn has_absolute(line: &str, home: &str) -> bool {
    let needle = format!("/{home}/");
    let is_path = |c: char| c.is_ascii_alphanumeric() || "._-*)}>]/".contains(c);
    line.match_indices(&needle).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + needle.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_path) && after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_machine_are_found() {
        let planted = format!(
            "see /{}/ann/firn\nsee docs/home/page and https://x.y/root/z\nopt=/{}/a\n",
            "home", "mnt"
        );
        let found: Vec<String> =
            check(&Repository::planted(&[("a.md", &planted)])).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.md:1: ") && found[1].starts_with("a.md:3: "));
    }
}
