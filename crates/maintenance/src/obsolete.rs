//! Removing files that nothing refers to any more, or keeping them a while for new ones.
//!
//! ```text
//!   recyclable, within what may be kept, without a reader ─► recycled: a new file begins in it
//!   any other ─► removed
//!              ─► what the storage refuses, and all that was to follow ─► tried again later
//! ```
//! An engine makes an [`ObsoleteGc`] of its owners where it has one of these done. All of it may
//! run on several threads at the same time: each has files of its own to remove.
//!
//! # Invariants
//! 1. A file is kept only once its last reader has let go of it: [`ObsoleteGc::remove`].
//! 2. What could not be removed is not lost while the engine is open: [`ObsoleteGc::remove`].

use firn_format::file_name::{FileName, parse};
use firn_jobs::submit::Submitter;
use firn_storage::backend::Reusing;
use firn_storage::file::log::RecycledSegments;
use firn_storage::file::obsolete::{LastReader, Obsolete, ObsoleteFiles, RecyclableFile};
use firn_storage::{ErrorKind, Storage};

/// Where obsolete files lie, and where those that are kept wait for new ones.
#[derive(Clone, Copy, Debug)]
pub struct ObsoleteGc<'e> {
    /// Where they lie.
    pub storage: &'e dyn Storage,
    /// What there is of them.
    pub obsolete: &'e ObsoleteFiles,
    /// Files and arenas for new log segments.
    pub log: &'e RecycledSegments,
    /// Files for new tables and blob segments.
    pub outputs: &'e Reusing,
    /// Is told that something is left on the storage.
    pub jobs: &'e Submitter,
}

/// How much may be kept for new files.
#[derive(Clone, Copy, Debug)]
pub struct RecycledMax {
    /// Files of log segments.
    pub log_files: usize,
    /// Bytes of tables.
    pub table_bytes: u64,
    /// Bytes of blob segments.
    pub blob_bytes: u64,
}

impl ObsoleteGc<'_> {
    /// Removes `obsolete` files, or keeps as many as `recycled_max` allows; none if it is `None`.
    /// Whether any was removed. Blocks for the removals.
    ///
    /// At the close (`is_closed`) log objects stay, as there may be many of them, and so does what
    /// cannot be removed: the next opening removes what is not needed.
    pub fn remove(&self, obsolete: Obsolete, recycled_max: Option<RecycledMax>, is_closed: bool) -> bool {
        let mut names = obsolete.removable.into_iter().chain(self.not_kept(
            obsolete.recyclable_segments,
            obsolete.recyclable_files,
            recycled_max,
        ));
        let mut is_any_removed = false;
        while let Some(name) = names.next() {
            if is_closed && matches!(parse(&name), Some(FileName::LogObject { .. })) {
                continue;
            }
            match self.storage.remove(&name) {
                Ok(()) => is_any_removed = true,
                Err(error) if is_closed || error.kind == ErrorKind::NotFound => {}
                // Where the storage is away, each of the others would be waited for as well. This
                // one comes last then, so that it keeps none of them.
                Err(_) => {
                    // Collected before the lock of obsolete files is taken: letting go of a file
                    // that is recyclable may ask them for something.
                    let others: Vec<String> = names.by_ref().collect();
                    self.obsolete.retry_later(others.into_iter().chain([name]));
                    self.jobs.leave_something();
                }
            }
        }
        match is_closed {
            true => self.log.trim_arenas(0),
            false => self.log.clean_arenas(),
        }
        is_any_removed
    }

    /// Those of the recyclable log segments and files that are not kept. Each is kept, or not, as
    /// it is asked for.
    fn not_kept(
        &self,
        segments: Vec<String>,
        files: Vec<RecyclableFile>,
        recycled_max: Option<RecycledMax>,
    ) -> impl Iterator<Item = String> {
        let segments = segments.into_iter();
        let segments =
            segments.filter(move |name| !recycled_max.is_some_and(|max| self.log.keep(name, max.log_files)));
        let files = files.into_iter().filter_map(move |RecyclableFile { name, bytes, reader }| {
            let is_table = matches!(reader, LastReader::Table(_));
            // A read that holds a reader should hold a version too. Under one that holds no
            // version, mapped bytes would change.
            let is_free = reader.lets_go();
            let is_kept = is_free
                && recycled_max.is_some_and(|max| match is_table {
                    true => self.outputs.tables().keep(&name, bytes, max.table_bytes),
                    false => self.outputs.values().keep(&name, bytes, max.blob_bytes),
                });
            (!is_kept).then_some(name)
        });
        segments.chain(files)
    }

    /// Gives up what is kept for new files, and what is about to be: arenas are unmapped, files are
    /// to be removed.
    pub fn give_up(&self) {
        self.log.trim_arenas(0);
        let files = [self.log.take_files(), self.outputs.take_recycled()];
        files.into_iter().flatten().for_each(|name| self.obsolete.remove_later(name));
        self.obsolete.remove_recyclable();
    }
}

#[cfg(test)]
mod tests;
