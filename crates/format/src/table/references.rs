//! The reference set of a table: which separated values it refers to.
//!
//! ```text
//! payload: count varint, of segments
//!          then for each, numbers rising: number varint, less the one before and 1 (the first: as it is); then a set (see
//!          `blob::ordinals`), not empty
//! ```
//! One value has one live reference, so a table's set says what dies with it. Since:
//! FormatVersion::V1.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::blob::{Ordinals, SegmentNumber};
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::varint;

/// Values of several segments. Clones share what neither changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceSet {
    segments: BTreeMap<SegmentNumber, Arc<Ordinals>>,
}

impl ReferenceSet {
    /// The set of `values`, in any order.
    ///
    /// # Errors
    /// One is there twice.
    pub fn from_values(mut values: Vec<(SegmentNumber, u32)>) -> Result<Self> {
        // As one number each: twice as fast as by pairs.
        values.sort_unstable_by_key(|(segment, ordinal)| u64::from(segment.0) << 32 | u64::from(*ordinal));
        let mut set = Self::default();
        for same in values.chunk_by(|a, b| a.0 == b.0) {
            let Some((segment, _)) = same.first() else { continue };
            let ordinals = Arc::make_mut(set.segments.entry(*segment).or_default());
            for (_, ordinal) in same {
                if !ordinals.insert(*ordinal) {
                    let found = format!("a second one to value {ordinal} of segment {segment}");
                    return Err(Error::new(0, "one reference to each value", found));
                }
            }
        }
        Ok(set)
    }

    /// Adds a value; whether it is new.
    pub fn insert(&mut self, segment: SegmentNumber, ordinal: u32) -> bool {
        Arc::make_mut(self.segments.entry(segment).or_default()).insert(ordinal)
    }

    /// Adds all of `other`; how many of them were there already.
    pub fn add_all(&mut self, other: &ReferenceSet) -> u64 {
        let mut known = 0;
        for (segment, ordinals) in &other.segments {
            let Some(mine) = self.segments.get_mut(segment) else {
                self.segments.insert(*segment, Arc::clone(ordinals));
                continue;
            };
            known += mine.common_count(ordinals);
            Arc::make_mut(mine).add_all(ordinals);
        }
        known
    }

    /// Takes all of `other` out; how many of them were not there.
    pub fn remove_all(&mut self, other: &ReferenceSet) -> u64 {
        let mut unknown = 0;
        for (segment, ordinals) in &other.segments {
            let Some(mine) = self.segments.get_mut(segment) else {
                unknown += ordinals.len();
                continue;
            };
            unknown += ordinals.len() - mine.common_count(ordinals);
            Arc::make_mut(mine).remove_all(ordinals);
            if mine.is_empty() {
                self.segments.remove(segment);
            }
        }
        unknown
    }

    /// The references that are in both.
    #[must_use]
    pub fn common(&self, other: &ReferenceSet) -> Self {
        let (few, many) =
            if self.segments.len() <= other.segments.len() { (self, other) } else { (other, self) };
        let both = few.segments.iter().filter_map(|(segment, ordinals)| {
            let common = ordinals.common(many.segments.get(segment)?);
            (!common.is_empty()).then(|| (*segment, Arc::new(common)))
        });
        Self { segments: both.collect() }
    }

    /// Whether it has a value.
    pub fn contains(&self, segment: SegmentNumber, ordinal: u32) -> bool {
        self.segments.get(&segment).is_some_and(|ordinals| ordinals.contains(ordinal))
    }

    /// Takes the values of `segment` out.
    pub fn take(&mut self, segment: SegmentNumber) -> Ordinals {
        self.segments.remove(&segment).map(Arc::unwrap_or_clone).unwrap_or_default()
    }

    /// By segment, numbers rising; none of the sets is empty.
    pub fn segments(&self) -> impl Iterator<Item = (SegmentNumber, &Ordinals)> {
        self.segments.iter().map(|(segment, ordinals)| (*segment, &**ordinals))
    }

    /// The values of `segment`, if there are any.
    pub fn of(&self, segment: SegmentNumber) -> Option<&Ordinals> {
        self.segments.get(&segment).map(|ordinals| &**ordinals)
    }

    /// How many values.
    pub fn len(&self) -> u64 {
        self.segments.values().map(|ordinals| ordinals.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Appends the payload to `out`. Equal sets have equal bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::encode(self.segments.len() as u64, out);
        let mut next = 0;
        for (segment, ordinals) in &self.segments {
            varint::encode(u64::from(segment.0) - next, out);
            next = u64::from(segment.0) + 1;
            ordinals.encode(out);
        }
    }

    /// The set whose payload is `bytes`.
    ///
    /// # Errors
    /// Anything [`encode`](Self::encode) does not produce.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = Reader::new(bytes, 0);
        let set = Self::take_from(&mut input)?;
        input.end("a reference set")?;
        Ok(set)
    }

    /// The next set of `input`.
    ///
    /// # Errors
    /// Anything [`encode`](Self::encode) does not produce.
    pub fn take_from(input: &mut Reader<'_>) -> Result<Self> {
        let count = input.number()?;
        let mut segments = BTreeMap::new();
        let mut next = 0_u64;
        for _ in 0..count {
            let at = input.offset();
            let number = next.checked_add(input.number()?).and_then(|number| u32::try_from(number).ok());
            let Some(number) = number else {
                return Err(Error::new(at, "a segment number below 2^32", "a greater one"));
            };
            let at = input.offset();
            let ordinals = Ordinals::decode(input)?;
            if ordinals.is_empty() {
                return Err(Error::new(at, "values of a segment that is named", "none"));
            }
            segments.insert(SegmentNumber(number), Arc::new(ordinals));
            next = u64::from(number) + 1;
        }
        Ok(Self { segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(u32, u32)]) -> ReferenceSet {
        let mut set = ReferenceSet::default();
        for (segment, ordinal) in values {
            set.insert(SegmentNumber(*segment), *ordinal);
        }
        set
    }

    #[test]
    fn sets_come_back() {
        for set in [of(&[]), of(&[(0, 0)]), of(&[(7, 1), (7, 100), (8, 0), (u32::MAX, u32::MAX)])] {
            let mut bytes = Vec::new();
            set.encode(&mut bytes);
            assert_eq!(ReferenceSet::decode(&bytes), Ok(set));
            for cut in 0..bytes.len() {
                assert!(ReferenceSet::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
            bytes.push(0);
            assert!(ReferenceSet::decode(&bytes).is_err());
        }
        // A segment without values; a number beyond all.
        assert!(ReferenceSet::decode(&[1, 3, 0]).is_err());
        assert!(ReferenceSet::decode(&[2, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 0, 0, 1, 0, 0]).is_err());
    }

    #[test]
    fn values_are_gathered_in_any_order() {
        let values =
            [(7, 100), (0, 3), (7, 1), (0, 0)].map(|(segment, ordinal)| (SegmentNumber(segment), ordinal));
        assert_eq!(ReferenceSet::from_values(values.to_vec()), Ok(of(&[(0, 0), (0, 3), (7, 1), (7, 100)])));
        let twice = [values.to_vec(), vec![values[1]]].concat();
        let error = ReferenceSet::from_values(twice).expect_err("one is there twice").to_string();
        assert!(error.contains("a second one to value 3 of segment"), "{error}");
    }

    #[test]
    fn sums_and_differences_count_what_does_not_fit() {
        let mut set = of(&[(1, 1), (1, 2), (2, 1)]);
        assert_eq!(set.add_all(&of(&[(1, 2), (3, 9)])), 1);
        assert_eq!(set.len(), 4);
        assert_eq!(set.remove_all(&of(&[(1, 1), (1, 7), (3, 9), (4, 1)])), 2);
        assert_eq!(set, of(&[(1, 2), (2, 1)]));
    }

    #[test]
    fn what_two_have_in_common_is_in_both() {
        let (some, others) = (of(&[(1, 1), (1, 2), (2, 1), (9, 5)]), of(&[(1, 2), (1, 3), (2, 2), (9, 5)]));
        let both = of(&[(1, 2), (9, 5)]);
        assert_eq!((some.common(&others), others.common(&some)), (both.clone(), both));
        assert_eq!(some.common(&of(&[(1, 2)])), of(&[(1, 2)]));
        assert!(some.contains(SegmentNumber(2), 1));
        assert!(!some.contains(SegmentNumber(2), 2) && !some.contains(SegmentNumber(3), 1));
    }
}
