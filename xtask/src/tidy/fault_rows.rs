//! Rows of docs/internals/faults.md: each has a state, and tests of faults and rows name each
//! other.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::Repository;

const PAGE: &str = "docs/internals/faults.md";

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let Some((_, page)) = repository.texts().find(|(path, _)| *path == PAGE) else { return Vec::new() };
    let tests = tests(repository);
    let mut named = BTreeSet::new();
    let mut findings = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let Some((id, state)) = row(line) else { continue };
        let mut complain = |message: String| findings.push(Finding::new(PAGE, index + 1, message));
        let its: Vec<&str> = names(state).filter(|name| belongs_to(name, id)).collect();
        for name in &its {
            if !tests.iter().any(|(_, test)| test == name) {
                complain(format!("no test of faults is called `{name}`"));
            }
        }
        named.extend(its.iter().map(|name| (*name).to_owned()));
        let is_known = ["mended: ", "documented: ", "open"].iter().any(|word| state.starts_with(word));
        if !is_known {
            complain(format!("row {id} is `mended: ` by tests, `documented: ` somewhere, or `open: ` why"));
        }
        if state.starts_with("mended: ") && its.is_empty() {
            let prefix = id.to_lowercase();
            complain(format!("row {id} names no test: its tests are called `{prefix}_…`"));
        }
    }
    for (path, test) in &tests {
        if !named.contains(test) {
            findings.push(Finding::new(path, 1, format!("test `{test}` is in no row of {PAGE}")));
        }
    }
    findings
}

/// Id and state of a table's row that is about a fault.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.splitn(3, " | ").collect();
    let [id, _, state] = cells[..] else { return None };
    let is_id = id.starts_with(['T', 'S', 'C', 'P']) && id[1..].parse::<u32>().is_ok();
    is_id.then_some((id, state))
}

/// Functions that a cell names; `file::function` counts as the function.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    let code = cell.split('`').skip(1).step_by(2);
    code.map(|code| code.rsplit("::").next().unwrap_or(code))
}

/// Whether a test of this name is one of row `id`.
fn belongs_to(name: &str, id: &str) -> bool {
    name.strip_prefix(&id.to_lowercase()).is_some_and(|rest| rest.starts_with('_'))
}

/// Tests of faults, each with its file.
fn tests(repository: &Repository) -> Vec<(String, String)> {
    let files = repository.texts().filter(|(path, _)| path.contains("/faults/") && path.ends_with(".rs"));
    let mut tests = Vec::new();
    for (path, text) in files {
        let mut is_marked = false;
        for line in text.lines().map(str::trim) {
            is_marked |= line == "#[test]";
            let Some(rest) = line.strip_prefix("fn ").filter(|_| is_marked) else { continue };
            is_marked = false;
            tests.extend(rest.split_once("()").map(|(name, _)| (path.to_owned(), name.to_owned())));
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, test: &str) -> Vec<String> {
        let test = format!("#[test]\nfn {test}() {{\n}}\n");
        let files = [(PAGE, page), ("crates/a/tests/it/faults/keys.rs", test.as_str())];
        check(&Repository::planted(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_and_tests_name_each_other() {
        let good = "| T1 | long keys | mended: `keys::t1_long_keys` |\n| T2 | other | open: why |\n";
        assert_eq!(found(good, "t1_long_keys"), [""; 0]);
        assert_eq!(found(good, "t1_short_keys").len(), 2, "a name without a test, a test without a row");
        assert_eq!(found("| T1 | long keys | mended: somehow |\n", "t1_long_keys").len(), 2);
        assert_eq!(found("| T1 | long keys | done `t1_long_keys` |\n", "t1_long_keys").len(), 1);
        let other = "| T1 | long keys | mended: `t11_long_keys` |\n";
        assert_eq!(found(other, "t11_long_keys").len(), 2, "the test of another row");
    }
}
