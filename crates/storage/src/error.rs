//! What storage can fail with.

use std::fmt;
use std::sync::Arc;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no file of that name.
    NotFound,
    /// There is a file of that name already.
    Exists,
    /// Another process (or another handle of this one) holds the directory.
    Locked,
    /// The device is full.
    Full,
    /// Bytes are not what was written.
    Corrupt,
    /// The name, offset or directory cannot be used.
    Invalid,
    /// The system refused to begin: nothing was done, and the same may work later.
    Refused,
    /// A publication was neither confirmed nor refused: it is there or it is not, and reading tells. Nothing that was
    /// confirmed before is in doubt.
    Undecided,
    /// The device failed; the operation's effect is unknown.
    Io,
}

/// What failed, in which file, at which offset.
#[derive(Clone, Debug)]
pub struct Error {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// One line for people, without the file name.
    pub message: String,
    /// The file, as named in its directory; empty for the directory itself.
    pub file: String,
    /// Where in the file, if known.
    pub offset: Option<u64>,
    /// The system's own words, if it said any.
    pub source: Option<Arc<std::io::Error>>,
}

impl Error {
    /// An error at `file`.
    pub fn new(kind: ErrorKind, file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), file: file.into(), offset: None, source: None }
    }

    /// Wrong bytes at `offset` of `file`.
    pub fn corrupt(file: impl Into<String>, offset: u64, message: impl Into<String>) -> Self {
        Self { offset: Some(offset), ..Self::new(ErrorKind::Corrupt, file, message) }
    }

    /// A `file` of `found` bytes that should have `expected`.
    pub fn wrong_length(file: impl Into<String>, expected: u64, found: u64) -> Self {
        Self::corrupt(file, found.min(expected), format!("expected {expected} bytes, found {found}"))
    }

    /// The same, but of `kind` where it was `Io`: no sync has failed.
    pub(crate) fn or_rather(mut self, kind: ErrorKind) -> Self {
        if self.kind == ErrorKind::Io {
            self.kind = kind;
        }
        self
    }

    /// What the system said while `action` was done to `file`; the kind follows from it.
    pub fn io(file: impl Into<String>, action: &str, error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Full,
            _ => ErrorKind::Io,
        };
        let advice = match kind {
            ErrorKind::Full => ", the disk is full: free some space, or raise the quota, and try again",
            _ => "",
        };
        Self { source: Some(Arc::new(error)), ..Self::new(kind, file, format!("cannot {action}{advice}")) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}", self.file)?;
            if let Some(offset) = self.offset {
                write!(f, " at offset {offset}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
