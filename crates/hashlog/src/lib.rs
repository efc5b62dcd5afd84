//! The hashed engine: an index by hash over a log whose newest part is changed where it lies.
//!
//! ```text
//!  key ─ hash ─► slot ─► its run of buckets ─► entry ─► chain of records in the log, newest first
//!
//!  begin ──── device ──── head ──── read-only ──── mutable ──── tail
//!             read later   in memory, copied to      changed in place,
//!                          the tail to be changed     under the record's latch
//! ```
//! Reads, writes and read-modify-writes of single keys at the speed of memory, over more data than
//! fits there. Keys have no order, so there are no scans of ranges.
//!
//! Start at `ops`: one operation, one file.
//!
//! # Not here
//! - The contract, and what several engines share: `firn-engine`.
//! - What lies on a device, byte by byte: `firn_format::hybrid`.
//! - `unsafe`: memory that all threads change is `firn_arena::Words`, each access an atomic one.
//!
//! # Invariants
//! 1. Every change of a chain is one compare-and-swap of its entry in the index.
//! 2. A record is changed in place only under its latch, only above the read-only address, and only
//!    if it is not sealed. A value that is copied to be changed is sealed first.
//! 3. What an operation found by an address stays until the operation has ended (`epoch`).
//! 4. An address is never used twice.
//! 5. A record is published by the compare-and-swap that makes an entry lead to it, or made invalid
//!    within the same operation. So below the safe read-only address every record is decided.

mod sync;
mod error;
mod anew; // files whose making is tried again
mod needless; // files that go
mod settings;
mod waits; // of operations for others
mod epoch; // which threads are amid an operation
mod index; // from hashes to addresses
mod log; // what is in memory
mod read_cache; // of records on the device
mod division; // of memory
mod cold; // records that have left the log
mod ops; // one operation, one file
mod device; // what is not
mod values; // that are too long for a page
mod extents; // parts of a log that other machines reach
mod tier; // where other machines reach a database
mod redo; // what survives the process
mod space; // an estimate of what lives
mod reclaim; // what compaction has left behind
mod checkpoint;
mod trail; // along the records of a key, step by step
mod fetch; // what that wants of the device
mod chain; // of records, followed to the device
mod compact;
mod parallel; // work of an opening
mod reapply; // what the redo logs have
mod rebuild; // the index, from the log
mod owner; // which machine has the database
mod recovery;
mod snapshots;
mod stripes; // of batches
mod state; // of the manifest
mod keyspaces;
mod tasks; // of background work
mod database;
mod background;
mod copy;
mod caller; // a session's calls, waiting included
mod session;
mod hash_log;
mod verify; // reading all of it

pub use hash_log::HashLog;
pub use settings::{Background, HashOptions, HashSettings, Settings};
pub use verify::verify;
