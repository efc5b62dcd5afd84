//! A checkpoint: all that was written before one moment lies on the device.
//!
//! ```text
//!   the next generation of redo logs is made ─► edit: it is there
//!   stop: no operation is under way ─► cut = tail, read-only; redo turns ─► operations go on
//!   pages before the cut are written out and synced ─► edit: cut, generation ─► older redo logs go
//!                                                      and what compaction has left behind
//! ```
//! A crash before the edit finds both generations of redo logs, after it the later one alone.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use firn_engine::{Error, Position, Result};
use firn_format::manifest::{Change, ColdChange};

use crate::compact::Compaction;
use crate::database::Database;
use crate::error::from_storage;

impl Database {
    /// Takes a checkpoint. Blocks for writing out what was not yet; operations wait only for the
    /// moment of the cut.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _turn = self.moments.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        self.take_checkpoint().inspect_err(|error| self.note_final(error)).map(|_| ())
    }

    /// As [`checkpoint`](Self::checkpoint), for a caller that holds `checkpointing`; answers the
    /// position that all writes in it lie before, and no others do.
    pub(crate) fn take_checkpoint(&self) -> Result<Position> {
        let redo = self.store.redo.as_ref().ok_or_else(|| Error::bug("a database without a redo log"))?;
        let generation = redo.prepare()?;
        self.begin_redo(generation)?;
        let (cut, cold_cut, position) = {
            let _whole = self.moments.batches.write().unwrap_or_else(PoisonError::into_inner);
            let _stopped = self.store.epochs.stop();
            let cut = self.store.log.tail.next();
            redo.turn()?;
            self.store.log.markers.cut(cut);
            (cut, self.store.cold.end(), Position(self.snapshots.next().0 + 1))
        };
        self.counters.checkpointed_at_ms.store(self.clock_ms(), Ordering::Relaxed);
        let (first, cold_first) = {
            let _turn = self.maintenance.flushing.lock().unwrap_or_else(PoisonError::into_inner);
            self.flush_to(cut)?;
            let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            (manifest.state().cut, manifest.state().cold.cut)
        };
        self.values.sync()?;
        self.device.sync(first, cut)?;
        if cold_first < cold_cut {
            self.store.cold.device.sync(cold_first, cold_cut)?;
        }
        let mut changes = vec![
            Change::HybridCut { address: cut, redo: generation },
            Change::Checkpointed { position },
            Change::PositionsGiven { position: self.snapshots.given_ahead() },
            Change::Tick { ms: self.now_ms() },
        ];
        if cold_first < cold_cut {
            changes.push(Change::Cold(ColdChange::Cut { address: cold_cut }));
        }
        let oldest_end = self.snapshots.oldest_end();
        let removable = self.reclaim.progress().take_removable((cut, cold_cut), oldest_end);
        let cold_removable = self.reclaim.cold_progress().take_removable((cut, cold_cut), oldest_end);
        changes.extend(removable.last().map(|left| Change::HybridBegin { address: left.end }));
        changes
            .extend(cold_removable.last().map(|left| Change::Cold(ColdChange::Begin { address: left.end })));
        let committed = self.manifest.lock().unwrap_or_else(PoisonError::into_inner).commit(&changes);
        if let Err(error) = committed {
            self.reclaim.progress().put_back(removable);
            self.reclaim.cold_progress().put_back(cold_removable);
            return Err(from_storage(error));
        }
        self.store.cold.set_cut(cold_cut);
        self.counters.checkpointed.store(position.0, Ordering::Release);
        let cut_off = redo.remove_before(generation);
        Compaction::of(self).truncate(removable)?;
        Compaction::of(self).truncate_cold(cold_removable)?;
        Compaction::of(self).remove_replaced_values(cut)?;
        cut_off?;
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(position)
    }

    /// Has the manifest say that the redo logs of `generation` are there.
    fn begin_redo(&self, generation: u64) -> Result<()> {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if manifest.state().redo_through < generation {
            manifest.commit(&[Change::RedoBegun { redo: generation }]).map_err(from_storage)?;
        }
        Ok(())
    }
}
