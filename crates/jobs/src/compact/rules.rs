//! The rules of one job, ready to be asked.

use std::sync::Arc;

use firn_engine::{CompactionFilter, FilterVerdict, MergeOperator, Semantics};
use firn_format::key::Sequence;
use firn_format::tombstone::FragmentList;

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{KeyRange, Rules};

/// [`Rules`] with the operators they name.
#[derive(Clone, Debug)]
pub struct CompactRules {
    /// In order, each once.
    snapshots: Vec<Sequence>,
    tick_ms: u64,
    /// In order, disjoint.
    older: Vec<KeyRange>,
    merge_operator: Option<Arc<dyn MergeOperator>>,
    compaction_filter: Option<Arc<dyn CompactionFilter>>,
}

impl CompactRules {
    /// `rules` with what `semantics` has of the same names and parameters.
    ///
    /// # Errors
    /// `Rejected` if it lacks one, or has it with other parameters only.
    pub fn new(rules: &Rules, semantics: &Semantics) -> Result<Self> {
        let lacks = |error: firn_engine::Error| Error::new(ErrorKind::Rejected, error.message());
        let operator = rules.merge_operator.as_deref();
        let merge_operator = operator.map(|identity| semantics.merge_operator_of_job(identity));
        let merge_operator = merge_operator.transpose().map_err(lacks)?;
        let filter = rules.compaction_filter.as_deref();
        let compaction_filter = filter.map(|identity| semantics.compaction_filter_of_job(identity));
        let compaction_filter = compaction_filter.transpose().map_err(lacks)?;
        let mut snapshots = rules.snapshots.clone();
        snapshots.sort_unstable();
        snapshots.dedup();
        let older = disjoint(rules.older_overlap.clone());
        Ok(Self { snapshots, tick_ms: rules.tick_ms, older, merge_operator, compaction_filter })
    }

    /// The tombstones of `list` that stay: one a key and interval, and none that every snapshot
    /// sees where nothing older can lie.
    pub fn kept_tombstones(&self, list: &FragmentList) -> FragmentList {
        let ranges: Vec<_> =
            self.older.iter().map(|range| (&range.start[..], range.end.as_deref())).collect();
        let oldest = self.snapshots.first().copied().unwrap_or(Sequence::MAX);
        list.retain_for_snapshots(&self.snapshots).retain_within(&ranges, oldest)
    }

    /// How many snapshots do not see `sequence`.
    #[inline]
    pub(super) fn interval(&self, sequence: Sequence) -> usize {
        self.snapshots.partition_point(|snapshot| *snapshot <= sequence)
    }

    /// The first snapshot that sees all of `interval`.
    pub(super) fn interval_end(&self, interval: usize) -> Sequence {
        self.snapshots.get(interval).copied().unwrap_or(Sequence::MAX)
    }

    pub(super) fn tick_ms(&self) -> u64 {
        self.tick_ms
    }

    pub(super) fn merge_operator(&self) -> Option<&dyn MergeOperator> {
        self.merge_operator.as_deref()
    }

    /// Whether versions of `key` older than the inputs' may lie outside them.
    pub(super) fn may_be_older(&self, key: &[u8]) -> bool {
        let first =
            self.older.partition_point(|range| range.end.as_ref().is_some_and(|end| end.as_slice() <= key));
        self.older.get(first).is_some_and(|range| range.contains(key))
    }

    /// Whether a tombstone of `key` in `interval` hides nothing from any reader.
    #[inline]
    pub(super) fn tombstone_is_idle(&self, key: &[u8], interval: usize) -> bool {
        interval == 0 && !self.may_be_older(key)
    }

    /// Whether the filter is asked about puts of `interval`.
    #[inline]
    pub(super) fn is_filtered(&self, interval: usize) -> bool {
        self.compaction_filter.is_some() && interval == self.snapshots.len()
    }

    /// Whether the filter drops this put.
    pub(super) fn filter_drops(&self, key: &[u8], value: &[u8]) -> bool {
        let verdict = self.compaction_filter.as_ref().map(|filter| filter.verdict(key, value));
        verdict == Some(FilterVerdict::Drop)
    }
}

/// The same keys in ranges that are in order and do not touch.
fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort();
    ranges.dedup_by(|next, kept| {
        let joins = kept.end.as_ref().is_none_or(|end| next.start <= *end);
        if joins && kept.end.is_some() && next.end.as_ref().is_none_or(|end| Some(end) > kept.end.as_ref()) {
            kept.end = next.end.take();
        }
        joins
    });
    ranges
}

#[cfg(test)]
mod tests;
