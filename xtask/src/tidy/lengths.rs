//! How long a file and a function may be.

use super::Finding;
use super::ratchet::{Measured, Ratchet, largest_of_each_name};
use super::test_code::TestCode;
use crate::repository::Repository;
use crate::source::Source;

const FILES: Ratchet = Ratchet {
    list: "xtask/ratchet/files.txt",
    limit: 500,
    unit: "lines",
    list_lines_max: 0,
    remedy: "split it by stage, one idea per file",
};

const FUNCTIONS: Ratchet = Ratchet {
    list: "xtask/ratchet/functions.txt",
    limit: 70,
    unit: "lines",
    list_lines_max: 0,
    remedy: "keep the control flow here and move the leaves into functions of their own",
};

/// Most lines of a `lib.rs`, which is a table of contents.
const LIB_LINES_MAX: usize = 150;

/// Most lines of tests inside a production file.
const INLINE_TEST_LINES_MAX: usize = 80;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut files, mut functions) = (Vec::new(), Vec::new());
    let tests = TestCode::of(repository);
    for (path, source) in repository.sources().filter(|(path, _)| !tests.holds(path)) {
        let count = source.production_code_line_count();
        files.push(Measured {
            name: path.to_owned(),
            path: path.to_owned(),
            line: 1,
            count,
            detail: String::new(),
        });
        functions.extend(source.production_functions().into_iter().map(|function| Measured {
            name: format!("{path}::{}", function.name),
            path: path.to_owned(),
            line: function.line,
            count: function.line_count,
            detail: String::new(),
        }));
        findings.extend(long_library(path, source.production_line_count()));
        findings.extend(long_inline_tests(path, &source));
    }
    findings.extend(FILES.check(repository, files));
    findings.extend(FUNCTIONS.check(repository, largest_of_each_name(functions)));
    findings
}

fn long_library(path: &str, count: usize) -> Option<Finding> {
    let is_too_long = path.ends_with("src/lib.rs") && count > LIB_LINES_MAX;
    is_too_long.then(|| {
        let message = format!(
            "lib.rs has {count} lines, the limit is {LIB_LINES_MAX}: it is a table of contents, move code out"
        );
        Finding::new(path, 1, message)
    })
}

fn long_inline_tests(path: &str, source: &Source<'_>) -> Option<Finding> {
    let count = source.text().lines().count() - source.production_line_count();
    let first = source.test_ranges().first()?.start;
    (count > INLINE_TEST_LINES_MAX).then(|| {
        let stem = path.trim_end_matches(".rs");
        let stem = stem.trim_end_matches("/mod").trim_end_matches("/lib").trim_end_matches("/main");
        let message = format!(
            "{count} lines of tests, the limit is {INLINE_TEST_LINES_MAX}: move them to {stem}/tests.rs"
        );
        Finding::new(path, source.line_of(first), message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Repository::planted(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_are_not_counted() {
        let found = |text: &str| found("crates/tree/src/long.rs", text);
        assert_eq!(found(&"const A: u8 = 1;\n".repeat(500)), [""; 0]);
        assert!(found(&"const A: u8 = 1;\n".repeat(501))[0].contains("has 501 lines, the limit is 500"));
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "const B: u8 = 1;\n".repeat(70));
        assert_eq!(found(&format!("{}{tests}", "const A: u8 = 1;\n".repeat(500))), [""; 0]);
        assert_eq!(found(&"/// Of A.\nconst A: u8 = 1;\n".repeat(500)), [""; 0]);
    }

    #[test]
    fn a_long_function_is_found() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        assert_eq!(found("crates/tree/src/a.rs", &function(70)), [""; 0]);
        let over = found("crates/tree/src/a.rs", &function(71));
        assert!(
            over[0].starts_with("crates/tree/src/a.rs:1: crates/tree/src/a.rs::f has 71 lines"),
            "{over:?}"
        );
        assert_eq!(found("crates/tree/tests/it/a.rs", &function(71)), [""; 0]);
    }

    #[test]
    fn modules_of_tests_are_not_measured() {
        let long = "const A: u8 = 1;\n".repeat(501);
        let files =
            [("crates/tree/src/a.rs", "#[cfg(test)]\nmod model;\n"), ("crates/tree/src/a/model.rs", &long)];
        assert_eq!(check(&Repository::planted(&files)), []);
    }

    #[test]
    fn a_long_library_file_and_long_inline_tests_are_found() {
        assert_eq!(found("crates/tree/src/lib.rs", &"mod a;\n".repeat(151)).len(), 1);
        let tests =
            format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "const B: u8 = 1;\n".repeat(90));
        assert!(found("crates/tree/src/a/mod.rs", &tests)[0].contains(":2: 93 lines of tests"));
    }
}
