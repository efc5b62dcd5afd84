//! Checks of the house rules that a compiler does not make.
//!
//! Each check is a pure function from [`Repository`] to findings; a finding names file, line and
//! the replacement. To add one: a file here, a planted violation in its test, a line in [`CHECKS`].

mod edges;
mod cycles;
mod owners;
mod lengths;
mod ratchet;
mod test_code;
mod names;
mod dead_files;
mod named_paths;
mod named_tests;
mod old_words;
mod fault_rows;
mod magics;
mod quarantine;
mod leftovers;
mod prose;
mod comparisons;
mod markdown;
mod large_files;
mod machine_paths;
mod links;
mod book;
mod results;
pub(crate) mod subject;

use std::fmt;

use anyhow::Result;

use crate::repository::{Repository, root};

/// One broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

type Check = fn(&Repository) -> Vec<Finding>;

/// Every check, by name.
const CHECKS: &[(&str, Check)] = &[
    ("crate edges", edges::check),
    ("cycles of modules", cycles::check),
    ("owners", owners::check),
    ("lengths", lengths::check),
    ("names", names::check),
    ("dead files", dead_files::check),
    ("paths in documents", named_paths::check),
    ("tests in documents", named_tests::check),
    ("rows of faults", fault_rows::check),
    ("format magics", magics::check),
    ("lint quarantine", quarantine::check),
    ("leftovers", leftovers::check),
    ("comments", prose::check),
    ("old words", old_words::check),
    ("comparisons without effect", comparisons::check),
    ("Markdown", markdown::check),
    ("large files", large_files::check),
    ("paths of one machine", machine_paths::check),
    ("links of documents", links::check),
    ("pages of the book", book::check),
    ("index of results", results::check),
    ("subjects of commits", subject::check),
];

/// Findings of every check on the checkout, by file.
pub(crate) fn findings() -> Result<Vec<Finding>> {
    let repository = Repository::read(&root())?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|(_, check)| check(&repository)).collect();
    findings.sort();
    Ok(findings)
}

/// Prints every finding; `Ok(true)` if there is none.
pub(crate) fn run() -> Result<bool> {
    let findings = findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} checks, {} findings", CHECKS.len(), findings.len());
    Ok(findings.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        let findings = super::findings().expect("the checkout can be read");
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }
}
