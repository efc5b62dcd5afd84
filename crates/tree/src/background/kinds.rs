//! Kinds of units of background work, and which of them rest after a failure.

use firn_engine::Error;
use firn_maintenance::{Backoff, Room};

use super::Task;

/// Kinds of units, as far as one kind of a keyspace may rest while all others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TaskKind {
    Freeze,
    Merge,
    Drain,
    /// Drains of several keyspaces at once, for all of them.
    DrainSmall,
    Compact,
    /// Compactions of several keyspaces at once, for all of them.
    CompactSmall,
    /// Of all keyspaces whose tables lie in the files.
    Repack,
    Reclaim,
    Expose,
    /// Of no keyspace: sealing and collecting values, log objects, the log's length, and what is
    /// done about files.
    Values,
    Collect,
    LogObjects,
    Log,
    Files,
}

impl TaskKind {
    /// What room units of this kind need: one which finds none says something of all others that
    /// write files. Jobs leave room for drains.
    pub(super) fn room(self) -> Room {
        match self {
            Self::Drain | Self::DrainSmall => Room::Kept,
            Self::Compact
            | Self::CompactSmall
            | Self::Repack
            | Self::Expose
            | Self::Values
            | Self::Collect
            | Self::LogObjects
            | Self::Log => Room::Left,
            Self::Freeze | Self::Merge | Self::Reclaim | Self::Files => Room::None,
        }
    }
}

/// A kind of work, and of which keyspace; 0 where it is of none.
pub(crate) type Unit = (TaskKind, u32);

impl Task {
    /// What may rest if it fails.
    pub(super) fn unit(&self) -> Unit {
        match self {
            // It fails with the first of them alone.
            Self::Freeze { keyspaces } => (TaskKind::Freeze, keyspaces.first().copied().unwrap_or_default()),
            Self::Merge { keyspace, .. } => (TaskKind::Merge, *keyspace),
            Self::Drain { keyspace, .. } => (TaskKind::Drain, *keyspace),
            Self::DrainSmall { .. } => (TaskKind::DrainSmall, 0),
            Self::Compact { keyspace, .. } => (TaskKind::Compact, *keyspace),
            Self::Reclaim { keyspace } => (TaskKind::Reclaim, *keyspace),
            Self::Expose { keyspace, .. } => (TaskKind::Expose, *keyspace),
            Self::CompactSmall { .. } => (TaskKind::CompactSmall, 0),
            Self::Repack { .. } => (TaskKind::Repack, 0),
            Self::SealValues => (TaskKind::Values, 0),
            Self::Collect { .. } => (TaskKind::Collect, 0),
            Self::MergeLogObjects => (TaskKind::LogObjects, 0),
            Self::ShortenLog => (TaskKind::Log, 0),
            Self::DrainPart { .. }
            | Self::WriteBackValues
            | Self::Bury
            | Self::RemoveOrphans
            | Self::Balance
            | Self::GiveUpRecycled => (TaskKind::Files, 0),
        }
    }
}

/// Why nothing is drained of `keyspace`: what rests, or room.
pub(super) fn drain_refusal(backoff: &Backoff<Unit>, keyspace: u32) -> Option<&Error> {
    let works = [TaskKind::Drain, TaskKind::Freeze];
    works.into_iter().find_map(|kind| backoff.last_failure((kind, keyspace))).or(backoff.kept_refusal())
}

/// What makes room in the buffer may be tried at once.
pub(super) fn forget_drains(backoff: &mut Backoff<Unit>) {
    backoff.forget_kept_room();
    backoff.forget(|(kind, _)| {
        matches!(kind, TaskKind::Drain | TaskKind::DrainSmall | TaskKind::Freeze | TaskKind::Merge)
    });
}
