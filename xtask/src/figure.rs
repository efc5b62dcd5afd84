//! `cargo x figure`: draws README's plot and table from measurements.
//!
//! ```text
//!   docs/pictures/ratios.toml ──► rows (of results/*/*.json) ─┬─► svg ──► docs/pictures/ratios.svg
//!                                                             └─► README.md, between two marks
//! ```

mod rows;
mod svg;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::repository::root;
use rows::Row;

/// What lies before and behind README's table.
const MARKS: [&str; 2] = ["<!-- cargo x figure -->\n", "<!-- end of what cargo x figure writes -->\n"];

/// Draws both anew.
pub(crate) fn run() -> Result<bool> {
    let root = root();
    for (path, text) in drawn(&root)? {
        std::fs::write(root.join(path), text).with_context(|| format!("cannot write {path}"))?;
        println!("wrote {path}");
    }
    Ok(true)
}

/// Each file's path, and what it should hold.
fn drawn(root: &Path) -> Result<[(&'static str, String); 2]> {
    let figure = rows::read(root, Path::new("docs/pictures/ratios.toml"))?;
    let readme = std::fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let table = table(&figure.rows, Path::new("README.md"))?;
    Ok([("docs/pictures/ratios.svg", svg::draw(&figure)), ("README.md", between_marks(&readme, &table)?)])
}

/// `text` with `inner` in the place of what stood between the marks.
fn between_marks(text: &str, inner: &str) -> Result<String> {
    let [first, last] = MARKS;
    let (before, rest) = text.split_once(first).with_context(|| format!("README.md lacks {first:?}"))?;
    let (_, after) = rest.split_once(last).with_context(|| format!("README.md lacks {last:?}"))?;
    Ok([before, first, inner, last, after].concat())
}

/// The rows that have a place in the table.
fn table(rows: &[Row], readme: &Path) -> Result<String> {
    let mut lines = vec!["| what | beside | Firn | other | times as good | from |".to_owned()];
    lines.push("|---|---|---|---|---|---|".to_owned());
    for row in rows.iter().filter(|row| row.is_in_table) {
        let rival = row.rivals.first().with_context(|| format!("{}: no rival", row.what))?;
        let spread = format!("{} to {}", short(rival.least), short(rival.greatest));
        lines.push(format!(
            "| {} | {} | {} {} | {} | **{}** ({spread}) | [{}]({}) |",
            row.what,
            rival.name,
            short(row.firn),
            row.unit,
            short(rival.figure),
            short(rival.ratio),
            row.folder.trim_start_matches("results/"),
            row.folder,
        ));
    }
    ensure!(lines.len() == 7, "{} is to have five rows, not {}", readme.display(), lines.len() - 2);
    Ok(lines.join("\n") + "\n")
}

/// Two significant digits, or whole above a hundred.
fn short(figure: f64) -> String {
    match figure {
        ..1.0 => format!("{figure:.2}"),
        ..10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_readme_shows_is_what_was_measured() {
        for (path, text) in drawn(&root()).expect("measurements") {
            let committed = std::fs::read_to_string(root().join(path)).unwrap_or_default();
            assert!(committed == text, "{path} is not what `cargo x figure` draws: run it");
        }
    }

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let [first, last] = MARKS;
        let text = format!("before\n{first}old\n{last}after\n");
        assert_eq!(
            between_marks(&text, "new\n").expect("marks"),
            format!("before\n{first}new\n{last}after\n")
        );
        assert!(between_marks("no marks\n", "new\n").is_err());
    }

    #[test]
    fn figures_have_two_digits() {
        assert_eq!([0.254, 1.0, 2.449, 99.7, 1234.5].map(short), ["0.25", "1.0", "2.4", "100", "1234"]);
    }
}
