//! Errors of other crates as the contract has them.

use firn_engine::{Error, ErrorKind};

pub(crate) use firn_maintenance::from_storage;

/// The contract's error for bytes of `file` that are not what was written.
pub(crate) fn from_format(file: &str, error: firn_format::Error) -> Error {
    let kind = if error.is_newer { ErrorKind::Invalid } else { ErrorKind::Corrupt };
    let location = firn_engine::Location { file: file.to_owned(), offset: Some(error.offset as u64) };
    Error::new(kind, error.to_string()).at(location)
}

/// What a failed sync says: what the device has is not known from then on.
pub(crate) fn unsynced(error: firn_storage::Error) -> Error {
    let error = from_storage(error);
    match error.kind() {
        ErrorKind::Closed => error,
        _ => Error::new(ErrorKind::Closed, "a sync failed: what the device has is not known").because(error),
    }
}

/// The system has less memory than the settings name.
pub(crate) fn no_memory(error: std::io::Error) -> Error {
    let message = "the system gives no memory for index and log: lower memory_bytes";
    Error::new(ErrorKind::Retry, message).because(Error::invalid(error.to_string()))
}
