//! Points of the order of writes that reads can name.

use std::fmt;
use std::sync::Arc;

use crate::Position;

/// Keeps what a snapshot sees alive; engines implement it, dropping the last clone lets go.
pub trait SnapshotPin: Send + Sync + fmt::Debug {}

/// A point in the order of writes whose data stays readable until the last clone is dropped.
///
/// Holds no file open: it keeps merges and compactions from dropping what it sees. It does not keep
/// the database open either.
#[derive(Clone, Debug)]
pub struct Snapshot {
    position: Position,
    _pin: Arc<dyn SnapshotPin>,
}

impl Snapshot {
    /// For engines: a snapshot at `position` kept alive by `pin`.
    pub fn new(position: Position, pin: Arc<dyn SnapshotPin>) -> Self {
        Self { position, _pin: pin }
    }

    /// Writes with a smaller position are seen, others are not.
    pub fn position(&self) -> Position {
        self.position
    }
}

/// Which point a read sees.
#[derive(Clone, Copy, Debug, Default)]
pub enum ReadAt<'a> {
    /// Everything acknowledged before the read began, and perhaps more.
    #[default]
    Latest,
    /// Exactly what the snapshot sees.
    Snapshot(&'a Snapshot),
}
