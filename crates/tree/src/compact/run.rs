//! Jobs of one choice, and what becomes of their outputs.

use firn_engine::{Error, Result};
use firn_format::manifest::TableMeta;
use firn_format::tombstone::FragmentList;
use firn_jobs::Cursor;

use super::pick::Choice;
use crate::shared::Shared;
use crate::version::Keyspace;
use crate::version::commit::Edit;

impl Shared {
    pub(crate) fn write_outputs(
        &self,
        _state: &Keyspace,
        _source: Box<dyn Cursor>,
        _tombstones: &FragmentList,
        _splits: Vec<Vec<u8>>,
    ) -> Result<Vec<TableMeta>> {
        Err(Error::bug("not yet"))
    }

    /// Commits, and removes the outputs if that did not happen.
    pub(crate) fn commit_or_remove(&self, edit: Edit) -> Result<bool> {
        let outputs: Vec<String> = edit.added.iter().map(|(_, _, table)| table.file.clone()).collect();
        let committed = self.commit(edit);
        if !matches!(committed, Ok(true)) {
            // After a failure that is final the edit may be durable: then its tables must stay.
            let unknown = committed.as_ref().is_err_and(|error| error.kind() != firn_engine::ErrorKind::Retry);
            if !unknown {
                outputs.into_iter().for_each(|name| self.graveyard.bury(name));
            }
        }
        committed
    }

    pub(crate) fn compact(&self, _keyspace: u32, _choice: &Choice) -> Result<()> {
        Err(Error::bug("not yet"))
    }

    pub(crate) fn compact_range(&self, _keyspace: u32, _start: &[u8], _end: Option<&[u8]>) -> Result<()> {
        Err(Error::bug("not yet"))
    }
}
