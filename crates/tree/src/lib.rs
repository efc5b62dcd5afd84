//! The ordered engine: an LSM tree whose log, memtable and upper levels are the same bytes.
//!
//! ```text
//!  put ─► commit/ ─► log of firn-storage ─► memtable/ (index over the arena)
//!                     │ (frames in an arena)   │ freeze: the index becomes a run; no record moves
//!                     │ group commit           ▼
//!                     ▼                      buffer/ (runs, merged by reference)
//!                   files ─► shared_log        │ flush: the oldest runs are written out
//!                  (where other machines       ▼
//!                              find them)    version/ (tables in levels) ◄─ compact/ (jobs)
//!  get, scan ◄─ read/ : memtable, runs newest first, level 0, deeper levels
//! ```
//!
//! Start at [`Tree`], which is opened with [`TreeOptions`]. [`verify()`] reads all of a database to
//! see that it is sound; [`repair()`] takes away what keeps a damaged one from being opened. The
//! log itself is in crate `firn-storage`; `log/` has what it carries for a tree. Sorted records in
//! bulk go past the log: `ingest/`.
//!
//! # Not here
//! - How bytes are laid out: crate `firn-format`. Where they lie: crate `firn-storage`.
//! - Merging tables: crate `firn-jobs`, which needs no database.
//!
//! # Invariants
//! 1. A record's sequence is its log position / 8: log order is the order of writes.
//! 2. Each (keyspace, key, sequence) is in exactly one live place, or superseded.
//! 3. No edit becomes durable before the log is synced through what its outputs contain or its
//!    drops relied on. The exception: everything below is in durable tables by the same edit.
//! 4. Readers take no lock and wait for no writer.

mod error;
mod sync;
mod counters;
mod records;
mod buffer;
mod settings;
mod memtable;
mod log;
mod blobs;
mod version;
mod memory;
mod files;
mod reads;
mod commit;
mod maintenance; // what is done in the background, as data
mod blob_gc;
mod edits;
mod database; // the owners of all above; what follows works on it
mod shared_log;
mod read;
mod compact;
mod flush;
mod write;
mod background;
mod ingest;
mod recovery;
mod open;
mod copy;
mod session;
mod stats;
mod tree;
mod verify;
mod repair;

pub use firn_engine::{Finding, Severity, VerifyProgress, VerifyReport, VerifyTotals};
pub use firn_maintenance::from_storage as storage_error;
pub use records::Records;
pub use repair::{RepairOptions, RepairStep, repair};
pub use settings::{Background, Settings, TreeOptions, TreeSettings};
pub use tree::Tree;
pub use verify::{VerifyOptions, verify};
