//! The primitives of this crate: the standard library's, or loom's twins under `cfg(loom)`.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};

/// A value alone on its cache lines (two of 64 bytes, because processors fetch them in pairs).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);
