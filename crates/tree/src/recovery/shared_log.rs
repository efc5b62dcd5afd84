//! The log of a machine that may be gone, as its log objects have it.

use std::sync::Arc;

use firn_engine::Result;
use firn_format::Position;
use firn_format::key::GRANULE_BYTES;
use firn_format::log_object::PieceOf;
use firn_storage::file::log::objects::Restored;
use firn_storage::file::obsolete::ObsoleteFiles;
use firn_storage::{Spawn, Storage};

use super::FoundBlobs;
use super::log::{RecoveredLog, known_end, recover_log};
use crate::version::state::State;

/// Whether an opening from `state` needs `segment`: it does not if its records are in tables, or if
/// an edit names it.
pub(super) fn is_needed(state: &State, segment: &PieceOf) -> bool {
    match segment {
        PieceOf::Log(header) => header.base.0 + header.capacity > state.log_start().0,
        PieceOf::Values(header) => !state.blobs.knows(header.number),
    }
}

/// The log as it was restored; this machine's goes on behind all that the manifest knows of.
///
/// # Errors
/// As [`recover_log`]: all of it was acknowledged.
pub(crate) fn recover_restored(
    storage: &Arc<dyn Storage>,
    state: &State,
    values: &FoundBlobs,
    obsolete: &Arc<ObsoleteFiles>,
    spawn: Option<&Arc<dyn Spawn>>,
    restored: &Restored,
) -> Result<RecoveredLog> {
    // What was on the other machine's device, and in no log object, is given up.
    let known = State { durable_through: restored.end, cut: restored.end, boot: 0, ..state.clone() };
    let mut recovered = recover_log(storage, &known, values, obsolete, spawn, true)?;
    let behind = Position(known_end(state).0.next_multiple_of(GRANULE_BYTES));
    recovered.next_base = recovered.next_base.max(behind);
    Ok(recovered)
}
