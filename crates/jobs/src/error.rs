//! What a job can fail with.

use std::fmt;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What the submitter can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// This executor cannot run the job (it lacks an operator, or does not read what the job says);
    /// another may.
    Rejected,
    /// The job was cancelled; its outputs are removed as far as that was possible.
    Cancelled,
    /// The job says something impossible; no executor can run it.
    Invalid,
    /// Reading inputs or writing outputs failed; the source says how.
    Storage,
    /// Entries went missing or came from nowhere: the result must not be committed.
    NotConserved,
    /// The executor is not there, or takes no job from this submitter now, whatever it is; later it
    /// may.
    Unavailable,
    /// An input does not hold what it should, on every executor. The source, or else the message,
    /// says which and where.
    Corrupt,
    /// The executor met a panic in an operator, a filter or this program, and went on; the message
    /// is the panic's.
    Panicked,
}

/// Why a job has no result.
#[derive(Clone, Debug)]
pub struct Error {
    /// What the submitter can do.
    pub kind: ErrorKind,
    /// One line for people.
    pub message: String,
    /// What storage said, where that is the cause.
    pub source: Option<firn_storage::Error>,
}

impl Error {
    /// An error without a source.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }
}

impl From<firn_storage::Error> for Error {
    fn from(source: firn_storage::Error) -> Self {
        Self { kind: ErrorKind::Storage, message: "a job's file".into(), source: Some(source) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
