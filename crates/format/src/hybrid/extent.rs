//! Extents: parts of the logs of a hashed engine that lie where other machines reach them.

/// A log of a hashed engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogKind {
    /// The hybrid log.
    Hybrid,
    /// The cold log.
    Cold,
}

/// Words of one segment of a log, as a file of their own, which never changes.
///
/// The file has the header of the segment, and the words behind it. An extent of all words of a
/// segment is the segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Of this log.
    pub log: LogKind,
    /// The address of its first word.
    pub from: u64,
    /// One past the address of its last word.
    pub to: u64,
    /// Of the opening that wrote it: no other opening gives a file this name.
    pub generation: u64,
}
