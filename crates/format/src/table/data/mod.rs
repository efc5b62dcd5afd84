//! Data blocks: entries in order, keys apart from values.
//!
//! ```text
//! payload:  values │ keys │ restarts │ keys_bytes u32 │ restart_count u32
//!
//! values    the entries' values one after another
//! keys      for each entry:
//!             varint  shared         bytes of the key that equal the previous entry's; 0 at a restart
//!             varint  unshared       bytes that follow
//!             varint  value          bytes of the value * 2 + 1 if an expiry follows
//!             ...     suffix         the unshared bytes
//!             u8      kind           of the entry, + 16 * bytes of the trailer: of this byte and of the sequence; 0 = 8
//!             ...     sequence       LE, without zeros at its end; where the trailer has 8 bytes, 7
//!             u64 LE  expires_at_ms  only if announced; not 0
//! restarts  for every 16th entry from the first: u32 LE offset in keys, u32 LE offset in values
//! ```
//! A search touches the block's last lines (tail, restarts, keys, and behind them codec and
//! checksum) and then the one value it wants. Four values of 1 KiB cost two cache misses, not
//! eight. Entries are ordered by key, and of one key newest first. Since: FormatVersion::V1.
//!
//! Limits: keys up to [`KEY_BYTES_MAX`]; values up to [`VALUE_BYTES_MAX`]. A value larger than the
//! block size has a block of its own, so offsets in values stay below 4 GiB.

mod builder;
mod read;
mod walk;

#[cfg(test)]
mod tests;

pub(crate) use builder::common_bytes;
pub use builder::{Added, DataBlockBuilder};
pub use read::{DataBlock, Find, Shape};
pub use walk::Walker;

/// Longest key.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = u32::MAX as usize - (1 << 20);
/// Where in a stored trailer its length is: above the kind, which has four bits.
const TRAILER_LENGTH_SHIFT: u32 = 4;
/// Entries from one restart to the next.
pub const RESTART_INTERVAL: usize = 16;
