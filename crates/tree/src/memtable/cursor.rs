//! Walking a memtable in order, at a watermark.

use super::order::View;
use super::record_of;
use super::unsorted::Unsorted;
use crate::Records;
use crate::buffer::{RunEntry, prefix_word};
use firn_format::key::{Entry, Sequence};
use firn_jobs::Cursor;
use firn_storage::Result;
use std::cmp::Ordering;
use std::sync::Arc;

/// A place among the entries with a sequence below `before`; see [`Cursor`].
///
/// It holds the view it walks and the records it reads, so it outlives memtable, freeze and flush.
/// No call fails.
pub(crate) struct MemtableCursor<R: ?Sized> {
    records: Arc<R>,
    view: Arc<View>,
    common_prefix: Option<Arc<[u8]>>,
    before: Sequence,
    /// For each array of the view, the place in it: forward, the first entry not passed yet;
    /// backward, the number of entries not passed yet. Both skip entries at or above `before`.
    places: Vec<usize>,
    forward: bool,
    /// The array whose entry the cursor stands on.
    current: Option<usize>,
}

impl<R: Records + ?Sized> MemtableCursor<R> {
    pub(super) fn new(
        view: Arc<View>,
        common_prefix: Option<Arc<[u8]>>,
        before: Sequence,
        records: Arc<R>,
    ) -> Self {
        let places = vec![0; view.arrays.len()];
        Self { records, view, common_prefix, before, places, forward: true, current: None }
    }

    /// The entries that it did not sort.
    pub(super) fn unsorted(&self) -> Unsorted<'_> {
        self.view.unsorted(self.before)
    }

    /// The entry that `array` has to offer in the current direction.
    #[inline]
    fn head(&self, array: usize) -> Option<&RunEntry> {
        let entries = &self.view.arrays[array].entries;
        let place = self.places[array];
        if self.forward { entries.get(place) } else { entries.get(place.checked_sub(1)?) }
    }

    /// Passes the head of `array`, and entries behind it that the reader must not see.
    #[inline]
    fn pass(&mut self, array: usize) {
        let place = self.places[array];
        self.places[array] = if self.forward { place + 1 } else { place - 1 };
        self.skip_unseen(array);
    }

    #[inline]
    fn skip_unseen(&mut self, array: usize) {
        while self.head(array).is_some_and(|head| head.sequence() >= self.before) {
            let place = self.places[array];
            self.places[array] = if self.forward { place + 1 } else { place - 1 };
        }
    }

    /// Puts each array at its first entry at or after (`key`, `sequence`), and stands on the next
    /// in the given direction.
    fn position_at(&mut self, forward: bool, key: &[u8], sequence: Sequence) {
        let word = prefix_word(key, self.common_prefix.as_deref().unwrap_or_default());
        for (place, array) in self.places.iter_mut().zip(&self.view.arrays) {
            *place = array.lower_bound(word, (key, sequence), self.before, &*self.records);
        }
        self.start(forward);
    }

    /// Sets out from the places in the given direction.
    fn start(&mut self, forward: bool) {
        self.forward = forward;
        (0..self.places.len()).for_each(|array| self.skip_unseen(array));
        self.choose();
    }

    /// Stands on the smallest head (forward) or the greatest (backward).
    #[inline]
    fn choose(&mut self) {
        let mut best: Option<(usize, &RunEntry)> = None;
        for array in 0..self.places.len() {
            let Some(head) = self.head(array) else { continue };
            let wanted = if self.forward { Ordering::Less } else { Ordering::Greater };
            if best.is_none_or(|(_, best)| self.compare(head, best) == wanted) {
                best = Some((array, head));
            }
        }
        self.current = best.map(|(array, _)| array);
    }

    #[inline]
    fn compare(&self, a: &RunEntry, b: &RunEntry) -> Ordering {
        a.prefix.cmp(&b.prefix).then_with(|| {
            let key_a = record_of(&*self.records, a.trailer).key;
            let key_b = record_of(&*self.records, b.trailer).key;
            key_a.cmp(key_b).then(b.trailer.cmp(&a.trailer))
        })
    }

    /// Moves on from the current entry, in the given direction.
    fn step(&mut self, forward: bool) {
        let Some(current) = self.current else { return };
        if self.forward == forward {
            self.pass(current);
            self.choose();
            return;
        }
        let Some(entry) = self.entry() else { return };
        let (key, sequence) = (entry.key.to_vec(), entry.sequence);
        self.position_at(forward, &key, sequence);
        // Forward, the lower bound is the entry itself; backward, it is the first entry before.
        if forward {
            self.step(true);
        }
    }
}

impl<R: Records + ?Sized> Cursor for MemtableCursor<R> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.head(self.current?)?;
        let record = record_of(&*self.records, entry.trailer);
        Some(Entry {
            key: record.key,
            sequence: entry.sequence(),
            kind: record.kind,
            expires_at_ms: record.expires_at_ms,
            value: record.value,
        })
    }

    fn seek_first(&mut self) -> Result<()> {
        self.places.fill(0);
        self.start(true);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        for (place, array) in self.places.iter_mut().zip(&self.view.arrays) {
            *place = array.len();
        }
        self.start(false);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.position_at(true, key, Sequence::MAX);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.position_at(false, key, Sequence::MAX);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.step(true);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.step(false);
        Ok(())
    }
}
