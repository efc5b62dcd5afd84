//! Tests that compare and throw the answer away.

use super::Finding;
use crate::repository::Repository;
use crate::source::Source;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in repository.sources() {
        for at in source.words("matches").into_iter().filter(|at| is_statement(&source, *at)) {
            let message = "`matches!` as a statement checks nothing: write `assert!(matches!(…))`";
            findings.push(Finding::new(path, source.line_of(at), message));
        }
    }
    findings
}

/// Whether the macro call at `at` stands alone between statements.
fn is_statement(source: &Source<'_>, at: usize) -> bool {
    let open = at + "matches!".len();
    let is_call = source.text().get(at..).unwrap_or_default().starts_with("matches!(");
    let before = source.text().get(..at).unwrap_or_default().trim_end();
    let after = source.text().get(source.closing(open)..).unwrap_or_default().trim_start();
    is_call && after.starts_with(';') && before.ends_with([';', '{', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_as_a_statement_is_found() {
        let text = "fn t() {\n    matches!(f(), Some(_));\n    assert!(matches!(f(), Some(_)));\n    \
                    let a = matches!(f(), None);\n    let c = || {\n        matches!(f(), None)\n    };\n    matches!(f(), None)\n}\n";
        let found: Vec<String> = check(&Repository::planted(&[("crates/a/tests/it/a.rs", text)]))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/a/tests/it/a.rs:2: "));
    }
}
