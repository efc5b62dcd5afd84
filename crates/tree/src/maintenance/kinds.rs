//! Kinds of units of background work, and which of them rest after a failure.

use firn_engine::Error;
use firn_maintenance::{Backoff, Room};

use super::Task;

/// Kinds of units, as far as one kind of a keyspace may rest while all others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TaskKind {
    Freeze,
    Merge,
    Flush,
    /// Flushes of several keyspaces at once, for all of them.
    FlushSmall,
    Compact,
    /// Compactions of several keyspaces at once, for all of them.
    CompactSmall,
    /// Of all keyspaces whose tables lie in the files.
    Repack,
    Reclaim,
    FlushForGc,
    /// Of no keyspace: sealing and collecting values, log objects, the log's length, and what is
    /// done about files.
    Values,
    BlobGc,
    LogObjects,
    Log,
    Files,
}

impl TaskKind {
    /// Whether units of this kind are each of one keyspace, and have nothing to do once that is
    /// dropped.
    pub(crate) fn is_of_one_keyspace(self) -> bool {
        match self {
            Self::FlushSmall
            | Self::CompactSmall
            | Self::Repack
            | Self::Values
            | Self::BlobGc
            | Self::LogObjects
            | Self::Log
            | Self::Files => false,
            Self::Freeze | Self::Merge | Self::Flush | Self::Compact | Self::Reclaim | Self::FlushForGc => {
                true
            }
        }
    }

    /// What room units of this kind need: one which finds none says something of all others that
    /// write files. Jobs leave room for flushes.
    pub(crate) fn room(self) -> Room {
        match self {
            Self::Flush | Self::FlushSmall => Room::Kept,
            Self::Compact
            | Self::CompactSmall
            | Self::Repack
            | Self::FlushForGc
            | Self::Values
            | Self::BlobGc
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
    pub(crate) fn unit(&self) -> Unit {
        match self {
            // It fails with the first of them alone.
            Self::Freeze { keyspaces } => (TaskKind::Freeze, keyspaces.first().copied().unwrap_or_default()),
            Self::Merge { keyspace, .. } => (TaskKind::Merge, *keyspace),
            Self::Flush { keyspace, .. } => (TaskKind::Flush, *keyspace),
            Self::FlushSmall { .. } => (TaskKind::FlushSmall, 0),
            Self::Compact { keyspace, .. } => (TaskKind::Compact, *keyspace),
            Self::Reclaim { keyspace } => (TaskKind::Reclaim, *keyspace),
            Self::FlushForGc { keyspace, .. } => (TaskKind::FlushForGc, *keyspace),
            Self::CompactSmall { .. } => (TaskKind::CompactSmall, 0),
            Self::Repack { .. } => (TaskKind::Repack, 0),
            Self::SealBlobs => (TaskKind::Values, 0),
            Self::BlobGc { .. } => (TaskKind::BlobGc, 0),
            Self::MergeLogObjects => (TaskKind::LogObjects, 0),
            Self::ShortenLog => (TaskKind::Log, 0),
            Self::FlushPart { .. }
            | Self::WriteBackBlobs
            | Self::RemoveObsolete
            | Self::RemoveOrphans
            | Self::Balance
            | Self::GiveUpRecycled => (TaskKind::Files, 0),
        }
    }
}

/// Why nothing is flushed of `keyspace`: what rests, or room.
pub(crate) fn flush_refusal(backoff: &Backoff<Unit>, keyspace: u32) -> Option<&Error> {
    let works = [TaskKind::Flush, TaskKind::Freeze];
    works.into_iter().find_map(|kind| backoff.last_failure((kind, keyspace))).or(backoff.kept_refusal())
}

/// What makes room in the buffer may be tried at once.
pub(crate) fn forget_flushes(backoff: &mut Backoff<Unit>) {
    backoff.forget_kept_room();
    backoff.forget(|(kind, _)| {
        matches!(kind, TaskKind::Flush | TaskKind::FlushSmall | TaskKind::Freeze | TaskKind::Merge)
    });
}
