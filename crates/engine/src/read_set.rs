//! What a transaction has read, so that its write can ask whether that is still so.

use std::collections::BTreeSet;

use crate::{Error, KeyspaceId, Position, ReadAt, Result, Snapshot};

/// Keys that were read as of one point.
///
/// A write that names a read set is done only if no key of it was written since that point. Keeps
/// what the point sees alive, as its snapshot does.
#[derive(Clone, Debug)]
pub struct ReadSet {
    snapshot: Snapshot,
    keys: BTreeSet<(KeyspaceId, Vec<u8>)>,
}

impl ReadSet {
    /// Keys that a read set has at most: each costs the write a look-up while others wait for it.
    pub const KEYS_MAX: usize = 1024;

    /// Nothing was read yet; all that is to be is read as of `snapshot`.
    pub fn new(snapshot: Snapshot) -> Self {
        Self { snapshot, keys: BTreeSet::new() }
    }

    /// The point that reads see.
    pub fn read_at(&self) -> ReadAt<'_> {
        ReadAt::Snapshot(&self.snapshot)
    }

    /// Records from here on are newer than what was read.
    pub fn position(&self) -> Position {
        self.snapshot.position()
    }

    /// `key` was read, or is about to be.
    ///
    /// # Errors
    /// `Invalid` for more than [`KEYS_MAX`](Self::KEYS_MAX) keys.
    pub fn add(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        let key = (keyspace, key.to_vec());
        if self.keys.len() >= Self::KEYS_MAX && !self.keys.contains(&key) {
            let max = Self::KEYS_MAX;
            return Err(Error::invalid(format!(
                "a transaction reads at most {max} keys: scan them as one range, or divide the transaction"
            )));
        }
        self.keys.insert(key);
        Ok(())
    }

    /// The keys, in their order by keyspaces.
    pub fn keys(&self) -> impl Iterator<Item = (KeyspaceId, &[u8])> {
        self.keys.iter().map(|(keyspace, key)| (*keyspace, key.as_slice()))
    }
}

/// A range of keys that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// Where it was read.
    pub keyspace: KeyspaceId,
    /// Its first key.
    pub start: Vec<u8>,
    /// The first key behind it; `None` = to the end.
    pub end: Option<Vec<u8>>,
}

/// Keys and ranges that were read as of one point.
#[derive(Clone, Debug)]
pub struct OrderedReadSet {
    keys: ReadSet,
    ranges: Vec<ReadRange>,
}

impl OrderedReadSet {
    /// Ranges that a read set has at most.
    pub const RANGES_MAX: usize = 16;

    /// Nothing was read yet; all that is to be is read as of `snapshot`.
    pub fn new(snapshot: Snapshot) -> Self {
        Self { keys: ReadSet::new(snapshot), ranges: Vec::new() }
    }

    /// Keys that were read alone.
    pub fn keys(&self) -> &ReadSet {
        &self.keys
    }

    /// The same, to add to them.
    pub fn keys_mut(&mut self) -> &mut ReadSet {
        &mut self.keys
    }

    /// `range` was read, or is about to be. A key that comes into it, or leaves it, counts as
    /// written.
    ///
    /// # Errors
    /// `Invalid` for more than [`RANGES_MAX`](Self::RANGES_MAX) ranges.
    pub fn add_range(&mut self, range: ReadRange) -> Result<()> {
        if self.ranges.contains(&range) {
            return Ok(());
        }
        Self::check_ranges(self.ranges.len() + 1)?;
        self.ranges.push(range);
        Ok(())
    }

    /// Refuses more ranges than a read set has.
    ///
    /// # Errors
    /// `Invalid` if `count` is more than [`RANGES_MAX`](Self::RANGES_MAX).
    pub fn check_ranges(count: usize) -> Result<()> {
        let max = Self::RANGES_MAX;
        if count <= max {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a transaction scans at most {max} ranges: scan one that has several, or divide the transaction"
        )))
    }

    /// Ranges that were read.
    pub fn ranges(&self) -> &[ReadRange] {
        &self.ranges
    }
}

impl From<ReadSet> for OrderedReadSet {
    fn from(keys: ReadSet) -> Self {
        Self { keys, ranges: Vec::new() }
    }
}

/// The failure of a write whose read set does not hold any more.
pub fn conflict() -> Error {
    Error::new(
        crate::ErrorKind::Conflict,
        "something that the transaction read was written meanwhile; nothing of it was done: do it again from its first read",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{ErrorKind, KEYSPACE_DEFAULT, SnapshotPin};

    #[derive(Debug)]
    struct Pin;
    impl SnapshotPin for Pin {}

    #[test]
    fn read_sets_are_bounded_and_what_is_read_twice_counts_once() {
        let mut reads = OrderedReadSet::new(Snapshot::new(Position(7), Arc::new(Pin)));
        for number in (0..ReadSet::KEYS_MAX as u32).chain(0..10) {
            reads.keys_mut().add(KEYSPACE_DEFAULT, &number.to_be_bytes()).expect("room");
        }
        let refused = reads.keys_mut().add(KEYSPACE_DEFAULT, b"one more").expect_err("full");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert_eq!(reads.keys().keys().count(), ReadSet::KEYS_MAX);
        let range = |number: usize| {
            let start = number.to_be_bytes().to_vec();
            ReadRange { keyspace: KEYSPACE_DEFAULT, start, end: None }
        };
        for number in (0..OrderedReadSet::RANGES_MAX).chain(0..3) {
            reads.add_range(range(number)).expect("room");
        }
        assert_eq!(reads.add_range(range(99)).expect_err("full").kind(), ErrorKind::Invalid);
        assert_eq!(reads.ranges().len(), OrderedReadSet::RANGES_MAX);
    }
}
