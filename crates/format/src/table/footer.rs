//! The last 128 bytes of a table: where everything is.
//!
//! ```text
//! offset size  field       meaning
//!      0    8  magic       "FIRNTAB1"
//!      8    4  version     u32 LE, see FormatVersion
//!     12    4  reserved    zero; a reader rejects anything else
//!     16   16  properties  handle: u64 LE offset, u64 LE bytes (trailer included)
//!     32   16  index       handle of all index blocks, which lie one after another
//!     48   16  top         handle of the top index
//!     64   16  filter      handle; all zero = none
//!     80   16  prefixes    handle of the filter over key prefixes; all zero = none
//!     96   16  tombstones  handle; all zero = none
//!    112    8  data_bytes  u64 LE: data blocks fill 0..data_bytes
//!    120    8  checksum    xxh3-64 LE over bytes 0..120
//! ```
//! Every version keeps magic, version and checksum where they are, so a newer one is told from
//! damage. Since: FormatVersion::V1.

use crate::bytes::Reader;
use crate::checksum::xxh3;
use crate::error::{Error, Result};
use crate::version::FormatVersion;

/// Length of the footer.
pub const FOOTER_BYTES: usize = 128;
/// What a footer begins with.
pub const TABLE_MAGIC: [u8; 8] = *b"FIRNTAB1";

/// Where a block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle {
    /// Offset in the file.
    pub offset: u64,
    /// Its bytes, trailer included; 0 = there is none.
    pub bytes: u64,
}

/// The footer's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// The properties block.
    pub properties: Handle,
    /// All index blocks.
    pub index: Handle,
    /// The top index block.
    pub top: Handle,
    /// The filter over keys, if any.
    pub filter: Handle,
    /// The filter over prefixes, if any.
    pub prefixes: Handle,
    /// The range tombstones, if any.
    pub tombstones: Handle,
    /// Where the data blocks end.
    pub data_bytes: u64,
}

impl Footer {
    /// The handles in the order they are stored.
    pub fn handles(&self) -> [(&'static str, Handle); 6] {
        [
            ("properties", self.properties),
            ("index", self.index),
            ("top", self.top),
            ("filter", self.filter),
            ("prefixes", self.prefixes),
            ("tombstones", self.tombstones),
        ]
    }

    /// Appends the footer's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&TABLE_MAGIC);
        out.extend_from_slice(&(FormatVersion::CURRENT as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for (_, handle) in self.handles() {
            out.extend_from_slice(&handle.offset.to_le_bytes());
            out.extend_from_slice(&handle.bytes.to_le_bytes());
        }
        out.extend_from_slice(&self.data_bytes.to_le_bytes());
        let checksum = xxh3(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// The footer whose bytes are `bytes`, the last [`FOOTER_BYTES`] of a file of `file_bytes`.
    ///
    /// # Errors
    /// Magic, version, checksum or reserved bytes are wrong, or a handle reaches past the footer's
    /// begin. Offsets are in `bytes`.
    pub fn decode(bytes: &[u8], file_bytes: u64) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let magic = input.take(8)?;
        if magic != TABLE_MAGIC {
            return Err(Error::new(0, "\"FIRNTAB1\"", format!("\"{}\"", magic.escape_ascii())));
        }
        let version = input.u32()?;
        let reserved = input.u32()?;
        let mut handle = || Ok(Handle { offset: input.u64()?, bytes: input.u64()? });
        let (properties, index, top) = (handle()?, handle()?, handle()?);
        let (filter, prefixes, tombstones) = (handle()?, handle()?, handle()?);
        let data_bytes = input.u64()?;
        let (checksum, expected) = (input.u64()?, xxh3(bytes.get(..FOOTER_BYTES - 8).unwrap_or_default()));
        if checksum != expected || bytes.len() != FOOTER_BYTES {
            return Err(Error::new(120, format!("checksum {expected:#018x}"), format!("{checksum:#018x}")));
        }
        FormatVersion::of(version, 8)?;
        if reserved != 0 {
            return Err(Error::new(12, "zero", format!("{reserved}")));
        }
        let footer = Self { properties, index, top, filter, prefixes, tombstones, data_bytes };
        footer.check(file_bytes.saturating_sub(FOOTER_BYTES as u64))?;
        Ok(footer)
    }

    /// Where the table begins whose footer `bytes` end at offset `end` of a file that holds
    /// several, one after another.
    ///
    /// # Errors
    /// As [`decode`](Self::decode); a table that would begin before the file.
    pub fn table_start(bytes: &[u8], end: u64) -> Result<u64> {
        let properties = Self::decode(bytes, end)?.properties;
        // They are what lies directly before the footer.
        let table_bytes = properties.offset + properties.bytes + FOOTER_BYTES as u64;
        let too_long = || Error::new(16, format!("a table of at most {end} bytes"), format!("{table_bytes}"));
        end.checked_sub(table_bytes).ok_or_else(too_long)
    }

    fn check(&self, end: u64) -> Result<()> {
        for (index, (name, handle)) in self.handles().into_iter().enumerate() {
            let inside = handle.offset.checked_add(handle.bytes).is_some_and(|last| last <= end);
            if !inside || (handle.bytes > 0 && handle.offset < self.data_bytes) {
                let found = format!("{} bytes at {}", handle.bytes, handle.offset);
                let expected = format!("{name} between offsets {} and {end}", self.data_bytes);
                return Err(Error::new(16 + 16 * index, expected, found));
            }
        }
        if self.data_bytes > end {
            return Err(Error::new(112, format!("data up to offset {end}"), format!("{}", self.data_bytes)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = Vec::new();
        Footer::default().encode(&mut bytes);
        bytes[8] = 9;
        assert!(Footer::decode(&bytes, 128).is_err_and(|error| !error.is_newer));
        let checksum = xxh3(&bytes[..120]);
        bytes[120..].copy_from_slice(&checksum.to_le_bytes());
        assert!(Footer::decode(&bytes, 128).is_err_and(|error| error.is_newer && error.offset == 8));
    }

    #[test]
    fn every_flip_is_noticed() {
        let handle = |offset, bytes| Handle { offset, bytes };
        let footer = Footer {
            properties: handle(500, 50),
            index: handle(400, 60),
            top: handle(460, 40),
            filter: handle(300, 100),
            prefixes: Handle::default(),
            tombstones: handle(290, 10),
            data_bytes: 290,
        };
        let mut bytes = Vec::new();
        footer.encode(&mut bytes);
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert_eq!(Footer::decode(&bytes, 678), Ok(footer));
        assert!(Footer::decode(&bytes, 677).is_err());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(Footer::decode(&bytes, 678).is_err(), "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
    }
}
