//! The models' primitives: loom's under `cfg(loom)`, shuttle's else. Other primitives add no steps
//! to schedules.

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

#[cfg(not(loom))]
pub(crate) use shuttle::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Locks as production does: a thread that panics reports its own failure, and others ignore the
/// poison.
pub(crate) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Others may go on here.
pub(crate) fn step() {
    #[cfg(loom)]
    thread::yield_now();
    // Not a yield: to those, PCT gives every other thread precedence.
    #[cfg(not(loom))]
    AtomicUsize::new(0).load(Ordering::SeqCst);
}

/// The same where schedules are drawn; where all of them are tried that would be too many.
pub(crate) fn pause() {
    #[cfg(not(loom))]
    step();
}
