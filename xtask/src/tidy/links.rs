//! Links of documents to other files of the repository.

use super::Finding;
use crate::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (index, line) in text.lines().enumerate() {
            for link in targets(line) {
                if !resolve(path, link).is_some_and(|target| repository.exists(&target)) {
                    let message = format!("`{link}` leads nowhere: link the file as it is called now");
                    findings.push(Finding::new(path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Targets of links to files, without what stands behind `#`.
pub(super) fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let files = links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
    files.filter_map(|link| link.split('#').next()).filter(|target| !target.is_empty())
}

/// Path from the root of what `document` calls `target`; `None` if it lies outside the repository.
fn resolve(document: &str, target: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "[a](b.md), [up](../FORMAT.md#x), [here](#y), [web](https://x.y/z.md), [folder](deep/)\n\
                    [gone](c.md) and [above](../../FORMAT.md)\n";
        let files =
            [("docs/a.md", text), ("docs/b.md", ""), ("docs/deep/d.md", "[a](../a.md)"), ("FORMAT.md", "")];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/a.md:2: `c.md` leads nowhere: link the file as it is called now",
                "docs/a.md:2: `../../FORMAT.md` leads nowhere: link the file as it is called now",
            ]
        );
    }
}
