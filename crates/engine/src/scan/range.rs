//! Which keys are read in order.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::Direction;

/// Which keys a scan visits: `start..end`, both as bytes, and of those only the ones with `prefix`.
///
/// Made of any range of keys, upward: `("a".."b").into()`, `(..="z").into()`, `(..).into()`, or a
/// pair of [`Bound`]s.
///
/// ```
/// use firn_engine::{Direction, ScanRange};
///
/// let range = ScanRange::from("b".."d");
/// assert_eq!((&range.start[..], range.end.as_deref()), (&b"b"[..], Some(&b"d"[..])));
/// // Those of them that begin with `ca`, from the greatest down.
/// let range = ScanRange { prefix: Some(b"ca".to_vec()), ..range }.backward();
/// assert_eq!(range.direction, Direction::Backward);
/// assert_eq!(range.bounds(), (b"ca".to_vec(), Some(b"cb".to_vec())));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanRange {
    /// First key, included; empty = from the first key there is.
    pub start: Vec<u8>,
    /// Key before which the scan ends; `None` = to the last key there is.
    pub end: Option<Vec<u8>>,
    /// Only keys that begin with these bytes; lets filters skip files where the keyspace has an
    /// extractor.
    pub prefix: Option<Vec<u8>>,
    /// The order of the batches and of the records in them.
    pub direction: Direction,
}

impl ScanRange {
    /// Every key, upward.
    pub fn all() -> Self {
        Self::default()
    }

    /// Keys of `start..end`, upward.
    pub fn between(start: &[u8], end: &[u8]) -> Self {
        (start..end).into()
    }

    /// Keys that begin with `prefix`, upward.
    pub fn with_prefix(prefix: impl AsRef<[u8]>) -> Self {
        Self { prefix: Some(prefix.as_ref().to_vec()), ..Self::default() }
    }

    /// The same keys in the other order.
    #[must_use]
    pub fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// The bounds with the prefix folded in: first key included, end excluded (`None` = no end).
    pub fn bounds(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let Some(prefix) = &self.prefix else { return (self.start.clone(), self.end.clone()) };
        let start = if self.start > *prefix { self.start.clone() } else { prefix.clone() };
        let prefix_end = key_after_prefix(prefix);
        let end = match (&self.end, prefix_end) {
            (Some(end), Some(prefix_end)) => Some(end.clone().min(prefix_end)),
            (Some(end), None) => Some(end.clone()),
            (None, prefix_end) => prefix_end,
        };
        (start, end)
    }
}

/// The smallest key greater than every key that begins with `prefix`; `None` if there is none.
fn key_after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The smallest key greater than `key`.
fn key_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl<K: AsRef<[u8]>> From<(Bound<K>, Bound<K>)> for ScanRange {
    fn from((start, end): (Bound<K>, Bound<K>)) -> Self {
        let start = match &start {
            Bound::Included(key) => key.as_ref().to_vec(),
            Bound::Excluded(key) => key_after(key.as_ref()),
            Bound::Unbounded => Vec::new(),
        };
        let end = match &end {
            Bound::Included(key) => Some(key_after(key.as_ref())),
            Bound::Excluded(key) => Some(key.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        Self { start, end, ..Self::default() }
    }
}

impl<K: AsRef<[u8]>> From<Range<K>> for ScanRange {
    fn from(Range { start, end }: Range<K>) -> Self {
        (Bound::Included(start), Bound::Excluded(end)).into()
    }
}

impl<K: AsRef<[u8]>> From<RangeInclusive<K>> for ScanRange {
    fn from(range: RangeInclusive<K>) -> Self {
        let (start, end) = range.into_inner();
        (Bound::Included(start), Bound::Included(end)).into()
    }
}

impl<K: AsRef<[u8]>> From<RangeFrom<K>> for ScanRange {
    fn from(RangeFrom { start }: RangeFrom<K>) -> Self {
        (Bound::Included(start), Bound::Unbounded).into()
    }
}

impl<K: AsRef<[u8]>> From<RangeTo<K>> for ScanRange {
    fn from(RangeTo { end }: RangeTo<K>) -> Self {
        (Bound::Unbounded, Bound::Excluded(end)).into()
    }
}

impl<K: AsRef<[u8]>> From<RangeToInclusive<K>> for ScanRange {
    fn from(RangeToInclusive { end }: RangeToInclusive<K>) -> Self {
        (Bound::Unbounded, Bound::Included(end)).into()
    }
}

impl From<RangeFull> for ScanRange {
    fn from(_: RangeFull) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_keys_is_a_range_to_scan() {
        let bounds = |range: ScanRange| (range.start, range.end);
        let some = |key: &str| Some(key.as_bytes().to_vec());
        assert_eq!(bounds((..).into()), (vec![], None));
        assert_eq!(bounds(("a".."b").into()), (b"a".to_vec(), some("b")));
        assert_eq!(bounds((b"a"..=b"b").into()), (b"a".to_vec(), some("b\0")));
        assert_eq!(bounds((String::from("a")..).into()), (b"a".to_vec(), None));
        assert_eq!(bounds((..vec![7]).into()), (vec![], Some(vec![7])));
        assert_eq!(bounds((..="").into()), (vec![], some("\0")));
        let excluded = (Bound::Excluded("a"), Bound::Unbounded);
        assert_eq!(bounds(excluded.into()), (b"a\0".to_vec(), None));
    }

    #[test]
    fn a_prefix_narrows_the_bounds() {
        let range = ScanRange { prefix: Some(b"b\xff".to_vec()), ..ScanRange::from("a".."z") };
        assert_eq!(range.bounds(), (b"b\xff".to_vec(), Some(b"c".to_vec())));
        let range = ScanRange { prefix: Some(vec![0xff, 0xff]), ..ScanRange::from(..) };
        assert_eq!(range.bounds(), (vec![0xff, 0xff], None));
    }
}
