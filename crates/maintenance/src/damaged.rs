//! Files that background work leaves as they are, while it goes on with all others.
//!
//! ```text
//!   a unit meets bytes that are not what was written, ─┐
//!   or that cannot be read: that input                 ├─► set aside
//!   a unit fails each time, whatever the cause: all   ─┘      ├─ no unit takes the file
//!   of its inputs                                             └─ statistics report it, and why
//! ```
//! To rewrite a damaged file would either lose what cannot be read of it or give wrong bytes a
//! right checksum. To do once more what fails each time would do nothing else. Reads go on
//! answering from what is whole of the file; writes go on too, since they do not need it. The next
//! opening knows nothing of this and tries once again.
//!
//! A [`SetAside`] belongs to what the engine's tasks claim, and is touched under the schedule's
//! lock; a copy of it may be looked at without.
//!
//! # Invariants
//! 1. A file that was set aside stays so until the close: nothing here takes one out.
//! 2. A file is reported only while it lives, which [`SetAside::report`] is told.

use std::collections::BTreeMap;

use firn_engine::{Error, ErrorKind};

use crate::error::said_by_storage;

/// Files by names `F`, and why each was set aside.
#[derive(Clone, Debug)]
pub struct SetAside<F>(BTreeMap<F, Why>);

/// Why a file was set aside.
#[derive(Clone, Debug)]
struct Why {
    error: Error,
    cause: Cause,
}

/// What that says of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It cannot be read whole.
    Damaged,
    /// Work on it fails; it need not be wrong.
    Failed,
}

/// How many living files are set aside for one cause, and the first reason.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many.
    pub count: u64,
    /// Why the first of them is.
    pub why: Option<Error>,
}

impl<F> Default for SetAside<F> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<F: Ord> SetAside<F> {
    /// Sets `files` aside, on which work failed with `error`. Of two errors of one file the last
    /// one is kept.
    pub fn add(&mut self, files: impl IntoIterator<Item = F>, error: &Error, cause: Cause) {
        self.0.extend(files.into_iter().map(|file| (file, Why { error: error.clone(), cause })));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `file` is one of them.
    pub fn contains<Q: Ord + ?Sized>(&self, file: &Q) -> bool
    where
        F: std::borrow::Borrow<Q>,
    {
        self.0.contains_key(file)
    }

    /// All of them, in the order of their names.
    pub fn files(&self) -> impl Iterator<Item = &F> {
        self.0.keys()
    }

    /// Those that were set aside for `cause` and of which `lives` holds.
    pub fn report(&self, cause: Cause, lives: impl Fn(&F) -> bool) -> Report {
        let mut living = self.0.iter().filter(|(file, why)| why.cause == cause && lives(file));
        let first = living.next().map(|(_, why)| why.error.clone());
        Report { count: living.count() as u64 + u64::from(first.is_some()), why: first }
    }
}

impl Report {
    /// Both of them as one.
    pub fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, why: self.why.or(other.why) }
    }
}

/// The file of which `error`, met in reading it, says that it cannot be read whole.
pub fn unreadable_file(error: &Error) -> Option<&str> {
    let is_unreadable = error.kind() == ErrorKind::Corrupt || is_of_device(error);
    error.location().filter(|_| is_unreadable).map(|location| location.file.as_str())
}

/// Whether the device or the system failed. Where `error` names no input, that was in writing, and
/// says nothing of what was read.
pub fn is_of_device(error: &Error) -> bool {
    said_by_storage(error) == Some(firn_storage::ErrorKind::Io)
}

#[cfg(test)]
mod tests {
    use firn_engine::Location;

    use super::*;
    use crate::error::from_storage;

    #[test]
    fn an_error_names_the_file_that_cannot_be_read_and_no_other() {
        let of = |kind| from_storage(firn_storage::Error::new(kind, "1.table", "cannot"));
        use firn_storage::ErrorKind as Storage;
        for (kind, is_named) in [(Storage::Corrupt, true), (Storage::Io, true), (Storage::NotFound, false)] {
            assert_eq!(
                unreadable_file(&of(kind)).is_some_and(|file| file == "1.table"),
                is_named,
                "{kind:?}"
            );
            assert_eq!(is_of_device(&of(kind)), kind == Storage::Io, "{kind:?}");
        }
        assert_eq!(unreadable_file(&Error::new(ErrorKind::Corrupt, "somewhere")), None);
    }

    #[test]
    fn what_lives_is_reported_by_its_cause() {
        let location = |file: &str| Location { file: file.to_owned(), offset: None };
        let error = |file| Error::new(ErrorKind::Corrupt, "cannot").at(location(file));
        let mut aside = SetAside::default();
        assert!(aside.is_empty());
        aside.add(["a".to_owned()], &error("a"), Cause::Damaged);
        aside.add(["b".to_owned(), "c".to_owned()], &error("b"), Cause::Failed);
        assert!(aside.contains("a") && !aside.contains("d") && aside.files().count() == 3);
        let damaged = aside.report(Cause::Damaged, |_| true);
        assert_eq!((damaged.count, damaged.why.unwrap().location().unwrap().file.as_str()), (1, "a"));
        let failed = |lives: &str| aside.report(Cause::Failed, |file| lives.contains(file.as_str()));
        assert_eq!((failed("bc").count, failed("c").count, failed("a").count), (2, 1, 0));
        assert!(failed("a").why.is_none());
        assert_eq!(failed("bc").and(failed("c")).count, 3);
    }
}
