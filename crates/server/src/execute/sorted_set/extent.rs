//! Which members a command means: from one rank, score or name to another.

use std::ops::Bound;

use firn_format::datatype::Score;

use crate::execute::call::Call;
use crate::failure::{Failure, Result};

/// What a range is given by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Ranks,
    Scores,
    /// Names of members, all of which should have one score.
    Names,
}

/// The order in which members are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The lowest score first.
    Rising,
    /// The highest score first.
    Falling,
}

impl Order {
    /// The other one.
    pub(super) fn reversed(self) -> Self {
        match self {
            Order::Rising => Order::Falling,
            Order::Falling => Order::Rising,
        }
    }
}

/// A range of members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent<'a> {
    /// From one rank to another, both included, in the order of the answer; negative ones are
    /// counted from its end.
    Ranks(i64, i64),
    /// From the lowest to the highest.
    Scores(Bound<Score>, Bound<Score>),
    /// The same.
    Names(Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// No member.
    Nothing,
}

impl<'a> Extent<'a> {
    /// The range between the arguments at `min` and `max`.
    pub(super) fn of(call: &Call<'a>, form: Form, min: usize, max: usize) -> Result<Self> {
        match form {
            Form::Ranks => Ok(Extent::Ranks(call.integer(min)?, call.integer(max)?)),
            Form::Scores => {
                let bounds = score_bound(call.argument(min)).zip(score_bound(call.argument(max)));
                let (min, max) = bounds.ok_or(Failure::new("ERR min or max is not a float"))?;
                Ok(Extent::Scores(min, max))
            }
            Form::Names => {
                let bounds = Name::of(call.argument(min)).zip(Name::of(call.argument(max)));
                Ok(match bounds.ok_or(Failure::new("ERR min or max not valid string range item"))? {
                    (Name::Last, _) | (_, Name::First) => Extent::Nothing,
                    (min, max) => Extent::Names(min.bound(), max.bound()),
                })
            }
        }
    }
}

/// `1.5`, `(1.5` (excluded), `-inf`, … : numbers as C reads them, so that nothing at all is 0.
fn score_bound(text: &[u8]) -> Option<Bound<Score>> {
    let (is_excluded, number) = match text.split_first() {
        Some((b'(', number)) => (true, number),
        _ => (false, text),
    };
    let number = std::str::from_utf8(number.trim_ascii_start()).ok()?;
    let number = match number {
        "" if text.last().is_none_or(|last| *last == b'(') => 0.0,
        number => number.parse().ok()?,
    };
    let score = Score::new(number)?;
    Some(if is_excluded { Bound::Excluded(score) } else { Bound::Included(score) })
}

/// An end of a range of names.
#[derive(Clone, Copy, Debug)]
enum Name<'a> {
    First,
    Last,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

impl<'a> Name<'a> {
    /// `-`, `+`, `[name` or `(name`.
    fn of(text: &'a [u8]) -> Option<Self> {
        match text.split_first()? {
            (b'-', []) => Some(Name::First),
            (b'+', []) => Some(Name::Last),
            (b'[', name) => Some(Name::Included(name)),
            (b'(', name) => Some(Name::Excluded(name)),
            _ => None,
        }
    }

    fn bound(self) -> Bound<&'a [u8]> {
        match self {
            Name::First | Name::Last => Bound::Unbounded,
            Name::Included(name) => Bound::Included(name),
            Name::Excluded(name) => Bound::Excluded(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_clients_write_them() {
        let score = |number| Score::new(number).unwrap();
        for (text, expected) in [
            ("1.5", Some(Bound::Included(score(1.5)))),
            ("(1.5", Some(Bound::Excluded(score(1.5)))),
            ("-inf", Some(Bound::Included(Score::NEG_INFINITY))),
            ("(+inf", Some(Bound::Excluded(Score::INFINITY))),
            ("", Some(Bound::Included(Score::ZERO))),
            ("(", Some(Bound::Excluded(Score::ZERO))),
            (" 1", Some(Bound::Included(score(1.0)))),
            ("nan", None),
            ("1x", None),
            ("((1", None),
        ] {
            assert_eq!(score_bound(text.as_bytes()), expected, "{text:?}");
        }
        for text in ["", "a", "--", "+1"] {
            assert!(Name::of(text.as_bytes()).is_none(), "{text:?}");
        }
    }
}
