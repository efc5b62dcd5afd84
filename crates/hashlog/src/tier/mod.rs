//! The part of a database that other machines reach.
//!
//! ```text
//!   checkpoint: what is new of the logs, as extents, and values ─► shared storage ─► edit names them
//!   spill: run of the cold log ─────────────────────────────────► shared storage ─► edit names it
//!   local directory: segments that are written to, and the newest of those that are sealed
//!   older segments and values: read from shared storage
//! ```
//! The manifest lies on shared storage, too. All other files are made in the local directory, and
//! are sent whole; so the engine writes as it does without shared storage.
//!
//! # Invariants
//! 1. An edit names a file only after that is there, whole and durable.
//! 2. No two openings give a file the same name: extents say their opening's generation, and runs
//!    and values have numbers of its own. Within an opening a name stands for the same bytes. So a
//!    request that is done late does no harm, and what a failed try has left may go.
//! 3. A file goes after an edit without it. So an opening that has fenced others finds all files
//!    that its manifest names.

mod kept; // files that are here and there
mod open; // what an opening finds there
mod send;
mod waiting; // writes

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::Result;
use firn_format::file_name;
use firn_format::hybrid::{Extent, SEGMENT_HEADER_BYTES};
use firn_storage::backend::copy;
use firn_storage::{Clock, ReadFile, Storage};

use crate::error::from_storage;
use kept::Kept;
use waiting::Waiting;

pub(crate) use kept::KeptFile;
pub(crate) use open::open_segments;
pub(crate) use send::TRIES_MAX;
pub(crate) use waiting::Acknowledge;

/// Numbers of runs and of values that one opening may give, as a power of two.
const NUMBER_BITS: u32 = 28;

/// What a tier is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    /// This machine's part.
    pub(crate) local: Arc<dyn Storage>,
    /// What other machines reach.
    pub(crate) shared: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The part of one open database that other machines reach.
#[derive(Debug)]
pub(crate) struct Tier {
    parts: Parts,
    /// Of this opening.
    generation: u64,
    /// Bytes of files here that are there too, at most.
    local_bytes_max: u64,
    kept: Mutex<Kept>,
    waiting: Mutex<Waiting>,
    /// Names of files there that go with the next try.
    needless: Mutex<Vec<String>>,
}

impl Tier {
    /// Of an opening with a `generation` that no other one has.
    pub(crate) fn new(parts: Parts, generation: u64, local_bytes_max: u64) -> Self {
        let (kept, waiting, needless) = Default::default();
        Self { parts, generation, local_bytes_max, kept, waiting, needless }
    }

    /// Numbers of runs and values that this opening may give. No other one gives any of them, and
    /// later ones give greater ones.
    pub(crate) fn numbers(&self) -> Range<u64> {
        self.generation << NUMBER_BITS..(self.generation + 1) << NUMBER_BITS
    }

    /// The file `name`, to be read.
    ///
    /// # Errors
    /// `NotFound`, at once or with the first read.
    pub(crate) fn open(&self, name: &str, bytes: u64) -> firn_storage::Result<Arc<dyn ReadFile>> {
        self.parts.shared.open_read_known(name, bytes)
    }

    /// The file `name`, of which it is not known how long it is, from where it is.
    pub(crate) fn open_anywhere(&self, name: &str) -> firn_storage::Result<Arc<dyn ReadFile>> {
        match self.parts.local.open_read(name) {
            Err(error) if error.kind == firn_storage::ErrorKind::NotFound => {
                let bytes = self.parts.shared.open_read(name)?.len();
                self.open(name, bytes)
            }
            opened => opened,
        }
    }

    /// The file of `extent`.
    pub(crate) fn open_extent(&self, extent: Extent) -> Result<Arc<dyn ReadFile>> {
        let bytes = SEGMENT_HEADER_BYTES as u64 + 8 * (extent.to - extent.from);
        self.open(&file_name::extent(extent), bytes).map_err(from_storage)
    }

    /// Copies the file `name` to `to`, and syncs it.
    pub(crate) fn copy_to(&self, name: &str, to: &dyn Storage) -> Result<()> {
        copy((&*self.parts.shared, name), (to, name)).map_err(from_storage)
    }

    /// Names and lengths of all files there.
    pub(crate) fn list(&self) -> Result<Vec<(String, u64)>> {
        self.parts.shared.list().map_err(from_storage)
    }

    /// Removes files that nothing needs; what cannot be removed goes with a later call, or with the
    /// next opening.
    pub(crate) fn remove(&self, names: impl Iterator<Item = String>) {
        let mut needless = self.needless.lock().unwrap_or_else(PoisonError::into_inner);
        needless.extend(names);
        needless.retain(|name| match self.parts.shared.remove(name) {
            Ok(()) => false,
            Err(error) => error.kind != firn_storage::ErrorKind::NotFound,
        });
    }
}
