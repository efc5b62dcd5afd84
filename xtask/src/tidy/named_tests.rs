//! Tests that documents name and the repository does not have.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let tests = tests(repository);
    let mut findings = Vec::new();
    let documents = repository.texts().filter(|(path, _)| path.ends_with(".md"));
    for (document, text) in documents {
        for (index, line) in text.lines().enumerate() {
            for name in line.split('`').skip(1).step_by(2).filter(|name| is_test(name)) {
                if !tests.contains(name) {
                    let message = format!("no test `{name}`: name it as `module::test`, as it is now");
                    findings.push(Finding::new(document, index + 1, message));
                }
            }
        }
    }
    findings
}

/// `module::test` of everything under `#[test]`, where the module is called as its file or, of a
/// file `tests.rs`, as its folder.
fn tests(repository: &Repository) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    let sources = repository.texts().filter(|(path, _)| path.ends_with(".rs"));
    for (path, text) in sources {
        let mut parts = path.trim_end_matches(".rs").rsplit('/').skip_while(|part| *part == "tests");
        let module = parts.next().unwrap_or_default();
        // An attribute is of the next function.
        let mut is_marked = false;
        for line in text.lines().map(str::trim) {
            is_marked |= line == "#[test]";
            let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            let Some(rest) = rest.filter(|_| is_marked) else { continue };
            is_marked = false;
            tests.extend(rest.split_once("()").map(|(name, _)| format!("{module}::{name}")));
        }
    }
    tests
}

/// Whether `name` can only be meant as a test: those are called like sentences.
fn is_test(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let parts: Vec<&str> = name.split("::").collect();
    match parts.as_slice() {
        [module, test] => {
            module.chars().all(is_plain) && test.chars().all(is_plain) && test.matches('_').count() >= 3
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test, and a function that tests call.
    const TWO_MACHINES: &str = "#[test]\n/// Slow.\n#[ignore = \"minutes\"]\nfn of_two_one_does_it() {\n}\n\
                                fn what_two_machines_share() {\n}\n";

    #[test]
    fn ghosts_are_found() {
        let text = "| S1 | `two_machines::of_two_one_does_it`, `pool::whoever_comes_last_has_it` |\n\
                    | S2 | `two_machines::of_three_none_does_it`, `gone::of_two_one_does_it`, `std::mem`, `a::b_c` |\n\
                    | S3 | `two_machines::what_two_machines_share` |\n";
        let files = [
            ("docs/internals/job-guarantees.md", text),
            ("crates/a/tests/it/two_machines.rs", TWO_MACHINES),
            ("crates/a/src/pool/tests.rs", "    #[test]\n    async fn whoever_comes_last_has_it() {\n"),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        let at = |line: &str| found.iter().filter(|it| it.starts_with(line)).count();
        assert_eq!(
            (at("docs/internals/job-guarantees.md:2: "), at("docs/internals/job-guarantees.md:3: ")),
            (2, 1),
            "{found:?}"
        );
    }
}
