//! The index of measured results: a row for each folder, and answers of one line.

use std::collections::BTreeSet;

use super::{Finding, links};
use crate::repository::Repository;

const INDEX: &str = "results/README.md";
const ANSWER_WORDS_MAX: usize = 25;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let inside = repository.sizes().filter_map(|(path, _)| path.strip_prefix("results/"));
    let folders: BTreeSet<&str> = inside.filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for (index, line) in repository.text(INDEX).unwrap_or_default().lines().enumerate() {
        let Some(folder) = folder(line) else { continue };
        listed.insert(folder);
        let words = answer(line).split_whitespace().count();
        if words > ANSWER_WORDS_MAX {
            let message = format!("an answer of {words} words, the limit is {ANSWER_WORDS_MAX}: shorten it");
            findings.push(Finding::new(INDEX, index + 1, message));
        }
    }
    let missing = folders.difference(&listed);
    let message = |folder: &str| format!("results/{folder} has no row: add question, machine and answer");
    findings.extend(missing.map(|folder| Finding::new(INDEX, 1, message(folder))));
    findings
}

/// The folder that a row of the table links.
fn folder(line: &str) -> Option<&str> {
    line.strip_prefix("| ")?;
    links::targets(line).find_map(|target| target.strip_suffix("/README.md"))
}

/// The last cell of a row.
fn answer(line: &str) -> &str {
    line.trim_end().trim_end_matches('|').rsplit(" | ").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rows_and_long_answers_are_found() {
        let index = format!("# Results\n\n| d | [a](a/README.md) | q | m | {}|\n", "word ".repeat(26));
        let files = [(INDEX, index.as_str()), ("results/a/README.md", ""), ("results/b/raw.json", "")];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "results/README.md:3: an answer of 26 words, the limit is 25: shorten it",
                "results/README.md:1: results/b has no row: add question, machine and answer",
            ]
        );
    }
}
