//! Where Firn's bytes live.
//!
//! [`Storage`] is one flat directory of named files with the few operations an engine needs. They
//! append to a new file, read a finished one, publish a small object atomically. [`backend`] holds
//! the kinds of directory (local disk, memory with a crash model, one that fails on command);
//! [`mod@file`] holds the kinds of file.
//!
//! ```text
//!   tree, jobs ──► file: table, block cache ──┐
//!        │                                    ▼
//!        └──────────────► Storage ◄── backend::Faulty (scripted errors, limits, counters; around any other)
//!                            ├─ backend::Local    a directory on disk: publish = temporary, fsync, rename, fsync
//!                            ├─ backend::Memory   a directory in memory: what would a crash leave of it?
//!                            └─ other crates    object stores, opened by backend::Registry
//!   backend::ReadPool: threads for reads that missed memory     Clock, Spawn: time and threads, as
//!   arguments
//! ```
//!
//! Start at [`Storage`]; [`backend::conformance`] says in code what every kind of it must do.
//! Around any kind stand [`backend::Cached`] (ranges kept on this machine) and
//! [`backend::Throttled`] (limits of requests).
//!
//! # Not here
//! - What the bytes mean: crate `firn-format`.
//! - Which files are live, and when one may be removed: the engine's manifest.
//! - Retrying: only the caller knows whether what it wanted still matters.
//!
//! # Invariants
//! 1. A file that was published or synced, and whose directory was synced, is found whole after
//!    power loss.
//! 2. Nothing is overwritten in place except the log segment being written, obsolete files that are
//!    given on ([`backend::RecycledFiles`]), and the combiner of a local directory.
//! 3. A failed sync is final: the file's content is unknown for good, and no later answer changes
//!    that.
//! 4. Opening a directory for reading, and locking it for reading, changes nothing on disk.
//!
//! # Safety model
//! Unsafe code is in `backend/mapped.rs` alone. Its notes rely on these, by number:
//! 1. *Mapped bytes stand still.* A mapped file was finished by this program, and this process
//!    holds the directory's lock as long as a mapping of it is used. So no Firn process writes or
//!    cuts it before its last reader is gone. (Removing it does no harm: the mapping keeps the
//!    file.) A caller that gives a file to [`backend::RecycledFiles`] has dropped every mapping of
//!    it. **The compiler cannot check this.** Nothing can stop a foreign program, or a caller of
//!    this crate that maps a file it still writes. Then bytes change under a shared slice, which is
//!    undefined behaviour, or a read beyond a cut kills the process with SIGBUS. A device error
//!    under a mapping does that too. Every format is checked when it is read, so that what changed
//!    mostly shows as corruption; that is a mitigation, not a proof.
//! 2. *`mincore` is asked about whole pages inside the mapping*, with room for one byte of answer
//!    each.
//! 3. *`sync_file_range` touches no memory*, and its descriptor is borrowed from an open file.
//! 4. *A prefetch changes nothing* that a program can see, and faults nowhere.
//! 5. *A mapped slot has one owner.* The combiner's file is used by the process that has the
//!    directory locked for writing. Its slots do not overlap, and it is never cut. As in 1, nothing
//!    can stop a foreign program; what is found there later is checked.

mod error;
mod clock;
mod spawn;
mod load;
pub mod backend;
pub mod file;

pub use backend::{FileBytes, ReadFile, Storage, StorageLock, WriteFile};
pub use clock::{Clock, ManualClock, SystemClock};
pub(crate) use error::TakenOver;
pub use error::{Cause, Error, ErrorKind, Result};
pub use load::{Load, ProcessLoad};
pub use spawn::{Priority, Spawn, ThreadSpawn};
