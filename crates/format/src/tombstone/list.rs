//! The list and its questions.

use std::fmt;
use std::ops::Range;

use crate::key::Sequence;

/// One deletion: versions older than `sequence` of the keys from `start` to `end` (excluded).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Span<'a> {
    /// First deleted key.
    pub start: &'a [u8],
    /// First key after the deleted ones.
    pub end: &'a [u8],
    /// What is older is deleted.
    pub sequence: Sequence,
}

impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{} @ {}", self.start.escape_ascii(), self.end.escape_ascii(), self.sequence)
    }
}

/// A stretch of keys all covered alike, with the newest sequence that covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Its first key.
    pub start: &'a [u8],
    /// The first key after it.
    pub end: &'a [u8],
    /// Newest covering sequence among those asked for.
    pub newest: Sequence,
}

/// A stretch of keys, of which none or all are covered, and all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// Its first key.
    pub start: &'a [u8],
    /// The first key after it; `None` if it goes on for ever.
    pub end: Option<&'a [u8]>,
    /// Newest covering sequence among those asked for.
    pub newest: Option<Sequence>,
}

/// A canonical set of range tombstones with a search structure over it.
///
/// Immutable; built in O(n log n). Empty lists allocate nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FragmentList {
    /// Distinct starts and ends in order, one after another.
    keys: Vec<u8>,
    /// Where each of them ends in `keys`.
    key_ends: Vec<u32>,
    /// Canonical spans as indexes of boundaries.
    spans: Vec<SpanIndex>,
    /// Segment tree over the fragments, bottom-up: node n's sequences are
    /// `sequences[nodes[n]..nodes[n + 1]]`, newest first. Leaf of fragment f is node
    /// `fragment_count + f`.
    nodes: Vec<u32>,
    sequences: Vec<Sequence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanIndex {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) sequence: Sequence,
}

impl FragmentList {
    /// A list with no span.
    pub fn new() -> Self {
        Self::default()
    }

    /// The canonical list of `spans`; those with `start >= end` are left out. O(n log n).
    ///
    /// # Panics
    /// If the distinct bounds take more than 4 GiB or the tree more than 2^32 places.
    pub fn from_spans<'a>(spans: impl IntoIterator<Item = Span<'a>>) -> Self {
        let mut spans: Vec<Span<'a>> = spans.into_iter().filter(|span| span.start < span.end).collect();
        spans.sort_unstable_by(|a, b| a.sequence.cmp(&b.sequence).then_with(|| a.start.cmp(b.start)));
        spans.dedup_by(|next, kept| {
            // Same sequence, touching or overlapping: one span.
            let joins = next.sequence == kept.sequence && next.start <= kept.end;
            if joins && next.end > kept.end {
                kept.end = next.end;
            }
            joins
        });
        Self::from_canonical(spans)
    }

    /// From spans of which no two of one sequence touch, in any order.
    fn from_canonical(mut spans: Vec<Span<'_>>) -> Self {
        if spans.is_empty() {
            return Self::default();
        }
        spans.sort_unstable_by(|a, b| a.start.cmp(b.start).then_with(|| b.sequence.cmp(&a.sequence)));
        let mut bounds: Vec<&[u8]> = spans.iter().flat_map(|span| [span.start, span.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let mut keys = Vec::with_capacity(bounds.iter().map(|key| key.len()).sum());
        let mut key_ends = Vec::with_capacity(bounds.len());
        for key in &bounds {
            keys.extend_from_slice(key);
            key_ends.push(narrow(keys.len()));
        }
        let place = |key: &[u8]| narrow(bounds.partition_point(|bound| *bound < key));
        let indexes = spans
            .iter()
            .map(|span| SpanIndex { start: place(span.start), end: place(span.end), sequence: span.sequence })
            .collect();
        Self::from_indexes(keys, key_ends, indexes)
    }

    /// From checked parts: boundaries in strict order, canonical spans in order. Builds the tree.
    pub(super) fn from_indexes(keys: Vec<u8>, key_ends: Vec<u32>, spans: Vec<SpanIndex>) -> Self {
        if spans.is_empty() {
            // One empty list, however it came to be: lists are compared.
            return Self::default();
        }
        let fragment_count = key_ends.len().saturating_sub(1);
        let mut newest_first: Vec<&SpanIndex> = spans.iter().collect();
        newest_first.sort_unstable_by_key(|span| std::cmp::Reverse(span.sequence));
        let mut counts = vec![0_u32; 2 * fragment_count + 1];
        for span in &newest_first {
            for_each_node(span, fragment_count, |node| {
                if let Some(count) = counts.get_mut(node) {
                    *count += 1;
                }
            });
        }
        let mut total = 0_u32;
        for count in &mut counts {
            let here = *count;
            *count = total;
            total = total.checked_add(here).unwrap_or_else(over_limit);
        }
        let nodes = counts.clone();
        let mut sequences = vec![Sequence(0); total as usize];
        for span in &newest_first {
            for_each_node(span, fragment_count, |node| {
                if let Some(next) = counts.get_mut(node) {
                    if let Some(place) = sequences.get_mut(*next as usize) {
                        *place = span.sequence;
                    }
                    *next += 1;
                }
            });
        }
        Self { keys, key_ends, spans, nodes, sequences }
    }

    /// Every deletion of all `lists`. O(n log n) of their spans together.
    pub fn merge(lists: &[&FragmentList]) -> Self {
        let mut filled = lists.iter().filter(|list| !list.is_empty());
        match (filled.next(), filled.next()) {
            (None, _) => Self::default(),
            (Some(only), None) => (*only).clone(),
            _ => Self::from_spans(lists.iter().flat_map(|list| list.spans())),
        }
    }

    /// The part that concerns keys of `start..end`; `None` as `end` is past every key.
    pub fn clip(&self, start: &[u8], end: Option<&[u8]>) -> Self {
        if self.is_empty() {
            return Self::default();
        }
        let clipped = self.spans().map(|span| Span {
            start: span.start.max(start),
            end: end.map_or(span.end, |end| span.end.min(end)),
            ..span
        });
        // Cutting cannot make spans of one sequence touch, so the canonical form holds.
        Self::from_canonical(clipped.filter(|span| span.start < span.end).collect())
    }

    /// The newest sequence below `before` that covers `key`: versions of `key` older than it are
    /// deleted for a reader that sees sequences below `before`. O(log n) key comparisons, no
    /// allocation.
    #[inline]
    pub fn newest_covering(&self, key: &[u8], before: Sequence) -> Option<Sequence> {
        if self.spans.is_empty() {
            return None;
        }
        self.newest_of(self.fragment_of(key)?, before)
    }

    /// The fragment around `key` if something below `before` covers it. A scan may skip to its end
    /// when all it meets there is older than [`Fragment::newest`].
    pub fn fragment_covering(&self, key: &[u8], before: Sequence) -> Option<Fragment<'_>> {
        if self.spans.is_empty() {
            return None;
        }
        let fragment = self.fragment_of(key)?;
        let newest = self.newest_of(fragment, before)?;
        Some(Fragment { start: self.bound(fragment), end: self.bound(fragment + 1), newest })
    }

    /// What [`newest_covering`](Self::newest_covering) answers for `key`, and keys around it for
    /// which it answers the same.
    pub fn stretch_around(&self, key: &[u8], before: Sequence) -> Stretch<'_> {
        let after = self.bounds_through(key);
        let start = after.checked_sub(1).map_or(&[][..], |before| self.bound(before));
        let end = (after < self.key_ends.len()).then(|| self.bound(after));
        let newest = match after.checked_sub(1) {
            Some(fragment) if end.is_some() => self.newest_of(fragment, before),
            _ => None,
        };
        Stretch { start, end, newest }
    }

    /// The end of the stretch of keys, `key` the first of them, each of which something below
    /// `before` and above `above` covers; `None` if nothing such covers `key`. O(log n) for each
    /// fragment of the stretch.
    pub fn covered_through(&self, key: &[u8], above: Sequence, before: Sequence) -> Option<&[u8]> {
        if self.spans.is_empty() {
            return None;
        }
        let first = self.fragment_of(key)?;
        let is_covered = |fragment: &usize| self.newest_of(*fragment, before) > Some(above);
        let after = (first..self.fragment_count()).take_while(is_covered).last()? + 1;
        Some(self.bound(after))
    }

    /// Canonical spans by (start, newest first).
    pub fn spans(&self) -> impl ExactSizeIterator<Item = Span<'_>> + Clone {
        self.spans.iter().map(|span| Span {
            start: self.bound(span.start as usize),
            end: self.bound(span.end as usize),
            sequence: span.sequence,
        })
    }

    /// Fragments that something below `before` covers, in order of keys.
    pub fn fragments(&self, before: Sequence) -> impl Iterator<Item = Fragment<'_>> {
        (0..self.fragment_count()).filter_map(move |fragment| {
            let newest = self.newest_of(fragment, before)?;
            Some(Fragment { start: self.bound(fragment), end: self.bound(fragment + 1), newest })
        })
    }

    /// How many canonical spans.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether nothing is deleted.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// First covered key; `None` for an empty list.
    pub fn smallest(&self) -> Option<&[u8]> {
        (!self.is_empty()).then(|| self.bound(0))
    }

    /// The key after the last covered one (excluded); `None` for an empty list.
    pub fn end(&self) -> Option<&[u8]> {
        (!self.is_empty()).then(|| self.bound(self.fragment_count()))
    }

    /// Smallest and greatest sequence; `None` for an empty list.
    pub fn sequence_range(&self) -> Option<(Sequence, Sequence)> {
        let sequences = || self.spans.iter().map(|span| span.sequence);
        Some((sequences().min()?, sequences().max()?))
    }

    /// Sum of the spans' hashes mod 2^128; see invariant 3 of the module. The same for every way of
    /// cutting.
    pub fn content_hash(&self) -> u128 {
        self.spans().fold(0_u128, |sum, span| {
            sum.wrapping_add(bound_hash(span.end, span.sequence))
                .wrapping_sub(bound_hash(span.start, span.sequence))
        })
    }

    /// Heap bytes held.
    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity()
            + self.key_ends.capacity() * size_of::<u32>()
            + self.spans.capacity() * size_of::<SpanIndex>()
            + self.nodes.capacity() * size_of::<u32>()
            + self.sequences.capacity() * size_of::<Sequence>()
    }

    pub(super) fn indexes(&self) -> &[SpanIndex] {
        &self.spans
    }

    pub(super) fn bounds(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.key_ends.len()).map(|index| self.bound(index))
    }

    fn fragment_count(&self) -> usize {
        self.key_ends.len().saturating_sub(1)
    }

    /// Boundary `index`; empty past the end.
    fn bound(&self, index: usize) -> &[u8] {
        let start =
            index.checked_sub(1).and_then(|previous| self.key_ends.get(previous)).copied().unwrap_or(0);
        let end = self.key_ends.get(index).copied().unwrap_or(start);
        self.keys.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The fragment in which `key` lies; `None` outside all spans.
    fn fragment_of(&self, key: &[u8]) -> Option<usize> {
        let after = self.bounds_through(key);
        (after > 0 && after < self.key_ends.len()).then(|| after - 1)
    }

    /// How many boundaries are not after `key`.
    fn bounds_through(&self, key: &[u8]) -> usize {
        let Range { start: mut low, end: mut high } = 0..self.key_ends.len();
        while low < high {
            let middle = low + (high - low) / 2;
            if self.bound(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn newest_of(&self, fragment: usize, before: Sequence) -> Option<Sequence> {
        let mut node = fragment + self.fragment_count();
        let mut newest = None;
        while node > 0 {
            let from = self.nodes.get(node).copied().unwrap_or(0) as usize;
            let to = self.nodes.get(node + 1).map_or(self.sequences.len(), |end| *end as usize);
            let here = self.sequences.get(from..to).unwrap_or_default();
            let found = match here.first() {
                Some(first) if *first < before => Some(*first),
                Some(_) => here.get(here.partition_point(|sequence| *sequence >= before)).copied(),
                None => None,
            };
            newest = newest.max(found);
            node /= 2;
        }
        newest
    }
}

impl fmt::Debug for FragmentList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.spans()).finish()
    }
}

/// Calls `visit` for the O(log n) tree nodes that together stand for the span's fragments.
fn for_each_node(span: &SpanIndex, fragment_count: usize, mut visit: impl FnMut(usize)) {
    let mut low = span.start as usize + fragment_count;
    let mut high = span.end as usize + fragment_count;
    while low < high {
        if low & 1 == 1 {
            visit(low);
            low += 1;
        }
        if high & 1 == 1 {
            high -= 1;
            visit(high);
        }
        low /= 2;
        high /= 2;
    }
}

/// Hash of one end of a span.
fn bound_hash(key: &[u8], sequence: Sequence) -> u128 {
    xxhash_rust::xxh3::xxh3_128_with_seed(key, sequence.0)
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or_else(|_| over_limit())
}

#[cold]
fn over_limit() -> u32 {
    panic!("range tombstones beyond 4 GiB of bounds or 2^32 tree places")
}
