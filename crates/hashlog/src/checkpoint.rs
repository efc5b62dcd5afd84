//! A checkpoint: all that was written before one moment lies on the device.
//!
//! ```text
//!   the next generation of redo logs is made ─► edit: it is there
//!   stop: no operation is under way ─► cut = tail, read-only; redo turns ─► operations go on
//!   pages before the cut are written out and synced ─► edit: cut, generation ─► older redo logs go
//!                                                      and what compaction has left behind
//! ```
//! A crash before the edit finds both generations of redo logs, after it the later one alone.
//!
//! On shared storage all that the edit names is sent before it ([`crate::tier`]). So another
//! machine finds all that was written before the cut. Writes at `shared` wait for that.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use firn_engine::{Error, ErrorKind, Position, Result};
use firn_format::file_name;
use firn_format::hybrid::{Extent, LogKind};
use firn_format::manifest::{Change, ColdChange};

use crate::compact::Compaction;
use crate::database::Database;
use crate::error::from_storage;
use crate::extents::Extents;
use crate::tier::{Acknowledge, TRIES_MAX};

/// What a checkpoint has sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    extents: Vec<Extent>,
    /// A generation of redo logs that is there beforehand: the next checkpoint saves an edit.
    redo: Option<u64>,
}

impl Sent {
    /// What the manifest is to say of it.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        let redo = self.redo.map(|redo| Change::RedoBegun { redo });
        self.extents.iter().map(|extent| Change::Extent(*extent)).chain(redo)
    }
}

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
        let sent = self.send((first, cut), (cold_first, cold_cut))?;
        changes.extend(sent.changes());
        let oldest_end = self.snapshots.oldest_end();
        let removable = self.reclaim.progress().take_removable((cut, cold_cut), oldest_end);
        let cold_removable = self.reclaim.cold_progress().take_removable((cut, cold_cut), oldest_end);
        changes.extend(removable.last().map(|left| Change::HybridBegin { address: left.end }));
        changes
            .extend(cold_removable.last().map(|left| Change::Cold(ColdChange::Begin { address: left.end })));
        let needless = match self.commit_checkpoint(&changes) {
            Ok(needless) => needless,
            Err(error) => {
                self.reclaim.progress().put_back(removable);
                self.reclaim.cold_progress().put_back(cold_removable);
                return Err(error);
            }
        };
        self.store.cold.set_cut(cold_cut);
        self.counters.checkpointed.store(position.0, Ordering::Release);
        let cut_off = redo.remove_before(generation);
        // The edit is made: each of these is done, whatever becomes of the others.
        let settled = [
            Compaction::of(self).truncate(removable),
            Compaction::of(self).truncate_cold(cold_removable),
            Compaction::of(self).remove_replaced_values(cut),
            self.settle(&sent, needless),
            cut_off,
        ];
        settled.into_iter().collect::<Result<()>>()?;
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(position)
    }

    /// Has the manifest say `changes`; answers the extents that it names no more.
    fn commit_checkpoint(&self, changes: &[Change]) -> Result<BTreeSet<Extent>> {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = manifest.state().extents();
        manifest.commit(changes).map_err(from_storage)?;
        Ok(before.difference(&manifest.state().extents()).copied().collect())
    }

    /// Has the manifest say that the redo logs of `generation` are there.
    fn begin_redo(&self, generation: u64) -> Result<()> {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if manifest.state().redo_through < generation {
            manifest.commit(&[Change::RedoBegun { redo: generation }]).map_err(from_storage)?;
        }
        Ok(())
    }

    /// Sends what a checkpoint has of both logs, each from what is sent to its cut, and the values.
    /// Does nothing without shared storage.
    ///
    /// # Errors
    /// `Retry` where shared storage does not take it.
    pub(crate) fn send(&self, hybrid: (u64, u64), cold: (u64, u64)) -> Result<Sent> {
        let (Some(tier), Some(redo)) = (&self.tier, &self.store.redo) else { return Ok(Sent::default()) };
        self.values.send(tier)?;
        let bits = self.device.segment_bits();
        let (hybrid, cold) = {
            let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            let next = |extents: &Extents, range| extents.next(range, bits);
            (next(&manifest.state().hybrid, hybrid), next(&manifest.state().cold.extents, cold))
        };
        let mut extents = tier.send_extents(LogKind::Hybrid, &self.device, &hybrid)?;
        extents.extend(tier.send_extents(LogKind::Cold, &self.store.cold.device, &cold)?);
        Ok(Sent { extents, redo: Some(redo.prepare()?) })
    }

    /// The manifest names what was `sent`, and no more what is `needless`: that goes, and what is
    /// both here and there stays here while there is room.
    pub(crate) fn settle(&self, sent: &Sent, needless: BTreeSet<Extent>) -> Result<()> {
        let Some(tier) = &self.tier else { return Ok(()) };
        tier.remove(needless.into_iter().map(file_name::extent));
        let words = 1 << self.device.segment_bits();
        let sealed = sent.extents.iter().filter(|extent| extent.to - extent.from == words);
        sealed.for_each(|extent| tier.keep_segment(*extent));
        tier.evict(&self.device, &self.store.cold.device)
    }

    /// Refuses writes that are to outlive the machine where nothing does.
    pub(crate) fn check_shared(&self) -> Result<()> {
        match &self.tier {
            Some(_) => Ok(()),
            None => Err(Error::invalid(format!(
                "durability `shared` needs a backend that other machines reach, and {} is not divided: name a shared \
                 location, or ask for `disk`",
                self.env.storage.describe()
            ))),
        }
    }

    /// Has `acknowledge` called when another machine finds all writes up to `position`, as by
    /// [`share_through`](Self::share_through); does not wait. All that wait share a checkpoint.
    pub(crate) fn share_later(self: &Arc<Self>, position: Position, acknowledge: Acknowledge) {
        let is_first = match &self.tier {
            Some(tier) => tier.wait_for(position, acknowledge),
            None => return acknowledge(self.check_shared()),
        };
        if is_first {
            let database = Arc::clone(self);
            self.on_pool(move || database.share_waiting());
        }
    }

    fn share_waiting(&self) {
        let take = || self.tier.as_ref().map_or(Vec::new(), |tier| tier.take_waiting());
        loop {
            let writes = take();
            let Some(last) = writes.iter().map(|(position, _)| *position).max() else { return };
            let shared = self.share_through(last);
            for (position, acknowledge) in writes {
                acknowledge(if self.is_shared(position) { Ok(()) } else { shared.clone() });
            }
        }
    }

    /// Whether another machine finds all writes up to `position`.
    fn is_shared(&self, position: Position) -> bool {
        self.counters.checkpointed.load(Ordering::Acquire) > position.0
    }

    /// Returns when another machine that takes the database over finds all writes up to `position`.
    /// Blocks for a checkpoint, which all share that wait for it.
    ///
    /// # Errors
    /// `Retry` where shared storage refuses for long: the write is made, and the next checkpoint
    /// has it. `Closed` if another machine has taken the database over.
    pub(crate) fn share_through(&self, position: Position) -> Result<()> {
        let tier = self.tier.as_ref().ok_or_else(|| Error::bug("a shared write without shared storage"))?;
        let mut tried = 0;
        while !self.is_shared(position) {
            let failed = {
                let _turn = self.moments.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
                if self.is_shared(position) {
                    break;
                }
                self.check_writes()?;
                self.take_checkpoint().inspect_err(|error| self.note_final(error))
            };
            match failed {
                // It may be there although what is needless has not gone.
                Err(_) if self.is_shared(position) => {}
                Err(error) if error.kind() != ErrorKind::Retry || tried == TRIES_MAX => return Err(error),
                Err(_) => tier.pause(tried),
                Ok(_) => {}
            }
            tried += 1;
        }
        Ok(())
    }
}
