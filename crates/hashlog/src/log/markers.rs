//! How far each part of the log reaches.
//!
//! Each marker only grows. `read_only` and `head` are moved first; their effect comes when every
//! operation that may have seen the old ones has ended: `safe_read_only` and `safe_head`.
//! 1. `begin <= head <= flushed <= safe_read_only <= read_only <= tail`.
//! 2. No record at or above `safe_read_only` is written to a device, and none below `read_only` is
//!    changed by an operation that begins now.
//! 3. Memory below `safe_head` is given to new pages, none above.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, Result};

use crate::epoch::Epochs;
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock};
use crate::tasks::Kind;

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
    /// What keeps work of a kind from being done, if anything does.
    troubles: Mutex<BTreeMap<Kind, Error>>,
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
            troubles: Mutex::new(BTreeMap::new()),
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

    /// What keeps work of one kind from being done, until it is done again: writers that wait for
    /// it get the error.
    pub(crate) fn set_trouble(&self, kind: Kind, trouble: Option<Error>) {
        let mut troubles = lock(&self.troubles);
        match trouble {
            Some(error) => troubles.insert(kind, error),
            None => troubles.remove(&kind),
        };
        drop(troubles);
        self.moved.notify_all();
    }

    /// Wakes those that wait for a marker.
    pub(crate) fn notify(&self) {
        drop(lock(&self.troubles));
        self.moved.notify_all();
    }

    /// Waits until work of `kinds` has made it so; `is_so` must not notify. `help` is called before
    /// each look.
    ///
    /// # Errors
    /// What keeps work of one of these kinds from being done.
    pub(crate) fn wait_until(&self, kinds: &[Kind], help: impl Fn(), is_so: impl Fn() -> bool) -> Result<()> {
        loop {
            help();
            let troubles = lock(&self.troubles);
            if is_so() {
                return Ok(());
            }
            if let Some(error) = kinds.iter().find_map(|kind| troubles.get(kind)) {
                return Err(error.clone());
            }
            drop(self.moved.wait_timeout(troubles, LOOK));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_what_keeps_the_awaited_work_from_being_done_ends_a_wait() {
        let markers = Markers::new(0, 0, 0);
        let looks = AtomicU64::new(0);
        let third = || looks.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        markers.set_trouble(Kind::Compact, Some(Error::bug("a segment is damaged")));
        markers.wait_until(&[Kind::Flush], || (), third).expect("pages are written out");
        markers.wait_until(&Kind::ALL, || (), || false).expect_err("compaction is awaited, too");
        markers.set_trouble(Kind::Flush, None);
        markers.wait_until(&Kind::ALL, || (), || false).expect_err("pages were written meanwhile");
        markers.set_trouble(Kind::Compact, None);
        markers.wait_until(&Kind::ALL, || (), third).expect("nothing hinders any more");
    }
}
