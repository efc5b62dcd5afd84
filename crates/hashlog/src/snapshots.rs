//! Points of the order of writes that readers have named.
//!
//! A snapshot is an address: the tail of the log at a moment when no operation was under way. From
//! then on nothing below it is changed in place, so what a reader of the snapshot sees of a key is
//! its newest record below that address.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::{Error, Position, Result, Snapshot, SnapshotPin};

use crate::sync::{Apart, AtomicU64, Ordering};

/// Positions that an opening sets aside beyond those it has given: what it may give until its next
/// checkpoint.
const AHEAD: u64 = 1 << 40;

/// The positions of a database's writes, and the snapshots of it that are alive.
#[derive(Debug)]
pub(crate) struct Snapshots {
    /// The last position that was given.
    given: Apart<AtomicU64>,
    alive: Mutex<BTreeMap<Position, Alive>>,
}

#[derive(Debug)]
struct Alive {
    /// Records below are seen.
    end: u64,
    count: usize,
}

/// Keeps one snapshot alive.
#[derive(Debug)]
struct Pin {
    owner: Arc<Snapshots>,
    position: Position,
}

impl SnapshotPin for Pin {}

impl Snapshots {
    /// No snapshots, of a database in which positions up to `given` were given.
    pub(crate) fn new(given: Position) -> Arc<Self> {
        Arc::new(Self { given: Apart(AtomicU64::new(given.0)), alive: Mutex::default() })
    }

    /// The position after a write that is done now, inside an epoch: greater than all before.
    #[inline]
    pub(crate) fn next(&self) -> Position {
        Position(self.given.0.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// The last position that was given.
    pub(crate) fn given(&self) -> Position {
        Position(self.given.0.load(Ordering::Acquire))
    }

    /// A position that none will have been given beyond until the next checkpoint.
    pub(crate) fn given_ahead(&self) -> Position {
        Position(self.given().0 + AHEAD)
    }

    /// A snapshot of all records below `end`. No operation is under way.
    pub(crate) fn take(self: &Arc<Self>, end: u64) -> Snapshot {
        let position = Position(self.next().0 + 1);
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.insert(position, Alive { end, count: 1 });
        Snapshot::new(position, Arc::new(Pin { owner: Arc::clone(self), position }))
    }

    /// The address that a living snapshot's records are below.
    pub(crate) fn end_of(&self, snapshot: &Snapshot) -> Result<u64> {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        let found = alive.get(&snapshot.position()).map(|alive| alive.end);
        found.ok_or_else(|| Error::invalid("the snapshot is another database's"))
    }

    /// The end of the oldest snapshot that is alive; the greatest number if there is none.
    pub(crate) fn oldest_end(&self) -> u64 {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.first_key_value().map_or(u64::MAX, |(_, alive)| alive.end)
    }

    /// Whether a snapshot that is alive sees the record at `at`, which the one at `by` replaced.
    pub(crate) fn any_sees(&self, at: u64, by: u64) -> bool {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.values().any(|alive| alive.end > at && alive.end <= by)
    }

    /// Snapshots that are alive.
    pub(crate) fn count(&self) -> u64 {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.values().map(|alive| alive.count as u64).sum()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.owner.alive.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.position);
    }
}
