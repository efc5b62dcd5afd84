//! What of the disk is kept free, so that what is there can still be removed.
//!
//! A removal is a record in the log, and it makes room only once it is in a table and the tables
//! below are rewritten, or removed: all of that needs some room first. Of what is free
//!
//! ```text
//!   the log takes all, for removals
//!   a flush leaves                       LOG_KEPT_BYTES
//!   a compaction or a collection leaves  LOG_KEPT_BYTES + what a flush of the buffer takes
//!   a segment for other writes leaves    that + what a flush of the segment takes,
//!                                        and KEPT_BYTES at least
//! ```
//!
//! - A writer whose segment would leave less waits for a flush of all that the buffer holds, and
//!   is refused only once that has made no room.
//! - A segment that is begun while there is less takes removals alone. Nothing is set aside for
//!   it: it takes what it holds.
//!
//! Other programs may take all of that as well: it is bytes that are left, not a file.

use firn_engine::{Error, ErrorKind, Result};
use firn_format::key::GRANULE_BYTES;
use firn_storage::Storage;

/// Bytes of the disk that only removals, and what makes room, may take: two of the smallest
/// segments.
pub(crate) const KEPT_BYTES: u64 = 2 * GRANULE_BYTES;

/// Those of them that only the log may take.
pub(crate) const LOG_KEPT_BYTES: u64 = GRANULE_BYTES;

/// `Retry` unless a file of `bytes` that is no removal's may be begun on `storage`. A place that does not tell what is free has room.
pub(crate) fn check_room(storage: &dyn Storage, bytes: u64) -> Result<()> {
    // What cannot be asked tells when it is written to.
    match storage.free_bytes() {
        Ok(Some(free)) if free < bytes.saturating_add(KEPT_BYTES) => Err(Error::new(
            ErrorKind::Retry,
            format!(
                "the disk is full ({free} bytes are free, and the last {KEPT_BYTES} are kept for removals and what makes room): free some \
                 space, raise the quota, or delete records, and try again"
            ),
        )),
        _ => Ok(()),
    }
}
