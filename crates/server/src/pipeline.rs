//! What a connection has sent: whole requests that wait for their turn, and bytes that are no whole
//! request yet.

use std::collections::VecDeque;
use std::ops::Range;

use firn_protocol::resp::{Arguments, Limits, Parsed, Parser, ProtocolError, Span};

/// Requests that are made out of the input before the first of them is executed.
const AHEAD_MAX: usize = 16;
/// Memory that an input without a request keeps.
const INPUT_BYTES_KEPT: usize = 64 << 10;

/// The input of one connection, which owns it.
///
/// Requests are made out of it a few at a time, so that what they read can be loaded together. An
/// error stands behind all requests that came before it.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    input: Vec<u8>,
    parser: Parser,
    /// Bytes of `input` that whole requests were made of.
    parsed: usize,
    /// Arguments of the whole requests, then of the one that is not whole.
    spans: Vec<Span>,
    /// How many of `spans` are the whole ones'.
    parsed_spans: usize,
    whole: VecDeque<Whole>,
    error: Option<ProtocolError>,
}

/// A whole request: its bytes in the input, its arguments among the spans.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    bytes: Range<usize>,
    spans: Range<usize>,
}

impl Whole {
    /// Bytes of the request.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Pipeline {
    /// Makes requests out of the input if none is left; whether it did.
    ///
    /// For a client that `is_unknown` it makes one at a time: the user it logs in as decides what
    /// it may send.
    ///
    /// # Errors
    /// The stream cannot be read on; all requests before that were executed.
    pub(crate) fn fill(&mut self, limits: &Limits, is_unknown: bool) -> Result<bool, ProtocolError> {
        if !self.whole.is_empty() {
            return Ok(false);
        }
        self.spans.drain(..std::mem::take(&mut self.parsed_spans));
        let most = if is_unknown { 1 } else { AHEAD_MAX };
        while self.whole.len() < most && self.error.is_none() {
            let rest = self.input.get_mut(self.parsed..).unwrap_or_default();
            match self.parser.parse(rest, &mut self.spans, limits) {
                Ok(Parsed::Request(bytes)) => {
                    let bytes = self.parsed..self.parsed + bytes;
                    let spans = self.parsed_spans..self.spans.len();
                    (self.parsed, self.parsed_spans) = (bytes.end, spans.end);
                    self.whole.push_back(Whole { bytes, spans });
                }
                Ok(Parsed::Incomplete(_)) => break,
                Err(error) => self.error = Some(error),
            }
        }
        match self.error {
            Some(error) if self.whole.is_empty() => Err(error),
            _ => Ok(!self.whole.is_empty()),
        }
    }

    /// The next whole request.
    pub(crate) fn next(&mut self) -> Option<Whole> {
        self.whole.pop_front()
    }

    /// All whole requests that are left.
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = Arguments<'_>> {
        self.whole.iter().map(|whole| self.arguments(whole))
    }

    /// The arguments of a request.
    pub(crate) fn arguments(&self, whole: &Whole) -> Arguments<'_> {
        let bytes = self.input.get(whole.bytes.clone()).unwrap_or_default();
        Arguments::new(bytes, self.spans.get(whole.spans.clone()).unwrap_or_default())
    }

    /// Bytes that came behind a request.
    pub(crate) fn bytes_behind(&self, whole: &Whole) -> usize {
        self.input.len() - whole.bytes.end
    }

    /// The input, to be appended to, when no whole request is left.
    pub(crate) fn input(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.whole.is_empty(), "requests refer to the input");
        self.input.drain(..std::mem::take(&mut self.parsed));
        if self.input.is_empty() {
            self.input.shrink_to(INPUT_BYTES_KEPT);
        }
        &mut self.input
    }
}

#[cfg(test)]
mod tests;
