//! A file that tables of several keyspaces are to share, until an edit names it.

use firn_engine::Result;
use firn_jobs::submit::Submitter;
use firn_storage::file::obsolete::LetGo;

use crate::files::Files;
use firn_maintenance::{Answer, answer_to};

/// A file that is being written and holds itself: until an edit has named it, or none will.
pub(crate) struct BeingWritten<'d> {
    files: &'d Files,
    jobs: &'d Submitter,
    name: String,
    /// An edit may name it, which nothing here tells.
    is_unknown: bool,
}

impl<'d> BeingWritten<'d> {
    /// The file `name` of `files`, an output of `jobs`.
    pub(crate) fn new(files: &'d Files, jobs: &'d Submitter, name: &str) -> Self {
        files.obsolete.shared.hold_file(name);
        Self { files, jobs, name: name.to_owned(), is_unknown: false }
    }

    /// The edit that would name it, alone, was `committed` or not.
    pub(crate) fn after(self, committed: &Result<()>, bytes: u64) {
        match committed {
            Ok(()) => self.named(bytes),
            Err(error) if answer_to(error) == Answer::Poisoned => self.may_be_named(),
            Err(_) => drop(self),
        }
    }

    /// An edit names it: what of its `bytes` no live table has is dead from now on.
    pub(crate) fn named(self, bytes: u64) {
        self.files.obsolete.shared.set_length(&self.name, bytes);
    }

    /// Whether an edit names it is not known: it stays, for this process and for orphan GC or an
    /// opening after it.
    pub(crate) fn may_be_named(mut self) {
        self.is_unknown = true;
        self.jobs.leave_something();
    }
}

impl Drop for BeingWritten<'_> {
    fn drop(&mut self) {
        let shared = &self.files.obsolete.shared;
        if shared.let_go(&self.name, !self.is_unknown, || {}) == LetGo::Obsolete {
            // At once, as other outputs that no edit names: a burial counts as space that was
            // freed.
            self.files.remove_output(self.jobs, &self.name);
        }
    }
}
