//! From the files of a directory to the state they promise.
//!
//! What is in tables the manifest names. What is not is in the log, and where that is taken from
//! depends on where the newest log lies:
//!
//! | the newest log lies | the manifest names log objects | opened | [`LogSource`] | by |
//! |---|---|---|---|---|
//! | here, or there is none yet | either | in any way | `Local`: the chain of frames to its end | [`log::recover_log`] |
//! | on another machine | yes | to take over | `Restored`: log objects are made files here, no other can follow them, and those files are recovered as a local log | [`restore`], then [`shared_log::recover_restored`] |
//! | on another machine | no | to take over | `Elsewhere`: what is in no table is given up | [`log::log_elsewhere`] |
//! | on another machine | either | for reading, or not to take over | refused | [`manifest::is_log_here`] |
//! | in the one directory of a database that is opened as shared, or the reverse | either | in any way | refused | [`manifest::is_log_here`] |
//!
//! Everything else is the same in all cases ([`begin()`]):
//!
//! ```text
//!   manifest loaded ─► is the log here? ─► no: the next edit's number is taken
//!     ─► tables opened ─► log objects made files ─► blob segments surveyed ─► log recovered
//!     ─► one edit: where the log is cut, a new generation, values sealed
//!     ─► files that no edit names removed
//! ```
//! # Invariants
//! 1. Before the checks of settings, operators and tables nothing on disk is changed, but for the
//!    first edit of a new database and the number that a take-over takes: [`begin()`].
//! 2. What is cut off the log never counts again: the edit is durable before the first new frame,
//!    [`manifest::begin_generation`].
//! 3. The next segment begins behind every span ever used, on any machine: [`log`].
//! 4. A database that is only read is left as it is.

mod begin; // reading what is there, and the first changes on disk
mod manifest; // what is read there, and the first edits
mod tables; // keyspaces with their tables open
mod blobs; // blob segments as a process left them
mod log; // the chain of frames, and its end
mod shared_log; // the log of a machine that may be gone

use std::sync::Arc;

use firn_engine::Result;
use firn_format::log_object::PieceOf;
use firn_storage::Storage;
use firn_storage::file::log::objects::{Restored, restore};
use firn_storage::file::obsolete::ObsoleteFiles;

pub(crate) use self::begin::{Begun, begin};
pub(crate) use self::blobs::{FoundBlobs, LoggedReferences};
pub(crate) use self::log::{Gap, RecoveredLog, check_log_created, gap};
pub(crate) use self::manifest::log_conflict;

use self::log::{log_elsewhere, recover_log};
use self::shared_log::{is_needed, recover_restored};
use crate::error::from_storage;
use crate::settings::TreeOptions;
use crate::version::Manifest;
use crate::version::state::State;

/// Where the log is taken from: a row of the table above.
enum LogSource {
    Local,
    Restored(Restored),
    Elsewhere,
}

impl LogSource {
    /// The row for a database of `manifest`, whose newest log lies here if `is_here`. Makes files
    /// of the log objects that `manifest` names, where those are taken.
    ///
    /// # Errors
    /// As [`restore`].
    fn of(storage: &dyn Storage, manifest: &mut Manifest, is_here: bool) -> Result<Self> {
        let Some(named) = manifest.state().log_objects.filter(|_| !is_here) else {
            return Ok(if is_here { Self::Local } else { Self::Elsewhere });
        };
        let state = manifest.state().clone();
        let is_needed = |segment: &PieceOf| is_needed(&state, segment);
        let restored = restore(storage, manifest, (state.database, named), is_needed);
        Ok(Self::Restored(restored.map_err(from_storage)?))
    }

    /// The log of a database of `state`, to whose records the values in `found` belong.
    ///
    /// # Errors
    /// As [`recover_log`].
    fn recover(
        &self,
        options: &TreeOptions,
        state: &State,
        found: &FoundBlobs,
        obsolete: &Arc<ObsoleteFiles>,
    ) -> Result<RecoveredLog> {
        let (storage, spawn) = (&options.storage, options.spawn());
        match self {
            Self::Local => recover_log(storage, state, found, obsolete, spawn, !options.read_only),
            Self::Restored(restored) => recover_restored(storage, state, found, obsolete, spawn, restored),
            Self::Elsewhere => log_elsewhere(storage, state),
        }
    }
}
