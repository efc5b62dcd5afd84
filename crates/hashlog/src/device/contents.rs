//! What segments have: how many records, and which of them die without a write.

use std::collections::BTreeMap;

use crate::log::Content;

/// Expiries are counted together that are less than about 17 minutes apart.
const EXPIRY_BITS: u32 = 20;

/// Groups of expiries of one segment.
const EXPIRIES_MAX: usize = 64;

/// Records of one segment, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    records: u64,
    words: u64,
    /// Words of tombstones.
    tombstones: u64,
    /// Words by keyspace.
    keyspaces: BTreeMap<u32, u64>,
    /// Words of what expires, by the end of their group of expiries.
    expiring: BTreeMap<u64, u64>,
}

impl Contents {
    /// Counts a record.
    pub(crate) fn add_record(&mut self, keyspace: u32, content: Content, words: u64) {
        self.records += 1;
        self.words += words;
        let Content { is_tombstone, expires_at_ms, .. } = content;
        if is_tombstone {
            self.tombstones += words;
        }
        *self.keyspaces.entry(keyspace).or_default() += words;
        if expires_at_ms != 0 {
            let end = (expires_at_ms >> EXPIRY_BITS).saturating_add(1);
            *self.expiring.entry(end).or_default() += words;
            // The first group is taken for one of the second: what expires later than it does is
            // found later.
            if self.expiring.len() > EXPIRIES_MAX
                && let Some((_, words)) = self.expiring.pop_first()
                && let Some(mut next) = self.expiring.first_entry()
            {
                *next.get_mut() += words;
            }
        }
    }

    /// Counts all that `other` has.
    pub(crate) fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.words += other.words;
        self.tombstones += other.tombstones;
        for (keyspace, words) in &other.keyspaces {
            *self.keyspaces.entry(*keyspace).or_default() += words;
        }
        for (end, words) in &other.expiring {
            *self.expiring.entry(*end).or_default() += words;
        }
    }

    /// Counts nothing of what `other` has any more.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.records -= other.records;
        self.words -= other.words;
        self.tombstones -= other.tombstones;
        let take = |from: &mut u64, words: &u64| {
            *from = from.saturating_sub(*words);
            *from > 0
        };
        self.keyspaces.retain(|keyspace, words| match other.keyspaces.get(keyspace) {
            Some(gone) => take(words, gone),
            None => true,
        });
        self.expiring.retain(|end, words| match other.expiring.get(end) {
            Some(gone) => take(words, gone),
            None => true,
        });
    }

    /// Words that live, where `tops` records are the newest of their chains.
    pub(crate) fn live_words(&self, tops: u64, now_ms: u64, is_there: impl Fn(u32) -> bool) -> f64 {
        if self.records == 0 {
            return 0.0;
        }
        let newest = (tops * self.words) as f64 / self.records as f64 - self.tombstones as f64;
        let rest = 1.0 - self.dead_words(now_ms, is_there) as f64 / self.words as f64;
        newest.max(0.0) * rest.max(0.0)
    }

    /// Words of records that have expired, or whose keyspace is not there any more.
    fn dead_words(&self, now_ms: u64, is_there: impl Fn(u32) -> bool) -> u64 {
        let now = now_ms >> EXPIRY_BITS;
        let expired: u64 = self.expiring.range(..=now).map(|(_, words)| words).sum();
        let dropped = self.keyspaces.iter().filter(|(keyspace, _)| !is_there(**keyspace));
        expired + dropped.map(|(_, words)| words).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record that expires then, or is a tombstone.
    fn content(expires_at_ms: u64, is_tombstone: bool) -> Content {
        Content { is_tombstone, is_operand: false, is_reference: false, expires_at_ms, sequence: 0 }
    }

    #[test]
    fn what_has_expired_or_was_dropped_is_dead() {
        let mut contents = Contents::default();
        contents.add_record(0, content(0, false), 5);
        contents.add_record(3, content(0, false), 7);
        contents.add_record(0, content(1 << 20, false), 12);
        let all = |_| true;
        assert_eq!(contents.dead_words(0, all), 0);
        assert_eq!(contents.dead_words((2 << 20) - 1, all), 0, "its group has not ended");
        assert_eq!(contents.dead_words(2 << 20, all), 12);
        assert_eq!(contents.dead_words(2 << 20, |keyspace| keyspace == 0), 19);
        assert_eq!(contents.live_words(3, 0, all), 24.0);
        assert_eq!(contents.live_words(2, 2 << 20, all), 8.0, "two of three, of which one half has expired");
        let mut sum = contents.clone();
        sum.add(&contents);
        sum.subtract(&contents);
        assert_eq!(sum, contents);
        sum.subtract(&contents);
        assert_eq!(sum, Contents::default());
        assert_eq!(sum.live_words(9, 0, all), 0.0);
    }

    #[test]
    fn tombstones_are_newest_and_dead() {
        let mut contents = Contents::default();
        contents.add_record(0, content(0, true), 4);
        contents.add_record(0, content(0, false), 4);
        assert_eq!(contents.live_words(2, 0, |_| true), 4.0);
        assert_eq!(contents.live_words(1, 0, |_| true), 0.0);
    }

    #[test]
    fn many_expiries_are_counted_with_later_ones() {
        let mut contents = Contents::default();
        for at in 0..1000 {
            contents.add_record(0, content(at << EXPIRY_BITS | 1, false), 1);
        }
        assert!(contents.expiring.len() <= EXPIRIES_MAX);
        let all = |_| true;
        assert_eq!(contents.dead_words(1001 << EXPIRY_BITS, all), 1000, "all in the end");
        assert!(contents.dead_words(500 << EXPIRY_BITS, all) <= 500, "never too early");
    }
}
