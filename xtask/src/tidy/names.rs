//! Names that say nothing.

use super::Finding;
use crate::repository::Repository;

/// Names of drawers: a file or type called so collects what has no place of its own.
const DRAWERS: &[&str] = &[
    "utils", "util", "common", "helpers", "helper", "misc", "shared", "base", "core", "manager", "handler",
    "types", "traits", "impls", "stuff",
];

/// A type may not be called one of these, or end in one.
const TYPE_SUFFIXES: &[&str] =
    &["Utils", "Util", "Common", "Helpers", "Helper", "Misc", "Manager", "Handler", "Types"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in repository.sources() {
        for part in path.split('/').map(|part| part.trim_end_matches(".rs")) {
            if DRAWERS.contains(&part) {
                let message =
                    format!("`{part}` is a drawer: name the file after the noun or operation inside it");
                findings.push(Finding::new(path, 1, message));
            }
        }
        for keyword in ["struct", "enum", "trait", "type", "union"] {
            for at in source.words(keyword) {
                let name = source.word_after(at + keyword.len());
                if TYPE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
                    let message =
                        format!("`{name}` says where it lies, not what it is: name it after its one idea");
                    findings.push(Finding::new(path, source.line_of(at), message));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawers_are_found() {
        let files = [
            ("crates/tree/src/utils.rs", ""),
            ("crates/tree/src/common/a.rs", ""),
            ("crates/tree/src/log.rs", "/// A struct LogHelper.\nstruct LogManager;\nstruct Log;\n"),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("crates/tree/src/common/a.rs:1: `common`"));
        assert!(found[1].starts_with("crates/tree/src/log.rs:2: `LogManager`"));
        assert!(found[2].starts_with("crates/tree/src/utils.rs:1: `utils`"));
    }
}
