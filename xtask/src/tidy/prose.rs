//! Comments: their width, and words for persons where a component acts.

use super::Finding;
use crate::repository::Repository;

/// Words for persons. Code has none: the sentence names the component that acts.
const PERSONS: &[&str] = &[
    "who",
    "whom",
    "whoever",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "someone",
    "anyone",
    "everyone",
];

/// Most columns of a line of comment. Drawings and rows of tables may be wider.
const COLUMNS_MAX: usize = 100;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in repository.sources() {
        let mut is_drawing = false;
        for (index, line) in source.text().lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            is_drawing ^= comment.contains("```");
            let is_row = comment.trim_start_matches(['/', '!', ' ']).starts_with('|');
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !is_drawing && !is_row {
                let message = format!("a comment of {columns} columns: wrap it at {COLUMNS_MAX}");
                findings.push(Finding::new(path, index + 1, message));
            }
            if let Some(person) = person_in(comment) {
                let message = format!("`{person}` in a comment: name the component that acts");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

fn person_in(comment: &str) -> Option<&'static str> {
    let words = comment.split(|c: char| !c.is_alphanumeric() && c != '_');
    let persons = words.filter_map(|word| PERSONS.iter().find(|person| word.eq_ignore_ascii_case(person)));
    persons.copied().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persons_and_wide_comments_are_found() {
        let long = "x".repeat(98);
        let text = format!(
            "//! Nobody reads it.\n// {long}\n/// ```text\n/// {long}\n/// ```\n/// | {long} |\nfn who() {{}}\n"
        );
        let found = check(&Repository::planted(&[("crates/tree/src/a.rs", &text)]));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/tree/src/a.rs:1: `nobody` in a comment: name the component that acts",
                "crates/tree/src/a.rs:2: a comment of 101 columns: wrap it at 100"
            ]
        );
        assert_eq!(person_in(" whose table `who_is` left"), None);
    }
}
