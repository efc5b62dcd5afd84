//! Tests that compare and throw the answer away.

use super::Finding;
use crate::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in repository.sources() {
        for at in source.words("matches") {
            let is_macro = source.text().get(at + 7..).unwrap_or_default().starts_with('!');
            if is_macro && is_statement(source.text(), at, source.item_end(at)) {
                let message = "`matches!` as a statement checks nothing: write `assert!(matches!(…))`";
                findings.push(Finding::new(path, source.line_of(at), message));
            }
        }
    }
    findings
}

/// Whether the expression at `start..end` stands alone between statements.
fn is_statement(text: &str, start: usize, end: usize) -> bool {
    let before = text.get(..start).unwrap_or_default().trim_end();
    let statement = text.get(start..end).unwrap_or_default();
    let closes_once = statement.trim_end_matches(';').matches('(').count() == statement.matches(')').count();
    statement.ends_with(';') && closes_once && before.ends_with([';', '{', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_as_a_statement_is_found() {
        let text = "fn t() {\n    matches!(f(), Some(_));\n    assert!(matches!(f(), Some(_)));\n    \
                    let a = matches!(f(), None);\n    matches!(f(), None)\n}\n";
        let found: Vec<String> = check(&Repository::planted(&[("crates/a/tests/it/a.rs", text)]))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/a/tests/it/a.rs:2: "));
    }
}
