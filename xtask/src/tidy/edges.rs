//! Which crate may depend on which.

use super::Finding;
use crate::repository::Repository;

/// (crate, the crates of this workspace it may depend on). `"*"` = any but the test crates.
///
/// A new edge needs a line here and in ARCHITECTURE.md.
const ALLOWED: &[(&str, &[&str])] = &[
    ("firn-format", &[]),
    ("firn-arena", &[]),
    ("firn-storage", &["firn-format", "firn-arena"]),
    ("firn-objects", &["firn-storage"]),
    ("firn-engine", &["firn-format"]),
    ("firn-protocol", &[]),
    ("firn-lua", &[]),
    ("firn-jobs", &["firn-format", "firn-storage", "firn-engine"]),
    ("firn-job-service", &["firn-engine", "firn-jobs", "firn-format", "firn-storage"]),
    ("firn-maintenance", &["firn-engine", "firn-format", "firn-storage", "firn-jobs"]),
    (
        "firn-tree",
        &["firn-engine", "firn-format", "firn-storage", "firn-arena", "firn-jobs", "firn-maintenance"],
    ),
    ("firn-hashlog", &["firn-engine", "firn-format", "firn-storage", "firn-arena", "firn-maintenance"]),
    ("firn", &["firn-engine", "firn-tree", "firn-hashlog", "firn-jobs", "firn-format", "firn-storage"]),
    ("firn-server", &["firn", "firn-engine", "firn-format", "firn-lua", "firn-protocol"]),
    ("firn-bench", &["firn", "firn-engine", "firn-protocol"]),
    ("firn-cli", &["*"]),
    ("firn-sim", &["*"]),
    ("firn-s3-server", &[]),
    ("xtask", &[]),
];

/// Edges of tests alone to a crate that nothing else may depend on.
const TESTED_WITH: &[(&str, &str)] =
    &[("firn-cli", "firn-sim"), ("firn-cli", "firn-s3-server"), ("firn-objects", "firn-s3-server")];

/// Crates nothing may depend on.
const LEAVES: &[&str] = &["firn-sim", "firn-s3-server", "firn-cli", "xtask"];

/// Crates that engine crates must not pull in: no async runtime, no C but Zstd.
const BANNED_BELOW_FACADE: &[&str] =
    &["tokio", "object_store", "reqwest", "async-std", "smol", "lz4-sys", "openssl-sys", "aws-lc-sys"];

/// Crates with an async runtime, which exist to keep it from the others.
const ASYNC: &[&str] = &["firn-objects", "firn-job-service", "firn-s3-server"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, text) in repository.crates() {
        let path = format!("{folder}/Cargo.toml");
        let Ok(manifest) = text.parse::<toml::Table>() else {
            findings.push(Finding::new(&path, 1, "not valid TOML"));
            continue;
        };
        check_crate(&path, folder, text, &manifest, &mut findings);
    }
    findings
}

fn check_crate(path: &str, folder: &str, text: &str, manifest: &toml::Table, findings: &mut Vec<Finding>) {
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    let name = name.unwrap_or_default();
    let expected = match folder.strip_prefix("crates/") {
        Some("firn") => "firn".to_owned(),
        Some(folder) => format!("firn-{folder}"),
        None => folder.to_owned(),
    };
    if name != expected {
        findings.push(Finding::new(
            path,
            1,
            format!("package `{name}` lies in {folder}: call it `{expected}`"),
        ));
    }
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
        let message =
            format!("crate `{name}` has no line in xtask/src/tidy/edges.rs: add its allowed edges there");
        findings.push(Finding::new(path, 1, message));
        return;
    };
    for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
        for to in
            manifest.get(section).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys)
        {
            if let Some(message) = objection(name, allowed, section, to) {
                findings.push(Finding::new(path, line_of_dependency(text, to), message));
            }
        }
    }
}

/// Why `from` may not depend on `to`, if it may not.
fn objection(from: &str, allowed: &[&str], section: &str, to: &str) -> Option<String> {
    let is_ours = to == "firn" || to == "xtask" || to.starts_with("firn-");
    let is_dev = section == "dev-dependencies";
    if !is_ours {
        let is_banned = BANNED_BELOW_FACADE.contains(&to) && !is_dev && !ASYNC.contains(&from);
        return is_banned
            .then(|| format!("`{to}` is banned: no async runtime and no C but Zstd in engine crates"));
    }
    if is_dev && TESTED_WITH.contains(&(from, to)) {
        return None;
    }
    if LEAVES.contains(&to) {
        return Some(format!("nothing may depend on `{to}`: move what you need into a crate below it"));
    }
    let is_allowed = is_dev || allowed.contains(&"*") || allowed.contains(&to);
    (!is_allowed).then(|| {
        let list = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        format!(
            "edge `{from}` -> `{to}` is not allowed (allowed: {list}): move the idea, or add the edge to \
             xtask/src/tidy/edges.rs and ARCHITECTURE.md"
        )
    })
}

fn line_of_dependency(text: &str, name: &str) -> usize {
    let is_its_line = |line: &str| {
        let rest = line.trim_start().strip_prefix(name).unwrap_or_default();
        rest.starts_with(['.', ' ', '='])
    };
    text.lines().position(is_its_line).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &str, manifest: &str) -> Vec<String> {
        let path = format!("{folder}/Cargo.toml");
        let findings = check(&Repository::planted(&[(&path, manifest)]));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_forbidden_edge_is_found() {
        let manifest = "[package]\nname = \"firn-engine\"\n[dependencies]\nfirn-tree.workspace = true\n";
        let found = found("crates/engine", manifest);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/engine/Cargo.toml:4: edge `firn-engine` -> `firn-tree`"),
            "{found:?}"
        );
    }

    #[test]
    fn allowed_edges_and_edges_of_tests_pass() {
        let manifest = "[package]\nname = \"firn-jobs\"\n[dependencies]\nfirn-engine.workspace = true\n\
                        [dev-dependencies]\nfirn-tree.workspace = true\n";
        assert_eq!(found("crates/jobs", manifest), [""; 0]);
    }

    #[test]
    fn nothing_may_depend_on_the_test_crates() {
        let manifest = "[package]\nname = \"firn-tree\"\n[dev-dependencies]\nfirn-sim.workspace = true\n";
        assert_eq!(found("crates/tree", manifest).len(), 1);
    }

    #[test]
    fn unknown_crates_and_wrong_names_are_found() {
        let found = found("crates/tree", "[package]\nname = \"firn-bush\"\n");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn an_async_runtime_is_found() {
        let manifest = "[package]\nname = \"firn-tree\"\n[dependencies]\ntokio = \"1\"\n";
        assert!(found("crates/tree", manifest)[0].contains("Cargo.toml:4: `tokio` is banned"));
    }
}
