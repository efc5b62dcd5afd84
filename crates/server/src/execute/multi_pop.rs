//! Arguments of commands that take elements from the first of several keys.

use std::ops::Range;

use super::call::Call;
use crate::failure::{Failure, Result};

/// `numkeys key [key ...] END [COUNT count]`
#[derive(Debug)]
pub(super) struct MultiPop<E> {
    /// The arguments that are keys.
    pub(super) keys: Range<usize>,
    /// From which end elements are taken.
    pub(super) end: E,
    /// How many at most, from 1 on.
    pub(super) count: u64,
}

impl<E> MultiPop<E> {
    /// What the arguments from `index` on say, where `end_of` knows the words for the ends.
    pub(super) fn of(call: &Call<'_>, index: usize, end_of: impl Fn(&[u8]) -> Option<E>) -> Result<Self> {
        let key_count = positive(call, index, "ERR numkeys should be greater than 0")?;
        let first = index + 1;
        let after = usize::try_from(key_count).ok().and_then(|count| first.checked_add(count));
        let after = after.filter(|after| *after < call.arguments.len()).ok_or(Failure::SYNTAX)?;
        let end = end_of(call.argument(after)).ok_or(Failure::SYNTAX)?;
        let count = match call.arguments.len() - after {
            1 => 1,
            3 if call.is_word(after + 1, "count") => {
                positive(call, after + 2, "ERR count should be greater than 0")?
            }
            _ if call.is_word(after + 1, "count") && after + 2 < call.arguments.len() => {
                positive(call, after + 2, "ERR count should be greater than 0")?;
                return Err(Failure::SYNTAX);
            }
            _ => return Err(Failure::SYNTAX),
        };
        Ok(Self { keys: first..after, end, count })
    }
}

/// The argument at `index`, at least 1.
fn positive(call: &Call<'_>, index: usize, otherwise: &'static str) -> Result<u64> {
    let number = call.integer(index).ok().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(Failure::new(otherwise))
}

/// How many elements the argument at `index` asks for: 0 or more.
pub(super) fn pop_count(call: &Call<'_>, index: usize) -> Result<u64> {
    let number = call.integer(index).ok().and_then(|number| u64::try_from(number).ok());
    number.ok_or(Failure::new("ERR value is out of range, must be positive"))
}
