//! The primitives of the lock-free parts of this crate: the standard library's, or loom's twins
//! under `cfg(loom)`.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
