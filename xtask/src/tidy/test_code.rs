//! Which files hold nothing but tests and benchmarks.

use std::collections::BTreeSet;

use super::dead_files::places;
use crate::repository::Repository;
use crate::source::Source;

/// Files of tests, by their places and by the module lines that declare them.
pub(super) struct TestCode {
    /// Files of `#[cfg(test)] mod name;`.
    modules: BTreeSet<String>,
}

impl TestCode {
    pub(super) fn of(repository: &Repository) -> Self {
        let is_root = |path: &str| ["/lib.rs", "/main.rs"].iter().any(|name| path.ends_with(name));
        let declared = |(path, source): (&str, Source<'_>)| {
            let lines = source.module_lines().into_iter().filter(|line| line.is_test);
            lines.flat_map(|line| places(path, is_root(path), &line)).collect::<Vec<String>>()
        };
        Self { modules: repository.sources().flat_map(declared).collect() }
    }

    /// Whether all of the file is test or benchmark code: a module of tests, or one below it.
    pub(super) fn holds(&self, path: &str) -> bool {
        let is_below = |folder: &str| {
            self.modules.contains(&format!("{folder}.rs"))
                || self.modules.contains(&format!("{folder}/mod.rs"))
        };
        let mut folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        is_test_file(path) || self.modules.contains(path) || folders.any(is_below)
    }
}

/// Whether the file's place alone says so.
pub(super) fn is_test_file(path: &str) -> bool {
    let is_test_folder = |part: &str| matches!(part, "tests" | "benches" | "fuzz");
    path.ends_with("/tests.rs") || path.split('/').any(is_test_folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_tests_and_what_lies_below_them_are_tests() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod model;\n"),
            ("crates/a/src/model.rs", "mod deep;\n"),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;\n"),
        ];
        let tests = TestCode::of(&Repository::planted(&files));
        for path in ["src/model.rs", "src/model/deep.rs", "src/b/tests.rs", "tests/it/main.rs"] {
            assert!(tests.holds(&format!("crates/a/{path}")), "{path}");
        }
        for path in ["src/lib.rs", "src/b.rs", "src/b/model.rs", "src/models.rs"] {
            assert!(!tests.holds(&format!("crates/a/{path}")), "{path}");
        }
    }
}
