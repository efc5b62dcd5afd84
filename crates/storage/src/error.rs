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
    /// A publication was neither confirmed nor refused: it is there or it is not, and reading
    /// tells. Nothing that was confirmed before is in doubt.
    Undecided,
    /// A sync failed: what the device has is unknown for good, and no later sync tells.
    Unsynced,
    /// The system or the device failed to read or to write.
    Io,
    /// Nothing is written any more through what was asked: it was ended, or an earlier failure left
    /// unknown what is on the device. The cause is in `source`, if there is one.
    Closed,
    /// A broken promise inside Firn; please report it.
    Bug,
}

impl ErrorKind {
    /// What `error` of the system means to a caller that asked for anything but a sync.
    ///
    /// | error | kind |
    /// |---|---|
    /// | `ENOENT` | `NotFound` |
    /// | `EEXIST` | `Exists` |
    /// | `ENOSPC`, `EDQUOT` | `Full` |
    /// | `EMFILE`, `ENFILE`: no descriptor is left | `Refused` |
    /// | `ENOMEM`, `ENOBUFS`: no memory is left | `Refused` |
    /// | `EINTR`, `EAGAIN`, `ETIMEDOUT`, `EBUSY`: not now | `Refused` |
    /// | all others, `EIO` and `EROFS` among them | `Io` |
    pub fn of_system(error: &std::io::Error) -> Self {
        use rustix::io::Errno;
        use std::io::ErrorKind as System;
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        match (error.kind(), errno) {
            (System::NotFound, _) => Self::NotFound,
            (System::AlreadyExists, _) => Self::Exists,
            (System::StorageFull | System::QuotaExceeded, _) => Self::Full,
            (_, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS))
            | (
                System::OutOfMemory
                | System::Interrupted
                | System::WouldBlock
                | System::TimedOut
                | System::ResourceBusy,
                _,
            ) => Self::Refused,
            _ => Self::Io,
        }
    }
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
    /// What caused it, if that is known: the system's own words, or an earlier error.
    pub source: Option<Cause>,
}

/// How a machine knows that another one has its database: the cause of what it fails with then.
#[derive(Clone, Debug)]
pub(crate) struct TakenOver(pub(crate) String);

impl TakenOver {
    /// That one, if it is `error` or what caused it.
    pub(crate) fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for TakenOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TakenOver {}

/// What caused an [`Error`]: an error of any crate.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

impl Error {
    /// An error at `file`.
    pub fn new(kind: ErrorKind, file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), file: file.into(), offset: None, source: None }
    }

    /// Wrong bytes at `offset` of `file`.
    pub fn corrupt(file: impl Into<String>, offset: u64, message: impl Into<String>) -> Self {
        Self { offset: Some(offset), ..Self::new(ErrorKind::Corrupt, file, message) }
    }

    /// Bytes of `file` that do not decode, those from `base` on: `Corrupt`, or `Invalid` if a newer
    /// release wrote them.
    pub fn decoding(file: impl Into<String>, base: u64, error: &firn_format::Error) -> Self {
        let kind = if error.is_newer { ErrorKind::Invalid } else { ErrorKind::Corrupt };
        let message = format!("expected {}, found {}", error.expected, error.found);
        Self { offset: Some(base + error.offset as u64), ..Self::new(kind, file, message) }
    }

    /// A promise inside Firn is broken.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, "", message)
    }

    /// Another machine has the database, or is about to.
    pub(crate) fn taken_over(sign: TakenOver) -> Self {
        let message = "the database was opened on another machine, or is about to be, and nothing is written here any \
                       more: have clients connect to where it is open, and end this process";
        Self::new(ErrorKind::Closed, "", message).because(sign)
    }

    /// The same error with its cause.
    #[must_use]
    pub fn because(self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(cause)), ..self }
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

    /// What the system said of a sync of `file`: that there is no room, or that nothing is known
    /// any more.
    pub fn sync(file: impl Into<String>, action: &str, error: std::io::Error) -> Self {
        let error = Self::io(file, action, error);
        let kind = match error.kind {
            ErrorKind::Full => ErrorKind::Full,
            _ => ErrorKind::Unsynced,
        };
        Self { kind, ..error }
    }

    /// What the system said while `action` was done to `file`; the kind follows from it.
    pub fn io(file: impl Into<String>, action: &str, error: std::io::Error) -> Self {
        use rustix::io::Errno;
        let kind = ErrorKind::of_system(&error);
        let advice = match (kind, error.raw_os_error().map(Errno::from_raw_os_error)) {
            (ErrorKind::Full, _) => ", the disk is full: free some space, or raise the quota, and try again",
            (_, Some(Errno::MFILE | Errno::NFILE)) => {
                ", too few file descriptors: raise the limit on open files, or lower open_files_max"
            }
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

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::{Error, ErrorKind};

    /// Every error of the system that has an answer of its own, and some that have none.
    #[test]
    fn each_error_of_the_system_has_its_kind() {
        let cases = [
            (Errno::NOENT, ErrorKind::NotFound),
            (Errno::EXIST, ErrorKind::Exists),
            (Errno::NOSPC, ErrorKind::Full),
            (Errno::DQUOT, ErrorKind::Full),
            (Errno::MFILE, ErrorKind::Refused),
            (Errno::NFILE, ErrorKind::Refused),
            (Errno::NOMEM, ErrorKind::Refused),
            (Errno::NOBUFS, ErrorKind::Refused),
            (Errno::INTR, ErrorKind::Refused),
            (Errno::AGAIN, ErrorKind::Refused),
            (Errno::TIMEDOUT, ErrorKind::Refused),
            (Errno::BUSY, ErrorKind::Refused),
            (Errno::IO, ErrorKind::Io),
            (Errno::ROFS, ErrorKind::Io),
            (Errno::ACCESS, ErrorKind::Io),
            (Errno::INVAL, ErrorKind::Io),
            (Errno::STALE, ErrorKind::Io),
        ];
        for (errno, kind) in cases {
            let error = || io::Error::from(errno);
            assert_eq!(Error::io("f", "write", error()).kind, kind, "{errno:?}");
            let synced = if kind == ErrorKind::Full { kind } else { ErrorKind::Unsynced };
            assert_eq!(Error::sync("f", "sync", error()).kind, synced, "a sync: {errno:?}");
        }
        assert_eq!(ErrorKind::of_system(&io::Error::other("no errno")), ErrorKind::Io);
        let message = Error::io("f", "open", Errno::MFILE.into()).to_string();
        assert!(message.contains("open_files_max"), "{message}");
    }
}
