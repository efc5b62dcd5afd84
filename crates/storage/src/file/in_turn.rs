//! Many files opened one after another, each while those behind it are on their way.
//!
//! ```text
//!   names ─► begin: the end is asked for ─► ask_rest: what the end names is asked for ─► finish ─► open
//!            the 16 behind those in ask_rest   the next 16                                one
//! ```
//! Where an answer takes 20 ms, a thousand files take a second or two in place of a minute.

use std::collections::VecDeque;

use crate::Result;

/// A file that is being opened.
pub(super) trait Opening {
    type Open;

    /// Asks for what its end names, for which it waits.
    fn ask_rest(&mut self) -> Result<()>;

    /// Waits for what was asked for.
    fn finish(self) -> Result<Self::Open>;
}

/// Files at each of the two steps: what was asked of them is in memory, a MiB or so of each.
const AT_ONCE: usize = 16;

/// See the module.
pub(super) struct InTurn<B, O> {
    begin: B,
    begun: VecDeque<Result<O>>,
    asked: VecDeque<Result<O>>,
}

impl<O: Opening, B: Iterator<Item = Result<O>>> InTurn<B, O> {
    /// Opens what `begin` begins to open.
    pub(super) fn new(begin: B) -> Self {
        Self { begin, begun: VecDeque::new(), asked: VecDeque::new() }
    }
}

impl<O: Opening, B: Iterator<Item = Result<O>>> Iterator for InTurn<B, O> {
    type Item = Result<O::Open>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.asked.len() < AT_ONCE {
            self.begun.extend(self.begin.by_ref().take(AT_ONCE + 1 - self.begun.len()));
            let Some(opening) = self.begun.pop_front() else { break };
            let asked = opening.and_then(|mut opening| opening.ask_rest().map(|()| opening));
            self.asked.push_back(asked);
        }
        self.asked.pop_front().map(|opening| opening?.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Records what is done with it.
    struct Recorded<'t>(usize, &'t RefCell<Vec<(&'static str, usize)>>);

    impl Opening for Recorded<'_> {
        type Open = usize;

        fn ask_rest(&mut self) -> Result<()> {
            self.1.borrow_mut().push(("rest", self.0));
            Ok(())
        }

        fn finish(self) -> Result<usize> {
            self.1.borrow_mut().push(("finish", self.0));
            Ok(self.0)
        }
    }

    #[test]
    fn those_behind_are_asked_for_before_one_is_waited_for() {
        for count in [0, 1, 15, 16, 17, 33, 100] {
            let deeds = RefCell::new(Vec::new());
            let begin = (0..count).map(|number| {
                deeds.borrow_mut().push(("begin", number));
                Ok(Recorded(number, &deeds))
            });
            let open: Vec<usize> = InTurn::new(begin).map(Result::unwrap).collect();
            assert_eq!(open, (0..count).collect::<Vec<_>>());
            let deeds = deeds.borrow();
            let at =
                |step, number: usize| deeds.iter().position(|deed| *deed == (step, number.min(count - 1)));
            for number in 0..count {
                assert!(
                    at("begin", number + AT_ONCE) < at("rest", number) || number + 1 == count,
                    "{deeds:?}"
                );
                assert!(at("rest", number + AT_ONCE - 1) < at("finish", number), "{deeds:?}");
                assert!(
                    number + 3 * AT_ONCE >= count || at("finish", number) < at("begin", number + 3 * AT_ONCE)
                );
            }
        }
    }

    #[test]
    fn an_error_stands_where_its_file_would_and_the_others_are_opened() {
        let deeds = RefCell::new(Vec::new());
        let gone = |number| crate::Error::corrupt("gone", number, "it is gone");
        let begin = (0..40).map(|number| match number {
            20 => Err(gone(number as u64)),
            _ => Ok(Recorded(number, &deeds)),
        });
        let open: Vec<Option<usize>> = InTurn::new(begin).map(Result::ok).collect();
        let expected = (0..40).map(|number| (number != 20).then_some(number));
        assert!(open.into_iter().eq(expected));
    }
}
