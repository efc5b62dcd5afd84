//! One error: what the caller can do, what happened, and where.

use std::borrow::Cow;
use std::fmt;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an [`Error`].
///
/// ```
/// use firn_engine::{Error, ErrorKind};
///
/// /// Whether a program that waits a moment should do the call again.
/// fn is_worth_a_retry(error: &Error) -> bool {
///     match error.kind() {
///         // Nothing was done: once there is room, or the other one is done, it may succeed.
///         ErrorKind::Retry | ErrorKind::Conflict => true,
///         // It was done. Doing it again would do it twice.
///         ErrorKind::NotDurable => false,
///         // The program, its settings or its data must change first.
///         ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Closed | ErrorKind::Bug => false,
///     }
/// }
/// assert!(!is_worth_a_retry(&Error::invalid("a key of 70000 bytes: 65535 is the limit")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nothing was done; the same call may succeed later (disk full, timed out, busy).
    ///
    /// Make room, or wait, and do it again. Deletes are taken while a disk is full.
    Retry,
    /// The write was done, whole, and reads find it, but it does not yet survive what was asked for
    /// (disk full, shared storage away). It does once a later write of the same durability
    /// succeeds. Doing it again would do it twice.
    ///
    /// Go on, and count on it once such a write, or a sync, has succeeded.
    NotDurable,
    /// Another process or call holds or changed what the call needed (second opener, lost race).
    ///
    /// Nothing was done. A transaction is done again from its first read; a directory is free once
    /// the other process, which the message names where it can, has closed it.
    Conflict,
    /// The call cannot succeed as it stands: an argument, a setting or a directory must change.
    ///
    /// The message says which, and to what. Doing it again changes nothing.
    Invalid,
    /// Stored bytes are not what was written; the message names file and offset.
    ///
    /// What lies elsewhere can be read on. Restore a backup, or repair what is left
    /// (`firn repair`); look at the device.
    Corrupt,
    /// The engine takes no more writes (closed, read-only, or poisoned by the cause in `source`).
    ///
    /// Open the database again where it was not this program that closed it: what was acknowledged
    /// is there.
    Closed,
    /// A broken promise inside Firn; please report it.
    Bug,
}

/// Where stored bytes failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// File name as seen from the database directory.
    pub file: String,
    /// Byte offset in the file, where known.
    pub offset: Option<u64>,
}

/// What went wrong, for people (`Display`, one line) and for programs ([`Error::kind`]).
///
/// The line says what happened, where, and what to do about it, and ends with the cause. It is for
/// logs as it is. What a program does follows from the kind alone; texts may change.
#[derive(Clone)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    location: Option<Location>,
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error with no location and no source.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { inner: Box::new(Inner { kind, message: message.into(), location: None, source: None }) }
    }

    /// The call must change before it can succeed.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Stored bytes at `location` are wrong.
    pub fn corrupt(location: Location, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message).at(location)
    }

    /// A promise inside Firn is broken.
    pub fn bug(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Bug, message)
    }

    /// The same error with a location.
    #[must_use]
    pub fn at(mut self, location: Location) -> Self {
        self.inner.location = Some(location);
        self
    }

    /// The same error with its cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.inner.source = Some(std::sync::Arc::from(source.into()));
        self
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// What happened, without location and cause.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Where stored bytes failed, if that is what failed.
    pub fn location(&self) -> Option<&Location> {
        self.inner.location.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.inner.location {
            write!(f, "{}", location.file)?;
            if let Some(offset) = location.offset {
                write!(f, " at offset {offset}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.inner.message)?;
        if let Some(source) = &self.inner.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.inner.kind)
            .field("message", &self.inner.message)
            .field("location", &self.inner.location)
            .field("source", &self.inner.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }
}
