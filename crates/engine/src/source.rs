//! A value that comes in pieces.

use std::fmt;
use std::io::{ErrorKind, Read};

use crate::{Error, Result};

/// A value that a source brings, of a length known before: neither more nor fewer bytes come.
pub struct ValueSource<'s> {
    source: &'s mut dyn Read,
    value_bytes: u64,
    read_bytes: u64,
}

impl<'s> ValueSource<'s> {
    /// The `value_bytes` that `source` has from here to its end.
    pub fn new(source: &'s mut dyn Read, value_bytes: u64) -> Self {
        Self { source, value_bytes, read_bytes: 0 }
    }

    /// How many bytes the value has.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// The next bytes in `out`, which is cleared first: `bytes_max`, or what is left. `false` if
    /// nothing is.
    ///
    /// Blocks as long as the source does.
    ///
    /// # Errors
    /// `Invalid`: the source failed, or ended too early.
    pub fn next_piece(&mut self, bytes_max: usize, out: &mut Vec<u8>) -> Result<bool> {
        let left = usize::try_from(self.value_bytes - self.read_bytes).unwrap_or(usize::MAX);
        out.clear();
        out.resize(left.min(bytes_max), 0);
        let mut filled = 0;
        while filled < out.len() {
            match self.read(&mut out[filled..])? {
                0 => {
                    let (found, said) = (self.read_bytes, self.value_bytes);
                    return Err(Error::invalid(format!(
                        "the source of a value ended after {found} bytes where {said} were announced: nothing was written"
                    )));
                }
                read => filled += read,
            }
        }
        Ok(!out.is_empty())
    }

    /// All bytes were taken, and the source has no more.
    ///
    /// # Errors
    /// `Invalid`: it has, or failed.
    pub fn end(mut self) -> Result<()> {
        match self.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(Error::invalid(format!(
                "the source of a value has more than the {} bytes that were announced: nothing was written",
                self.value_bytes
            ))),
        }
    }

    /// All of it, in memory.
    ///
    /// # Errors
    /// As [`next_piece`](Self::next_piece) and [`end`](Self::end).
    pub fn whole(mut self) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.next_piece(usize::MAX, &mut value)?;
        self.end()?;
        Ok(value)
    }

    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            match self.source.read(out) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let (found, said) = (self.read_bytes, self.value_bytes);
                    let message = format!(
                        "the source of a value failed after {found} of {said} bytes: nothing was written"
                    );
                    return Err(Error::invalid(message).because(error));
                }
                Ok(read) => {
                    self.read_bytes += read as u64;
                    return Ok(read);
                }
            }
        }
    }
}

impl fmt::Debug for ValueSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value_bytes, read_bytes, .. } = self;
        f.debug_struct("ValueSource")
            .field("value_bytes", value_bytes)
            .field("read_bytes", read_bytes)
            .finish_non_exhaustive()
    }
}
