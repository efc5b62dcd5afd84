//! Comments, messages and pages: the width of comments, and words for persons where a component
//! acts.

use super::Finding;
use super::test_code::TestCode;
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

/// The file that spells them.
const OWN: &str = "xtask/src/tidy/prose.rs";

/// Most columns of a line of comment. Drawings and rows of tables may be wider.
const COLUMNS_MAX: usize = 100;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let tests = TestCode::of(repository);
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
        }
        let is_test = tests.holds(path) || path == OWN;
        let test_ranges = source.test_ranges();
        let is_shown = |at: usize| !is_test && !test_ranges.iter().any(|range| range.contains(&at));
        for aside in source.asides() {
            let text = source.text().get(aside.clone()).unwrap_or_default();
            let is_comment = text.starts_with("//") || text.starts_with("/*");
            if is_comment || is_shown(aside.start) {
                let place = if is_comment { "a comment" } else { "a message" };
                findings.extend(persons_in(path, source.line_of(aside.start), text, place));
            }
        }
    }
    for (path, text) in repository.texts().filter(|(path, _)| is_page(path)) {
        findings.extend(persons_in(path, 1, text, "a page"));
    }
    findings
}

/// Whether a file is documentation; reports of what was run keep their words.
fn is_page(path: &str) -> bool {
    path.ends_with(".md") && !path.starts_with("docs/soak/") && !path.starts_with("results/")
}

/// A finding for each line of `text` with a word for a person; `first` is its first line's number.
fn persons_in(path: &str, first: usize, text: &str, place: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    let persons = lines.filter_map(|(index, line)| Some((first + index, person_in(line)?)));
    let message = |person| format!("`{person}` in {place}: name the component that acts");
    persons.map(|(line, person)| Finding::new(path, line, message(person))).collect()
}

/// The first word for a person in a text.
pub(super) fn person_in(comment: &str) -> Option<&'static str> {
    let words = comment.split(|c: char| !c.is_alphanumeric() && c != '_');
    let persons = words.filter_map(|word| PERSONS.iter().find(|person| word.eq_ignore_ascii_case(person)));
    persons.copied().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Repository::planted(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    /// Each word, behind code, in a message and in a page.
    #[test]
    fn persons_are_found_wherever_they_are_read() {
        for person in PERSONS {
            let text = format!("fn f() {{ /* a\n {person} */\n    g(\"// {person}\"); // {person}\n}}\n");
            let test = format!("#[cfg(test)]\nmod tests {{\n    const A: &str = \"{person}\";\n}}\n");
            let lines = |path: &str, text: &str| -> Vec<String> {
                let found = found(path, text);
                found.iter().map(|line| line.split(" in ").take(1).collect()).collect()
            };
            let at = |path: &str, line: usize| format!("{path}:{line}: `{person}`");
            let code = "crates/tree/src/a.rs";
            assert_eq!(lines(code, &format!("{text}{test}")), [at(code, 2), at(code, 3), at(code, 3)]);
            assert_eq!(lines("docs/a.md", &format!("# A\n\n{person} is it.\n")), [at("docs/a.md", 3)]);
            assert_eq!(lines("docs/soak/a.md", person), [""; 0]);
        }
    }

    #[test]
    fn persons_and_wide_comments_are_found() {
        let long = "x".repeat(98);
        let text = format!(
            "//! Nobody reads it.\n// {long}\n/// ```text\n/// {long}\n/// ```\n/// | {long} |\nfn who() {{}}\n"
        );
        assert_eq!(
            found("crates/tree/src/a.rs", &text),
            [
                "crates/tree/src/a.rs:2: a comment of 101 columns: wrap it at 100",
                "crates/tree/src/a.rs:1: `nobody` in a comment: name the component that acts",
            ]
        );
        assert_eq!(person_in(" whose table `who_is` left"), None);
    }
}
