//! Names that changed, and whether the device has that.
//!
//! A job makes the names of its outputs durable, and so does the commit of them. Each flush of the
//! device costs either about a millisecond. The second has nothing to do where no name has changed
//! since the first.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts changes of names in one directory by one handle.
///
/// 1. A change of a name that is to outlive a loss of power is counted after it was made, and
///    before its caller learns of it. A failed change counts too. Temporaries of publications,
///    which no reader looks for, do not.
/// 2. A change is durable once a sync that began after it was counted has ended well.
#[derive(Debug)]
pub(super) struct NameChanges {
    made: AtomicU64,
    durable: AtomicU64,
}

impl Default for NameChanges {
    /// Whether the device has what other handles did before is unknown: that is one change.
    fn default() -> Self {
        Self { made: AtomicU64::new(1), durable: AtomicU64::new(0) }
    }
}

impl NameChanges {
    /// What `change` answers; it may have changed a name.
    pub(super) fn count<T>(&self, change: impl FnOnce() -> T) -> T {
        let answer = change();
        self.made.fetch_add(1, Ordering::Release);
        answer
    }

    /// Syncs by `sync`, unless the device has every change that was counted. A failed sync makes
    /// nothing durable.
    pub(super) fn sync<E>(&self, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let made = self.made.load(Ordering::Acquire);
        if self.durable.load(Ordering::Acquire) < made {
            sync()?;
            self.durable.fetch_max(made, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::NameChanges;

    /// How often the device was synced by one call.
    fn synced(names: &NameChanges) -> u32 {
        let mut count = 0;
        let done: Result<(), ()> = names.sync(|| {
            count += 1;
            Ok(())
        });
        done.unwrap();
        count
    }

    #[test]
    fn what_the_device_has_is_not_synced_again() {
        let names = NameChanges::default();
        assert_eq!([synced(&names), synced(&names)], [1, 0], "what was before counts as one change");
        assert_eq!(names.count(|| Err::<(), _>("taken")), Err("taken"));
        assert_eq!([synced(&names), synced(&names)], [1, 0], "what failed may have happened");
    }

    #[test]
    fn a_change_that_comes_while_the_device_is_synced_waits_for_the_next_sync() {
        let names = NameChanges::default();
        let done: Result<(), ()> = names.sync(|| {
            names.count(|| ());
            Ok(())
        });
        done.unwrap();
        assert_eq!([synced(&names), synced(&names)], [1, 0]);
    }

    #[test]
    fn a_sync_that_fails_makes_nothing_durable() {
        let names = NameChanges::default();
        assert_eq!(names.sync(|| Err("input/output error")), Err("input/output error"));
        assert_eq!(synced(&names), 1);
    }
}
