//! Which words of a log lie where other machines reach them, and which go there next.
//!
//! ```text
//!   segment          ├───────────────────────┤├─────────────  …
//!   extents at one   ├───────────┤├────┤├─┤    open segment: a few, each much shorter than the one before
//!   checkpoint, and                ╲ cut
//!   at a later one   ├───────────────────────┤├────┤          sealed segment: one, of all its words
//! ```
//! An extent never changes. One that is sent takes the place of those whose words it has: the last
//! ones of its segment that are not longer than what is new.

use std::collections::BTreeMap;

use firn_format::hybrid::Extent;

/// Extents of at most so many words are sent again with what is new, however little that is: to
/// send them costs a request, as less would.
const SMALL_WORDS: u64 = 32 << 10;

/// Extents of one log, by the address of their first word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents(BTreeMap<u64, Extent>);

impl Extents {
    /// Adds one, which takes the place of those that begin among its words.
    pub(crate) fn put(&mut self, extent: Extent) {
        self.0.retain(|from, _| !(extent.from..extent.to).contains(from));
        self.0.insert(extent.from, extent);
    }

    /// The log begins at `address`.
    pub(crate) fn begin_at(&mut self, address: u64) {
        self.0.retain(|_, extent| extent.to > address);
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Extent> {
        self.0.values().copied()
    }

    /// The one that has all words of the segment from `base` to `end`.
    pub(crate) fn whole(&self, base: u64, end: u64) -> Option<Extent> {
        self.0.get(&base).copied().filter(|extent| extent.to == end)
    }

    /// Those that have the words from `from` to `to`, by rising addresses.
    ///
    /// # Errors
    /// The first address that none of them has.
    pub(crate) fn cover(&self, from: u64, to: u64) -> Result<Vec<Extent>, u64> {
        let (mut at, mut found) = (from, Vec::new());
        while at < to {
            let last = self.0.range(..=at).next_back().map(|(_, extent)| *extent);
            let extent = last.filter(|extent| extent.to > at).ok_or(at)?;
            found.push(extent);
            at = extent.to;
        }
        Ok(found)
    }

    /// First and last addresses of the extents to be sent, where those before have all words up to
    /// `sent`, and segments have `1 << segment_bits` words.
    pub(crate) fn next(&self, (sent, cut): (u64, u64), segment_bits: u32) -> Vec<(u64, u64)> {
        let (mut at, mut next) = (sent, Vec::new());
        while at < cut {
            let base = at >> segment_bits << segment_bits;
            let end = base + (1 << segment_bits);
            let to = cut.min(end);
            next.push((if to == end { base } else { self.joined(base, (at, to)) }, to));
            at = to;
        }
        next
    }

    /// Where the extent begins that has the new words from `from` to `to` of the segment at `base`.
    fn joined(&self, base: u64, (mut from, to): (u64, u64)) -> u64 {
        while let Some((_, last)) = self.0.range(base..from).next_back()
            && last.to == from
            && last.to - last.from <= (to - from).max(SMALL_WORDS)
        {
            from = last.from;
        }
        from
    }
}

#[cfg(test)]
mod tests {
    use firn_format::hybrid::LogKind;

    use super::*;

    const BITS: u32 = 20;

    /// Sends what a checkpoint at each of `cuts` sends, and checks that all words are there.
    fn sent(cuts: impl Iterator<Item = u64>) -> (Extents, u64) {
        let (mut extents, mut before, mut words) = (Extents::default(), 1, 0);
        for cut in cuts {
            for (from, to) in extents.next((before, cut), BITS) {
                words += to - from;
                extents.put(Extent { log: LogKind::Hybrid, from, to, generation: 1 });
            }
            before = cut;
            let cover = extents.cover(1, cut).expect("all words are there");
            assert_eq!(cover.last().map(|last| last.to), Some(cut));
            assert_eq!(cover, extents.all().collect::<Vec<_>>(), "none is needless");
        }
        (extents, words)
    }

    #[test]
    fn an_open_segment_has_few_extents_and_each_word_is_sent_a_few_times() {
        let step = 4096;
        let (extents, words) = sent((1..=255).map(|count| count * step));
        let count = extents.all().count();
        assert!(count <= 7, "{extents:?}");
        assert!(words < 255 * step * 9, "{words} words");
        assert_eq!(extents.whole(0, 1 << BITS), None);
    }

    #[test]
    fn a_sealed_segment_is_one_extent() {
        let (mut extents, _) = sent([100, 70_000, (1 << BITS) + 5, (3 << BITS) + 9].into_iter());
        let all: Vec<_> = extents.all().map(|extent| (extent.from, extent.to)).collect();
        assert_eq!(
            all,
            [(0, 1 << BITS), (1 << BITS, 2 << BITS), (2 << BITS, 3 << BITS), (3 << BITS, (3 << BITS) + 9)]
        );
        assert!(extents.whole(1 << BITS, 2 << BITS).is_some());
        extents.begin_at(2 << BITS);
        assert_eq!(extents.all().count(), 2);
        assert_eq!(extents.cover(1 << BITS, 3 << BITS), Err(1 << BITS));
        assert_eq!(extents.cover(2 << BITS, (3 << BITS) + 10), Err((3 << BITS) + 9));
    }
}
