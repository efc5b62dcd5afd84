//! One way from the errors of storage and of jobs to the contract's error.

use firn_engine::{Error, ErrorKind, Location};
use firn_storage::Cause;

/// The contract's error for what storage said.
pub fn from_storage(error: firn_storage::Error) -> Error {
    use firn_storage::ErrorKind as Kind;
    let kind = match error.kind {
        Kind::NotFound | Kind::Exists | Kind::Invalid => ErrorKind::Invalid,
        Kind::Locked => ErrorKind::Conflict,
        Kind::Full | Kind::Refused | Kind::Undecided => ErrorKind::Retry,
        Kind::Corrupt => ErrorKind::Corrupt,
        Kind::Unsynced | Kind::Io | Kind::Closed => ErrorKind::Closed,
        Kind::Bug => ErrorKind::Bug,
    };
    let location =
        (!error.file.is_empty()).then(|| Location { file: error.file.clone(), offset: error.offset });
    let mut lifted = Error::new(kind, error.message.clone());
    lifted = match error.source {
        Some(cause) => match from_cause(&cause) {
            Some(earlier) => lifted.because(earlier),
            None => lifted.because(Said { kind: error.kind, system: Some(cause) }),
        },
        None if ends_writing(error.kind) => lifted.because(Said { kind: error.kind, system: None }),
        None => lifted,
    };
    match location {
        Some(location) => lifted.at(location),
        None => lifted,
    }
}

/// The contract's error for the earlier one that is the `cause` of storage's; `None` if that is the
/// system's.
fn from_cause(cause: &Cause) -> Option<Error> {
    let earlier = cause.downcast_ref::<firn_storage::Error>().map(|error| from_storage(error.clone()));
    earlier.or_else(|| cause.downcast_ref::<Error>().cloned())
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
    system: Option<Cause>,
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.system {
            Some(system) => system.fmt(f),
            None => f.write_str("the device or the system failed"),
        }
    }
}

impl std::error::Error for Said {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.system.as_deref().map(|system| system as _)
    }
}

#[cfg(test)]
mod tests {
    use firn_storage::ErrorKind as Kind;

    use super::*;

    /// An error of storage that another one caused is as if the contract's own had been.
    #[test]
    fn a_cause_is_lifted_with_what_it_caused() {
        let closed =
            |cause: firn_storage::Error| firn_storage::Error::new(Kind::Closed, "", "ended").because(cause);
        let unsynced = firn_storage::Error::new(Kind::Unsynced, "a.log", "cannot sync");
        let lifted = from_storage(closed(unsynced));
        let expected = "ended: a.log: cannot sync: the device or the system failed";
        assert_eq!((lifted.kind(), lifted.to_string().as_str()), (ErrorKind::Closed, expected));
        assert_eq!(said_by_storage(&lifted), None, "it is not the device that says so");
        let own = Error::new(ErrorKind::Conflict, "another opener");
        let lifted = from_storage(firn_storage::Error::new(Kind::Closed, "", "ended").because(own));
        let cause = std::error::Error::source(&lifted).and_then(|cause| cause.downcast_ref::<Error>());
        assert_eq!(cause.map(Error::kind), Some(ErrorKind::Conflict));
        let system = std::io::Error::other("EIO");
        let lifted = from_storage(firn_storage::Error::new(Kind::Io, "f", "cannot read").because(system));
        assert_eq!(said_by_storage(&lifted), Some(Kind::Io));
    }
}
