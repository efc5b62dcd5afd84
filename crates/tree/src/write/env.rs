//! The database around the pipeline of writes.

use firn_engine::{KeyspaceId, Result};
use firn_format::{Position, Sequence};

use crate::commit::CommitEnv;
use crate::database::Database;

impl CommitEnv for Database {
    fn is_compacting(&self) -> bool {
        self.maintenance.is_compacting()
    }

    fn crosses(&self, start: Position) {
        self.groups.crosses(start);
    }

    fn newest_below(&self, keyspace: KeyspaceId, key: &[u8], end: Position) -> Result<Option<Sequence>> {
        self.newest_version(&self.catalog.version.load(), keyspace, key, end)
    }

    fn renew_space_pace(&self) {
        let unavailable = &self.maintenance.unavailable_segments();
        self.blob_space(&self.catalog.version.load(), unavailable).set_pace();
    }

    fn wait_to_retry(&self) -> Result<()> {
        self.wait_for_room()
    }

    fn put_on_shared_storage(&self, end: Position) -> Result<()> {
        self.share_through(end)
    }
}
