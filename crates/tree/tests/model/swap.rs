//! What `arc_swap::ArcSwap` promises, and no more.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::sync::{AtomicUsize, Ordering};

/// A place for one `Arc`, which is loaded and replaced without a lock.
///
/// `arc-swap` promises of a load what an acquiring load of the pointer does, and of a store what a
/// swap does that releases and acquires. It also promises one global order of its operations, on
/// which nothing here leans. A load may answer what was replaced a while ago, as long as it is
/// held. What was stored is let go by the store that replaces it, unless a load has made a count of
/// its own. That is all its debts come to.
pub(crate) struct Swap<T> {
    /// Index of what is stored.
    current: AtomicUsize,
    /// What is stored.
    stored: Mutex<Option<Arc<T>>>,
    /// Everything that ever was, by index.
    known: Mutex<Vec<Weak<T>>>,
}

impl<T> Swap<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        let known = Mutex::new(vec![Arc::downgrade(&value)]);
        Self { current: AtomicUsize::new(0), stored: Mutex::new(Some(value)), known }
    }

    pub(crate) fn load(&self) -> Arc<T> {
        let seen = self.current.load(Ordering::Acquire);
        if let Some(value) = self.get(seen) {
            return value;
        }
        // It is held no more, so that a load which wrote a debt for it would have looked again.
        self.get(self.current.fetch_add(0, Ordering::Acquire)).expect("what is stored is kept")
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        let new = self.know(&value);
        self.current.swap(new, Ordering::AcqRel);
        self.keep(value);
    }

    /// Stores `new` if `old` is what is stored.
    pub(crate) fn compare_and_swap(&self, old: &Arc<T>, new: Arc<T>) {
        let (old, index) = (self.know(old), self.know(&new));
        if self.current.compare_exchange(old, index, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.keep(new);
        }
    }

    fn get(&self, index: usize) -> Option<Arc<T>> {
        lock(&self.known)[index].upgrade()
    }

    fn know(&self, value: &Arc<T>) -> usize {
        let mut known = lock(&self.known);
        let is_it = |known: &Weak<T>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(value));
        known.iter().position(is_it).unwrap_or_else(|| {
            known.push(Arc::downgrade(value));
            known.len() - 1
        })
    }

    fn keep(&self, value: Arc<T>) {
        let gone = lock(&self.stored).replace(value);
        // After the lock: what goes with it may be a step of a schedule.
        drop(gone);
    }
}

/// The standard library's lock, in which schedules have no steps.
fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
