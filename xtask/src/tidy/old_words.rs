//! Words that the glossary replaced do not come back.
//!
//! Names and text are read alike: `is_relief`, `IsRelief` and "is relief" are the same words. A
//! word that is wrong everywhere has no folder; others are wrong where they once meant what the
//! right one means now. Some are plain English in text, and refused in names only.

use std::iter;

use super::Finding;
use crate::repository::Repository;
use crate::source::Source;

/// An old word, the glossary's, and the folders in which the old one is refused; all, if none.
const OLD: &[(&str, &str, &[&str])] = &[
    ("beside the tree", "separated", &[]),
    ("bury", "remove obsolete files", &[]),
    ("checkpoint", "copy", &["crates/tree/"]),
    ("drain", "flush", TREE),
    ("drains", "flushes", TREE),
    ("drained", "flushed", TREE),
    ("expose", "flush for GC", TREE),
    ("foresight", "stall forecast", &[]),
    ("graveyard", "obsolete files", &[]),
    ("outlived", "newly obsolete", TREE),
    ("place", "backend", BACKENDS),
    ("places", "backends", BACKENDS),
    ("pmem", "arena", &[]),
    ("redirect", "relocation", BLOBS),
    ("redirects", "relocations", BLOBS),
    ("relief", "L0 work", &[]),
    ("staged", "combined", COMBINER),
    ("staging", "combining", COMBINER),
    ("stage", "write combiner", COMBINER),
    ("sweep", "orphan GC", TREE),
    ("sweeps", "orphan GCs", TREE),
    ("swept", "removed as orphans", TREE),
    ("value segment", "blob segment", &[]),
    ("value segments", "blob segments", &[]),
];

/// Old words that only names are read for, and the glossary's.
const OLD_IN_NAMES: &[(&str, &str)] = &[
    ("says", "status or report"),
    ("tell", "report, send or notify"),
    ("told", "report, status, message or notified"),
];

const TREE: &[&str] = &["crates/tree/", "crates/engine/src/stats.rs"];
const BLOBS: &[&str] = &["crates/tree/", "crates/jobs/", "crates/format/", "crates/storage/"];
const BACKENDS: &[&str] = &["crates/storage/src/backend/", "crates/objects/"];
const COMBINER: &[&str] = &["crates/storage/src/backend/local", "crates/format/src/combiner.rs"];

/// The file that spells them.
const OWN: &str = "xtask/src/tidy/old_words.rs";

/// The file whose tree is that of a merge, with keys beside it.
const TOURNAMENT: &str = "crates/jobs/src/merge.rs";

/// Pages that name old words: the glossary, what is of a day, and one with the words of RocksDB.
const PAGES: &[&str] =
    &["docs/internals/glossary.md", "results/", "docs/soak/", "changes/", "docs/guide/from-rocksdb.md"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_read = |path: &str| match path.ends_with(".md") {
        true => !PAGES.iter().any(|page| path.starts_with(page)),
        false => path.ends_with(".rs") && ![OWN, TOURNAMENT].contains(&path),
    };
    for (path, text) in repository.texts().filter(|(path, _)| is_read(path)) {
        let here = |folders: &[&str]| folders.is_empty() || folders.iter().any(|it| path.starts_with(it));
        let old: Vec<_> = OLD.iter().filter(|(_, _, folders)| here(folders)).collect();
        let code = names_of(path, text);
        let mut before = String::new();
        for ((index, line), code) in text.lines().enumerate().zip(code.lines().chain(iter::repeat(""))) {
            // A phrase may be broken at the end of a line.
            let words = words_of(line.trim_start_matches(MARGIN));
            let joined = format!("{}{words}", before.trim_end());
            let names = words_of(names_of_line(code));
            let holds = |words: &str, was: &str| words.contains(&format!(" {was} "));
            let holds_it = |was: &str| holds(&words, was) || !holds(&before, was) && holds(&joined, was);
            let of_text = old.iter().filter(|(was, ..)| holds_it(was)).map(|(was, it, _)| (was, it));
            let of_names =
                OLD_IN_NAMES.iter().filter(|(was, _)| holds(&names, was)).map(|(was, it)| (was, it));
            for (was, becomes) in of_text.chain(of_names) {
                let message = format!("`{was}` is called {becomes} (docs/internals/glossary.md)");
                findings.push(Finding::new(path, index + 1, message));
            }
            before = words;
        }
    }
    findings
}

/// The text of a source without comments and literals; nothing of a page.
fn names_of(path: &str, text: &str) -> String {
    if path.ends_with(".rs") { Source::new(text).code(0..text.len()).into_owned() } else { String::new() }
}

/// The part of a line of code whose names are read: nothing of the head of a function without
/// parameters. Tests are such, and are called by sentences; where another is called it is read.
fn names_of_line(code: &str) -> &str {
    let is_head = code.trim_start().starts_with("fn ") && code.ends_with("() {");
    if is_head { "" } else { code }
}

/// What stands before the words of a comment or of an item of a list.
const MARGIN: &[char] = &[' ', '/', '!', '*', '-', '>', '|', '#'];

/// The words of a line in lower case, with a blank before and behind each; names are taken apart.
/// The standard library's `drain` is none.
fn words_of(line: &str) -> String {
    let line = line.replace(".drain(", " ");
    let mut words = String::from(" ");
    let mut last = ' ';
    for letter in line.chars() {
        let begins = letter.is_uppercase() && last.is_lowercase();
        let ends = !letter.is_alphanumeric();
        if (begins || ends) && !words.ends_with(' ') {
            words.push(' ');
        }
        // What punctuation parts is no phrase.
        if ends && !matches!(letter, ' ' | '_' | ':' | '/') {
            words.push_str(". ");
        }
        if !ends {
            words.extend(letter.to_lowercase());
        }
        last = letter;
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Repository::planted(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_old_word_is_found_in_names_and_in_text() {
        for (was, becomes, folders) in OLD {
            let path = match folders.first() {
                Some(folder) if folder.ends_with(".rs") => (*folder).to_owned(),
                folder => format!("{}/a.rs", folder.unwrap_or(&"crates/x/").trim_end_matches('/')),
            };
            let name = was.replace(' ', "_");
            let camel: String = was.split(' ').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
            let text = format!("// {was}.\nfn is_{name}_due() {{}}\nstruct The{camel};\n");
            let expected: Vec<_> = (1..=3)
                .map(|line| {
                    format!("{path}:{line}: `{was}` is called {becomes} (docs/internals/glossary.md)")
                })
                .collect();
            assert_eq!(found(&path, &text), expected);
        }
    }

    #[test]
    fn what_text_may_say_is_refused_in_names() {
        let text = "// It tells what it is told and says so: a tell.\n\
                    fn it_says_what_it_is_told() {\n    \
                        assert!(is_told(\"told\"));\n}\n\
                    struct Tell;\nlet says_all = TOLD_MAX;\nfn told() {\n}\n";
        let finding = |line: u32, was: &str, becomes: &str| {
            format!("crates/x/a.rs:{line}: `{was}` is called {becomes} (docs/internals/glossary.md)")
        };
        let (report, status) = ("report, send or notify", "status or report");
        let message = "report, status, message or notified";
        let expected = [(3, "told", message), (5, "tell", report), (6, "says", status), (6, "told", message)];
        assert_eq!(found("crates/x/a.rs", text), expected.map(|(line, was, it)| finding(line, was, it)));
    }

    #[test]
    fn a_phrase_is_found_across_a_line_and_in_a_page() {
        let text =
            "    /// Sealed value\n    /// segments. Values\n    /// segments value.\n    /// segment\n";
        let message = "`value segments` is called blob segments (docs/internals/glossary.md)";
        assert_eq!(found("crates/x/a.rs", text), [format!("crates/x/a.rs:2: {message}")]);
        assert_eq!(found("docs/a.md", "a value\nsegments\n"), [format!("docs/a.md:2: {message}")]);
        assert_eq!(found("docs/internals/glossary.md", "value segments\n"), [""; 0]);
    }

    #[test]
    fn what_only_looks_like_an_old_word_is_left() {
        let text = "let a: Vec<_> = queue.drain(..).collect(); // undrained, stages\n";
        assert_eq!(found("crates/tree/src/a.rs", text), [""; 0]);
        assert_eq!(found("crates/job-service/src/a.rs", "worker.drain();\n"), [""; 0]);
    }
}
