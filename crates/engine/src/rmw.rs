//! Named changes of a value: what an engine can do where the value lies.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Change, Error, Result, UpdateFn};

/// A change of one key's value that an engine knows by name. It can do it without calling a
/// function of the caller, and in place where it keeps values so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rmw<'a> {
    /// Adds to the value, an `i64` in 8 bytes, the lowest first; a key without a value has 0.
    /// Answers [`RmwAnswer::Sum`].
    Add(i64),
    /// Puts these bytes behind the value; a key without a value has none. Answers
    /// [`RmwAnswer::Length`].
    Append(&'a [u8]),
    /// Puts `bytes` over the value from `offset` on. A value that ends before is filled with zeros
    /// up to there. Answers [`RmwAnswer::Length`].
    SetRange {
        /// Bytes of the value that stay before `bytes`.
        offset: usize,
        /// What is written; if it is empty, nothing changes.
        bytes: &'a [u8],
    },
    /// Sets the value to `new`, or removes the key, if it is `expected` now; `None` = no value.
    /// Answers [`RmwAnswer::Swapped`].
    CompareAndSet {
        /// What the key must have.
        expected: Option<&'a [u8]>,
        /// What it gets then.
        new: Option<&'a [u8]>,
    },
}

/// What an [`Rmw`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmwAnswer {
    /// The sum that the key has now.
    Sum(i64),
    /// Bytes of the value that the key has now.
    Length(u64),
    /// Whether the key had what was expected, and has the new value.
    Swapped(bool),
}

impl Rmw<'_> {
    /// What this makes of `current`, where a value may have `value_bytes_max`: the change, and the
    /// answer. For engines.
    ///
    /// # Errors
    /// `Invalid` where a sum is wanted of a value that has not 8 bytes, or is beyond 64 bits, or
    /// where a value would grow too long. No room is made for such a value.
    pub fn apply(&self, current: Option<&[u8]>, value_bytes_max: u64) -> Result<(Change, RmwAnswer)> {
        match *self {
            Self::Add(by) => {
                let sum = integer(current)?.checked_add(by);
                let sum =
                    sum.ok_or_else(|| Error::invalid("the sum is beyond 64 bits: nothing was added"))?;
                Ok((Change::Put(sum.to_le_bytes().to_vec()), RmwAnswer::Sum(sum)))
            }
            Self::Append(bytes) => {
                let length = current.map_or(0, <[u8]>::len).saturating_add(bytes.len());
                check_value_bytes(length as u64, value_bytes_max)?;
                let value = [current.unwrap_or_default(), bytes].concat();
                Ok((Change::Put(value), RmwAnswer::Length(length as u64)))
            }
            Self::SetRange { bytes: [], .. } => {
                Ok((Change::Keep, RmwAnswer::Length(current.map_or(0, <[u8]>::len) as u64)))
            }
            Self::SetRange { offset, bytes } => {
                let current = current.unwrap_or_default();
                let end = offset.saturating_add(bytes.len());
                let length = end.max(current.len());
                check_value_bytes(length as u64, value_bytes_max)?;
                let mut value = Vec::with_capacity(length);
                value.extend_from_slice(current.get(..offset).unwrap_or(current));
                value.resize(offset, 0);
                value.extend_from_slice(bytes);
                value.extend_from_slice(current.get(end..).unwrap_or_default());
                Ok((Change::Put(value), RmwAnswer::Length(length as u64)))
            }
            Self::CompareAndSet { expected, new } if current == expected => {
                let change = match new {
                    Some(new) => Change::Put(new.to_vec()),
                    None if current.is_some() => Change::Delete,
                    None => Change::Keep,
                };
                Ok((change, RmwAnswer::Swapped(true)))
            }
            Self::CompareAndSet { .. } => Ok((Change::Keep, RmwAnswer::Swapped(false))),
        }
    }

    /// This as the function of a [`Session::update`](crate::Session::update), and where its answer
    /// waits, where a value may have `value_bytes_max`. For engines.
    pub fn as_update(&self, value_bytes_max: u64) -> (UpdateFn, AnswerOfRmw) {
        let (owned, slot) = (Owned::from(*self), AnswerOfRmw::default());
        let answered = slot.clone();
        let f = move |current: Option<&[u8]>| {
            let (change, answer) = match owned.borrow().apply(current, value_bytes_max) {
                Ok((change, answer)) => (change, Ok(answer)),
                Err(error) => (Change::Keep, Err(error)),
            };
            *answered.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            change
        };
        (Box::new(f), slot)
    }
}

/// Where the answer of an [`Rmw`] waits until its update is written.
#[derive(Clone, Debug, Default)]
pub struct AnswerOfRmw(Arc<Mutex<Option<Result<RmwAnswer>>>>);

impl AnswerOfRmw {
    /// The answer of the call that took effect.
    ///
    /// # Errors
    /// Those of [`Rmw::apply`]; `Bug` if there was no call.
    pub fn take(&self) -> Result<RmwAnswer> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or_else(|| Err(Error::bug("a change was made without asking what it makes")))
    }
}

/// An [`Rmw`] that holds its bytes itself.
enum Owned {
    Add(i64),
    Append(Vec<u8>),
    SetRange(usize, Vec<u8>),
    CompareAndSet(Option<Vec<u8>>, Option<Vec<u8>>),
}

impl From<Rmw<'_>> for Owned {
    fn from(rmw: Rmw<'_>) -> Self {
        match rmw {
            Rmw::Add(by) => Self::Add(by),
            Rmw::Append(bytes) => Self::Append(bytes.to_vec()),
            Rmw::SetRange { offset, bytes } => Self::SetRange(offset, bytes.to_vec()),
            Rmw::CompareAndSet { expected, new } => {
                Self::CompareAndSet(expected.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec))
            }
        }
    }
}

impl Owned {
    fn borrow(&self) -> Rmw<'_> {
        match self {
            Self::Add(by) => Rmw::Add(*by),
            Self::Append(bytes) => Rmw::Append(bytes),
            Self::SetRange(offset, bytes) => Rmw::SetRange { offset: *offset, bytes },
            Self::CompareAndSet(expected, new) => {
                Rmw::CompareAndSet { expected: expected.as_deref(), new: new.as_deref() }
            }
        }
    }
}

/// Refuses a value of `bytes` where `max` are allowed. For engines.
///
/// # Errors
/// `Invalid`, with both.
pub fn check_value_bytes(bytes: u64, max: u64) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    Err(Error::invalid(format!("a value of {bytes} bytes is longer than value_bytes_max = {max}")))
}

fn integer(value: Option<&[u8]>) -> Result<i64> {
    let Some(value) = value else { return Ok(0) };
    let bytes = value.try_into().map_err(|_| {
        let bytes = value.len();
        Error::invalid(format!("a value of {bytes} bytes is no number to add to: it would have 8"))
    })?;
    Ok(i64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1 << 30;

    fn set(offset: usize, bytes: &'static [u8]) -> Rmw<'static> {
        Rmw::SetRange { offset, bytes }
    }

    #[test]
    fn ranges_are_set_wherever_the_value_ends() {
        for (current, rmw, expected) in [
            (None, set(0, b"ab"), &b"ab"[..]),
            (None, set(2, b"ab"), b"\0\0ab"),
            (Some(&b"xyz"[..]), set(0, b"ab"), b"abz"),
            (Some(b"xyz"), set(1, b"ab"), b"xab"),
            (Some(b"xyz"), set(2, b"ab"), b"xyab"),
            (Some(b"xyz"), set(3, b"ab"), b"xyzab"),
            (Some(b"xyz"), set(5, b"ab"), b"xyz\0\0ab"),
        ] {
            let answer = RmwAnswer::Length(expected.len() as u64);
            assert_eq!(rmw.apply(current, MAX).unwrap(), (Change::Put(expected.to_vec()), answer), "{rmw:?}");
        }
        assert_eq!(set(9, b"").apply(Some(b"xyz"), MAX).unwrap(), (Change::Keep, RmwAnswer::Length(3)));
    }

    #[test]
    fn a_value_that_would_be_too_long_is_refused_before_it_is_made() {
        // The answer alone: a test that fails prints no large value.
        let refused = |rmw: Rmw<'_>| rmw.apply(Some(b"xyz"), 7).map(|(_, answer)| answer).unwrap_err();
        for offset in [6, (1 << 30) - 1, 1 << 45, usize::MAX] {
            let error = refused(set(offset, b"ab"));
            assert!(error.to_string().ends_with("is longer than value_bytes_max = 7"), "{error}");
        }
        let error = refused(Rmw::Append(b"abcde"));
        assert_eq!(error.to_string(), "a value of 8 bytes is longer than value_bytes_max = 7");
        for grown in [set(5, b"ab"), Rmw::Append(b"abcd")] {
            assert_eq!(grown.apply(Some(b"xyz"), 7).unwrap().1, RmwAnswer::Length(7), "{grown:?}");
        }
    }

    #[test]
    fn sums_stay_within_64_bits() {
        let ten = 10_i64.to_le_bytes();
        let eight = Change::Put(8_i64.to_le_bytes().to_vec());
        assert_eq!(Rmw::Add(-2).apply(Some(&ten), MAX).unwrap(), (eight, RmwAnswer::Sum(8)));
        assert!(Rmw::Add(i64::MAX).apply(Some(&ten), MAX).is_err());
        assert!(Rmw::Add(1).apply(Some(b"10"), MAX).is_err());
    }

    #[test]
    fn what_is_compared_is_set_or_left() {
        let rmw = |expected, new| Rmw::CompareAndSet { expected, new };
        let swapped = |rmw: Rmw<'_>, current| rmw.apply(current, MAX).unwrap();
        let (a, b) = (Some(&b"a"[..]), Some(&b"b"[..]));
        assert_eq!(swapped(rmw(a, b), a), (Change::Put(b"b".to_vec()), RmwAnswer::Swapped(true)));
        assert_eq!(swapped(rmw(a, b), None), (Change::Keep, RmwAnswer::Swapped(false)));
        assert_eq!(swapped(rmw(None, b), a), (Change::Keep, RmwAnswer::Swapped(false)));
        assert_eq!(swapped(rmw(a, None), a), (Change::Delete, RmwAnswer::Swapped(true)));
        assert_eq!(swapped(rmw(None, None), None), (Change::Keep, RmwAnswer::Swapped(true)));
    }
}
