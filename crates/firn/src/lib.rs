//! Firn, a key-value store: the crate that applications embed.
//!
//! [`Db::open`] needs a path and nothing else; [`Keyspace`] reads and writes one keyspace of a
//! database. Both are handles to clone and keep. [`PointDb`] and [`PointKeyspace`] have the calls
//! that an engine without order has too. [`Db::builder`] takes [`Settings`] (data, round-trips
//! through TOML) and components (storage, clock, merge operators, filters, extractors).
//!
//! ```text
//!   Db ─► PointDb ─► Blocking (a session that waits) ─► Tree (the ordered engine) ─► files
//!                                                         ▲ background threads of this process
//! ```
//! The examples: `hello` (open, put, get, scan), `batches` (keyspaces, atomic batches, snapshots),
//! `counters` (merge and update), `sessions` (operations that do not block).
//!
//! # Not here
//! - The engine: crate `firn-tree`. The contract it fulfils: crate `firn-engine`, whose words are
//!   re-exported.

#![forbid(unsafe_code)]

mod identity; // random identities, unique in practice
mod machine;
mod builder;
mod point_db;
mod point_keyspace;
mod db;
mod keyspace;
mod scan;
mod transaction;
mod verify;
mod backup;

pub use builder::Builder;
pub use db::Db;
pub use firn_engine::blocking::{Blocking, OrderedBlocking};
pub use firn_engine::{
    Batch, BatchLimit, Change, CompactionFilter, Completion, Compression, DatabaseCopy, Direction,
    Durability, Engine, Error, ErrorKind, FilterVerdict, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings,
    KeyspaceStats, Location, MergeOperator, Notifier, Op, OpKind, Ordered, OrderedBatch, OrderedOp,
    OrderedOpKind, OrderedReadSet, OrderedSession, Outcome, Position, PrefixExtractor, ReadAt, ReadRange,
    ReadSet, Result, Rmw, RmwAnswer, ScanBatch, ScanRange, Session, Snapshot, Stats, Ticket, Values,
    WriteOptions, future,
};
/// A component that [`Builder`] takes: where compactions run ([`jobs::Executor`]).
pub use firn_jobs as jobs;
/// Components that [`Builder`] takes: backends for files ([`storage::backend`]), openers of
/// backends by name ([`storage::backend::Registry`]), clocks.
pub use firn_storage as storage;
pub use firn_tree::{Finding, Settings, Severity, TreeSettings, VerifyProgress, VerifyReport, VerifyTotals};
pub use keyspace::Keyspace;
pub use point_db::PointDb;
pub use point_keyspace::PointKeyspace;
pub use scan::Scan;
pub use transaction::{PointTransaction, PointTransactionKeyspace, Transaction, TransactionKeyspace};
pub use verify::verify;

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

/// The example in README.md is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// The examples of the guide are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embed.md")]
#[doc = include_str!("../../../docs/guide/from-rocksdb.md")]
#[doc = include_str!("../../../docs/guide/share-storage.md")]
mod guide {}
