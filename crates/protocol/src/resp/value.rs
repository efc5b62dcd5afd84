//! Replies, as a client reads them.

use std::fmt;

use crate::number;

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A short text, `OK` mostly.
    Simple(String),
    /// What went wrong.
    Error(String),
    /// A number.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// Nothing.
    Null,
    /// Values in order.
    Array(Vec<Value>),
    /// Pairs, in the order sent.
    Map(Vec<(Value, Value)>),
    /// Values without order.
    Set(Vec<Value>),
    /// A message that answers no request.
    Push(Vec<Value>),
    /// A number with a fraction.
    Double(f64),
    /// Yes or no.
    Boolean(bool),
    /// An integer of any size, as its digits.
    BigNumber(String),
    /// A text for people, without the three letters that tell its kind.
    Verbatim(Vec<u8>),
}

/// Bytes that are no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Where, counted from the reply's first byte.
    pub offset: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a reply: {} at byte {}", self.reason, self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// Aggregates within aggregates: deeper ones are refused.
const DEPTH_MAX: usize = 32;

/// The reply at the front of `input`, without the attributes it may have, and how many bytes it
/// took; `None` if it is not complete.
///
/// Memory grows with the bytes that are there, never with a length that is only announced.
///
/// # Errors
/// What cannot be the beginning of a reply.
pub fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let mut reader = Reader { input, at: 0 };
    Ok(reader.value(0)?.map(|value| (value, reader.at)))
}

/// Bytes of the reply at the front of `input`, without looking into it more than needed; `None` if
/// it is not complete.
///
/// # Errors
/// As [`decode`].
pub fn measure(input: &[u8]) -> Result<Option<usize>, DecodeError> {
    let mut reader = Reader { input, at: 0 };
    let mut missing = 1_usize;
    while missing > 0 {
        let Some(head) = reader.head()? else { return Ok(None) };
        missing -= 1;
        let values = match head {
            Head::Line(..) | Head::Null => 0,
            Head::Bytes(_, length) => match reader.bytes(length)? {
                Some(_) => 0,
                None => return Ok(None),
            },
            Head::Values(b'%', pairs) => pairs.saturating_mul(2),
            // The value that they belong to comes behind them.
            Head::Values(b'|', pairs) => pairs.saturating_mul(2).saturating_add(1),
            Head::Values(_, values) => values,
        };
        missing = missing.saturating_add(values);
    }
    Ok(Some(reader.at))
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

/// The first line of a reply.
enum Head<'a> {
    /// All of it: its type and text.
    Line(u8, &'a [u8]),
    /// So many bytes follow.
    Bytes(u8, usize),
    /// So many values or pairs follow.
    Values(u8, usize),
    /// Nothing, said by a length of -1.
    Null,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Option<Value>, DecodeError> {
        let start = self.at;
        let wrong = |reason| DecodeError { offset: start, reason };
        if depth > DEPTH_MAX {
            return Err(wrong("too deep"));
        }
        let Some(head) = self.head()? else { return Ok(None) };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Some(match head {
            Head::Null => Value::Null,
            Head::Line(b'+', line) => Value::Simple(text(line)),
            Head::Line(b'-', line) => Value::Error(text(line)),
            Head::Line(b':', line) => Value::Integer(number::parse_integer(line).ok_or(wrong("no integer"))?),
            Head::Line(b',', b"nan") => Value::Double(f64::NAN),
            Head::Line(b',', line) => Value::Double(number::parse_double(line).ok_or(wrong("no number"))?),
            Head::Line(b'#', b"t") => Value::Boolean(true),
            Head::Line(b'#', b"f") => Value::Boolean(false),
            Head::Line(b'(', line) => Value::BigNumber(text(line)),
            Head::Line(b'_', b"") => Value::Null,
            Head::Line(..) => return Err(wrong("unknown type")),
            Head::Bytes(kind, length) => match self.bytes(length)? {
                None => return Ok(None),
                Some(bytes) => match kind {
                    b'$' => Value::Bulk(bytes.to_vec()),
                    b'!' => Value::Error(text(bytes)),
                    _ => Value::Verbatim(bytes.get(4..).ok_or(wrong("no kind of text"))?.to_vec()),
                },
            },
            Head::Values(b'%', pairs) => {
                let mut map = Vec::new();
                for _ in 0..pairs {
                    let Some(key) = self.value(depth + 1)? else { return Ok(None) };
                    let Some(value) = self.value(depth + 1)? else { return Ok(None) };
                    map.push((key, value));
                }
                Value::Map(map)
            }
            Head::Values(b'|', pairs) => {
                for _ in 0..pairs.saturating_mul(2) {
                    let Some(_) = self.value(depth + 1)? else { return Ok(None) };
                }
                return self.value(depth + 1);
            }
            Head::Values(kind, len) => {
                let mut values = Vec::new();
                for _ in 0..len {
                    let Some(value) = self.value(depth + 1)? else { return Ok(None) };
                    values.push(value);
                }
                match kind {
                    b'*' => Value::Array(values),
                    b'~' => Value::Set(values),
                    _ => Value::Push(values),
                }
            }
        }))
    }

    fn head(&mut self) -> Result<Option<Head<'a>>, DecodeError> {
        let start = self.at;
        let rest = self.input.get(start..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = rest.get(..end).and_then(|line| line.strip_suffix(b"\r"));
        let Some((kind, line)) = line.and_then(<[u8]>::split_first) else {
            return Err(DecodeError { offset: start, reason: "an empty line" });
        };
        self.at += end + 1;
        let is_value = matches!(kind, b'*' | b'~' | b'>' | b'%' | b'|');
        if !is_value && !matches!(kind, b'$' | b'!' | b'=') {
            return Ok(Some(Head::Line(*kind, line)));
        }
        let number = number::parse_integer(line);
        match (number, usize::try_from(number.unwrap_or(-2))) {
            (Some(-1), _) => Ok(Some(Head::Null)),
            (_, Ok(length)) if is_value => Ok(Some(Head::Values(*kind, length))),
            (_, Ok(length)) => Ok(Some(Head::Bytes(*kind, length))),
            _ => Err(DecodeError { offset: start, reason: "no length" }),
        }
    }

    fn bytes(&mut self, length: usize) -> Result<Option<&'a [u8]>, DecodeError> {
        let end = self.at.checked_add(length).and_then(|end| end.checked_add(2));
        let too_long = DecodeError { offset: self.at, reason: "a length that no memory has" };
        let end = end.ok_or(too_long)?;
        let Some(bytes) = self.input.get(self.at..end) else { return Ok(None) };
        self.at = end;
        match bytes.strip_suffix(b"\r\n") {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(DecodeError { offset: end - 2, reason: "no line end after a string" }),
        }
    }
}

#[cfg(test)]
mod tests;
