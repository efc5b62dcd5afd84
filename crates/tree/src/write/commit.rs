//! The path of a write.

use std::sync::Arc;

use firn_engine::LockTable;

use super::admission::Admission;
use super::foresight::Foresight;
use super::room::Room;
use crate::log::Log;

/// What every write passes through.
#[derive(Debug)]
pub(crate) struct CommitPipeline {
    pub(crate) log: Log,
    pub(crate) admission: Admission,
    /// Whether the disk has room.
    pub(crate) room: Room,
    /// When writers will stop.
    pub(crate) foresight: Foresight,
    /// Locks that updates of one key take in turn. Not those of sessions: a session may update what
    /// it has locked.
    pub(crate) update_locks: Arc<LockTable>,
}

impl CommitPipeline {
    /// A pipeline into `log`.
    pub(crate) fn new(log: Log) -> Self {
        Self {
            log,
            admission: Admission::default(),
            room: Room::default(),
            foresight: Foresight::default(),
            update_locks: LockTable::new(),
        }
    }
}
