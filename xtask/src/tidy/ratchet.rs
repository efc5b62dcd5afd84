//! Lists of old sins: each may get better or go, none may get worse or join.

use std::collections::BTreeMap;

use super::Finding;
use crate::repository::Repository;

/// A limit with its list of exceptions.
pub(super) struct Ratchet {
    /// The list: lines of `NAME COUNT REASON`; `#` begins a comment line.
    pub(super) list: &'static str,
    /// The limit for everything that is not on the list.
    pub(super) limit: usize,
    /// What is counted, as a plural.
    pub(super) unit: &'static str,
    /// Most lines the list may have. Lower it when the list gets shorter.
    pub(super) list_lines_max: usize,
    /// What to do about something over the limit.
    pub(super) remedy: &'static str,
}

/// Something that is measured: a file, a function, a type, a crate.
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) count: usize,
    /// What else mending it needs; empty, or begins with a separator.
    pub(super) detail: String,
}

impl Ratchet {
    /// What is over the limit and not excused, and what the list excuses without need.
    pub(super) fn check(&self, repository: &Repository, measured: Vec<Measured>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut excused = self.excused(repository, &mut findings);
        for thing in measured {
            let allowed = excused.remove(&thing.name);
            let (limit, name, count) = (self.limit, &thing.name, thing.count);
            let (unit, remedy) = (self.unit, format!("{}{}", self.remedy, thing.detail));
            match allowed {
                None if count > limit => {
                    let message = format!("{name} has {count} {unit}, the limit is {limit}: {remedy}");
                    findings.push(Finding::new(&thing.path, thing.line, message));
                }
                None => {}
                Some((at, _)) if count <= limit => {
                    let message =
                        format!("{name} has {count} {unit}, within the limit of {limit}: remove this line");
                    findings.push(Finding::new(self.list, at, message));
                }
                Some((_, allowed)) if count > allowed => {
                    let message = format!("{name} grew from {allowed} to {count} {unit}: {remedy}");
                    findings.push(Finding::new(&thing.path, thing.line, message));
                }
                Some((at, allowed)) if count < allowed => {
                    let message =
                        format!("{name} shrank to {count} {unit}: write {count} instead of {allowed}");
                    findings.push(Finding::new(self.list, at, message));
                }
                Some(_) => {}
            }
        }
        let gone =
            |(name, (at, _))| Finding::new(self.list, at, format!("{name} does not exist: remove this line"));
        findings.extend(excused.into_iter().map(gone));
        findings
    }

    /// name -> (line in the list, allowed count)
    fn excused(
        &self,
        repository: &Repository,
        findings: &mut Vec<Finding>,
    ) -> BTreeMap<String, (usize, usize)> {
        let text = repository.text(self.list).unwrap_or_default();
        let mut excused = BTreeMap::new();
        for (index, line) in
            text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().to_owned();
            let count = words.next().and_then(|word| word.parse().ok());
            match (count, words.next()) {
                (Some(count), Some(_)) => drop(excused.insert(name, (index + 1, count))),
                _ => findings.push(Finding::new(self.list, index + 1, "write `NAME COUNT REASON`")),
            }
        }
        if excused.len() > self.list_lines_max {
            let message = format!(
                "{} lines, at most {} are allowed and the list may only shrink: {}",
                excused.len(),
                self.list_lines_max,
                self.remedy
            );
            findings.push(Finding::new(self.list, 1, message));
        }
        excused
    }
}

/// Things of one name share one line of the list: the largest counts.
pub(super) fn largest_of_each_name(mut things: Vec<Measured>) -> Vec<Measured> {
    things.sort_by(|a, b| a.name.cmp(&b.name).then(b.count.cmp(&a.count)));
    things.dedup_by(|later, first| later.name == first.name);
    things
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATCHET: Ratchet =
        Ratchet { list: "list.txt", limit: 10, unit: "lines", list_lines_max: 1, remedy: "split it" };

    fn found(list: &str, name: &str, count: usize) -> Vec<String> {
        let repository = Repository::planted(&[("list.txt", list)]);
        let measured =
            Measured { name: name.to_owned(), path: name.to_owned(), line: 3, count, detail: String::new() };
        RATCHET.check(&repository, vec![measured]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn over_the_limit_is_found_unless_excused() {
        assert_eq!(found("", "a", 11), ["a:3: a has 11 lines, the limit is 10: split it"]);
        assert_eq!(found("", "a", 10), [""; 0]);
        assert_eq!(found("# why\na 12 because\n", "a", 12), [""; 0]);
    }

    #[test]
    fn the_list_may_only_shrink() {
        assert!(found("a 12 because\n", "a", 13)[0].starts_with("a:3: a grew from 12 to 13"));
        assert!(found("a 12 because\n", "a", 11)[0].starts_with("list.txt:1: a shrank to 11"));
        assert!(found("a 12 because\n", "a", 10)[0].contains("remove this line"));
        assert!(found("b 12 because\n", "a", 10)[0].contains("b does not exist"));
        assert!(found("a 12\n", "a", 10)[0].contains("NAME COUNT REASON"));
        assert!(found("a 12 x\nb 12 y\n", "a", 12).iter().any(|line| line.contains("may only shrink")));
    }
}
