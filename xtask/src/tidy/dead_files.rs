//! Rust files that no module line reaches.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::Repository;
use crate::source::{ModuleLine, Source};

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let manifests = repository.texts().filter(|(path, _)| path.ends_with("Cargo.toml"));
    for (manifest_path, manifest) in manifests {
        let folder = manifest_path.trim_end_matches("Cargo.toml");
        for root in roots(repository, folder, manifest) {
            reach(repository, &root, true, &mut reached);
        }
    }
    let dead = repository.texts().map(|(path, _)| path).filter(|path| path.ends_with(".rs"));
    dead.filter(|path| !reached.contains(*path))
        .map(|path| Finding::new(path, 1, "no `mod` line reaches this file: declare it or remove it"))
        .collect()
}

/// Files that cargo compiles by itself: those it finds by place and those the manifest names.
fn roots(repository: &Repository, folder: &str, manifest: &str) -> Vec<String> {
    let mut roots: Vec<String> = Vec::new();
    for (path, _) in repository.texts() {
        let Some(rest) = path.strip_prefix(folder) else { continue };
        let parts: Vec<&str> = rest.split('/').collect();
        let is_root = match parts.as_slice() {
            ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
            ["src", "bin", file] | ["tests" | "benches" | "examples", file] => file.ends_with(".rs"),
            ["src", "bin", _, "main.rs"] | ["tests" | "benches" | "examples", _, "main.rs"] => true,
            _ => false,
        };
        if is_root {
            roots.push(path.to_owned());
        }
    }
    let named = manifest.lines().filter_map(|line| line.trim().strip_prefix("path = \"")?.strip_suffix('"'));
    roots.extend(named.filter(|path| path.ends_with(".rs")).map(|path| format!("{folder}{path}")));
    roots
}

fn reach(repository: &Repository, path: &str, is_root: bool, reached: &mut BTreeSet<String>) {
    let Some(text) = repository.text(path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let source = Source::new(text);
    for line in source.module_lines() {
        for candidate in places(path, is_root, &line) {
            reach(repository, &candidate, false, reached);
        }
    }
    for included in included_files(&source) {
        reach(repository, &normal(&format!("{}{included}", folder_of(path))), false, reached);
    }
}

/// Where the file of a module line may lie.
pub(super) fn places(path: &str, is_root: bool, line: &ModuleLine) -> Vec<String> {
    let folder = folder_of(path);
    if let Some(named) = &line.path {
        return vec![normal(&format!("{folder}{named}"))];
    }
    let stem = path.strip_prefix(folder).unwrap_or(path).trim_end_matches(".rs");
    let own = if is_root || stem == "mod" { String::new() } else { format!("{stem}/") };
    let inside: String = line.inside.iter().map(|name| format!("{name}/")).collect();
    let base = format!("{folder}{own}{inside}{}", line.name);
    vec![format!("{base}.rs"), format!("{base}/mod.rs")]
}

/// The path without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn folder_of(path: &str) -> &str {
    path.get(..path.rfind('/').map_or(0, |slash| slash + 1)).unwrap_or_default()
}

/// File names in `include!("…")`.
fn included_files(source: &Source<'_>) -> Vec<String> {
    let calls = source.words("include").into_iter();
    let name = |at: usize| {
        let rest = source.text().get(at..)?.strip_prefix("include!(\"")?;
        rest.split('"').next().map(str::to_owned)
    };
    calls.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_module_line_is_found() {
        let files = [
            ("crates/a/Cargo.toml", "[[bin]]\npath = \"elsewhere/prog.rs\"\n"),
            ("crates/a/elsewhere/prog.rs", ""),
            (
                "crates/a/src/lib.rs",
                "mod alive;\nmod folder;\n// mod dead;\n#[path = \"../odd.rs\"]\nmod even;\n",
            ),
            ("crates/a/src/alive.rs", "mod child;\nmod inline { mod deep; }\ninclude!(\"included.rs\");\n"),
            ("crates/a/src/alive/child.rs", ""),
            ("crates/a/src/alive/inline/deep.rs", ""),
            ("crates/a/src/included.rs", ""),
            ("crates/a/odd.rs", ""),
            ("crates/a/src/folder/mod.rs", "mod leaf;"),
            ("crates/a/src/folder/leaf.rs", ""),
            ("crates/a/src/dead.rs", "mod also_dead;"),
            ("crates/a/src/dead/also_dead.rs", ""),
            ("crates/a/tests/it/main.rs", "mod case;"),
            ("crates/a/tests/it/case.rs", ""),
            ("crates/a/examples/shown.rs", ""),
        ];
        let findings = check(&Repository::planted(&files));
        let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/dead.rs", "crates/a/src/dead/also_dead.rs"]);
    }
}
