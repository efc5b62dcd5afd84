//! Leaving out what no reader can tell.

use std::collections::BTreeSet;

use super::list::{FragmentList, Span};
use crate::key::Sequence;

impl FragmentList {
    /// The same deletions as seen by readers at `snapshots` and by readers of everything.
    ///
    /// A reader at snapshot `s` sees sequences below `s`. Of the sequences that cover a key and lie
    /// between the same two neighbouring snapshots only the newest stays. `snapshots` need not be
    /// sorted. O(n log n).
    #[must_use]
    pub fn retain_for_snapshots(&self, snapshots: &[Sequence]) -> Self {
        if self.len() < 2 {
            return self.clone();
        }
        let mut snapshots = snapshots.to_vec();
        snapshots.sort_unstable();
        snapshots.dedup();
        // Interval i holds sequences that exactly the snapshots from i on see.
        let mut by_interval: Vec<(usize, Span<'_>)> = self
            .spans()
            .map(|span| (snapshots.partition_point(|snapshot| *snapshot <= span.sequence), span))
            .collect();
        by_interval.sort_by_key(|(interval, _)| *interval);
        let mut kept = Vec::with_capacity(self.len());
        for group in by_interval.chunk_by(|a, b| a.0 == b.0) {
            newest_everywhere(group.iter().map(|(_, span)| *span), &mut kept);
        }
        Self::from_spans(kept)
    }

    /// The same deletions without those of sequence below `before` outside `ranges` (each
    /// `start..end`).
    ///
    /// For the bottom of a tree: `before` is the oldest snapshot, `ranges` where older versions may
    /// lie. Ranges MUST be in order and apart. `None` as an end is past every key.
    #[must_use]
    pub fn retain_within(&self, ranges: &[(&[u8], Option<&[u8]>)], before: Sequence) -> Self {
        let mut kept: Vec<Span<'_>> = Vec::new();
        for span in self.spans() {
            if span.sequence >= before {
                kept.push(span);
                continue;
            }
            let first = ranges.partition_point(|(_, end)| end.is_some_and(|end| end <= span.start));
            let touching = ranges.get(first..).unwrap_or_default().iter();
            for (start, end) in touching.take_while(|(start, _)| *start < span.end) {
                let start = span.start.max(*start);
                let end = end.map_or(span.end, |end| span.end.min(end));
                if start < end {
                    kept.push(Span { start, end, sequence: span.sequence });
                }
            }
        }
        Self::from_spans(kept)
    }
}

/// Pushes, for every stretch covered by any of `spans` (in order of start), its newest sequence
/// alone.
fn newest_everywhere<'a>(spans: impl Iterator<Item = Span<'a>>, out: &mut Vec<Span<'a>>) {
    let spans: Vec<Span<'a>> = spans.collect();
    let mut ends: Vec<Span<'a>> = spans.clone();
    ends.sort_unstable_by(|a, b| a.end.cmp(b.end));
    let mut starts = spans.iter().peekable();
    let mut ends = ends.iter().peekable();
    let mut active = BTreeSet::new();
    let mut open: Option<(&'a [u8], Sequence)> = None;
    while let Some(next_end) = ends.peek() {
        let at = starts.peek().map_or(next_end.end, |next| next.start.min(next_end.end));
        while let Some(span) = ends.next_if(|span| span.end == at) {
            active.remove(&(span.sequence, span.start));
        }
        while let Some(span) = starts.next_if(|span| span.start == at) {
            active.insert((span.sequence, span.start));
        }
        let newest = active.last().map(|(sequence, _)| *sequence);
        if open.map(|(_, sequence)| sequence) == newest {
            continue;
        }
        if let Some((start, sequence)) = open {
            out.push(Span { start, end: at, sequence });
        }
        open = newest.map(|sequence| (at, sequence));
    }
}
