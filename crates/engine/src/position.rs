//! Places in the order of writes.

use std::fmt;

/// A place in the one order in which a database's writes happened.
///
/// Grows with every write and is never reused; positions of one database can be compared, their
/// difference has no meaning. A write acknowledged with position `p` is covered by every recovery
/// that reports an end greater than or equal to `p`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
