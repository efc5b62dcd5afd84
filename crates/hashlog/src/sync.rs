//! The primitives of what loom checks: the standard library's, or loom's twins under `cfg(loom)`.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};

/// A value alone on its cache lines (two of 64 bytes, because processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// What `mutex` guards, also after a panic elsewhere: no guarded state here is ever half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for another thread's next few instructions: spins at first, then gives turns away.
#[derive(Debug, Default)]
pub(crate) struct Patience(u32);

impl Patience {
    /// Spins before the thread gives its turn to others.
    const SPINS_MAX: u32 = 64;

    pub(crate) fn wait(&mut self) {
        if cfg!(loom) || self.0 >= Self::SPINS_MAX {
            yield_now();
        } else {
            self.0 += 1;
            spin_loop();
        }
    }
}
