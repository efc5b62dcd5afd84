//! Marks of unfinished work.

use super::Finding;
use crate::repository::Repository;

/// (macro, what to do instead)
const MACROS: &[(&str, &str)] = &[
    ("dbg", "remove it"),
    ("todo", "finish it or return an error that says what is missing"),
    ("unimplemented", "finish it or return an error that says what is missing"),
];

/// Words that mark work left undone, in any file. Spelled in halves so that this list does not find
/// itself.
const MARKS: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in repository.sources() {
        for (name, instead) in MACROS {
            for at in source.words(name) {
                if source.text().get(at + name.len()..).unwrap_or_default().starts_with('!') {
                    findings.push(Finding::new(path, source.line_of(at), format!("`{name}!`: {instead}")));
                }
            }
        }
    }
    for (path, text) in repository.texts().filter(|(path, _)| is_written_by_hand(path)) {
        for (index, line) in text.lines().enumerate() {
            for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
                let message = format!("`{mark}`: do it, or write it where work is planned");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

fn is_written_by_hand(path: &str) -> bool {
    let endings = [".rs", ".md", ".toml", ".sh", ".html"];
    endings.iter().any(|ending| path.ends_with(ending)) && !path.starts_with("results/")
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_found_in_code_and_marks_everywhere() {
        let marked = format!("# Title\n\n{} later\n", MARKS[0]);
        let files = [
            ("a.md", marked.as_str()),
            ("b.rs", "fn f() {\n    dbg!(1);\n    let s = \"todo!()\"; // dbg!(2)\n    todo!()\n}\n"),
            ("c.rs", "const TODOS: u8 = 1;\n"),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("b.rs:2: `dbg!`"));
        assert!(found[1].starts_with("b.rs:4: `todo!`"));
        assert!(found[2].starts_with("a.md:3: "));
    }
}
