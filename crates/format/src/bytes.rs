//! Fields of changes and records: numbers and strings, read with their offsets.
//!
//! ```text
//! number  a varint (see `varint`)
//! bytes   their count as a varint, then the bytes
//! text    bytes in UTF-8
//! u128    16 bytes, little end first
//! ```

use crate::error::{Error, Result};
use crate::varint;

/// Appends `bytes` with their count before them.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::encode(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Takes fields off the front of a slice; errors carry the offset in the file the slice comes from.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, which lie at `offset` of their file.
    pub fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    /// Whether everything has been taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Where in the file the next field is.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// What is left, without taking it.
    pub fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            let found = format!("{} bytes", self.rest.len());
            return Err(Error::new(self.offset, format!("{count} more bytes"), found));
        };
        self.rest = rest;
        self.offset += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.first_chunk::<N>().copied().unwrap_or([0; N]))
    }

    /// One byte.
    ///
    /// # Errors
    /// None is left.
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Four bytes, little end first.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little end first.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Sixteen bytes, little end first.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn u128(&mut self) -> Result<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// Two bytes, big end first, as keys have them.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn u16_big(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big end first.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn u32_big(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big end first.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn u64_big(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// All that is left; nothing is left after it.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = std::mem::take(&mut self.rest);
        self.offset += rest.len();
        rest
    }

    /// Nothing.
    ///
    /// # Errors
    /// Something is left: more than `what`.
    pub fn end(&self, what: &str) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let found = format!("{} more bytes", self.rest.len());
        Err(Error::new(self.offset, format!("the end of {what}"), found))
    }

    /// A varint.
    ///
    /// # Errors
    /// It is malformed.
    pub fn number(&mut self) -> Result<u64> {
        let (number, bytes) = varint::decode(self.rest).map_err(|error| error.based(self.offset))?;
        self.take(bytes)?;
        Ok(number)
    }

    /// A varint below 2^32.
    ///
    /// # Errors
    /// It is malformed or larger.
    pub fn number32(&mut self) -> Result<u32> {
        let offset = self.offset;
        let number = self.number()?;
        u32::try_from(number).map_err(|_| Error::new(offset, "a number below 2^32", format!("{number}")))
    }

    /// Bytes with their count before them.
    ///
    /// # Errors
    /// The count is malformed or exceeds what is left.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.number()?;
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Text with its count of bytes before it.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), or it is not UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        let start = self.offset - bytes.len();
        std::str::from_utf8(bytes).map_err(|error| {
            Error::new(
                start + error.valid_up_to(),
                "text in UTF-8",
                format!("{} bytes that are not", bytes.len()),
            )
        })
    }
}
