//! Indexes as clients count them: negative ones from the end.

use std::ops::Range;

/// Of `count` elements those from `start` to `stop`, both included; negative ones are counted from
/// the end.
pub(super) fn span(count: u64, start: i64, stop: i64) -> Range<u64> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index + count } else { index };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(count - 1));
    if start > stop { 0..0 } else { start as u64..stop as u64 + 1 }
}

/// The place of the element `index` of `count`, a negative one counted from the end; `None` if
/// there is none.
pub(super) fn place(count: u64, index: i64) -> Option<u64> {
    let place = match index < 0 {
        true => count.checked_sub(index.unsigned_abs())?,
        false => index as u64,
    };
    (place < count).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_ones_are_counted_from_the_end() {
        let cases = [
            (5, 0, 2, 0..3),
            (5, 0, -1, 0..5),
            (5, -3, -1, 2..5),
            (5, -3, -4, 0..0),
            (5, 3, 1, 0..0),
            (5, 4, 4, 4..5),
            (5, 5, 9, 0..0),
            (5, 0, -6, 0..0),
            (0, 0, -1, 0..0),
            (5, i64::MIN, i64::MAX, 0..5),
        ];
        for (count, start, stop, expected) in cases {
            assert_eq!(span(count, start, stop), expected, "{start} {stop} of {count}");
        }
        let places = [(0, Some(0)), (4, Some(4)), (5, None), (-1, Some(4)), (-5, Some(0)), (-6, None)];
        for (index, expected) in places {
            assert_eq!(place(5, index), expected, "{index}");
        }
        assert_eq!((place(5, i64::MIN), place(0, 0), place(0, -1)), (None, None, None));
    }
}
