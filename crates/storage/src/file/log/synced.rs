//! From the file to the device, one sync for all threads that wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_format::Position;

use super::order::{Log, Referred};
use super::segment::Segment;
use crate::{Error, Result};

/// What of a log the device has.
#[derive(Debug)]
pub(super) struct Synced<C> {
    /// Everything below is on the device.
    through: AtomicU64,
    /// Segments that may hold bytes the device does not have, oldest first; locked for moments.
    segments: Mutex<VecDeque<Arc<Segment<C>>>>,
    /// Held across a device sync.
    syncing: Mutex<()>,
    /// Syncs of files of segments.
    count: AtomicU64,
}

impl<C> Synced<C> {
    /// The device has everything below `through`, and perhaps nothing of the `recovered` segments
    /// and of the `first` new one.
    pub(super) fn new(through: Position, recovered: Vec<Arc<Segment<C>>>, first: Arc<Segment<C>>) -> Self {
        Self {
            through: AtomicU64::new(through.0),
            segments: Mutex::new(recovered.into_iter().chain([first]).collect()),
            syncing: Mutex::new(()),
            count: AtomicU64::new(0),
        }
    }

    /// A new segment, of which the device has nothing.
    pub(super) fn add(&self, segment: &Arc<Segment<C>>) {
        self.lock_segments().push_back(Arc::clone(segment));
    }

    fn lock_segments(&self) -> MutexGuard<'_, VecDeque<Arc<Segment<C>>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C, R: Referred> Log<C, R> {
    /// Everything below is on the device.
    pub fn durable_through(&self) -> Position {
        Position(self.synced.through.load(Ordering::Acquire))
    }

    /// Syncs of files of segments since the log's start.
    pub fn sync_count(&self) -> u64 {
        self.synced.count.load(Ordering::Relaxed)
    }

    /// Returns when the device has everything below `end`, so that it survives loss of power.
    ///
    /// Concurrent callers share one sync. Blocks for it.
    ///
    /// # Errors
    /// A failed sync poisons the log for good.
    pub fn sync_through(&self, end: Position) -> Result<()> {
        if self.durable_through() >= end {
            return Ok(());
        }
        // Before the lock: the holder of a frame that is not published may sync what lies before
        // it.
        self.wait_published(end)?;
        let _syncing = self.synced.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.durable_through() >= end {
            return Ok(());
        }
        self.check()?;
        let through = self.advance()?;
        self.write_through(through)?;
        let unsynced: Vec<_> = self
            .synced
            .lock_segments()
            .iter()
            .take_while(|segment| segment.base() < through)
            .cloned()
            .collect();
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
            self.synced.count.fetch_add(1, Ordering::Relaxed);
            file.sync().map_err(|error| self.failed(error))?;
        }
        self.factory.storage.sync_dir().map_err(|error| self.failed(error))?;
        self.forget_below(through);
        self.synced.through.fetch_max(through.0, Ordering::AcqRel);
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
        let mut unsynced = self.synced.lock_segments();
        while unsynced.len() > 1 && unsynced.front().is_some_and(|segment| segment.span_end() <= position) {
            unsynced.pop_front();
        }
    }

    fn failed(&self, error: Error) -> Error {
        self.fail(&error);
        self.poisoned()
    }
}
