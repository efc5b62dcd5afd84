//! Documents have one title and a length that is read.

use super::Finding;
use crate::repository::Repository;

/// (document, most lines)
const LENGTHS: &[(&str, usize)] = &[("ARCHITECTURE.md", 300), ("README.md", 150)];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let documents = repository.texts().filter(|(path, _)| path.ends_with(".md"));
    for (path, text) in
        documents.filter(|(path, _)| !path.starts_with("changes/") || path.ends_with("README.md"))
    {
        let titles: Vec<usize> = titles(text);
        if titles.first() != Some(&1) {
            findings.push(Finding::new(path, 1, "begin with one title: `# …` on the first line"));
        }
        // Titles of the book's contents begin its parts.
        for line in titles.iter().skip(1).filter(|_| path != super::book::CONTENTS) {
            findings.push(Finding::new(path, *line, "a second title: make it `## …`"));
        }
    }
    for (path, lines_max) in LENGTHS {
        let count = repository.text(path).map_or(0, |text| text.lines().count());
        if count > *lines_max {
            let message = format!("{count} lines, the limit is {lines_max}: move detail into docs/");
            findings.push(Finding::new(path, lines_max + 1, message));
        }
    }
    findings
}

/// Lines (from 1) that are first-level headings outside code blocks.
fn titles(text: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code && line.starts_with("# ") {
            found.push(index + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_titles_and_long_documents_are_found() {
        let long = format!("# Long\n{}", "line\n".repeat(150));
        let files = [
            ("good.md", "# One\n\n```sh\n# a comment\n```\n## Two\n"),
            ("none.md", "## Two\n"),
            ("two.md", "# One\n# Two\n"),
            ("docs/SUMMARY.md", "# Summary\n# A part\n"),
            ("README.md", long.as_str()),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "none.md:1: begin with one title: `# …` on the first line",
                "two.md:2: a second title: make it `## …`",
                "README.md:151: 151 lines, the limit is 150: move detail into docs/",
            ]
        );
    }
}
