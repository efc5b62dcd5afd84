//! Requests, as their bytes come in.

use std::fmt;

use super::inline;
use crate::number;

/// How large a request may be. The consequence of each is a [`ProtocolError`], after which the
/// connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of one request.
    pub arguments_max: usize,
    /// Bytes of one argument.
    pub argument_bytes_max: usize,
    /// Bytes of an inline request, and of a line that gives a length.
    pub line_bytes_max: usize,
}

impl Limits {
    /// What a client may send once it is known: about two thousand million arguments of half a
    /// gibibyte. What bounds memory is how much is kept of a request that is not complete.
    pub const DEFAULT: Self =
        Self { arguments_max: i32::MAX as usize, argument_bytes_max: 512 << 20, line_bytes_max: 64 << 10 };
    /// What a client may send before it is authenticated.
    pub const UNKNOWN_CLIENT: Self =
        Self { arguments_max: 10, argument_bytes_max: 16 << 10, line_bytes_max: 64 << 10 };
}

/// Where an argument lies: offsets from the first byte of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Self {
        // Requests end long before 4 GiB: see `Parser::parse`.
        Self { start: start as u32, end: end as u32 }
    }
}

/// The arguments of one request, the command's name first.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    /// `spans` as [`Parser::parse`] gave them, of the request whose bytes are `bytes`.
    pub fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`, if there are so many.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(index)?;
        self.bytes.get(span.start as usize..span.end as usize)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans
            .iter()
            .map(move |span| bytes.get(span.start as usize..span.end as usize).unwrap_or_default())
    }

    /// The arguments from `first` on.
    pub fn from(&self, first: usize) -> Self {
        Self { bytes: self.bytes, spans: self.spans.get(first..).unwrap_or_default() }
    }
}

/// What came of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A request, of so many bytes. It may have no arguments at all: then there is nothing to
    /// answer.
    Request(usize),
    /// More bytes must come: at least this many.
    Incomplete(usize),
}

/// A request that no server can make sense of. The connection gets the text and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of arguments is no number, or too large.
    InvalidCount,
    /// No number of arguments within the longest line there may be.
    EndlessCount,
    /// An argument's length is no number, or too large.
    InvalidLength,
    /// No length within the longest line there may be.
    EndlessLength,
    /// Something else stands where an argument should begin.
    ExpectedLength(u8),
    /// More arguments than an unknown client may send.
    UnknownClientCount,
    /// A longer argument than an unknown client may send.
    UnknownClientLength,
    /// An inline request has no end.
    EndlessLine,
    /// The quotes of an inline request are not closed.
    UnbalancedQuotes,
    /// A request of 4 GiB and more.
    TooLarge,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::InvalidCount => f.write_str("invalid multibulk length"),
            Self::EndlessCount => f.write_str("too big mbulk count string"),
            Self::InvalidLength => f.write_str("invalid bulk length"),
            Self::EndlessLength => f.write_str("too big bulk count string"),
            Self::ExpectedLength(byte) => write!(f, "expected '$', got '{}'", char::from(*byte)),
            Self::UnknownClientCount => f.write_str("unauthenticated multibulk length"),
            Self::UnknownClientLength => f.write_str("unauthenticated bulk length"),
            Self::EndlessLine => f.write_str("too big inline request"),
            Self::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            Self::TooLarge => f.write_str("too big request"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Takes requests out of a stream of bytes, one after the other.
///
/// Owned by one connection. Remembers how far it came, so that each byte is looked at once however
/// the stream is cut. After an error nothing more can be parsed: the beginning of the next request
/// is unknown.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// Bytes of this request that were parsed.
    at: usize,
    /// Arguments still to come; `None` before their number is known.
    missing: Option<usize>,
    /// Bytes of the argument being read, once known.
    length: Option<usize>,
    /// Bytes of a line that were searched for its end.
    searched: usize,
}

impl Parser {
    /// A parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next request of `input`, which begins where that request does.
    ///
    /// Its arguments are appended to `spans`. Until it is complete the caller keeps `input` (and
    /// adds to its end) and `spans` as they are. After [`Parsed::Request`] the caller drops that
    /// many bytes, or goes on behind them. Of an inline request the quoted arguments are unquoted
    /// where they stand.
    ///
    /// # Errors
    /// What makes the stream unreadable; the limits that apply are those of the call.
    pub fn parse(
        &mut self,
        input: &mut [u8],
        spans: &mut Vec<Span>,
        limits: &Limits,
    ) -> Result<Parsed, ProtocolError> {
        if self.missing.is_none() {
            match input.first() {
                None => return Ok(Parsed::Incomplete(1)),
                Some(b'*') => {}
                Some(_) => return self.parse_inline(input, spans, limits),
            }
            let Some(count) = self.line(input, limits, ProtocolError::EndlessCount)? else {
                return Ok(Parsed::Incomplete(1));
            };
            let count = number::parse_integer(count).ok_or(ProtocolError::InvalidCount)?;
            // Nothing, or less than nothing, is a request without arguments.
            let count = usize::try_from(count).unwrap_or(0);
            if count > limits.arguments_max {
                return Err(too_many(limits));
            }
            self.missing = Some(count);
        }
        while self.missing.is_some_and(|missing| missing > 0) {
            if let Some(incomplete) = self.argument(input, spans, limits)? {
                return Ok(incomplete);
            }
        }
        Ok(Parsed::Request(self.finish()))
    }

    /// Reads one argument; `Some` if it is not complete.
    fn argument(
        &mut self,
        input: &[u8],
        spans: &mut Vec<Span>,
        limits: &Limits,
    ) -> Result<Option<Parsed>, ProtocolError> {
        let length = match self.length {
            Some(length) => length,
            None => {
                match input.get(self.at) {
                    None => return Ok(Some(Parsed::Incomplete(1))),
                    Some(b'$') => {}
                    Some(other) => return Err(ProtocolError::ExpectedLength(*other)),
                }
                let Some(length) = self.line(input, limits, ProtocolError::EndlessLength)? else {
                    return Ok(Some(Parsed::Incomplete(1)));
                };
                let length = number::parse_integer(length).and_then(|length| usize::try_from(length).ok());
                let length = length.ok_or(ProtocolError::InvalidLength)?;
                if length > limits.argument_bytes_max {
                    return Err(too_long(limits));
                }
                *self.length.insert(length)
            }
        };
        // What follows an argument is not looked at, only passed over: two bytes, a line's end.
        let end = self.at + length + LINE_END_BYTES;
        if u32::try_from(end).is_err() {
            return Err(ProtocolError::TooLarge);
        }
        if input.len() < end {
            return Ok(Some(Parsed::Incomplete(end - input.len())));
        }
        spans.push(Span::new(self.at, self.at + length));
        self.at = end;
        self.length = None;
        self.missing = self.missing.map(|missing| missing - 1);
        Ok(None)
    }

    /// The line that begins at `at`, without its first byte and its end; `None` if its end has not
    /// come.
    #[inline]
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        endless: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let rest = input.get(self.at..).unwrap_or_default();
        let unsearched = rest.get(self.searched..).unwrap_or_default();
        match unsearched.iter().position(|byte| *byte == b'\r') {
            Some(found) if rest.len() >= self.searched + found + LINE_END_BYTES => {
                let end = self.searched + found;
                self.searched = 0;
                self.at += end + LINE_END_BYTES;
                Ok(Some(rest.get(1..end).unwrap_or_default()))
            }
            Some(found) => {
                self.searched += found;
                Ok(None)
            }
            None if rest.len() > limits.line_bytes_max => Err(endless),
            None => {
                self.searched = rest.len();
                Ok(None)
            }
        }
    }

    fn parse_inline(
        &mut self,
        input: &mut [u8],
        spans: &mut Vec<Span>,
        limits: &Limits,
    ) -> Result<Parsed, ProtocolError> {
        let unsearched = input.get(self.searched..).unwrap_or_default();
        let Some(found) = unsearched.iter().position(|byte| *byte == b'\n') else {
            if input.len() > limits.line_bytes_max {
                return Err(ProtocolError::EndlessLine);
            }
            self.searched = input.len();
            return Ok(Parsed::Incomplete(1));
        };
        let end = self.searched + found;
        let line = input.get_mut(..end).unwrap_or_default();
        let line = match line.split_last_mut() {
            Some((b'\r', line)) => line,
            _ => input.get_mut(..end).unwrap_or_default(),
        };
        inline::split(line, spans)?;
        self.at = end + 1;
        Ok(Parsed::Request(self.finish()))
    }

    /// Ready for the next request; how long this one was.
    fn finish(&mut self) -> usize {
        std::mem::take(self).at
    }
}

const LINE_END_BYTES: usize = 2;

fn too_many(limits: &Limits) -> ProtocolError {
    match limits.arguments_max < Limits::DEFAULT.arguments_max {
        true => ProtocolError::UnknownClientCount,
        false => ProtocolError::InvalidCount,
    }
}

fn too_long(limits: &Limits) -> ProtocolError {
    match limits.arguments_max < Limits::DEFAULT.arguments_max {
        true => ProtocolError::UnknownClientLength,
        false => ProtocolError::InvalidLength,
    }
}

#[cfg(test)]
mod tests;
