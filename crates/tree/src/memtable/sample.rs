//! Learning what most keys begin with, from a few of them.

use std::sync::OnceLock;

/// Samples taken among the first entries, and again each time their number doubles; a power of two.
const SAMPLES_A_DOUBLING: u32 = 16;

/// Enough for 2^32 entries.
const DOUBLINGS: usize = 29;

/// One sample in this many may disagree at each end of the order: outliers are clamped, so they
/// need not be honoured.
const OUTLIERS: usize = 16;

/// With fewer different keys nothing is learnt: of one key all bytes are common, and other keys
/// would not begin so.
const DISTINCT_MIN: usize = 16;

/// Of a longer key its beginning is kept: what keys have in common is seldom longer.
const SAMPLED_BYTES_MAX: usize = 256;

/// Some keys of a memtable, evenly spread over it to within a factor of two.
pub(super) struct Sample {
    /// By doubling; those are there that were reached.
    keys: [OnceLock<Box<Doubling>>; DOUBLINGS],
}

/// The keys that were sampled since the number of entries doubled.
type Doubling = [OnceLock<Box<[u8]>>; SAMPLES_A_DOUBLING as usize];

impl Sample {
    pub(super) fn new() -> Self {
        Self { keys: [const { OnceLock::new() }; DOUBLINGS] }
    }

    /// Offers the key of entry `index`. Most are declined at the cost of a few instructions.
    #[inline]
    pub(super) fn offer(&self, index: u32, key: &[u8]) {
        if let Some(place) = place_of(index) {
            let (doubling, place) =
                (place / SAMPLES_A_DOUBLING as usize, place % SAMPLES_A_DOUBLING as usize);
            let keys = self.keys[doubling].get_or_init(|| Box::new([const { OnceLock::new() }; _]));
            // Every index is offered once.
            let _ = keys[place].set(key[..key.len().min(SAMPLED_BYTES_MAX)].into());
        }
    }

    /// What all sampled keys but a few outliers begin with; of few different keys, no more than
    /// `known`, which keys began with before them. Sorts the sample.
    pub(super) fn common_prefix(&self, known: &[u8]) -> Vec<u8> {
        let sampled = self.keys.iter().filter_map(OnceLock::get).flat_map(|keys| keys.iter());
        let mut keys: Vec<&[u8]> = sampled.filter_map(|key| key.get().map(|key| &**key)).collect();
        keys.sort_unstable();
        let outliers = keys.len() / OUTLIERS;
        let kept = &keys[outliers..keys.len() - outliers];
        let (Some(first), Some(last)) = (kept.first(), kept.last()) else { return known.to_vec() };
        let mut common = common_bytes(first, last);
        if kept.chunk_by(|a, b| a == b).count() < DISTINCT_MIN {
            common = common.min(common_bytes(first, known));
        }
        first[..common].to_vec()
    }
}

fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Where the key of entry `index` goes, if it is sampled.
#[inline]
fn place_of(index: u32) -> Option<usize> {
    if index < SAMPLES_A_DOUBLING {
        return Some(index as usize);
    }
    let shift = index.ilog2() - SAMPLES_A_DOUBLING.ilog2();
    if index & ((1 << shift) - 1) != 0 {
        return None;
    }
    Some(((shift + 1) * SAMPLES_A_DOUBLING + (index >> shift) - SAMPLES_A_DOUBLING) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_distinct_and_few() {
        let mut places: Vec<usize> = (0..1 << 20).filter_map(place_of).collect();
        let count = places.len();
        places.dedup();
        assert_eq!(places, (0..count).collect::<Vec<_>>());
        assert_eq!(count, 16 * 17);
        assert!(place_of(0xf800_0000).unwrap() < DOUBLINGS * SAMPLES_A_DOUBLING as usize);
    }

    #[test]
    fn outliers_do_not_hide_what_most_keys_share() {
        let sample = Sample::new();
        assert_eq!(sample.common_prefix(b"user"), b"user", "nothing is known yet");
        sample.offer(0, b"user/1");
        for index in 1..40_000u32 {
            match index {
                17 => sample.offer(index, b""),
                40 => sample.offer(index, b"zebra"),
                _ => sample.offer(index, format!("user/{:05}", index * 7919 % 40_000).as_bytes()),
            }
        }
        assert_eq!(sample.common_prefix(b""), b"user/");
    }

    #[test]
    fn few_keys_do_not_make_others_outliers() {
        let sample = Sample::new();
        for index in 0..40_000_u32 {
            sample.offer(index, format!("user/head/{}", index % 3).as_bytes());
        }
        assert_eq!(sample.common_prefix(b""), b"");
        assert_eq!(sample.common_prefix(b"user/"), b"user/");
        assert_eq!(sample.common_prefix(b"user/tail/"), b"user/", "that they do not have either");
    }
}
