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

/// The reply at the front of `input`, without the attributes it may have, and how many bytes it took; `None` if it is not complete.
///
/// Memory grows with the bytes that are there, never with a length that is only announced.
///
/// # Errors
/// What cannot be the beginning of a reply.
pub fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let mut reader = Reader { input, at: 0 };
    Ok(reader.value(0)?.map(|value| (value, reader.at)))
}

/// Bytes of the reply at the front of `input`, without looking into it more than needed; `None` if it is not complete.
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
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Vec<Value> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some((value, bytes)) = decode(&input[at..]).unwrap() {
            assert_eq!(measure(&input[at..]), Ok(Some(bytes)));
            found.push(value);
            at += bytes;
        }
        assert_eq!(at, input.len());
        found
    }

    #[test]
    fn every_type_is_read() {
        let input = b"+OK\r\n-ERR x\r\n:-5\r\n$2\r\n\r\n\r\n$-1\r\n*-1\r\n_\r\n*2\r\n:1\r\n*0\r\n%1\r\n+k\r\n#t\r\n~1\r\n,1.5\r\n>1\r\n(123\r\n=6\r\ntxt:hi\r\n!3\r\nERR\r\n,inf\r\n";
        let expected = vec![
            Value::Simple("OK".into()),
            Value::Error("ERR x".into()),
            Value::Integer(-5),
            Value::Bulk(b"\r\n".to_vec()),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Array(vec![Value::Integer(1), Value::Array(vec![])]),
            Value::Map(vec![(Value::Simple("k".into()), Value::Boolean(true))]),
            Value::Set(vec![Value::Double(1.5)]),
            Value::Push(vec![Value::BigNumber("123".into())]),
            Value::Verbatim(b"hi".to_vec()),
            Value::Error("ERR".into()),
            Value::Double(f64::INFINITY),
        ];
        assert_eq!(all(input), expected);
    }

    #[test]
    fn attributes_are_read_over() {
        let input = b"|1\r\n+ttl\r\n*1\r\n:9\r\n*2\r\n|0\r\n:1\r\n:2\r\n+next\r\n";
        let expected =
            vec![Value::Array(vec![Value::Integer(1), Value::Integer(2)]), Value::Simple("next".into())];
        assert_eq!(all(input), expected);
        assert_eq!(decode(b"|1\r\n+ttl\r\n:1\r\n"), Ok(None));
        assert_eq!(measure(b"|1\r\n+ttl\r\n:1\r\n"), Ok(None));
        assert_eq!(decode(&b"|0\r\n".repeat(100)).unwrap_err().reason, "too deep");
    }

    #[test]
    fn what_is_cut_is_incomplete() {
        let input = b"*3\r\n$3\r\nabc\r\n%1\r\n+a\r\n:1\r\n$-1\r\n";
        for end in 0..input.len() {
            assert_eq!(decode(&input[..end]), Ok(None), "{end}");
            assert_eq!(measure(&input[..end]), Ok(None), "{end}");
        }
        assert!(decode(input).unwrap().is_some());
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for input in [
            "?\r\n",
            "\r\n",
            ":x\r\n",
            "$x\r\n",
            "*-2\r\n",
            "$1\r\nabc\r\n",
            "#x\r\n",
            ",x\r\n",
            "=1\r\na\r\n",
        ] {
            assert!(decode(input.as_bytes()).is_err(), "{input:?}");
        }
        assert_eq!(decode(&b"*1\r\n".repeat(100)).unwrap_err().reason, "too deep");
    }

    #[test]
    fn announced_lengths_take_no_memory() {
        assert_eq!(decode(b"*9000000000000000000\r\n:1\r\n"), Ok(None));
        assert_eq!(measure(b"%9000000000000000000\r\n:1\r\n"), Ok(None));
        assert_eq!(decode(b"$9000000000000000000\r\n:1\r\n"), Ok(None));
        assert!(decode(b"$9223372036854775807\r\n:1\r\n").is_ok());
    }
}
