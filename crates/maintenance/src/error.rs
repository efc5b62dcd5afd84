//! One way from the errors of storage and of jobs to the contract's error.

use firn_engine::{Error, ErrorKind, Place};

/// The contract's error for what storage said.
pub fn from_storage(error: firn_storage::Error) -> Error {
    use firn_storage::ErrorKind as Kind;
    let kind = match error.kind {
        Kind::NotFound | Kind::Exists | Kind::Invalid => ErrorKind::Invalid,
        Kind::Locked => ErrorKind::Conflict,
        Kind::Full | Kind::Refused | Kind::Undecided => ErrorKind::Retry,
        Kind::Corrupt => ErrorKind::Corrupt,
        Kind::Unsynced | Kind::Io => ErrorKind::Closed,
    };
    let place = (!error.file.is_empty()).then(|| Place { file: error.file.clone(), offset: error.offset });
    let mut lifted = Error::new(kind, error.message.clone());
    if error.source.is_some() || ends_writing(error.kind) {
        lifted = lifted.because(Said { kind: error.kind, system: error.source });
    }
    match place {
        Some(place) => lifted.at(place),
        None => lifted,
    }
}

/// The contract's error for what a job said.
pub fn from_job(error: firn_jobs::Error) -> Error {
    match (error.kind, error.source) {
        (_, Some(source)) => from_storage(source),
        (firn_jobs::ErrorKind::Cancelled, None) => {
            Error::new(ErrorKind::Retry, "the database is being closed")
        }
        // Nothing was done, and operators may be luckier with other entries, or later; so may
        // executors.
        (firn_jobs::ErrorKind::Panicked | firn_jobs::ErrorKind::Unavailable, None) => {
            Error::new(ErrorKind::Retry, error.message)
        }
        (firn_jobs::ErrorKind::NotConserved, None) => Error::new(
            ErrorKind::Corrupt,
            format!("a job's outputs do not hold what its inputs held: {}", error.message),
        ),
        (_, None) => Error::bug(error.message),
    }
}

/// The kind of failure that storage told of, where `error` is what it said and no more. For
/// failures of the device or the system it is always known.
pub fn said_by_storage(error: &Error) -> Option<firn_storage::ErrorKind> {
    std::error::Error::source(error)?.downcast_ref::<Said>().map(|said| said.kind)
}

/// Whether the contract's kind for it, `Closed`, says less than it does.
fn ends_writing(kind: firn_storage::ErrorKind) -> bool {
    matches!(kind, firn_storage::ErrorKind::Io | firn_storage::ErrorKind::Unsynced)
}

/// What storage said, as a source.
#[derive(Debug)]
struct Said {
    kind: firn_storage::ErrorKind,
    system: Option<std::sync::Arc<std::io::Error>>,
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.system {
            Some(system) => system.fmt(f),
            None => f.write_str("the device or the system failed"),
        }
    }
}

impl std::error::Error for Said {}
