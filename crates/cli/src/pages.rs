//! What pages show of the command line: calls that there are, and the help of every command.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Parser};

use super::Arguments;

/// The folder that holds the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Pages whose shell blocks are looked at: README.md and all of these folders.
const FOLDERS: [&str; 2] = ["docs/guide", "docs/operate"];

/// What a shell takes for itself: what stands from there on is no argument.
const ENDS: [&str; 7] = [" #", " | ", " > ", " < ", " 2> ", " &", ";"];

/// Calls of this program in shell blocks of a page, as words.
fn calls(page: &str) -> Vec<Vec<&str>> {
    let mut is_shell = false;
    let mut calls = Vec::new();
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_shell = ["sh", "console"].contains(&language);
            continue;
        }
        let line = line.trim_start().trim_start_matches("$ ");
        let call = line.strip_prefix("firn ").or_else(|| line.strip_prefix("cargo run --release -- "));
        let Some(call) = call.filter(|_| is_shell) else { continue };
        let end = ENDS.iter().filter_map(|end| call.find(end)).min().unwrap_or(call.len());
        calls.push(call.get(..end).unwrap_or(call).split_whitespace().collect());
    }
    calls
}

/// This program must take each call that a page shows.
#[test]
fn calls_in_pages_exist() {
    let mut pages = vec![root().join("README.md")];
    for folder in FOLDERS {
        let files = std::fs::read_dir(root().join(folder)).expect("a folder of pages");
        pages.extend(files.map(|file| file.expect("a page").path()));
    }
    let mut count = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page");
        for words in calls(&text) {
            let all = std::iter::once("firn").chain(words.iter().copied());
            let refused = Arguments::try_parse_from(all).err();
            assert!(refused.is_none(), "{}: {words:?}: {refused:?}", page.display());
            count += 1;
        }
    }
    assert!(count >= 30, "only {count} calls found");
}

#[test]
fn a_call_ends_where_a_shell_begins() {
    let page = "firn no block\n```sh\nfirn a --b c   # d\n$ firn e | f\nexport firn g\n```\n```text\nfirn h\n```\n\
                ```console\n$ firn i &\n```\n";
    assert_eq!(calls(page), [vec!["a", "--b", "c"], vec!["e"], vec!["i"]]);
}

/// The page of the command line, made of the help of every command.
fn command_line() -> String {
    let mut page = String::from(
        "# Command line\n\n\
         What `firn help COMMAND` prints, for each command. `UPDATE_EXPECT=1 cargo test -p firn-cli pages` renews it.\n\
         Options of `firn serve` have names in files and in the environment too\n\
         ([Running a server](../operate/server.md#settings)).\n",
    );
    let mut root = Arguments::command().term_width(100);
    root.build();
    push_help(&mut page, "firn", &mut root);
    page
}

/// The help of `command`, then that of the commands within it.
fn push_help(page: &mut String, name: &str, command: &mut Command) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
    for within in command.get_subcommands_mut().filter(|within| within.get_name() != "help") {
        let name = format!("{name} {}", within.get_name());
        push_help(page, &name, within);
    }
}

#[expect(clippy::disallowed_methods, reason = "the one switch of this test")]
fn is_updating() -> bool {
    std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1")
}

#[test]
fn the_page_of_the_command_line_is_what_help_prints() {
    let path = root().join("docs/reference/command-line.md");
    if is_updating() {
        std::fs::write(&path, command_line()).expect("written");
    }
    let committed = std::fs::read_to_string(&path).expect("docs/reference/command-line.md");
    assert_eq!(
        committed,
        command_line(),
        "docs/reference/command-line.md differs; UPDATE_EXPECT=1 renews it"
    );
}

/// Kinds of errors and exit codes have a row each on the page of errors.
#[test]
fn the_page_of_errors_has_every_kind_and_code() {
    let page =
        std::fs::read_to_string(root().join("docs/reference/errors.md")).expect("docs/reference/errors.md");
    for line in super::ending::EXIT_CODES.lines().skip(1) {
        let (code, meaning) = line.trim_start().split_once("  ").expect("a code and a meaning");
        assert!(page.contains(&format!("| {code} | {meaning} |")), "{line}");
    }
    use firn_engine::ErrorKind::{Bug, Closed, Conflict, Corrupt, Invalid, NotDurable, Retry};
    for kind in [Retry, NotDurable, Conflict, Invalid, Corrupt, Closed, Bug] {
        assert!(page.contains(&format!("| `{kind:?}` | ")), "{kind:?}");
    }
}
