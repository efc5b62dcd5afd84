//! Requests that people type.

use super::request::{ProtocolError, Span};

/// Splits `line` at spaces and appends where its arguments lie.
///
/// Between double quotes spaces belong to the argument, and `\n \r \t \b \a \xHH` stand for one
/// byte. Before any other byte `\` stands for that byte. Between single quotes only `\'` stands for
/// a quote. Quoted arguments are unquoted in place.
///
/// # Errors
/// `UnbalancedQuotes` where a quote is not closed, or closed in the midst of an argument.
pub(super) fn split(line: &mut [u8], spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        if at >= line.len() {
            return Ok(());
        }
        let start = at;
        // What is unquoted is never longer than what was quoted: it is written over it.
        let mut out = start;
        while let Some(byte) = line.get(at).copied().filter(|byte| !is_space(*byte)) {
            at += 1;
            match byte {
                b'"' | b'\'' => (at, out) = unquote(line, at, out, byte)?,
                byte => out = put(line, out, byte),
            }
        }
        spans.push(Span::new(start, out));
    }
}

/// Copies what lies between quotes; `at` is behind the first one. Answers where reading and writing
/// go on.
fn unquote(
    line: &mut [u8],
    mut at: usize,
    mut out: usize,
    quote: u8,
) -> Result<(usize, usize), ProtocolError> {
    loop {
        let rest = line.get(at..).unwrap_or_default();
        let (byte, taken) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [first, after @ ..] if *first == quote => {
                return match after.first() {
                    Some(byte) if !is_space(*byte) => Err(ProtocolError::UnbalancedQuotes),
                    _ => Ok((at + 1, out)),
                };
            }
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', b'x', high, low, ..] if quote == b'"' && hex(*high).is_some() && hex(*low).is_some() => {
                (hex(*high).unwrap_or_default() << 4 | hex(*low).unwrap_or_default(), 4)
            }
            [b'\\', escaped, ..] if quote == b'"' => (unescape(*escaped), 2),
            [byte, ..] => (*byte, 1),
        };
        at += taken;
        out = put(line, out, byte);
    }
}

fn put(line: &mut [u8], at: usize, byte: u8) -> usize {
    if let Some(place) = line.get_mut(at) {
        *place = byte;
    }
    at + 1
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 11 | 12)
}
