//! Where Firn's bytes live.
//!
//! [`Storage`] is one flat directory of named files with the few operations an engine needs: append to a new
//! file, read a finished one, publish a small object atomically. [`place`] holds the kinds of directory (local
//! disk, memory with a crash model, one that fails on command); [`file`] holds the kinds of file.
//!
//! # Invariants
//! 1. A file that was published or synced, and whose directory was synced, is found whole after power loss.
//! 2. Nothing is overwritten in place except the log segment being written.

pub mod place;
pub mod file;
mod error;

pub use error::{Error, ErrorKind, Result};
pub use place::{FileBytes, ReadFile, Storage, StorageLock, WriteFile};
