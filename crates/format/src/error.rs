//! What decoding can fail with.

use std::fmt;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Bytes that are not what was written: where in the decoded slice, what was expected, what was
/// found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Offset inside the slice that was given to the decoder.
    pub offset: usize,
    /// What should have been there.
    pub expected: String,
    /// What was there.
    pub found: String,
    /// Whether the bytes are whole and only a newer release of Firn knows their format.
    pub is_newer: bool,
}

impl Error {
    /// An error at `offset`.
    pub fn new(offset: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { offset, expected: expected.into(), found: found.into(), is_newer: false }
    }

    /// Bytes at `offset` that only a newer release can read.
    pub fn newer(offset: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { is_newer: true, ..Self::new(offset, expected, found) }
    }

    /// The same error seen from a slice in which this one begins at `base`.
    #[must_use]
    pub fn based(mut self, base: usize) -> Self {
        self.offset += base;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for Error {}
