//! Which versions no reader can see any more.
//!
//! Snapshots cut the sequences into intervals: a reader at snapshot `s` sees sequences below `s`.
//! Two readers in one interval see the same. In an interval a version is superfluous as soon as a
//! newer one of its key there says all there is to say. A value, a deletion, and a range tombstone
//! over the key do; a merge operand, which needs what is older, does not.

use firn_format::Sequence;
use firn_format::blob::Reference;
use firn_format::key::{Kind, Trailer};
use firn_format::log::{Record, record_bytes};
use firn_format::table::ReferenceSet;
use firn_format::tombstone::FragmentList;
use firn_storage::{Error, ErrorKind, Result};

use super::feed::Item;
use crate::buffer::entry::prefix_word;
use crate::buffer::run::{Dropped, find};
use crate::records::Records;

/// Decides item by item, in order of (key, newest first).
#[derive(Debug)]
pub(super) struct Sieve {
    /// Ascending.
    snapshots: Vec<Sequence>,
    tombstones: FragmentList,
    /// Prefixes between which each covered stretch of keys lies (both ends included), ascending.
    covered: Vec<(u64, u64)>,
    /// The first of `covered` that may concern the next item.
    next_covered: usize,
    previous: Option<Item>,
    /// Oldest version so far of the previous item's key that hides all older ones.
    supersedes: Option<Sequence>,
    dropped: Dropped,
}

impl Sieve {
    /// For items whose prefixes follow `common`. `tombstones` = all range tombstones of the inputs.
    pub(super) fn new(mut snapshots: Vec<Sequence>, tombstones: FragmentList, common: &[u8]) -> Self {
        snapshots.sort_unstable();
        let covered = tombstones
            .fragments(Sequence::MAX)
            .map(|fragment| (prefix_word(fragment.start, common), prefix_word(fragment.end, common)))
            .collect();
        Self {
            snapshots,
            tombstones,
            covered,
            next_covered: 0,
            previous: None,
            supersedes: None,
            dropped: Dropped::default(),
        }
    }

    /// Whether `item` must stay. Looks at its record only where it shares prefix and hash with the
    /// item before, or where a range tombstone may cover it.
    #[inline]
    pub(super) fn keeps<R: Records + ?Sized>(&mut self, item: Item, records: &R) -> Result<bool> {
        let meets = self
            .previous
            .is_some_and(|previous| previous.prefix == item.prefix && previous.hash == item.hash);
        let same_key = meets && self.same_key(item, records)?;
        self.previous = Some(item);
        if !same_key {
            self.supersedes = None;
        }
        let mut reason = None;
        if let Some(newer) = self.supersedes {
            reason = self.in_one_interval(item.trailer.sequence(), newer).then_some(newer);
        }
        if reason.is_none() && self.may_be_covered(item.prefix) {
            reason = self.covering(item, records)?;
        }
        if is_complete(item.trailer) {
            self.supersedes = Some(item.trailer.sequence());
        }
        match reason {
            None => Ok(true),
            Some(newer) => self.drop(item, newer, records).map(|()| false),
        }
    }

    /// What was dropped, and the range tombstones that must stay.
    pub(super) fn finish(self) -> (Dropped, FragmentList) {
        (self.dropped, self.tombstones.retain_for_snapshots(&self.snapshots))
    }

    #[inline(never)]
    fn same_key<R: Records + ?Sized>(&self, item: Item, records: &R) -> Result<bool> {
        let Some(previous) = self.previous else { return Ok(false) };
        Ok(find(previous.entry(), records)?.key == find(item.entry(), records)?.key)
    }

    /// Whether every reader that sees `older` sees `newer`.
    fn in_one_interval(&self, older: Sequence, newer: Sequence) -> bool {
        newer < self.interval_end(older)
    }

    /// The first snapshot that sees `sequence`.
    fn interval_end(&self, sequence: Sequence) -> Sequence {
        let first = self.snapshots.partition_point(|snapshot| *snapshot <= sequence);
        self.snapshots.get(first).copied().unwrap_or(Sequence::MAX)
    }

    #[inline]
    fn may_be_covered(&mut self, prefix: u64) -> bool {
        while let Some((start, end)) = self.covered.get(self.next_covered) {
            if prefix <= *end {
                return prefix >= *start;
            }
            self.next_covered += 1;
        }
        false
    }

    /// A range tombstone that makes `item` superfluous.
    #[inline(never)]
    fn covering<R: Records + ?Sized>(&self, item: Item, records: &R) -> Result<Option<Sequence>> {
        let sequence = item.trailer.sequence();
        let key = find(item.entry(), records)?.key;
        let newest = self.tombstones.newest_covering(key, self.interval_end(sequence));
        Ok(newest.filter(|newest| *newest > sequence))
    }

    #[inline(never)]
    fn drop<R: Records + ?Sized>(&mut self, item: Item, newer: Sequence, records: &R) -> Result<()> {
        let Record { kind, key, value, expires_at_ms, .. } = find(item.entry(), records)?;
        if kind == Kind::PutReference {
            note_reference(value, &mut self.dropped.references)?;
        }
        self.dropped.count += 1;
        self.dropped.record_bytes += record_bytes(key.len(), value.len(), expires_at_ms != 0) as u64;
        self.dropped.relied_on = self.dropped.relied_on.max(newer);
        Ok(())
    }
}

/// Whether a reader that sees this version needs none that is older.
fn is_complete(trailer: Trailer) -> bool {
    matches!(trailer.kind(), Some(Kind::Put | Kind::Delete | Kind::PutReference))
}

/// Adds the value that `reference`, the value of a record, names to `references`.
///
/// # Errors
/// `Corrupt` if it is no reference.
pub(crate) fn note_reference(reference: &[u8], references: &mut ReferenceSet) -> Result<()> {
    let reference = Reference::decode(reference).map_err(|error| {
        Error::new(ErrorKind::Corrupt, "", format!("a record's reference is none: {error}"))
    })?;
    references.insert(reference.segment, reference.ordinal);
    Ok(())
}
