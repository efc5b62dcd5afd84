//! Modules of one crate form no cycle: what two of them share lies in a third one, below both.
//!
//! A module here is one directly below the crate's root: a file `x.rs` together with its folder
//! `x/`. It uses another one by a path that begins with `crate::` or, from its own depth, with
//! `super::`; a name that the root exports counts as the module it comes from. Tests are not
//! judged.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::ratchet::{Measured, Ratchet};
use super::test_code::TestCode;
use crate::repository::Repository;
use crate::source::Source;

const CYCLES: Ratchet = Ratchet {
    list: "xtask/ratchet/cycles.txt",
    limit: 0,
    unit: "modules in one cycle",
    list_lines_max: 1,
    remedy: "move what they share into a module below",
};

/// Edges that a finding names: those that the fewest files make.
const WEAKEST_MAX: usize = 5;

/// (from, to) -> `file:line` of each path, all modules directly below one root.
type Edges = BTreeMap<(String, String), BTreeSet<String>>;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let tests = TestCode::of(repository);
    let measured = repository.crates().map(|(folder, _)| {
        let edges = edges(repository, folder, &tests);
        let component = largest_component(&edges);
        Measured {
            name: folder.to_owned(),
            path: format!("{folder}/src"),
            line: 1,
            count: component.len(),
            detail: detail(&edges, &component),
        }
    });
    CYCLES.check(repository, measured.collect())
}

/// The modules of the cycle, and where its weakest edges are.
fn detail(edges: &Edges, component: &BTreeSet<String>) -> String {
    let is_inside =
        |((from, to), _): &(&(String, String), _)| component.contains(from) && component.contains(to);
    let mut inside: Vec<_> = edges.iter().filter(is_inside).collect();
    inside.sort_by_key(|(_, places)| places.len());
    let weakest = inside.iter().take(WEAKEST_MAX).map(|((from, to), places)| {
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        format!("{from} -> {to} ({})", places.join(", "))
    });
    let modules: Vec<&str> = component.iter().map(String::as_str).collect();
    let weakest: Vec<String> = weakest.collect();
    format!("; it has {}; its weakest edges are {}", modules.join(", "), weakest.join(", "))
}

fn edges(repository: &Repository, folder: &str, tests: &TestCode) -> Edges {
    let prefix = format!("{folder}/src/");
    let files: Vec<(&str, Source<'_>)> = repository
        .sources()
        .filter_map(|(path, source)| Some((path.strip_prefix(&prefix)?, source)))
        .filter(|(path, _)| !tests.holds(&format!("{prefix}{path}")))
        .collect();
    let is_root = |path: &str| matches!(path, "lib.rs" | "main.rs") || path.starts_with("bin/");
    let modules: BTreeSet<&str> =
        files.iter().filter(|(path, _)| !is_root(path)).map(|(path, _)| module_of(path)).collect();
    let roots = files.iter().filter(|(path, _)| is_root(path));
    let exports: BTreeMap<String, &str> = roots.flat_map(|(_, source)| exports(source, &modules)).collect();
    let mut edges = Edges::new();
    for (path, source) in files.iter().filter(|(path, _)| !is_root(path)) {
        let own = module_of(path);
        for (at, name) in names_below_root(source, depth_of(path)) {
            let target = modules.get(name.as_str()).or_else(|| exports.get(&name)).copied();
            if let Some(target) = target.filter(|target| *target != own) {
                let place = format!("{path}:{}", source.line_of(at));
                edges.entry((own.to_owned(), target.to_owned())).or_default().insert(place);
            }
        }
    }
    edges
}

/// The module directly below the root that a file belongs to.
fn module_of(path: &str) -> &str {
    path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

/// How many `super::` lead from a file to the root.
fn depth_of(path: &str) -> usize {
    path.trim_end_matches("/mod.rs").split('/').count()
}

/// Names that a root takes out of its modules, each with its module.
fn exports<'m>(source: &Source<'_>, modules: &BTreeSet<&'m str>) -> Vec<(String, &'m str)> {
    let mut exports = Vec::new();
    for at in source.words("use") {
        let path = source.code(at + 3..source.item_end(at));
        let path = path.trim_start().trim_start_matches("crate::").trim_start_matches("self::");
        let Some((first, rest)) = path.split_once("::") else { continue };
        let Some(module) = modules.get(first) else { continue };
        let is_name = |c: char| c == '_' || c.is_alphanumeric();
        // The last word of each part: what `a::B` or `B as C` is called here.
        let names = rest
            .split([',', '{', '}', ';'])
            .filter_map(|part| part.trim().rsplit(|c| !is_name(c)).next().filter(|name| !name.is_empty()));
        exports.extend(names.map(|name| (name.to_owned(), *module)));
    }
    exports
}

/// Names directly below the root in paths that begin there, with where the paths are.
fn names_below_root(source: &Source<'_>, depth: usize) -> Vec<(usize, String)> {
    let tests = source.test_ranges();
    let is_test = |at: usize| tests.iter().any(|range| range.contains(&at));
    let ups = format!("super{}", "::super".repeat(depth - 1));
    let begins = |at: usize| !source.code(0..at).trim_end().ends_with("::");
    let of_root = source.words("crate").into_iter().map(|at| (at, at + "crate".len()));
    let of_parents = source
        .words("super")
        .into_iter()
        .filter(|&at| begins(at) && source.code(at..at + ups.len()) == ups)
        .map(|at| (at, at + ups.len()));
    let mut names = Vec::new();
    for (at, end) in of_root.chain(of_parents).filter(|(at, _)| !is_test(*at)) {
        names.extend(first_names(source, end).into_iter().map(|name| (at, name)));
    }
    names
}

/// The names that follow `::` at `at`: one, or the first of each path in braces.
fn first_names(source: &Source<'_>, at: usize) -> Vec<String> {
    let end = source.text().len();
    let Some(open) = source.code(at..end).starts_with("::").then_some(at + 2) else { return Vec::new() };
    if source.code(open..open + 1) != "{" {
        return vec![source.word_after(open)];
    }
    let (mut names, mut depth, mut is_first) = (Vec::new(), 0usize, false);
    let group = open..source.closing(open);
    for (offset, byte) in source.code(group).bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' | b' ' | b'\n' => {}
            _ if is_first && depth == 1 => names.push(source.word_after(open + offset)),
            _ => {}
        }
        is_first = match byte {
            b',' => true,
            b'{' => depth == 1,
            b' ' | b'\n' => is_first,
            _ => false,
        };
    }
    names
}

/// The most modules of which each leads to each other; empty if there is no cycle.
fn largest_component(edges: &Edges) -> BTreeSet<String> {
    let reached_from = |start: &str| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![start.to_owned()]);
        while let Some(from) = open.pop() {
            let next = edges.keys().filter(|(a, _)| *a == from).map(|(_, to)| to.clone());
            open.extend(next.filter(|to| reached.insert(to.clone())));
        }
        reached
    };
    let modules: BTreeSet<&String> = edges.keys().map(|(from, _)| from).collect();
    let reached: BTreeMap<&String, BTreeSet<String>> =
        modules.iter().map(|module| (*module, reached_from(module))).collect();
    let component = |module: &String| -> BTreeSet<String> {
        let others = reached.get(module).into_iter().flatten();
        others.filter(|other| reached.get(other).is_some_and(|its| its.contains(module))).cloned().collect()
    };
    modules.into_iter().map(component).max_by_key(BTreeSet::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "");

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(&str, &str)> = files.iter().copied().chain([MANIFEST]).collect();
        check(&Repository::planted(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cycle_is_found_with_the_files_that_make_its_edges() {
        let cycle = [
            ("crates/a/src/one.rs", "use crate::{\n    outside,\n    two::{self, Deep},\n};\n"),
            ("crates/a/src/two/inner.rs", "fn f() -> super::super::three::Three {}\n"),
            ("crates/a/src/three/mod.rs", "mod x;\nuse super::one;\n"),
            ("crates/a/src/outside.rs", "use crate::one::One;\n"),
        ];
        let message = "crates/a has 3 modules in one cycle, the limit is 0";
        let mut last = cycle;
        last[3].1 = "";
        let found_now = found(&last);
        assert_eq!(found_now.len(), 1);
        assert!(found_now[0].starts_with(&format!("crates/a/src:1: {message}")), "{found_now:?}");
        for part in ["it has one, three, two;", "one -> two (one.rs:1)", "two -> three (two/inner.rs:1)"] {
            assert!(found_now[0].contains(part), "{part}: {found_now:?}");
        }
        assert!(found(&cycle)[0].contains("has 4 modules in one cycle"), "by the first name in braces");
    }

    #[test]
    fn tests_comments_literals_and_ones_own_names_make_no_cycle() {
        let files = [
            ("crates/a/src/lib.rs", "mod one;\nmod two;\n#[cfg(test)]\nmod model;\nuse two::Two;\n"),
            ("crates/a/src/one.rs", "use crate::two;\n"),
            (
                "crates/a/src/two.rs",
                "// crate::one\nconst A: &str = \"crate::one\";\nuse crate::two::B;\n\
                 #[cfg(test)]\nmod tests {\n    use crate::one;\n}\nuse super::three as one;\n",
            ),
            ("crates/a/src/two/deep.rs", "use super::one;\nuse crate::three::one;\n"),
            ("crates/a/src/model/x.rs", "use crate::one;\n"),
            ("crates/a/src/two/tests.rs", "use crate::one;\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn what_the_root_exports_counts_as_its_module() {
        let files = [
            ("crates/a/src/lib.rs", "pub use one::{deep::Thing as Other, One};\npub use self::two::Two;\n"),
            ("crates/a/src/one.rs", "use crate::Two;\n"),
            ("crates/a/src/two.rs", "fn f(other: crate::Other) {}\n"),
        ];
        assert!(found(&files)[0].contains("has 2 modules in one cycle"));
        assert_eq!(found(&[files[0], files[1], ("crates/a/src/two.rs", "use crate::Thing;\n")]), [""; 0]);
    }

    #[test]
    fn the_list_must_say_what_is_there() {
        let files = |list: &'static str| {
            [
                ("crates/a/src/one.rs", "use crate::two;\n"),
                ("crates/a/src/two.rs", "use crate::one;\n"),
                (CYCLES.list, list),
            ]
        };
        let lists = |list: &'static str, part: &str| found(&files(list)).iter().any(|it| it.contains(part));
        assert!(lists("crates/a 3 why\n", "shrank to 2 modules in one cycle: write 2 instead of 3"));
        assert!(!lists("crates/a 2 why\n", "modules in one cycle"));
    }
}
