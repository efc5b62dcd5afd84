//! Paths that documents name and the repository does not have.

use super::Finding;
use crate::repository::Repository;

/// Documents of a day, whose paths are of that day.
const OF_A_DAY: &[&str] = &["results/", "docs/soak/", "CHANGELOG.md"];

/// Folders that programs make.
const MADE: &[&str] = &["target/", "peers/native/"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_document = |path: &str| path.ends_with(".md") && !OF_A_DAY.iter().any(|day| path.starts_with(day));
    for (document, text) in repository.texts().filter(|(path, _)| is_document(path)) {
        for (index, line) in text.lines().enumerate() {
            for name in named_in(line).filter(|name| is_path(repository, document, name)) {
                for path in
                    expand_braces(name).into_iter().filter(|path| !is_found(repository, document, path))
                {
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
/// is called like a source in a folder; or like a document, in a document of the root.
fn is_path(repository: &Repository, document: &str, name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-{},".contains(c);
    if !name.chars().all(is_plain) || name.starts_with('/') || MADE.iter().any(|made| name.starts_with(made))
    {
        return false;
    }
    let first = name.split('/').next().unwrap_or_default();
    let is_of_root = !document.contains('/') && !name.contains('/');
    let is_document = is_of_root && (name.ends_with(".md") || name.ends_with(".toml"));
    let is_below =
        name.contains('/') && (repository.exists(first) || repository.exists(&format!("crates/{first}")));
    is_below || is_document || is_source(name)
}

fn is_source(name: &str) -> bool {
    name.contains('/') && name.ends_with(".rs")
}

/// Whether the path exists from the document's folder, from the root, from `crates/`, or from the
/// `src/` of the crate it begins with. A source may also be named by the end of its path, as
/// `read/get.rs`.
fn is_found(repository: &Repository, document: &str, path: &str) -> bool {
    let beside = beside(document, path);
    let path = path.trim_start_matches("./");
    let mut places = vec![beside, path.to_owned(), format!("crates/{path}")];
    if let Some((krate, rest)) = path.split_once('/') {
        let inside = format!("crates/{krate}/src/{}", rest.trim_end_matches('/'));
        places.extend([format!("{inside}.rs"), inside]);
    }
    let is_end_of =
        |file: &str| file.ends_with(&format!("/{path}")) || file.replace("/src/", "/").ends_with(path);
    places.iter().any(|place| repository.exists(place))
        || is_source(path) && repository.sizes().any(|(file, _)| is_end_of(file))
}

/// `path` as a link in `document` has it, from the root.
fn beside(document: &str, path: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
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
        let page = "`read/get.rs`, `tree/read/get.rs`, [here](b.md), [up](../FORMAT.md), `firn.toml`, `get.rs`\n\
                    `write/get.rs`, [gone](../crates/gone.rs)\n";
        let files = [
            ("ARCHITECTURE.md", text),
            ("FORMAT.md", ""),
            ("docs/a.md", page),
            ("docs/b.md", ""),
            ("results/day/README.md", "`write/get.rs`"),
            ("crates/tree/src/log.rs", ""),
            ("crates/tree/src/read/get.rs", ""),
            ("crates/tree/src/read/scan.rs", ""),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        let of = |line: &str| found.iter().filter(|found| found.starts_with(line)).count();
        assert_eq!((of("ARCHITECTURE.md:2: "), of("docs/a.md:2: "), found.len()), (4, 2, 6), "{found:?}");
    }
}
