//! Engines that find keys by their hashes: reading all of them.

use crate::{Engine, HashBatch, HashScan, Outcome, ReadAt, Result, Session};

/// An engine that finds keys by their hashes.
pub trait Hashed: Engine {
    /// A new session that scans by hash.
    fn hashed_session(&self) -> Box<dyn HashedSession>;
}

/// A session on an engine that finds keys by their hashes: reading all of them.
///
/// All that [`Session`] promises holds here too.
pub trait HashedSession: Session {
    /// Fills `out` with the next records from a cursor on.
    ///
    /// - A key that is there from the scan's first batch to its last is returned at least once,
    ///   whatever is written meanwhile and however the engine grows. One that is put or deleted
    ///   meanwhile is returned or not. At a snapshot every key of it is returned once.
    /// - Any session may go on from a cursor, also after the database was opened again.
    /// - Costs what it passes, and not what else the slot has: records that are returned, those of
    ///   other keyspaces that lie between, older records of the same hash, and deleted ones. A
    ///   batch may be empty without being the last one: it ends after a bounded number that is
    ///   passed.
    /// - Pending when something must be read from a device; completes as
    ///   [`Completion::ScannedByHash`](crate::Completion::ScannedByHash).
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Invalid` for an unknown keyspace; `Closed` after `close`.
    fn scan_by_hash(&mut self, at: ReadAt<'_>, scan: HashScan, out: &mut HashBatch) -> Result<Outcome<()>>;
}
