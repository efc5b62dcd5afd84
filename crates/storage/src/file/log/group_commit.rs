//! From the arena to the file and to the device, one call for all threads that wait.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};

use firn_format::Position;
use firn_format::log::SEGMENT_HEADER_BYTES;

use super::order::{Log, Referred};
use super::segment::Segment;
use crate::{Error, ErrorKind, Result};

/// How far the file has the log; held by the leader of a group.
#[derive(Debug)]
pub(super) struct GroupCommit<C> {
    segment: Arc<Segment<C>>,
    /// Arena bytes of `segment` that are written.
    offset: usize,
}

impl<C> GroupCommit<C> {
    pub(super) fn new(segment: Arc<Segment<C>>) -> Self {
        Self { segment, offset: 0 }
    }
}

/// Pauses before a waiter gives its core away.
pub(super) const SPINS_MAX: u32 = 200;

impl<C, R: Referred> Log<C, R> {
    /// Returns when everything below `end` survives the process.
    ///
    /// Concurrent callers share one write. The caller that finds the group free leads it and writes
    /// the arena's own bytes up to the watermark; the others find their bytes written. Blocks for
    /// one write of the group.
    ///
    /// # Errors
    /// `Full` when the disk is full (the bytes are kept and written by a later group); any other
    /// failure of the file poisons the log.
    pub fn write_through(&self, end: Position) -> Result<()> {
        let mut spins = 0;
        loop {
            if self.written.load(Ordering::Acquire) >= end.0 {
                return Ok(());
            }
            self.check()?;
            let mut group = match self.group.try_lock() {
                Ok(group) => group,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    spins += 1;
                    if spins < SPINS_MAX {
                        std::hint::spin_loop();
                        continue;
                    }
                    self.group.lock().unwrap_or_else(PoisonError::into_inner)
                }
            };
            if self.watermark() >= end {
                self.write_group(&mut group)?;
                continue;
            }
            // An earlier frame is still being copied by another thread; it needs no lock to finish.
            drop(group);
            self.advance()?;
            spins += 1;
            if spins < SPINS_MAX { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// Writes every published byte that is not written.
    fn write_group(&self, group: &mut GroupCommit<C>) -> Result<()> {
        loop {
            let region = group.segment.region();
            let published = region.published();
            if let Some(bytes) =
                region.read(group.offset, published - group.offset).filter(|bytes| !bytes.is_empty())
            {
                let file =
                    group.segment.file().ok_or_else(|| Error::bug("the active log segment has no file"))?;
                let offset = (SEGMENT_HEADER_BYTES + group.offset) as u64;
                file.write_combined(offset, bytes).map_err(|error| self.not_written(error))?;
                self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                group.offset = published;
                let position = group.segment.position(published).0;
                // A caller that finds its bytes written is answered, so readers must see them: the
                // thread that published them may not have come to say so.
                self.watermark.fetch_max(position, Ordering::AcqRel);
                self.written.fetch_max(position, Ordering::AcqRel);
            }
            if region.sealed_end() != Some(group.offset) {
                return Ok(());
            }
            let Some(next) = self.successor(group.segment.base()) else { return Ok(()) };
            if let Some(file) = group.segment.file() {
                file.hand_over().map_err(|error| self.not_written(error))?;
            }
            group.segment.cut();
            self.lock_open().retain(|open| open.base() >= next.base());
            self.written.fetch_max(next.position(0).0, Ordering::AcqRel);
            *group = GroupCommit::new(next);
        }
    }

    /// Lets go of a segment that is sealed and wholly written. The last write to it came before it
    /// was sealed, and its arena would stay until the next write. Waits for no other writer.
    pub fn leave_written(&self) {
        let Ok(mut group) = self.group.try_lock() else { return };
        let region = group.segment.region();
        if region.sealed_end() == Some(group.offset) && region.published() == group.offset {
            // What goes wrong here goes wrong for the next writer too, which tells.
            let _told_later = self.advance().and_then(|_| self.write_group(&mut group));
        }
    }

    /// The error of a writer whose bytes the place did not take: a full disk passes, anything else
    /// ends writing.
    fn not_written(&self, error: Error) -> Error {
        if error.kind != ErrorKind::Full {
            self.fail(&error);
        }
        error
    }

    /// Returns when the device has everything below `end`, so that it survives loss of power.
    ///
    /// Concurrent callers share one sync. Blocks for it.
    ///
    /// # Errors
    /// A failed sync poisons the log for good.
    pub fn sync_through(&self, end: Position) -> Result<()> {
        if self.durable.load(Ordering::Acquire) >= end.0 {
            return Ok(());
        }
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.durable.load(Ordering::Acquire) >= end.0 {
            return Ok(());
        }
        self.check()?;
        // `end` may lie behind frames that other threads still copy: they come first.
        self.write_through(end)?;
        let through = self.advance()?;
        self.write_through(through)?;
        let unsynced: Vec<_> =
            self.lock_unsynced().iter().take_while(|segment| segment.base() < through).cloned().collect();
        // A disk that is full may be told here; what the syncs say is final.
        if let Some(referred) = self.referred.get() {
            referred.hand_over().map_err(|error| self.not_written(error))?;
        }
        for file in unsynced.iter().filter_map(|segment| segment.file()) {
            file.hand_over().map_err(|error| self.not_written(error))?;
        }
        // What records refer to before the records.
        if let Some(referred) = self.referred.get() {
            referred.sync().map_err(|error| self.failed(error))?;
        }
        for segment in &unsynced {
            let Some(file) = segment.file() else { continue };
            self.sync_count.fetch_add(1, Ordering::Relaxed);
            file.sync().map_err(|error| self.failed(error))?;
        }
        self.storage.sync_dir().map_err(|error| self.failed(error))?;
        self.forget_below(through);
        self.durable.fetch_max(through.0, Ordering::AcqRel);
        Ok(())
    }

    /// An edit that is about to be committed needs no sync of the log: everything below `end` is in
    /// its tables.
    ///
    /// The segments stay to be synced until the edit is durable
    /// ([`forget_below`](Self::forget_below)). A sync that comes in between still has to carry
    /// them, and the edit may fail.
    pub fn covered_through(&self, end: Position) {
        assert!(end <= self.watermark(), "tables hold records up to {end}, before they are published");
    }

    /// Forgets segments that lie wholly below `position`: they are synced, or a durable edit says
    /// that no replay needs them.
    pub fn forget_below(&self, position: Position) {
        let mut unsynced = self.lock_unsynced();
        while unsynced.len() > 1 && unsynced.front().is_some_and(|segment| segment.span_end() <= position) {
            unsynced.pop_front();
        }
    }

    fn failed(&self, error: Error) -> Error {
        self.fail(&error);
        self.poisoned()
    }

    /// `Closed` with the first cause once the log is poisoned.
    pub fn check(&self) -> Result<()> {
        match self.poison() {
            None => Ok(()),
            Some(_) => Err(self.poisoned()),
        }
    }
}
