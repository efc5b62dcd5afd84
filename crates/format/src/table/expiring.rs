//! When what a table holds expires, in a few points of time.
//!
//! ```text
//! payload: varint count; of each point: varint milliseconds since the one before (of the first:
//!          since the Unix epoch), varint bytes
//! ```
//! A point says how many bytes of puts have expired by its time and not by that of the point
//! before. Of each counts its key and its value, wherever that lies. There are at most
//! [`POINTS_MAX`] points. Where there would be more, two neighbours become one, with the later
//! time: what the points count as expired has expired.
//!
//! Since: FormatVersion::V1.

use crate::blob::Reference;
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::key::{Entry, Kind};
use crate::varint;

/// Most points of one table.
pub const POINTS_MAX: usize = 16;

/// How many bytes of a table expire by which time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expiring {
    /// Time in milliseconds since the Unix epoch, never 0, and bytes, never 0; times rise.
    points: Vec<(u64, u64)>,
}

impl Expiring {
    /// Adds `entry`, if it is a put that expires.
    ///
    /// The result depends on the order in which entries are added.
    #[inline]
    pub fn add_entry(&mut self, entry: &Entry<'_>) {
        if entry.expires_at_ms == 0 {
            return;
        }
        let value_bytes = match entry.kind {
            Kind::Put => entry.value.len() as u64,
            Kind::PutReference => {
                Reference::decode(entry.value).map_or(0, |reference| reference.value_bytes.into())
            }
            _ => return,
        };
        // Keys may be empty: a point has bytes.
        self.add(entry.expires_at_ms, (entry.key.len() as u64 + value_bytes).max(1));
    }

    /// Adds `bytes`, not 0, that expire at `at_ms`.
    pub(crate) fn add(&mut self, at_ms: u64, bytes: u64) {
        match self.points.binary_search_by_key(&at_ms, |(time, _)| *time) {
            Ok(place) => {
                if let Some((_, held)) = self.points.get_mut(place) {
                    *held = held.saturating_add(bytes);
                }
            }
            Err(place) => {
                self.points.insert(place, (at_ms, bytes));
                if self.points.len() > POINTS_MAX {
                    self.join();
                }
            }
        }
    }

    /// Whether nothing expires.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Bytes that have expired at `now_ms`, at least.
    pub fn expired_bytes(&self, now_ms: u64) -> u64 {
        let expired = self.points.iter().take_while(|(time, _)| *time <= now_ms);
        expired.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Times in milliseconds since the Unix epoch, each with the bytes that expire by it and not by
    /// the one before.
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }

    /// Appends the payload to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::encode(self.points.len() as u64, out);
        let mut before = 0;
        for (time, bytes) in &self.points {
            varint::encode(time - before, out);
            varint::encode(*bytes, out);
            before = *time;
        }
    }

    /// The points that `input` begins with.
    ///
    /// # Errors
    /// No point or too many, times that do not rise, a point without bytes.
    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let at = input.offset();
        let count = input.number()?;
        if count == 0 || count > POINTS_MAX as u64 {
            return Err(Error::new(at, format!("1 to {POINTS_MAX} times"), format!("{count}")));
        }
        let (mut points, mut before) = (Vec::with_capacity(count as usize), 0_u64);
        for _ in 0..count {
            let at = input.offset();
            let (since, bytes) = (input.number()?, input.number()?);
            let time = before.checked_add(since).filter(|time| *time > before);
            let Some(time) = time.filter(|_| bytes > 0) else {
                let found = format!("{since} ms after {before}, {bytes} bytes");
                return Err(Error::new(at, "a later time and bytes that expire by it", found));
            };
            points.push((time, bytes));
            before = time;
        }
        Ok(Self { points })
    }

    /// Makes one point of two neighbours, of the pair whose bytes wait least for the later time.
    fn join(&mut self) {
        let waits = |pair: &[(u64, u64)]| match pair {
            [(early, bytes), (late, _)] => u128::from(late - early) * u128::from(*bytes),
            _ => u128::MAX,
        };
        let places = self.points.windows(2).enumerate();
        let Some((place, _)) = places.min_by_key(|(_, pair)| waits(pair)) else { return };
        let (_, moved) = self.points.remove(place);
        if let Some((_, bytes)) = self.points.get_mut(place) {
            *bytes = bytes.saturating_add(moved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::Random;

    fn of(points: &[(u64, u64)]) -> Expiring {
        let mut expiring = Expiring::default();
        points.iter().for_each(|(time, bytes)| expiring.add(*time, *bytes));
        expiring
    }

    #[test]
    fn bytes_count_from_their_time_on() {
        let expiring = of(&[(20, 5), (10, 3), (20, 2), (30, 1)]);
        let expected = [(0, 0), (9, 0), (10, 3), (19, 3), (20, 10), (30, 11), (u64::MAX, 11)];
        for (now_ms, bytes) in expected {
            assert_eq!(expiring.expired_bytes(now_ms), bytes, "at {now_ms}");
        }
    }

    #[test]
    fn points_that_lie_close_become_one_and_nothing_expires_early() {
        for seed in 0..200 {
            let mut random = Random(seed);
            // Some long before the others, which the points must go on to tell apart.
            let puts: Vec<(u64, u64)> = (0..=random.below(300))
                .map(|_| {
                    ([1, 9][random.below(2) as usize] * 1_000_000 + random.below(1000), 1 + random.below(500))
                })
                .collect();
            let expiring = of(&puts);
            assert!(expiring.points().len() <= POINTS_MAX, "seed {seed}");
            let by =
                |now_ms| puts.iter().filter(|(time, _)| *time <= now_ms).map(|(_, bytes)| bytes).sum::<u64>();
            for now_ms in (0..1100).step_by(7).flat_map(|ms| [1_000_000 + ms, 9_000_000 + ms]) {
                assert!(expiring.expired_bytes(now_ms) <= by(now_ms), "seed {seed}, at {now_ms}");
            }
            for now_ms in [2_000_000, 10_000_000] {
                assert_eq!(expiring.expired_bytes(now_ms), by(now_ms), "seed {seed}, at {now_ms}");
            }
        }
    }

    #[test]
    fn points_come_back_and_wrong_ones_are_refused() {
        let expiring = of(&[(1_700_000_000_000, 5), (1_700_000_000_001, 1 << 40), (u64::MAX, 1)]);
        let mut bytes = Vec::new();
        expiring.encode(&mut bytes);
        assert_eq!(Expiring::decode(&mut Reader::new(&bytes, 0)), Ok(expiring));
        for end in 0..bytes.len() {
            assert!(Expiring::decode(&mut Reader::new(&bytes[..end], 0)).is_err(), "cut at {end}");
        }
        let many = [vec![17], [1, 1].repeat(17)].concat();
        for wrong in [&[0_u8][..], &[1, 0, 1], &[1, 1, 0], &[2, 1, 1, 0, 1], &many] {
            assert!(Expiring::decode(&mut Reader::new(wrong, 0)).is_err(), "{wrong:?}");
        }
    }
}
