//! Which directory a log lies in, where the rest of the database lies elsewhere.
//!
//! ```text
//! offset size  field     meaning
//!      0    8  magic     "FIRNHOM1"
//!      8    4  version   u32 LE, FormatVersion
//!     12    4  reserved  zero
//!     16   16  id        u128 LE, drawn when the directory was made; not zero
//!     32    8  checksum  u64 LE, xxh3 over bytes 0..32
//! ```
//! The manifest names the directory whose process wrote last: a log in another one is not the
//! database's newest. Since: FormatVersion::V1. Golden: golden/home-v1-id.{bin,txt}.

use crate::bytes::Reader;
use crate::checksum::xxh3;
use crate::error::{Error, Result};
use crate::version::FormatVersion;

/// What the file begins with.
pub const HOME_MAGIC: [u8; 8] = *b"FIRNHOM1";
/// Bytes of the file.
pub const HOME_BYTES: usize = 40;

/// Identity of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// No other directory has it; not zero.
    pub id: u128,
}

impl Home {
    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HOME_BYTES);
        out.extend_from_slice(&HOME_MAGIC);
        out.extend_from_slice(&(FormatVersion::CURRENT as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&xxh3(&out).to_le_bytes());
        out
    }

    /// What `bytes`, a whole file, say.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let magic = input.take(8)?;
        if magic != HOME_MAGIC {
            let found = format!("\"{}\"", magic.escape_ascii());
            return Err(Error::new(0, "the magic of a directory's identity, FIRNHOM1", found));
        }
        FormatVersion::of(input.u32()?, 8)?;
        let reserved = input.u32()?;
        if reserved != 0 {
            return Err(Error::new(12, "0", format!("{reserved}")));
        }
        let id = input.u128()?;
        if id == 0 {
            return Err(Error::new(16, "an identity", "0"));
        }
        let (expected, found) = (xxh3(bytes.get(..32).unwrap_or_default()), input.u64()?);
        if expected != found {
            return Err(Error::new(32, format!("checksum {expected:016x}"), format!("{found:016x}")));
        }
        match input.is_empty() {
            true => Ok(Self { id }),
            false => Err(Error::new(HOME_BYTES, "the end of the file", format!("{} bytes", bytes.len()))),
        }
    }
}
