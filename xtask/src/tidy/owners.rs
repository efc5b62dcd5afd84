//! A type with behaviour owns few fields, and what is implemented for a type lies in few files.
//!
//! A type has behaviour if a method of it takes `&self` or `&mut self`. Settings, statistics and
//! formats are plain data and may be as wide as what they describe.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::ratchet::{Measured, Ratchet, largest_of_each_name};
use super::test_code::TestCode;
use crate::repository::Repository;
use crate::source::{Source, Type};

const FIELDS: Ratchet = Ratchet {
    list: "xtask/ratchet/fields.txt",
    limit: 15,
    unit: "fields",
    list_lines_max: 2,
    remedy: "gather those that are used together in an owner; plain data is listed in xtask/src/tidy/owners.rs",
};

const FILES: Ratchet = Ratchet {
    list: "xtask/ratchet/impls.txt",
    limit: 8,
    unit: "files with impl blocks",
    list_lines_max: 2,
    remedy: "let the operation be a type or a function of its own that takes what it needs",
};

/// Types that are data and no more: (type, what it describes). Their methods only read the fields.
const PLAIN: &[(&str, &str)] = &[
    ("crates/bench::PhaseResult", "what a phase of a benchmark came to, as reports have it"),
    ("crates/bench::RespResult", "what a run against a server came to, as reports have it"),
    ("crates/engine::Stats", "statistics of an engine"),
    ("crates/engine::BlobStats", "statistics of separated values"),
    ("crates/engine::HashStats", "statistics of the hashed engine"),
    ("crates/format::Properties", "a block of a table, field by field"),
    ("crates/protocol::Command", "a row of the table of commands"),
];

/// A type with the files that have its `impl` blocks.
struct Owner {
    path: String,
    declared: Type,
    files: BTreeSet<String>,
    has_method: bool,
}

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let tests = TestCode::of(repository);
    let (mut fields, mut files) = (Vec::new(), Vec::new());
    for (folder, _) in repository.crates() {
        for owner in owners(repository, folder, &tests) {
            let measured = |count, detail| Measured {
                name: format!("{folder}::{}", owner.declared.name),
                path: owner.path.clone(),
                line: owner.declared.line,
                count,
                detail,
            };
            if owner.has_method {
                fields.push(measured(owner.declared.field_count, String::new()));
            }
            let named: Vec<&str> = owner.files.iter().map(String::as_str).collect();
            files.push(measured(owner.files.len(), format!("; they are {}", named.join(", "))));
        }
    }
    let mut findings = without_plain(&mut fields);
    findings.extend(FIELDS.check(repository, largest_of_each_name(fields)));
    findings.extend(FILES.check(repository, largest_of_each_name(files)));
    findings
}

/// Takes plain data out of `fields`; what the list names without need is a finding.
fn without_plain(fields: &mut Vec<Measured>) -> Vec<Finding> {
    let is_wide = |name: &str, fields: &[Measured]| {
        fields.iter().any(|thing| thing.name == name && thing.count > FIELDS.limit)
    };
    let needless = PLAIN.iter().filter(|(name, _)| !is_wide(name, fields));
    let message = |name| format!("{name} has at most {} fields: remove its line", FIELDS.limit);
    let findings = needless.map(|(name, _)| Finding::new("xtask/src/tidy/owners.rs", 1, message(name)));
    let findings = findings.collect();
    fields.retain(|thing| !PLAIN.iter().any(|(name, _)| *name == thing.name));
    findings
}

/// Types of one crate. A block in a file that declares no type of its name belongs to the type of
/// that name whose file is nearest.
fn owners(repository: &Repository, folder: &str, tests: &TestCode) -> Vec<Owner> {
    let prefix = format!("{folder}/src/");
    let sources: Vec<(&str, Source<'_>)> =
        repository.sources().filter(|(path, _)| path.starts_with(&prefix) && !tests.holds(path)).collect();
    let mut owners = Vec::new();
    let mut of_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (path, source) in &sources {
        for declared in source.production_types() {
            of_name.entry(declared.name.clone()).or_default().push(owners.len());
            let path = (*path).to_owned();
            owners.push(Owner { path, declared, files: BTreeSet::new(), has_method: false });
        }
    }
    for (path, source) in &sources {
        for block in source.production_impls() {
            let candidates = of_name.get(&block.name).into_iter().flatten();
            let nearness = |at: &&usize| owners.get(**at).map(|owner| nearness(&owner.path, path));
            let nearest = candidates.max_by_key(nearness).copied();
            if let Some(owner) = nearest.and_then(|at| owners.get_mut(at)) {
                owner.files.insert(path.trim_start_matches(&prefix).to_owned());
                owner.has_method |= block.has_method;
            }
        }
    }
    owners
}

/// How near a file with a block is to the one with the type, both as paths of modules: first its
/// own, then by modules around both, of these first the one that is around the other.
fn nearness(declared: &str, block: &str) -> (bool, usize, bool) {
    let modules = |path: &str| -> Vec<String> {
        let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').map(str::to_owned).collect()
    };
    let (declared_in, block_in) = (modules(declared), modules(block));
    let common = declared_in.iter().zip(&block_in).take_while(|(a, b)| a == b).count();
    (declared == block, common, common == declared_in.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(&str, &str)> = files.iter().copied().chain([("crates/a/Cargo.toml", "")]).collect();
        let plain = |line: &String| line.starts_with("xtask/src/tidy/owners.rs");
        let found = check(&Repository::planted(&files));
        found.iter().map(ToString::to_string).filter(|line| !plain(line)).collect()
    }

    fn wide(fields: usize) -> String {
        let fields: Vec<String> = (0..fields).map(|at| format!("f{at}: u8")).collect();
        format!("struct Wide {{ {} }}\n", fields.join(", "))
    }

    #[test]
    fn a_wide_type_with_behaviour_is_found_and_plain_data_is_not() {
        let method = "impl Wide { fn f(&mut self) {} }\n";
        let declared =
            |fields| [("crates/a/src/wide.rs", wide(fields)), ("crates/a/src/b.rs", method.to_owned())];
        let planted = |fields| found(&declared(fields).each_ref().map(|(path, text)| (*path, text.as_str())));
        assert_eq!(planted(15), [""; 0]);
        let over = planted(16);
        assert_eq!(over.len(), 1);
        assert!(over[0].starts_with("crates/a/src/wide.rs:1: crates/a::Wide has 16 fields, the limit is 15"));
        let data = format!(
            "{}impl Wide {{ fn new() -> Self {{}} }}\nimpl Drop for Other {{ fn drop(&mut self) {{}} }}\n",
            wide(16)
        );
        assert_eq!(found(&[("crates/a/src/wide.rs", &data)]), [""; 0]);
    }

    #[test]
    fn a_type_in_many_files_is_found_and_named_alike_ones_are_kept_apart() {
        let paths: Vec<String> = (0..9).map(|at| format!("crates/a/src/db/f{at}.rs")).collect();
        let mut files = vec![("crates/a/src/db.rs", "enum Db {}\n")];
        files.extend(paths.iter().map(|path| (path.as_str(), "impl Trait for super::Db {}\n")));
        let over = found(&files);
        assert_eq!(over.len(), 1);
        let message = "crates/a/src/db.rs:1: crates/a::Db has 9 files with impl blocks, the limit is 8";
        assert!(over[0].starts_with(message), "{over:?}");
        assert!(over[0].ends_with("db/f7.rs, db/f8.rs"), "{over:?}");
        files[9].1 = "struct Db;\nimpl Db {}\n";
        assert_eq!(found(&files), [""; 0]);
    }

    /// Each line of the list stands for a wide type with behaviour that there is.
    #[test]
    fn a_needless_line_of_plain_data_is_found() {
        let without: Vec<Finding> = check(&Repository::planted(&[("crates/a/Cargo.toml", "")]));
        assert_eq!(without.len(), PLAIN.len());
    }
}
