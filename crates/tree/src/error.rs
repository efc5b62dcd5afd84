//! One way from the errors below to the contract's error.

use firn_engine::{Error, ErrorKind, Location};
pub(crate) use firn_maintenance::{from_job, from_storage, said_by_storage};

/// The contract's error for bytes of `file` that do not decode; `base` = file offset of the decoded
/// slice.
///
/// `Corrupt`, or `Invalid` if a newer release wrote them.
pub(crate) fn from_format(file: &str, base: u64, error: &firn_format::Error) -> Error {
    let location = Location { file: file.to_owned(), offset: Some(base + error.offset as u64) };
    let kind = if error.is_newer { ErrorKind::Invalid } else { ErrorKind::Corrupt };
    Error::new(kind, format!("expected {}, found {}", error.expected, error.found)).at(location)
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
