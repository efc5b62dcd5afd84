//! Removing outputs of attempts at jobs that nothing waits for any more, while the database is
//! open.
//!
//! A worker elsewhere may stand still for long. It then goes on without knowing that its attempt
//! was given up and that another executor has done the job. No edit will ever name the files that
//! it creates then, and only a list finds them. The next opening would list; a database that stays
//! open lists by itself.
//!
//! The place may carry out a request of a killed process after the next opening has listed what
//! there was. It may be of a table that the process has written, or of a group of its log. Such a
//! group goes as the groups do that the opening found.
//!
//! A process that is killed as it sends a file in parts leaves an upload. A list of uploads finds
//! it, and it goes by the same rule.
//!
//! ```text
//!   list ─► stems that nothing waits for ─► files that have holders
//!        ─► still the last writer? ─► what the manifest names ─► remove
//! ```
//! In this order. If the stem of a listed file is let go of by then, an edit names the file by
//! then, or none ever will. If one does, the manifest still names the file, or a reader has held it
//! since before, or it is dead. A process that takes the database over writes an edit first: what
//! was listed before that is not its own.
//!
//! An upload of a file that the manifest names, or that has a holder, stays as the file does. It
//! may have begun twice, or have ended and not been forgotten: stores are known that remove the
//! file's parts then ([decision 0020](../../../../docs/decisions/0020-object-stores.md)).

use std::collections::BTreeSet;
use std::sync::PoisonError;

use firn_engine::Result;
use firn_format::file_name::{FileName, parse};
use firn_jobs::submit::{AbandonedNames, Reach, Uploads};

use super::choose::Choosing;
use crate::database::Database;
use crate::error::from_storage;
use crate::groups::stale;
use crate::stats::count;
use crate::version::state::State;

impl Choosing<'_> {
    /// Whether a sweep for outputs that nothing waits for is to begin. Only workers that the owner
    /// gave leave such outputs, and openings that had too much to remove, or could not have seen
    /// all.
    pub(super) fn is_sweep_due(&self) -> bool {
        (self.database.maintenance.jobs.fallbacks.is_some() || self.database.maintenance.sweeps.is_left())
            && !self.busy.claims.is_sweeping
            && self.is_thread_left(false)
            && self.database.maintenance.sweeps.is_due(
                self.now,
                self.database.maintenance.jobs.ended_count(),
                self.database.maintenance.jobs.left_count(),
            )
    }
}

impl Database {
    /// Looks for outputs that nothing waits for, for groups of earlier openings, and for uploads of
    /// either, and removes them. Blocks for two lists, and for a request or two under the
    /// manifest's lock.
    ///
    /// # Errors
    /// `Closed`: another machine has taken the database over. What the place says is none: it is
    /// asked again in a while.
    pub(super) fn sweep(&self) -> Result<()> {
        self.maintenance.sweeps.begin(self.clock.now());
        self.files.graveyard.recall();
        self.wake_background();
        let mut is_all = false;
        if let Some((files, uploads)) = self.orphans()? {
            is_all = true;
            for name in files {
                if self.maintenance.is_stopping() {
                    break;
                }
                match self.files.storage.remove(&name) {
                    Ok(()) => count(&self.counters.orphan_remove_count, 1),
                    Err(error) => is_all &= error.kind == firn_storage::ErrorKind::NotFound,
                }
            }
            let aborted =
                uploads.abort(&*self.files.storage, Reach::ORPHAN_GC, || self.maintenance.is_stopping());
            count(&self.counters.upload_abort_count, aborted.count);
            // A place that refuses, or cannot list or abort uploads, answers the same in a minute.
            is_all &= !aborted.may_pass;
            self.maintenance.sweeps.tell_uploads(aborted.refusal);
        }
        match is_all {
            true => self.maintenance.sweeps.end(),
            false => self.maintenance.sweeps.repeat(self.clock.now()),
        }
        Ok(())
    }

    /// Files that no edit names and none ever will, and uploads of such; `None` if that cannot be
    /// told now.
    fn orphans(&self) -> Result<Option<(Vec<String>, Uploads)>> {
        let Ok(files) = self.files.storage.list() else { return Ok(None) };
        let mut uploads = Uploads::list(&*self.files.storage);
        let abandoned = self.maintenance.output_names.abandoned();
        let Some(held) = self.files.graveyard.held() else { return Ok(None) };
        let spares = BTreeSet::from_iter(self.files.outputs.spare_names());
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = manifest.failure() {
            return Err(from_storage(failure));
        }
        if self.files.storage.shared_part().is_some() && !manifest.is_current() {
            return manifest.failure().map_or(Ok(None), |failure| Err(from_storage(failure)));
        }
        let state = manifest.state();
        let named = state.groups.map(|named| self.groups.needed_of(named));
        let (outputs, groups) = (Orphans::new(&abandoned, state), stale(&files, named, state.generation));
        let is_orphan = |name: &str| {
            (outputs.have(name) || groups.contains(name)) && !held.contains(name) && !spares.contains(name)
        };
        uploads.retain(is_orphan);
        let names = files.iter().map(|(name, _)| name).filter(|name| is_orphan(name));
        Ok(Some((names.cloned().collect(), uploads)))
    }
}

/// Names of outputs that no edit has and none ever will.
pub(crate) struct Orphans<'s> {
    abandoned: &'s AbandonedNames,
    state: &'s State,
    /// Files that `state` has tables in, except for tables that have a file of their own.
    shared: BTreeSet<&'s str>,
    /// Files of value segments that `state` has.
    segments: BTreeSet<&'s str>,
}

impl<'s> Orphans<'s> {
    /// Of attempts with stems that are `abandoned`, which edits up to `state` do not name.
    pub(crate) fn new(abandoned: &'s AbandonedNames, state: &'s State) -> Self {
        let segments = state.values.segments.values();
        let segments = segments.map(|known| known.meta.file.as_str()).collect();
        Self { abandoned, state, shared: state.shared_files(), segments }
    }

    pub(crate) fn have(&self, name: &str) -> bool {
        match parse(name) {
            Some(FileName::Table { stem, .. }) => {
                self.abandoned.contains(&stem) && !self.state.tables.contains_key(name)
            }
            Some(FileName::Tables { stem, .. }) => {
                self.abandoned.contains(&stem) && !self.shared.contains(name)
            }
            Some(FileName::CollectedValues { stem, .. }) => {
                self.abandoned.contains(&stem) && !self.segments.contains(name)
            }
            _ => false,
        }
    }
}
