//! `unsafe` stays in the crates and modules named for it.

use super::Finding;
use super::test_code::is_test_file;
use crate::repository::Repository;

/// Where `unsafe` may stand: (crate folder, part of the path its file must contain).
///
/// These crates have a `[lints]` table of their own, because `forbid` cannot be relaxed; no other
/// crate may.
const QUARANTINE: &[(&str, &[&str])] = &[
    ("crates/lua", &["/steered"]),
    ("crates/arena", &["/src/"]),
    ("crates/storage", &["/direct", "/mapped"]),
    ("crates/server", &["/net/ring/"]),
    ("crates/tree", &["/memtable", "/buffer/run"]),
];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, manifest) in repository.crates() {
        let path = format!("{folder}/Cargo.toml");
        let inherits = manifest.contains("[lints]\nworkspace = true");
        let line = manifest.lines().position(|line| line.starts_with("[lints")).map_or(1, |index| index + 1);
        match QUARANTINE.iter().find(|(name, _)| *name == folder) {
            None if !inherits => {
                let message = "write `[lints]` with `workspace = true`: only the crates named in \
                               xtask/src/tidy/quarantine.rs have lints of their own";
                findings.push(Finding::new(&path, line, message));
            }
            Some((_, homes)) if !inherits => findings.extend(check_quarantined(repository, folder, homes)),
            _ => {}
        }
    }
    findings
}

fn check_quarantined(repository: &Repository, folder: &str, homes: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let library = format!("{folder}/src/lib.rs");
    if !repository.text(&library).unwrap_or_default().contains("# Safety model") {
        let message = "the crate allows `unsafe`: its doc needs a section `# Safety model`";
        findings.push(Finding::new(&library, 1, message));
    }
    let prefix = format!("{folder}/");
    let elsewhere = repository.sources().filter(|(path, _)| path.starts_with(&prefix) && !is_test_file(path));
    for (path, source) in elsewhere.filter(|(path, _)| !homes.iter().any(|home| path.contains(home))) {
        for at in source.words("unsafe") {
            let message =
                format!("`unsafe` in {folder} belongs into files with {} in their path", homes.join(" or "));
            findings.push(Finding::new(path, source.line_of(at), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "[lints.rust]\nunsafe_code = \"deny\"\n";
    const INHERITED: &str = "[package]\n\n[lints]\nworkspace = true\n";

    #[test]
    fn lints_of_its_own_are_found_outside_the_quarantine() {
        let files = [
            ("crates/jobs/Cargo.toml", OWN),
            ("crates/engine/Cargo.toml", INHERITED),
            ("xtask/Cargo.toml", ""),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/jobs/Cargo.toml:1: "));
        assert!(found[1].starts_with("xtask/Cargo.toml:1: "));
    }

    #[test]
    fn unsafe_outside_its_module_is_found() {
        let files = [
            ("crates/tree/Cargo.toml", OWN),
            ("crates/tree/src/lib.rs", "//! # Safety model\n"),
            ("crates/tree/src/memtable/slots.rs", "unsafe fn a() {}"),
            ("crates/tree/src/read/get.rs", "// unsafe in words\nunsafe fn b() {}"),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/tree/src/read/get.rs:2: "));
        assert_eq!(check(&Repository::planted(&[("crates/arena/Cargo.toml", OWN)])).len(), 1);
    }
}
