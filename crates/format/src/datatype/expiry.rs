//! When collections expire: records of keyspace `expiry`, earliest first.
//!
//! ```text
//! key
//! offset size  field          meaning
//!      0    8  expires_at_ms  u64 BE, milliseconds since the Unix epoch, not 0
//!      8    4  database       u32 BE
//!     12    2  slot           u16 BE
//!     14    4  hash           u32 BE
//!     18    k  key            to the end (see `key`)
//!
//! value
//!      0    8  generation     u64 LE
//! ```
//! Strings have none: their records expire by themselves. A record may outlive the collection it is
//! about. It means the collection at the key only if that has this generation and still expires at
//! this time.

use crate::bytes::Reader;
use crate::error::{Error, Result};

use super::key::{Generation, UserKey};

/// One record: at a time, a collection expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry<'a> {
    /// Milliseconds since the Unix epoch, not 0.
    pub expires_at_ms: u64,
    /// The key it stands at.
    pub key: UserKey<'a>,
    /// The collection's.
    pub generation: Generation,
}

impl<'a> Expiry<'a> {
    /// Appends the record's key.
    pub fn encode_key(&self, out: &mut Vec<u8>) {
        debug_assert_ne!(self.expires_at_ms, 0, "what never expires has no record");
        out.extend_from_slice(&self.expires_at_ms.to_be_bytes());
        self.key.encode(out);
    }

    /// Appends the record's value.
    pub fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.generation.0.to_le_bytes());
    }

    /// The record made of `key` and `value`.
    ///
    /// # Errors
    /// A time of 0, a key that is none, a value of another length. Offsets count through the key
    /// and on into the value.
    pub fn decode(key: &'a [u8], value: &[u8]) -> Result<Self> {
        let mut meaning = Reader::new(value, key.len());
        let mut input = Reader::new(key, 0);
        let expires_at_ms = input.u64_big()?;
        if expires_at_ms == 0 {
            return Err(Error::new(0, "a time other than 0", "0"));
        }
        let at = input.offset();
        let key = UserKey::decode(input.rest()).map_err(|error| error.based(at))?;
        let generation = Generation(meaning.u64()?);
        meaning.end("a generation")?;
        Ok(Self { expires_at_ms, key, generation })
    }
}
