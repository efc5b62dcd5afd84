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
        Kind::Io => ErrorKind::Closed,
    };
    let place = (!error.file.is_empty()).then(|| Place { file: error.file.clone(), offset: error.offset });
    let mut lifted = Error::new(kind, error.message.clone());
    if let Some(source) = error.source {
        lifted = lifted.because(SystemError(source));
    }
    match place {
        Some(place) => lifted.at(place),
        None => lifted,
    }
}

/// The contract's error for bytes of `file` that do not decode; `base` = file offset of the decoded slice.
///
/// `Corrupt`, or `Invalid` if a newer release wrote them.
pub(crate) fn from_format(file: &str, base: u64, error: &firn_format::Error) -> Error {
    let place = Place { file: file.to_owned(), offset: Some(base + error.offset as u64) };
    let kind = if error.is_newer { ErrorKind::Invalid } else { ErrorKind::Corrupt };
    Error::new(kind, format!("expected {}, found {}", error.expected, error.found)).at(place)
}

/// A shared `io::Error` as a source.
#[derive(Debug)]
struct SystemError(std::sync::Arc<std::io::Error>);

impl std::fmt::Display for SystemError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SystemError {}
