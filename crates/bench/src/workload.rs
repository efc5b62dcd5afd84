//! What operations a phase is made of.
//!
//! [`ycsb`] and [`db`] build [`Operations`], one stream per driver thread; the driver times what
//! they do.

use firn_engine::Result;

use crate::target::Client;

mod key;
mod value;
mod live;
mod properties;
pub mod ycsb;
pub mod db;

pub use key::{DB_BENCH_KEY_BYTES_MIN, KeyStyle};
pub use live::NumberSet;
pub use properties::Properties;
pub use value::ValuePool;

/// What an operation is to its caller; results are kept apart by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One record by its key.
    Read,
    /// A new value for a record that is there.
    Update,
    /// A record that was not there.
    Insert,
    /// Records in order from a key on.
    Scan,
    /// A read and then an update of the same record.
    ReadModifyWrite,
    /// A record removed.
    Delete,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = 6;

    /// Every kind, in the order reports show them.
    pub const ALL: [Kind; Kind::COUNT] =
        [Kind::Read, Kind::Update, Kind::Insert, Kind::Scan, Kind::ReadModifyWrite, Kind::Delete];

    /// The name YCSB gives it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "READ",
            Kind::Update => "UPDATE",
            Kind::Insert => "INSERT",
            Kind::Scan => "SCAN",
            Kind::ReadModifyWrite => "READ-MODIFY-WRITE",
            Kind::Delete => "DELETE",
        }
    }
}

/// What one performed operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Operations it counts as; a step of a sequential read counts each record.
    pub operations: u64,
    /// Reads among them that found nothing.
    pub not_found: u64,
    /// Bytes of keys and values handed to the store to be written.
    pub written_bytes: u64,
    /// Bytes of keys and values the store handed back.
    pub read_bytes: u64,
}

impl Done {
    /// A write of `bytes`.
    pub fn wrote(bytes: usize) -> Self {
        Self { operations: 1, not_found: 0, written_bytes: bytes as u64, read_bytes: 0 }
    }

    /// A read that found `bytes`, or nothing.
    pub fn read(found: bool, bytes: usize) -> Self {
        let read_bytes = if found { bytes as u64 } else { 0 };
        Self { operations: 1, not_found: u64::from(!found), written_bytes: 0, read_bytes }
    }

    /// Reads of `keys` keys by one call, of which `found` were there, with `bytes`.
    pub fn read_many(keys: usize, found: usize, bytes: usize) -> Self {
        let (operations, not_found) = (keys as u64, (keys - found) as u64);
        Self { operations, not_found, written_bytes: 0, read_bytes: bytes as u64 }
    }
}

/// One thread's stream of operations.
pub trait Operations: Send {
    /// Chooses the next operation, its key and value; not timed. `None` = the stream is at its end.
    fn prepare(&mut self) -> Option<Kind>;

    /// Does what was prepared; timed.
    ///
    /// # Errors
    /// If the store failed.
    fn perform(&mut self, client: &mut dyn Client) -> Result<Done>;
}
