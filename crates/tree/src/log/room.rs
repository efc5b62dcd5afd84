//! What of the disk is kept free, so that what is there can still be removed.
//!
//! A removal is a record in the log, and it makes room only once it is in a table and the tables below are rewritten, or removed: all of
//! that needs some room first. So a segment for other writes begins only where [`KEPT_BYTES`] stay free behind it. While less is free
//! the active segment takes removals alone, and the next ones are begun for those, and for flushes, from what was kept.
//!
//! Whoever else fills the disk may take that as well: it is bytes that are left, not a file.

use firn_engine::{Error, ErrorKind, Result};
use firn_format::key::GRANULE_BYTES;
use firn_storage::Storage;

/// Bytes of the disk that only removals, and what makes room, may take: two of the smallest segments, of which flushes and
/// compactions may have one.
pub(crate) const KEPT_BYTES: u64 = 2 * GRANULE_BYTES;

/// `Retry` unless a file of `bytes` that is no removal's may be begun on `storage`. A place that does not tell what is free has room.
pub(crate) fn check_room(storage: &dyn Storage, bytes: u64) -> Result<()> {
    // Who cannot be asked tells when it is written to.
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
