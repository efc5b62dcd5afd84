//! The models' primitives: loom's under `cfg(loom)`, shuttle's else. Whatever is not from here has no steps that schedules are made of.

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

#[cfg(not(loom))]
pub(crate) use shuttle::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

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
