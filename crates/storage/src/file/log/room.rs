//! What of the disk is kept free, so that what is there can still be removed.
//!
//! A removal is a record in the log. It makes room only once it is in a table and the tables below
//! are rewritten, or removed: all of that needs some room first. Of what is free
//!
//! ```text
//!   a flush leaves                       FLUSH_KEPT_BYTES
//!   a removal leaves                     REMOVAL_KEPT_BYTES + what a flush of the buffer takes,
//!                                        the removal included
//!   a compaction or a blob GC leaves     JOB_KEPT_BYTES + what a flush of the buffer takes
//!   a segment for other writes leaves    KEPT_BYTES at least, and more while the buffer can still
//!                                        be flushed (`has_disk_for`)
//! ```
//!
//! - A removal that would leave less waits for a flush of all that the buffer holds. It is refused
//!   once that has made no room: what the log has taken can be flushed, whatever the keys' length.
//! - A writer whose segment would leave less waits for the same flush, and is refused only once
//!   that has made no room.
//! - A segment that is begun while there is less takes removals alone. Nothing is set aside for
//!   it: it takes what it holds.
//!
//! Other programs may take all of that as well: it is bytes that are left, not a file.

use firn_format::key::GRANULE_BYTES;

use crate::{Error, ErrorKind, Result, Storage};

/// Bytes of the disk that only removals, and what makes room, may take: two of the smallest
/// segments.
pub const KEPT_BYTES: u64 = 2 * GRANULE_BYTES;

/// Those of them that a flush leaves: for edits of the manifest.
pub const FLUSH_KEPT_BYTES: u64 = 512 << 10;

/// Those of them that a removal leaves beside the flush of it: for what other writers append
/// meanwhile.
pub const REMOVAL_KEPT_BYTES: u64 = 2 * FLUSH_KEPT_BYTES;

/// Those of them that compactions and blob GCs leave to removals.
pub const JOB_KEPT_BYTES: u64 = 2 * REMOVAL_KEPT_BYTES;

/// `Full` unless a file of `bytes` that is no removal's may be begun on `storage`. A backend that
/// does not tell what is free has room.
pub fn check_room(storage: &dyn Storage, bytes: u64) -> Result<()> {
    // What cannot be asked tells when it is written to.
    match storage.free_bytes() {
        Ok(Some(free)) if free < bytes.saturating_add(KEPT_BYTES) => Err(Error::new(
            ErrorKind::Full,
            "",
            format!(
                "the disk is full ({free} bytes are free, and the last {KEPT_BYTES} are kept for removals and what makes room): free some \
                 space, raise the quota, or delete records, and try again"
            ),
        )),
        _ => Ok(()),
    }
}
