//! Links of documents to other files of the repository, and to headings in them.

use std::collections::BTreeMap;

use super::Finding;
use crate::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let documents: BTreeMap<&str, &str> =
        repository.texts().filter(|(path, _)| path.ends_with(".md")).collect();
    for (&path, text) in &documents {
        for (line, link) in outside_code(text) {
            let (file, anchor) = link.split_once('#').map_or((link, None), |(file, at)| (file, Some(at)));
            let target = if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) };
            let Some(target) = target.filter(|target| repository.exists(target)) else {
                let message = format!("`{file}` leads nowhere: link the file as it is called now");
                findings.push(Finding::new(path, line, message));
                continue;
            };
            let text = documents.get(target.as_str());
            if let (Some(anchor), Some(text)) = (anchor, text)
                && !anchors(text).iter().any(|there| there == anchor)
            {
                let message = format!("`#{anchor}` is no heading of {target}: link one that is there");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

/// Targets of links to files and headings, with their lines; nothing of code blocks.
pub(super) fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    lines_outside_code(text).flat_map(|(number, line)| targets(line).map(move |link| (number, link)))
}

/// Lines outside code blocks, with their numbers.
fn lines_outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        is_code ^= line.trim_start().starts_with("```");
        (!is_code).then_some((index + 1, line))
    })
}

/// Targets of the links of a line, but those to other sites.
pub(super) fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    links.filter(|link| !link.contains("://") && !link.starts_with("mailto:") && !link.is_empty())
}

/// Path from the root of what `document` calls `target`; `None` if it lies outside the repository.
pub(super) fn resolve(document: &str, target: &str) -> Option<String> {
    let mut folders: Vec<&str> = document.split('/').collect();
    folders.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(folders.pop()?),
            name => folders.push(name),
        }
    }
    Some(folders.join("/"))
}

/// What headings of a document are called behind `#`: lower case, `-` for blanks, no other
/// punctuation; the second of a name has `-1`.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in lines_outside_code(text) {
        let title = line.trim_start_matches('#');
        let Some(title) = title.strip_prefix(' ').filter(|_| line.starts_with('#')) else { continue };
        let letters = title.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        let name: String = letters.flat_map(char::to_lowercase).collect::<String>().replace(' ', "-");
        let is_same = |anchor: &&String| {
            let rest = anchor.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_number))
        };
        let count = anchors.iter().filter(is_same).count();
        anchors.push(if count == 0 { name } else { format!("{name}-{count}") });
    }
    anchors
}

fn is_number(text: &str) -> bool {
    text.parse::<usize>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::planted(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "[a](b.md), [up](../FORMAT.md), [web](https://x.y/z.md), [folder](deep/)\n\
                    [gone](c.md) and [above](../../FORMAT.md)\n```\n[code](c.md)\n```\n";
        let files =
            [("docs/a.md", text), ("docs/b.md", ""), ("docs/deep/d.md", "[a](../a.md)"), ("FORMAT.md", "")];
        assert_eq!(
            found(&files),
            [
                "docs/a.md:2: `c.md` leads nowhere: link the file as it is called now",
                "docs/a.md:2: `../../FORMAT.md` leads nowhere: link the file as it is called now",
            ]
        );
    }

    #[test]
    fn headings_that_are_not_there_are_found() {
        let text = "# A clock, that's `wrong`\n## Of S3 (and kin)\n## Rows\n### Rows\n```sh\n# No heading\n```\n\
                    [1](#a-clock-thats-wrong) [2](#of-s3-and-kin) [3](#rows-1) [4](b.md#x_y) [5](c.rs#L4)\n\
                    [6](#no-heading) [7](#rows-2) [8](b.md#a)\n";
        let files = [("a.md", text), ("b.md", "# X_y\n"), ("c.rs", "")];
        assert_eq!(
            found(&files),
            [
                "a.md:9: `#no-heading` is no heading of a.md: link one that is there",
                "a.md:9: `#rows-2` is no heading of a.md: link one that is there",
                "a.md:9: `#a` is no heading of b.md: link one that is there",
            ]
        );
    }
}
