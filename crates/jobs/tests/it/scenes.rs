//! Scenes: text files that show what a pure function is given and what it answers. Crates with such
//! functions include this file in their tests by its path.
//!
//! ```text
//! # What the scene shows.
//!
//! command argument argument
//! a line of input
//! ----
//! a line of the answer
//! ```
//! An empty line ends an answer; lines that begin with `#` are comments. The commands of a file
//! share one state. `UPDATE_EXPECT=1` writes the answers that are found into the files.

use std::fs;
use std::path::Path;

/// A command of a scene: its line by words, and the lines up to `----`.
#[derive(Debug)]
pub(crate) struct Command<'s> {
    pub(crate) name: &'s str,
    pub(crate) arguments: Vec<&'s str>,
    pub(crate) input: Vec<&'s str>,
}

/// Runs all scenes in `folder`, and panics where an answer is another one than the scene says.
pub(crate) fn check<S: Default>(folder: &Path, answer: impl Fn(&mut S, &Command<'_>) -> String) {
    let differences = differences(folder, updating(), answer);
    let all = differences.join("\n");
    assert!(differences.is_empty(), "scenes differ; UPDATE_EXPECT=1 renews them\n{all}");
}

/// Where scenes in `folder` differ from what is found; with `updating` they are written instead.
pub(crate) fn differences<S: Default>(
    folder: &Path,
    updating: bool,
    answer: impl Fn(&mut S, &Command<'_>) -> String,
) -> Vec<String> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no scene", folder.display());
    let mut differences = Vec::new();
    for path in paths {
        // Shown where an answer panics.
        println!("{}", path.display());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "a scene begins with a comment that says what it shows");
        let found = replay(&text, &mut S::default(), &answer);
        if found != text && updating {
            fs::write(&path, &found).unwrap();
        } else if found != text {
            differences.push(format!("{}:{}", path.display(), difference(&text, &found)));
        }
    }
    differences
}

/// The scene `text` with the answers that are found.
pub(crate) fn replay<S>(
    text: &str,
    state: &mut S,
    answer: impl Fn(&mut S, &Command<'_>) -> String,
) -> String {
    let mut found = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        found.extend([line, "\n"]);
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|_| !line.starts_with('#')) else { continue };
        let mut input = Vec::new();
        loop {
            match lines.next() {
                Some("----") => break,
                Some(line) if !line.is_empty() => input.push(line),
                _ => panic!("no `----` follows `{line}`"),
            }
        }
        found.extend(input.iter().flat_map(|line| [*line, "\n"]));
        let answer = answer(state, &Command { name, arguments: words.collect(), input });
        let is_whole = answer.lines().next().is_some() && answer.lines().all(|line| !line.is_empty());
        assert!(is_whole, "`{line}` is answered with an empty line, which ends an answer");
        found.extend(["----\n", answer.trim_end(), "\n"]);
        // The answer that the scene says goes, through the line that ends it.
        if lines.by_ref().any(str::is_empty) {
            found.push('\n');
        }
    }
    found
}

/// The first line that differs, by number.
fn difference(text: &str, found: &str) -> String {
    let (said, found): (Vec<&str>, Vec<&str>) = (text.lines().collect(), found.lines().collect());
    let differ = said.iter().zip(&found).position(|(said, found)| said != found);
    let at = differ.unwrap_or(said.len().min(found.len()));
    let shown = |lines: &[&str]| lines.get(at).map_or("the end".to_owned(), |line| format!("`{line}`"));
    format!("{}: the scene says {}, found {}", at + 1, shown(&said), shown(&found))
}

#[expect(clippy::disallowed_methods, reason = "the one switch of these tests, read only here")]
fn updating() -> bool {
    std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1")
}
