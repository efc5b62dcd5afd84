//! What a database holds in the end: whatever compacted, it is the same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use firn::Db;
use firn_engine::{Error, Result};

use crate::report::{Finding, Verdict};

/// Everything that a database holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    keys: u64,
    /// The sum of a hash of each key with its value.
    hash: u64,
}

/// What was there after some work, and what compacted, as results are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) workload: String,
    pub(super) variant: String,
    pub(super) content: Content,
}

/// Reads all of the database in `directory`, which no process has open for writing.
///
/// # Errors
/// It cannot be read.
pub(super) fn of(directory: &Path) -> Result<Content> {
    let db = Db::builder(directory).read_only(true).open()?;
    let mut content = Content::default();
    for entry in db.range(..)? {
        let (key, value) = entry?;
        let mut hasher = DefaultHasher::new();
        hasher.write_usize(key.len());
        hasher.write(&key);
        hasher.write(&value);
        content.keys += 1;
        content.hash = content.hash.wrapping_add(hasher.finish());
    }
    db.close()?;
    Ok(content)
}

/// That all databases with the same work hold the same, as a finding; none where nothing was read.
///
/// # Errors
/// They do not: which has what.
pub(super) fn finding(part: &str, held: &[Held]) -> Result<Option<Finding>> {
    let mut by_work: BTreeMap<&str, Vec<&Held>> = BTreeMap::new();
    for one in held {
        by_work.entry(&one.workload).or_default().push(one);
    }
    let mut figures = Vec::new();
    for (workload, all) in &by_work {
        let shown = |one: &Held| format!("{} keys, {:016x}", one.content.keys, one.content.hash);
        if all.windows(2).any(|two| two[0].content != two[1].content) {
            let reported: Vec<_> = all.iter().map(|one| format!("{} {}", one.variant, shown(one))).collect();
            return Err(Error::invalid(format!(
                "{workload}: databases that were told the same hold {}; repeat it with --dir, and report what each of them has",
                reported.join("; ")
            )));
        }
        figures.extend(all.first().map(|one| format!("{workload}: {} in each of {}", shown(one), all.len())));
    }
    let claim = "wherever compactions run, a database holds the same in the end: keys, and the sum of hashes of what they have";
    let (part, claim, figure) = (part.to_owned(), claim.to_owned(), figures.join("; "));
    Ok((!held.is_empty()).then_some(Finding { part, claim, figure, verdict: Verdict::AsClaimed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_told_by_keys_and_values_and_not_by_how_they_came() {
        let content = |entries: &[(&str, &str)]| {
            let dir = tempfile::tempdir().unwrap();
            let db = Db::builder(dir.path()).open().unwrap();
            for (key, value) in entries {
                db.put(key, value).unwrap();
            }
            db.close().unwrap();
            of(dir.path()).unwrap()
        };
        let expected = content(&[("a", "1"), ("bc", "2")]);
        assert_eq!(expected.keys, 2);
        assert_eq!(content(&[("bc", "2"), ("a", "0"), ("a", "1")]), expected);
        for other in [&[("a", "1"), ("bc", "3")], &[("a", "1"), ("b", "c2")]] {
            assert_ne!(content(other), expected);
        }
    }

    #[test]
    fn who_holds_something_else_than_the_others_is_told() {
        let held = |workload: &str, variant: &str, hash| Held {
            workload: workload.into(),
            variant: variant.into(),
            content: Content { keys: 7, hash },
        };
        assert_eq!(finding("cores", &[]).unwrap(), None);
        let same = [held("a", "local", 1), held("a", "service", 1), held("b", "local", 2)];
        let figure = finding("cores", &same).unwrap().unwrap().figure;
        assert_eq!(
            figure,
            "a: 7 keys, 0000000000000001 in each of 2; b: 7 keys, 0000000000000002 in each of 1"
        );
        let error = finding("cores", &[held("a", "local", 1), held("a", "service", 3)]).unwrap_err();
        let message = "hold local 7 keys, 0000000000000001; service 7 keys, 0000000000000003";
        assert!(error.to_string().contains(message), "{error}");
    }
}
