//! The database around the pipeline of writes, and around edits.

use firn_engine::Result;
use firn_format::Position;
use firn_format::manifest::Change;
use firn_storage::file::log::objects::By;

use super::wait::{refused_room, retry_flushes};
use crate::commit::{CommitEnv, Condition};
use crate::database::Database;
use crate::edits::EditEnv;
use crate::error::from_storage;
use crate::version::Manifest;
use crate::version::state::State;

impl CommitEnv for Database {
    fn is_compacting(&self) -> bool {
        self.maintenance.is_compacting()
    }

    fn crosses(&self, start: Position) {
        self.shared_log.crosses(start);
    }

    fn holds(&self, condition: &Condition<'_>, end: Position) -> Result<bool> {
        let version = self.catalog.version.load();
        match *condition {
            Condition::Unchanged { keyspace, key, newest } => {
                Ok(self.reads.newest_version(&version, keyspace, key, end)? == newest)
            }
            Condition::Unwritten { reads, since } => self.reads.are_unwritten(&version, reads, (since, end)),
        }
    }

    fn renew_space_pace(&self) {
        let unavailable = &self.maintenance.unavailable_segments();
        self.blob_space(&self.catalog.version.load(), unavailable).set_pace();
    }

    fn wait_to_retry(&self) -> Result<()> {
        let begun = self.clock.now();
        retry_flushes(&self.maintenance);
        if self.is_manual() {
            // There are no threads for it.
            firn_maintenance::step(self)?;
        } else {
            self.commit.admission.wait_released();
        }
        self.commit.admission.stopped(begun, self.clock.now());
        self.background_error()?;
        // Nothing flushes any more once the database closes.
        self.check_open()?;
        refused_room(&self.maintenance, &self.catalog, &*self.clock)
    }

    fn put_on_shared_storage(&self, end: Position) -> Result<()> {
        self.share_through(end)
    }
}

impl EditEnv for Database {
    fn send_before_flush(&self, keyspace: u32, end: Position) -> Result<()> {
        self.send_before_flush(keyspace, end)
    }

    fn send_through(&self, end: Position) -> Result<()> {
        match self.shared_log.is_begun() {
            true => self.shared_log.send_through(self, end, By::Flush).map_err(from_storage),
            false => Ok(()),
        }
    }

    fn commit_flush(&self, manifest: &mut Manifest, mut changes: Vec<Change>) -> Result<()> {
        let unneeded = self.shared_log.unneeded(manifest.state().log_start());
        changes.extend(unneeded.as_ref().map(|unneeded| State::naming(unneeded.named)));
        manifest.commit(&changes).map_err(from_storage)?;
        unneeded.into_iter().for_each(|unneeded| self.shared_log.remove_unneeded(self, unneeded));
        Ok(())
    }
}
