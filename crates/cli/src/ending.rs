//! How the program ends: exit codes, and failures in one line.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use firn_engine::{Error, ErrorKind};

/// What `firn --help` says about exit codes; the numbers are those of [`Ending`].
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the operation failed; the message says what to do
  2  the command line is wrong; nothing was done
  3  stored bytes are corrupt; the message names file and offset
  4  the key has no value
  5  another process has the database, or it is to be opened otherwise; the message says which and what to do";

/// Shorthand for results of commands.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Ending {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Corrupt = 3,
    NotFound = 4,
    InUse = 5,
}

impl Ending {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// Why a command could not do its work: one line for a person, and how the process ends.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) ending: Ending,
    message: String,
}

impl Failure {
    pub(crate) fn new(ending: Ending, message: impl Into<String>) -> Self {
        Self { ending, message: message.into() }
    }

    /// What the system said about a file.
    pub(crate) fn file(action: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::new(Ending::Failed, format!("cannot {action} {}: {error}", path.display()))
    }

    /// What the store said about the database in `dir`.
    pub(crate) fn database(dir: &Path, error: &Error) -> Self {
        let (failure, shown) = (Self::engine(error), dir.display());
        let remedy = match failure.ending {
            Ending::Corrupt if !failure.message.contains("`firn verify`") => format!(
                "; `firn verify --dir {shown}` names all that is damaged, and `firn repair --dry-run --dir {shown}` says what can \
                 be mended without a backup"
            ),
            _ => String::new(),
        };
        // The store names the directory where it is what is wrong.
        let is_named =
            [' ', ';', ':'].iter().any(|end| failure.message.contains(&format!("directory {shown}{end}")))
                || failure.message.starts_with(&format!("{shown} "));
        let subject = if is_named { String::new() } else { format!("{shown}: ") };
        Self { message: format!("{subject}{}{remedy}", failure.message), ..failure }
    }

    /// What the store said, with its causes.
    pub(crate) fn engine(error: &Error) -> Self {
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            let text = error.to_string();
            // Many errors repeat their cause in their own words.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Self::new(Self::ending_of(error.kind()), message)
    }

    fn ending_of(kind: ErrorKind) -> Ending {
        match kind {
            ErrorKind::Corrupt => Ending::Corrupt,
            ErrorKind::Conflict => Ending::InUse,
            ErrorKind::Retry
            | ErrorKind::NotDurable
            | ErrorKind::Invalid
            | ErrorKind::Closed
            | ErrorKind::Bug => Ending::Failed,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever the cause contains.
        f.write_str(&self.message.replace('\n', " "))
    }
}
