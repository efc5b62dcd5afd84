//! When values of a list expire, where few of them do.

/// Of each entry of a list that expires: its index, and when. In the order of the indexes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expiries(Vec<(usize, u64)>);

impl Expiries {
    /// The entry at `index`, behind all that were noted, expires then; 0 = never.
    #[inline]
    pub(crate) fn note(&mut self, index: usize, expires_at_ms: u64) {
        if expires_at_ms != 0 {
            self.0.push((index, expires_at_ms));
        }
    }

    /// When the entry at `index` expires; 0 = never.
    pub(crate) fn get(&self, index: usize) -> u64 {
        let found = self.0.binary_search_by_key(&index, |(index, _)| *index);
        found.ok().and_then(|place| self.0.get(place)).map_or(0, |(_, expires_at_ms)| *expires_at_ms)
    }

    /// Forgets all entries but the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        let kept = self.0.partition_point(|(index, _)| *index < count);
        self.0.truncate(kept);
    }
}
