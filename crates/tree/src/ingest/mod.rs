//! Bulk ingestion: sorted records go straight to tables, past the log and the memtable.
//!
//! ```text
//!   put ─► writer: tables without sequences, blob segments ─► (synced, in no version, in no edit)
//!   finish ─► overlap: what the buffer holds among the keys is flushed
//!          ─► commit: a place in the log is held ─► one edit ─► one version ─► the place is let go
//! ```
//! # Invariants
//! 1. All entries have one sequence, that of the place. The manifest says which: it is known only
//!    once the files are written.
//! 2. No reader is at or behind the place before the version has the tables, and none is before it
//!    that sees them: it is published after the version is stored.
//! 3. What the buffer has of the tables' keys is newer: checked while the place is held.
//! 4. What lies before the place is durable when the edit is, so that a crash leaves a prefix. The
//!    log need not have the place itself: the next opening writes behind it (`base_after` of
//!    `recovery/log.rs`).

mod commit;
mod overlap; // what lies among the keys of the tables, and where these may lie
mod writer;

use std::sync::Arc;

use firn_engine::RisingKeys;
use firn_engine::{Error, ErrorKind, Ingestion, KeyspaceId, OrderedOp, OrderedOpKind, Position, Result};
use firn_jobs::submit::HeldNames;

use self::commit::{Attempt, Ingesting};
use self::writer::{IngestWriter, Ingested};
use crate::background::flush_through;
use crate::commit::CommitEnv;
use crate::commit::roll::{Freeze, Rolled};
use crate::counters::count;
use crate::database::Database;
use crate::error::from_storage;

/// How often an ingestion is tried, where others write among its keys at the same time.
const ATTEMPTS_MAX: u32 = 16;

/// What came of the files of an ingestion.
enum End {
    /// The position behind them.
    Done(Position),
    /// It is not known whether an edit names them.
    Unknown(Error),
}

/// An ingestion into a tree.
pub(crate) struct TreeIngestion {
    database: Arc<Database>,
    keyspace: KeyspaceId,
    keys: RisingKeys,
    writer: IngestWriter,
    /// What the files are called: in use until an edit names them, or none will.
    _names: HeldNames,
    /// Bytes of keys and values.
    bytes: u64,
    /// What writing failed with: the files are not whole.
    failure: Option<Error>,
}

impl TreeIngestion {
    /// Begins one. Creates no file yet.
    ///
    /// # Errors
    /// `Invalid` for an unknown keyspace, `Closed` where nothing is written.
    pub(crate) fn begin(database: Arc<Database>, keyspace: KeyspaceId) -> Result<Self> {
        database.check_open()?;
        let mut names = database.maintenance.output_names.hold();
        let writer = IngestWriter::new(&database, keyspace.0, names.draw())?;
        let (keys, failure) = Default::default();
        Ok(Self { database, keyspace, keys, writer, _names: names, bytes: 0, failure })
    }

    /// Makes what was written a part of the database.
    ///
    /// # Errors
    /// Nothing was changed.
    fn commit(database: &Database, keyspace: u32, ingested: &Ingested) -> Result<End> {
        let ingesting = Ingesting::of(database);
        let mut tables = ingesting.open(ingested)?;
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX {
            database.check_open()?;
            // Before others are made to wait.
            if ingesting.is_in_buffer(keyspace, &tables)? {
                let through = database.commit.freeze_through()?;
                database.unless_closed(flush_through(database, through))?;
            }
            match ingesting.try_commit(keyspace, &mut tables, &ingested.segments)? {
                Attempt::Done(position) => return Ok(End::Done(position)),
                Attempt::Unknown(error) => return Ok(End::Unknown(error)),
                Attempt::Overtaken => attempts += 1,
                Attempt::NoRoom(base) => {
                    if database.commit.roll(base, Freeze::Full)? == Rolled::Stopped {
                        database.wait_to_retry()?;
                    }
                }
            }
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "nothing was ingested: others wrote among its keys each of {ATTEMPTS_MAX} times that this was tried. \
                 Ingest while they rest, or write batches"
            ),
        ))
    }
}

impl Ingestion for TreeIngestion {
    fn put(&mut self, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.database.check_open()?;
        let op = OrderedOp { keyspace: self.keyspace, kind: OrderedOpKind::Put, key, value, expires_at_ms };
        self.database.commit.validate(std::iter::once(op))?;
        self.keys.check(key)?;
        if let Err(error) = self.writer.add(key, value, expires_at_ms) {
            self.failure = Some(error.clone());
            return Err(error);
        }
        self.keys.note(key);
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Position> {
        let Self { database, keyspace, keys, writer, _names, bytes, failure } = *self;
        if let Some(failure) = failure {
            return Err(failure);
        }
        database.check_open()?;
        if keys.is_empty() {
            return database.commit.log.advance().map_err(from_storage);
        }
        let ingested = writer.finish()?;
        match Self::commit(&database, keyspace.0, &ingested)? {
            End::Done(position) => {
                count(&database.maintenance.counters.ingest_write_bytes, ingested.bytes());
                count(&database.maintenance.counters.ingest_count, 1);
                count(&database.commit.user_write_bytes, bytes);
                database.commit.balance_memory();
                database.maintenance.wake();
                ingested.keep();
                Ok(position)
            }
            End::Unknown(error) => {
                // Where the edit is durable, it names the files.
                ingested.keep();
                database.fail(&error);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
