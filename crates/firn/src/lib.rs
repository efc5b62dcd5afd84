//! Firn, a key-value store that runs in the application: ordered keys, atomic batches, transactions
//! and snapshots over files of its own, in a directory or on an object store.
//!
//! ```
//! # fn main() -> firn::Result<()> {
//! # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
//! # let db = firn::Db::builder("cities").storage(storage).open()?;
//! # /*
//! let db = firn::Db::open("cities")?; // a directory, made if there is none
//! # */
//! db.put("se/stockholm", "59.33 18.07")?;
//! db.put("se/uppsala", "59.86 17.64")?;
//! db.put("no/oslo", "59.91 10.75")?;
//!
//! assert_eq!(db.get("no/oslo")?.as_deref(), Some(&b"59.91 10.75"[..]));
//! for record in db.prefix("se/")? {
//!     let (city, place) = record?;
//!     println!("{} lies at {}", city.escape_ascii(), place.escape_ascii());
//! }
//! db.delete("se/uppsala")?;
//! assert_eq!(db.range("s"..)?.count_records()?, 1);
//! # Ok(())
//! # }
//! ```
//! Keys and values are bytes: keys up to 65 535 of them, values up to 1 GiB. Large values are best
//! separated ([`KeyspaceSettings::separate_bytes`]) and streamed ([`PointKeyspace::put_from`]).
//!
//! # Which type for what
//!
//! | task | type | begins with |
//! |---|---|---|
//! | open a database, read and write it | [`Db`] | [`Db::open`], [`Db::builder`] |
//! | single keys at the speed of memory, in no order | [`PointDb`], [`EngineKind::Hash`] | [`PointDb::open`], [`PointDb::builder`] |
//! | keys that are apart from others | [`Keyspace`] | [`PointDb::keyspace`], [`Db::in_keyspace`] |
//! | keys in order, from both ends | [`Scan`], [`ScanRange`] | [`Db::range`], [`Db::prefix`] |
//! | several writes as one | [`Batch`], [`OrderedBatch`] | [`PointDb::write`] |
//! | several reads and writes as one | [`Transaction`] | [`Db::transact`], [`Db::transaction`] |
//! | read what was there at a moment | [`Snapshot`] | [`PointDb::snapshot`], [`Keyspace::at`] |
//! | change a value where it is | [`Change`], [`MergeOperator`] | [`PointDb::update`], [`PointKeyspace::add`], [`PointKeyspace::merge`] |
//! | load much that is sorted | [`Ingestion`] | [`Keyspace::ingest`], [`Keyspace::ingest_all`] |
//! | values that expire | | [`PointDb::put_for`], [`Keyspace::with_ttl`] |
//! | values larger than memory should hold | | [`PointKeyspace::put_from`], [`PointKeyspace::read_into`] |
//! | tasks instead of threads | [`AsyncDb`] | [`Db::futures`] |
//! | what to do about an error | [`Error`], [`ErrorKind`] | [`Error::kind`] |
//! | copies and backups | [`DatabaseCopy`] | [`PointDb::backup`], [`PointDb::copy_to`], [`verify()`] |
//! | memory, compression, defaults | [`Settings`], [`KeyspaceSettings`] | [`Builder::settings`] |
//! | figures | [`Stats`] | [`PointDb::stats`]: print it |
//!
//! # What is promised
//! - **Durability.** A write that was acknowledged survives the end of the process, `kill -9`
//!   included. With [`Durability::Disk`] it survives loss of power, and with
//!   [`Durability::Shared`] loss of the machine: for all writes by [`Settings`], or for some by
//!   [`WriteOptions`] and [`PointDb::sync`]. What is found after a crash is all that was written
//!   up to a moment, batches whole.
//! - **Order.** A call that begins after a write was acknowledged sees it. A scan, a `multi_get`
//!   and a transaction each see one moment.
//! - **Threads.** Handles are cheap to clone, may be kept anywhere and sent anywhere, and all are
//!   one database. Calls block where they have to wait. Readers are not held up by writers.
//!   Writers are slowed, and stopped at last, where background work cannot follow.
//! - **One process** has a directory open for writing. Dropping the last handle closes it;
//!   [`PointDb::close`] also says what went wrong then.
//! - **Damage** is found by checksums and told with file and offset, never returned as data.
//!
//! # Layers
//! ```text
//!   AsyncDb ─┐
//!   Db ──────┴► PointDb ─► Blocking (a session that waits) ─► an engine ─► files
//!                                              tree: ordered ─┤  ▲ background threads of this process
//!                                              hashlog: hashed ┘
//! ```
//! [`PointDb`] and [`PointKeyspace`] have the calls that need no order of keys: those of [`Db`] and
//! [`Keyspace`] that stand under *Methods from Deref*. A [session](Db::session) of one's own is the
//! fast way to do millions of calls on one thread, and [`Session`] the way to have many under way.
//!
//! The examples: `hello` (open, put, get, scan), `batches` (keyspaces, atomic batches, snapshots),
//! `counters` (merge and update), `transactions`, `futures` (tasks), `sessions` (tickets).
//!
//! # Not here
//! - The engines: crates `firn-tree` and `firn-hashlog`. The contract they fulfil: crate
//!   `firn-engine`, whose words are re-exported.
//! - Object stores: crate `firn-objects` registers them for [`Builder::registry`].

#![forbid(unsafe_code)]

mod identity; // random identities, unique in practice
mod machine;
mod engine_kind;
mod builder;
mod point_db;
mod point_keyspace;
mod db;
mod keyspace;
mod scan;
mod ingestion;
mod transaction;
mod asynchronous; // the same calls as futures
mod verify;
mod backup;
mod all_records;
mod transfer; // to a database of either engine

pub use all_records::{AllRecords, StoredRecord};
pub use asynchronous::{AsyncDb, AsyncKeyspace, AsyncScan, AsyncTransaction, AsyncTransactionKeyspace};
pub use builder::Builder;
pub use db::Db;
pub use engine_kind::EngineKind;
pub use firn_engine::blocking::{Blocking, OrderedBlocking};
/// What the settings of each engine offer: those that follow from an amount of memory.
pub use firn_engine::settings::EngineSettings;
pub use firn_engine::{
    Batch, BatchLimit, Change, CompactionFilter, Completion, Compression, DatabaseCopy, Direction,
    Durability, Engine, Error, ErrorKind, FilterVerdict, Finding, KEYSPACE_DEFAULT, KeyspaceId,
    KeyspaceSettings, KeyspaceStats, Location, MergeOperator, Notifier, Op, OpKind, Ordered, OrderedBatch,
    OrderedOp, OrderedOpKind, OrderedReadSet, OrderedSession, Outcome, Position, PrefixExtractor, ReadAt,
    ReadRange, ReadSet, Result, Rmw, RmwAnswer, ScanBatch, ScanRange, Session, Severity, Snapshot, Stats,
    Ticket, Values, VerifyProgress, VerifyReport, VerifyTotals, WriteOptions, future,
};
/// Settings of the hashed engine alone; [`Builder::hash_settings`] takes them.
pub use firn_hashlog::HashSettings;
/// A component that [`Builder`] takes: where compactions run ([`jobs::Executor`]).
pub use firn_jobs as jobs;
/// Components that [`Builder`] takes: backends for files ([`storage::backend`]), openers of
/// backends by name ([`storage::backend::Registry`]), clocks.
pub use firn_storage as storage;
pub use firn_tree::{Settings, TreeSettings};
pub use ingestion::Ingestion;
pub use keyspace::Keyspace;
pub use point_db::PointDb;
pub use point_keyspace::PointKeyspace;
pub use scan::Scan;
pub use transaction::{PointTransaction, PointTransactionKeyspace, Transaction, TransactionKeyspace};
pub use transfer::RecordTotals;
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
