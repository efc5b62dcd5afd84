//! How far each part of the log reaches.
//!
//! Each marker only grows. `read_only` and `head` are moved first; their effect comes when every
//! operation that may have seen the old ones has ended: `safe_read_only` and `safe_head`.
//! 1. `begin <= head <= flushed <= safe_read_only <= read_only <= tail`.
//! 2. No record at or above `safe_read_only` is written to a device, and none below `read_only` is
//!    changed by an operation that begins now.
//! 3. Memory below `safe_head` is given to new pages, none above.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, Result};

use crate::epoch::Epochs;
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock};

/// How often a thread that waits looks by itself.
const LOOK: Duration = Duration::from_millis(1);

/// The markers of one log.
#[derive(Debug)]
pub(crate) struct Markers {
    pub(super) begin: AtomicU64,
    pub(super) head: AtomicU64,
    pub(super) safe_head: AtomicU64,
    pub(crate) flushed: AtomicU64,
    pub(crate) safe_read_only: AtomicU64,
    pub(super) read_only: AtomicU64,
    /// Memory below has been given to new pages.
    freed: Mutex<u64>,
    /// Why pages do not get to the device, if they do not.
    trouble: Mutex<Option<Error>>,
    /// Told when a marker has moved or there is trouble.
    moved: Condvar,
}

impl Markers {
    pub(super) fn new(begin: u64, next: u64, freed: u64) -> Self {
        let at_next = || AtomicU64::new(next);
        Self {
            begin: AtomicU64::new(begin),
            head: at_next(),
            safe_head: at_next(),
            flushed: at_next(),
            safe_read_only: at_next(),
            read_only: at_next(),
            freed: Mutex::new(freed),
            trouble: Mutex::new(None),
            moved: Condvar::new(),
        }
    }

    /// Records before `to` are not changed in place any more.
    pub(super) fn move_read_only(self: &Arc<Self>, epochs: &Epochs, to: u64) {
        if self.read_only.fetch_max(to, Ordering::SeqCst) < to {
            let markers = Arc::clone(self);
            epochs.bump(move || {
                markers.safe_read_only.fetch_max(to, Ordering::AcqRel);
                markers.notify();
            });
        }
    }

    /// Records before `to` are not changed any more. No operation is under way.
    pub(crate) fn cut(&self, to: u64) {
        self.read_only.fetch_max(to, Ordering::SeqCst);
        self.safe_read_only.fetch_max(to, Ordering::SeqCst);
    }

    /// Records before `to` are read from the device by operations that begin now.
    pub(super) fn move_head(self: &Arc<Self>, epochs: &Epochs, to: u64) -> bool {
        let has_moved = self.head.fetch_max(to, Ordering::SeqCst) < to;
        if has_moved {
            let markers = Arc::clone(self);
            epochs.bump(move || {
                markers.safe_head.fetch_max(to, Ordering::AcqRel);
            });
        }
        has_moved
    }

    pub(super) fn freed(&self) -> MutexGuard<'_, u64> {
        lock(&self.freed)
    }

    /// What there is no way around for now: writers that wait for memory are told.
    pub(crate) fn set_trouble(&self, trouble: Option<Error>) {
        *lock(&self.trouble) = trouble;
        self.moved.notify_all();
    }

    /// Wakes those that wait for a marker.
    pub(crate) fn notify(&self) {
        drop(lock(&self.trouble));
        self.moved.notify_all();
    }

    /// Waits until `is_so`, which must not notify. `help` is called before each look.
    ///
    /// # Errors
    /// What keeps pages from the device.
    pub(crate) fn wait_until(&self, help: impl Fn(), is_so: impl Fn() -> bool) -> Result<()> {
        loop {
            help();
            let trouble = lock(&self.trouble);
            if is_so() {
                return Ok(());
            }
            if let Some(error) = &*trouble {
                return Err(error.clone());
            }
            drop(self.moved.wait_timeout(trouble, LOOK));
        }
    }
}
