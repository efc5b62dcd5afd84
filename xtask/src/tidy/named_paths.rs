//! Paths that documents name and the repository does not have.

use super::Finding;
use crate::repository::Repository;

/// Documents whose paths must exist.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "FORMAT.md", "README.md", "CONTRIBUTING.md"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for document in DOCUMENTS {
        for (index, line) in repository.text(document).unwrap_or_default().lines().enumerate() {
            for name in named_in(line).filter(|name| is_path(repository, name)) {
                for path in expand_braces(name).into_iter().filter(|path| !is_found(repository, path)) {
                    let message = format!("`{path}` does not exist: name the path as it is now");
                    findings.push(Finding::new(document, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Code spans and targets of links.
fn named_in(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').skip(1).step_by(2);
    let links = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    spans.chain(links.filter(|target| !target.is_empty() && !target.contains("://")))
}

/// Whether `name` can only be meant as a path: it starts at a folder or crate of the repository, or
/// is called like a document.
fn is_path(repository: &Repository, name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-{},".contains(c);
    if !name.chars().all(is_plain) || name.starts_with('/') || name.starts_with("target/") {
        return false;
    }
    let first = name.split('/').next().unwrap_or_default();
    let is_document = !name.contains('/') && (name.ends_with(".md") || name.ends_with(".toml"));
    let is_below =
        name.contains('/') && (repository.exists(first) || repository.exists(&format!("crates/{first}")));
    is_below || is_document
}

/// Whether the path exists from the root, from `crates/`, or from the `src/` of the crate it begins
/// with.
fn is_found(repository: &Repository, path: &str) -> bool {
    let path = path.trim_start_matches("./");
    let mut places = vec![path.to_owned(), format!("crates/{path}")];
    if let Some((krate, rest)) = path.split_once('/') {
        let inside = format!("crates/{krate}/src/{}", rest.trim_end_matches('/'));
        places.extend([format!("{inside}.rs"), inside]);
    }
    places.iter().any(|place| repository.exists(place))
}

/// `a/{b,c}.rs` -> `a/b.rs`, `a/c.rs`.
fn expand_braces(name: &str) -> Vec<String> {
    let parts = name.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    match parts {
        Some((head, (choices, tail))) => {
            choices.split(',').map(|choice| format!("{head}{choice}{tail}")).collect()
        }
        None => vec![name.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghosts_are_found() {
        let text = "See `crates/tree/src/log.rs`, `tree/read/{get,scan}`, [formats](FORMAT.md#x), `a/b`, `u8/u16`.\n\
                    And `crates/ghost`, `tree/read/ghost`, `GHOST.md`, `lib.rs`, [gone](crates/gone.md), [web](https://x.y/z.md).\n";
        let files = [
            ("ARCHITECTURE.md", text),
            ("FORMAT.md", ""),
            ("crates/tree/src/log.rs", ""),
            ("crates/tree/src/read/get.rs", ""),
            ("crates/tree/src/read/scan.rs", ""),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|line| line.starts_with("ARCHITECTURE.md:2: ")));
    }
}
