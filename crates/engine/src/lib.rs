//! The contract between Firn's engines and the programs that use them.
//!
//! An [`Engine`] is driven by [`Session`]s. Every operation of a session answers an [`Outcome`]:
//! `Done` at once, or `Pending` with a [`Ticket`] whose [`Completion`] arrives later through
//! [`Session::poll`]. Reads are pending when bytes must come from a device; writes are pending for
//! durability and for admission. Nothing here needs an async runtime, and nothing here blocks
//! except the calls whose names say so.
//!
//! ```text
//!   caller ─► Session::get ─────────► Done(value) | Pending(ticket) ─┐
//!   caller ─► Session::write ───────► Done(position) | Pending ──────┤
//!   caller ─► OrderedSession::scan ─► Scan::next_batch ─► as get ────┤
//!                                                                    ▼
//!   caller ◄── poll(sink), wait(deadline), notifier() ◄── completions
//! ```
//!
//! What only an engine with ordered keys can do is in [`Ordered`] and [`OrderedSession`], and what
//! only one that finds keys by their hashes can do in [`Hashed`] and [`HashedSession`]: no method
//! refuses because of the engine's kind. Start at [`Engine`] and [`Session`]; [`blocking`] is the
//! thin layer most programs want. [`pace`], [`queue`], [`LockTable`]
//! and [`RisingKeys`] are for engines to embed.
//!
//! # Not here
//! - Any implementation: an engine is a crate of its own (`firn-tree`).
//! - Opening a database: the facade `firn` does that.
//!
//! # Invariants
//! 1. What is acknowledged at a [`Durability`] survives what that word names.
//! 2. What is recovered is a prefix of the order of [`Position`]s, batches whole.
//! 3. Readers are never slowed for the sake of writers.

#![forbid(unsafe_code)]

mod sync;
mod keyspace;
mod durability;
mod batch;
mod outcome;
mod semantics;
mod expiries; // when values of a list expire
mod scan;
mod hash_scan;
mod source;
mod ingestion;
mod values;
mod update;
mod rmw;
mod completion;
mod session;
mod snapshot;
mod read_set; // what a transaction has read
mod job_stats;
mod blob_stats;
mod stats;
#[path = "engine.rs"]
mod contract;
mod hashed; // the half of engines without order
mod error;
mod verify; // what a verification finds
pub mod settings;
pub mod blocking;
pub mod future;
pub mod conformance;
pub mod pace;
pub mod queue;

pub use batch::{Batch, Op, OpKind, OrderedBatch, OrderedOp, OrderedOpKind};
pub use blob_stats::BlobStats;
pub use completion::{Completion, CompletionQueue, CompletionSender, KeyLocks, LockTable, Notifier};
pub use contract::{DatabaseCopy, Engine, Ordered};
pub use durability::Durability;
pub use error::{Error, ErrorKind, Location, Result};
pub use firn_format::Position;
pub use hash_scan::{HASHED_SLOTS, HashBatch, HashCursor, HashScan};
pub use hashed::{Hashed, HashedSession};
pub use ingestion::{Ingestion, RisingKeys};
pub use job_stats::{JobKindStats, JobRow, JobStage, JobStats};
pub use keyspace::{Compression, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings};
pub use outcome::{Outcome, Ticket};
pub use read_set::{OrderedReadSet, ReadRange, ReadSet, conflict};
pub use rmw::{AnswerOfRmw, Rmw, RmwAnswer, check_value_bytes};
pub use scan::{BatchLimit, Direction, Scan, ScanBatch, ScanRange};
pub use semantics::{CompactionFilter, FilterVerdict, Identity, MergeOperator, PrefixExtractor, Semantics};
pub use session::{OrderedSession, Session, WriteOptions};
pub use snapshot::{ReadAt, Snapshot, SnapshotPin};
pub use source::ValueSource;
pub use stats::{ColdStats, HashStats, KeyspaceStats, SharedCacheStats, Stats, TreeKeyspaceStats, TreeStats};
pub use update::{Change, UpdateFn};
pub use values::Values;
pub use verify::{Finding, Severity, VerifyProgress, VerifyReport, VerifyTotals};
