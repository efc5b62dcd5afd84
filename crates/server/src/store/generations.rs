//! Numbers for new collections, never given twice.
//!
//! The catalog holds a ceiling: numbers below it may have been given. It is raised in large steps,
//! long before it is reached. So a crash loses numbers, but none is given again.

use std::sync::{Mutex, PoisonError};

use firn_format::datatype::Generation;

/// By how much the ceiling is raised.
const STEP: u64 = 1 << 20;

/// The numbers of a server.
#[derive(Debug)]
pub(crate) struct Generations {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    ceiling: u64,
    /// A task is writing a new ceiling.
    is_raising: bool,
}

/// The outcome of [`Generations::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextGeneration {
    /// The caller's alone.
    Given(Generation),
    /// Write this ceiling to the catalog, say [`Generations::raised`], and ask again.
    Raise(Generation),
    /// Another task is writing a ceiling: ask again later.
    Wait,
}

impl Generations {
    /// Numbers from the catalog's `ceiling` on.
    pub(super) fn new(ceiling: u64) -> Self {
        Self { state: Mutex::new(State { next: ceiling, ceiling, is_raising: false }) }
    }

    /// The next number, or what must be done for it.
    pub(crate) fn next(&self) -> NextGeneration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.ceiling - state.next < STEP / 2 && !state.is_raising {
            state.is_raising = true;
            return NextGeneration::Raise(Generation(state.ceiling + STEP));
        }
        if state.next == state.ceiling {
            return NextGeneration::Wait;
        }
        state.next += 1;
        NextGeneration::Given(Generation(state.next - 1))
    }

    /// The ceiling that [`next`](Self::next) asked for is in the catalog; `None` if writing it
    /// failed.
    pub(crate) fn raised(&self, ceiling: Option<Generation>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_raising = false;
        if let Some(Generation(ceiling)) = ceiling {
            state.ceiling = state.ceiling.max(ceiling);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_only_below_a_written_ceiling() {
        let generations = Generations::new(5);
        assert_eq!(generations.next(), NextGeneration::Raise(Generation(5 + STEP)));
        assert_eq!(generations.next(), NextGeneration::Wait);
        generations.raised(None);
        assert_eq!(generations.next(), NextGeneration::Raise(Generation(5 + STEP)), "the write failed");
        generations.raised(Some(Generation(5 + STEP)));
        let mut given = Vec::new();
        while let NextGeneration::Given(Generation(number)) = generations.next() {
            given.push(number);
        }
        assert!(given.iter().zip(5..).all(|(given, expected)| *given == expected));
        // The next ceiling is asked for when half of the numbers are left, which are given
        // meanwhile.
        assert_eq!(given.len() as u64, STEP / 2 + 1);
        for _ in 0..STEP / 2 - 1 {
            assert!(matches!(generations.next(), NextGeneration::Given(_)));
        }
        assert_eq!(generations.next(), NextGeneration::Wait);
    }
}
