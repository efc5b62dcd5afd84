//! What the buffer hides of separated values is brought to light.

use firn_engine::Result;
use firn_format::Position;

use super::choose::Choosing;
use crate::blob_gc::unreclaimed::{
    FREEZE_UNRECLAIMED_BYTES_MIN, REST_UNRECLAIMED_BYTES_MIN, UnreclaimedEstimate, freeze_bytes_min,
};
use crate::commit::roll::Freeze;
use crate::database::Database;
use crate::maintenance::Task;
use crate::settings::garbage_share_max;

impl Choosing<'_> {
    /// A keyspace whose buffer hides so much that it is to be flushed, or whose memtable may, which
    /// shows once it is frozen. `flushed_through` tells through where a flush of a keyspace was
    /// asked for already.
    pub(super) fn choose_flush_for_gc(&self, flushed_through: impl Fn(u32) -> Position) -> Option<Task> {
        let settings = &self.database.settings;
        let (mean, held) = self.database.blobs.map().mean_value()?;
        let worth_min = if self.database.is_at_rest() {
            REST_UNRECLAIMED_BYTES_MIN
        } else {
            FREEZE_UNRECLAIMED_BYTES_MIN
        };
        self.version.live().find_map(|keyspace| {
            let hidden = UnreclaimedEstimate::of(keyspace, mean, settings);
            let limit = hidden.buffer_bytes_max(held, garbage_share_max(settings));
            let id = keyspace.id();
            let end = keyspace.runs.first().map_or(Position::default(), |run| run.span().end);
            if hidden.run_bytes > limit && flushed_through(id) < end {
                return Some(Task::FlushForGc { keyspace: id, through: end });
            }
            let memtable = &keyspace.memtable;
            let may_hide = memtable.len() as f64 * hidden.worth;
            let is_much = memtable.record_bytes() >= freeze_bytes_min(settings) || may_hide >= worth_min;
            // Beside a flush that takes long, each segment begun for that would be one more than
            // there is room for.
            let may_freeze = keyspace.frozen.is_empty()
                && self.database.commit.has_memory_for(self.database.settings.engine.log_segment_bytes);
            (may_hide > limit && is_much && may_freeze)
                .then_some(Task::FlushForGc { keyspace: id, through: Position::default() })
        })
    }
}

/// Freezes the memtable of `keyspace`: what it hides shows then. Where that is known, has
/// everything flushed `through` there instead.
pub(super) fn flush_for_gc(database: &Database, keyspace: u32, through: Position) -> Result<()> {
    if through > Position::default() {
        database.maintenance.wish_flushed(keyspace, through);
        return Ok(());
    }
    let base = database.commit.log.active().base();
    database.commit.roll(base, Freeze::Keyspace(keyspace))?;
    Ok(())
}
