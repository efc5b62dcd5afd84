//! One way from the errors below to the contract's error.

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

/// The contract's error for bytes of `file` that do not decode; `base` = file offset of the decoded
/// slice.
///
/// `Corrupt`, or `Invalid` if a newer release wrote them.
pub(crate) fn from_format(file: &str, base: u64, error: &firn_format::Error) -> Error {
    let place = Place { file: file.to_owned(), offset: Some(base + error.offset as u64) };
    let kind = if error.is_newer { ErrorKind::Invalid } else { ErrorKind::Corrupt };
    Error::new(kind, format!("expected {}, found {}", error.expected, error.found)).at(place)
}

/// What `work` answers; if it panics, an error that says so. For what runs on the pool: a panic of
/// an operator or of an update's function fails the call that asked for it. A panic on the caller's
/// thread does the same.
///
/// What `work` shares with other threads MUST bear to be left as the panic leaves it.
///
/// # Errors
/// `Retry` if it panics: nothing was done. What `work` says.
pub(crate) fn survived<T>(what: &str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let caught = firn_jobs::caught(what, || Ok(work()));
    caught.unwrap_or_else(|panic| Err(Error::new(ErrorKind::Retry, panic.to_string())))
}

/// The kind of failure that storage told of, where `error` is what it said and no more. For
/// failures of the device or the system it is always known.
pub(crate) fn said_by_storage(error: &Error) -> Option<firn_storage::ErrorKind> {
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
