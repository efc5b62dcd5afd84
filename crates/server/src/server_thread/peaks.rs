//! How large the inputs and outputs of a thread's connections were lately.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Milliseconds that are looked at together.
const SPAN_MS: u64 = 1000;

/// How many of those count as lately, the one that is not over included.
const SPANS: usize = 8;

/// Room of the largest input and the largest output, of the last eight seconds.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    input_bytes: Cell<usize>,
    output_bytes: Cell<usize>,
    /// Those of the spans that are over, the oldest first.
    past: RefCell<VecDeque<[usize; 2]>>,
    span: Cell<u64>,
}

impl Peaks {
    /// An input has room for so many bytes.
    #[inline]
    pub(super) fn note_input(&self, bytes: usize) {
        self.input_bytes.set(self.input_bytes.get().max(bytes));
    }

    /// An output has room for so many bytes.
    #[inline]
    pub(super) fn note_output(&self, bytes: usize) {
        self.output_bytes.set(self.output_bytes.get().max(bytes));
    }

    /// Input and output as of now, if more than a span is over since they were asked for.
    pub(super) fn look(&self, now_ms: u64) -> Option<[usize; 2]> {
        let span = now_ms / SPAN_MS;
        if self.span.replace(span) == span {
            return None;
        }
        let mut past = self.past.borrow_mut();
        past.push_back([self.input_bytes.take(), self.output_bytes.take()]);
        if past.len() > SPANS {
            past.pop_front();
        }
        let largest = |kind: usize| past.iter().map(|span| span[kind]).max().unwrap_or(0);
        Some([largest(0), largest(1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_large_is_told_for_eight_seconds() {
        let peaks = Peaks::default();
        peaks.note_input(700);
        peaks.note_input(20);
        peaks.note_output(30);
        assert_eq!(peaks.look(1000), Some([700, 30]));
        assert_eq!(peaks.look(1999), None);
        peaks.note_output(50);
        for second in 2..=8 {
            assert_eq!(peaks.look(second * 1000), Some([700, 50]));
        }
        assert_eq!(peaks.look(9000), Some([0, 50]));
        assert_eq!(peaks.look(10_000), Some([0, 0]));
    }
}
