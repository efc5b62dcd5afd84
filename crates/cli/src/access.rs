//! How far a command goes.

/// What a command will do with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Changes nothing on disk.
    Read,
    /// The same, of a directory that has only the log.
    ReadLog,
    /// Writes to a database that exists.
    Write,
    /// Writes, and creates what does not exist.
    Create,
}
