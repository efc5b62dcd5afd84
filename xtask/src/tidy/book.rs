//! The book: docs/SUMMARY.md lists each of its pages once, and its pages link one another.
//!
//! A link to a file that is not of the book leads nowhere on the site, so such a file is named as
//! code.

use std::collections::BTreeSet;

use super::{Finding, links};
use crate::repository::Repository;

/// The contents of the book.
pub(super) const CONTENTS: &str = "docs/SUMMARY.md";

/// Folders whose documents are pages of the book.
const FOLDERS: &[&str] =
    &["docs/guide/", "docs/operate/", "docs/internals/", "docs/reference/", "docs/decisions/"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    let contents = repository.text(CONTENTS).unwrap_or_default();
    for (line, target) in links::outside_code(contents) {
        let Some(page) = links::resolve(CONTENTS, target) else { continue };
        // mdBook puts a copy of it at the root of the site.
        if listed.is_empty() && target.contains('/') {
            let message = format!("`{target}` is the first page: its links need it beside the contents");
            findings.push(Finding::new(CONTENTS, line, message));
        }
        if !listed.insert(page) {
            let message = format!("`{target}` is listed a second time: list each page once");
            findings.push(Finding::new(CONTENTS, line, message));
        }
    }
    for (path, _) in repository.texts() {
        let is_page = path.ends_with(".md") && FOLDERS.iter().any(|folder| path.starts_with(folder));
        if is_page && !listed.contains(path) {
            findings.push(Finding::new(path, 1, format!("no page of the book: list it in {CONTENTS}")));
        }
    }
    for page in &listed {
        let text = repository.text(page).unwrap_or_default();
        for (line, target) in links::outside_code(text) {
            let file = target.split('#').next().unwrap_or_default();
            // What is no document is copied to the site.
            let is_copied = |to: &str| to.starts_with("docs/") && !to.ends_with(".md");
            let is_inside = |to: String| listed.contains(&to) || is_copied(&to);
            if !file.is_empty() && !links::resolve(page, file).is_some_and(is_inside) {
                let message = format!("`{target}` leads out of the book: name the file as code");
                findings.push(Finding::new(page, line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_missing_doubled_or_link_out_of_the_book_are_found() {
        let contents = "# Summary\n\n- [A](guide/a.md)\n- [B](operate/b.md)\n- [A](guide/a.md)\n";
        let a = "# A\n\n[b](../operate/b.md#x), [here](#y), [web](https://x.y/z.md), ![drawn](x.svg)\n\
                 [root](../../README.md)\n\n```sh\n[code](../../README.md)\n```\n";
        let files = [
            (CONTENTS, contents),
            ("docs/guide/a.md", a),
            ("docs/operate/b.md", "[c](c.md)"),
            ("docs/operate/c.md", ""),
            ("docs/roadmap.md", "[root](../README.md)"),
            ("README.md", ""),
        ];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/SUMMARY.md:3: `guide/a.md` is the first page: its links need it beside the contents",
                "docs/SUMMARY.md:5: `guide/a.md` is listed a second time: list each page once",
                "docs/operate/c.md:1: no page of the book: list it in docs/SUMMARY.md",
                "docs/guide/a.md:4: `../../README.md` leads out of the book: name the file as code",
                "docs/operate/b.md:1: `c.md` leads out of the book: name the file as code",
            ]
        );
    }
}
