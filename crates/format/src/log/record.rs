//! One record in a frame.
//!
//! ```text
//! offset size  field          meaning
//!      0    4  value_bytes    u32 LE, length of the value
//!      4    2  key_bytes      u16 LE, length of the key
//!      6    1  kind           see `Kind`; frozen
//!      7    1  flags          bit 0 = an expiry follows; a reader rejects any other bit
//!      8    4  keyspace       u32 LE
//!     12    4  reserved       zero
//!     16    8  expiry         u64 LE, milliseconds since the Unix epoch; only with flag bit 0
//!      …    k  key
//!      …    v  value
//!      …       zero padding to a multiple of 8
//! ```
//! Since: FormatVersion::V1.

use crate::key::Kind;

/// Bytes before the expiry or the key.
pub const RECORD_HEADER_BYTES: usize = 16;

/// A record, borrowed from the segment it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The keyspace it belongs to.
    pub keyspace: u32,
    /// What it is.
    pub kind: Kind,
    /// Milliseconds since the Unix epoch from which it counts as deleted; 0 = never.
    pub expires_at_ms: u64,
    /// The key, or the first key of a range.
    pub key: &'a [u8],
    /// Value, operand, or excluded end of a range.
    pub value: &'a [u8],
}
