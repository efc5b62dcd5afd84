//! Records of keyspaces that the manifest does not know: the edit that made them is lost.

use std::sync::Arc;

use firn_engine::{Error, Location, Result};
use firn_format::Position;
use firn_format::log::{FrameKind, SEGMENT_HEADER_BYTES, scan_frames};
use firn_storage::Storage;

use super::survey;
use crate::version::state::State;

/// Refuses a record of a keyspace that was never created, as far as `next_number` says: to leave it
/// out would lose it.
pub(super) fn check_created(next_number: u64, name: &str, at: usize, keyspace: u32) -> Result<()> {
    if u64::from(keyspace) < next_number {
        return Ok(());
    }
    let message = format!(
        "the record is of keyspace {keyspace}, which no manifest edit made: the edit that did is missing. \
         Put it back from a copy, or restore a backup"
    );
    Err(Error::corrupt(Location { file: name.to_owned(), offset: Some(at as u64 + 8) }, message))
}

/// Looks for records of keyspaces that were never created in the log of a database whose manifest
/// says `state`, cut off or not.
///
/// # Errors
/// `Corrupt`, with the first of them; what reading says.
pub(crate) fn check_log_created(storage: &Arc<dyn Storage>, state: &State) -> Result<()> {
    for candidate in survey(storage, state)?.candidates {
        let base = candidate.header.base;
        let scan = scan_frames(&candidate.bytes, base, SEGMENT_HEADER_BYTES, candidate.header.generation);
        for (offset, frame) in scan {
            if frame.kind != FrameKind::Batch || Position(base.0 + offset as u64) >= candidate.end {
                continue;
            }
            for (inside, record) in frame.records() {
                let Ok(record) = record else { break };
                check_created(state.next_number, &candidate.name, offset + inside, record.keyspace)?;
            }
        }
    }
    Ok(())
}
