//! Keys and values as text on a command line: UTF-8 with escapes, or hexadecimal digits.

use crate::ending::{Ending, Failure, Result};

/// How keys and values are written and read.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Notation {
    /// Keys and values are hexadecimal digits instead of text with escapes.
    #[arg(long)]
    hex: bool,
}

impl Notation {
    /// The bytes of `text`.
    ///
    /// # Errors
    /// `Usage`, saying what in the text is wrong.
    pub(crate) fn parse(self, text: &str) -> Result<Vec<u8>> {
        let parsed = if self.hex { from_hex(text) } else { unescape(text) };
        parsed.map_err(|problem| Failure::new(Ending::Usage, format!("cannot read '{text}': {problem}")))
    }

    /// Text that [`parse`](Self::parse) reads back as `bytes`; on one line.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        if self.hex { bytes.iter().map(|byte| format!("{byte:02x}")).collect() } else { escape(bytes) }
    }
}

fn from_hex(text: &str) -> std::result::Result<Vec<u8>, String> {
    let digits =
        text.chars().map(|c| c.to_digit(16).ok_or_else(|| format!("'{c}' is not a hexadecimal digit")));
    let digits = digits.collect::<std::result::Result<Vec<u32>, String>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err("a byte has two hexadecimal digits, and one is missing".to_owned());
    }
    Ok(digits
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8))
        .collect())
}

fn unescape(text: &str) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match rest.next() {
            Some('\\') => b'\\',
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('0') => 0,
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                let is_byte = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let byte = is_byte.then(|| u8::from_str_radix(&digits, 16).ok()).flatten();
                byte.ok_or_else(|| format!("'\\x{digits}' needs two hexadecimal digits"))?
            }
            Some(other) => {
                return Err(format!("there is no escape '\\{other}'; write '\\\\' for a backslash"));
            }
            None => return Err("it ends in the middle of an escape; write '\\\\' for a backslash".to_owned()),
        });
    }
    Ok(bytes)
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                c if c.is_control() => escape_bytes(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut text),
                c => text.push(c),
            }
        }
        escape_bytes(chunk.invalid(), &mut text);
    }
    text
}

fn escape_bytes(bytes: &[u8], text: &mut String) {
    bytes.iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
}

#[cfg(test)]
mod tests {
    use super::Notation;

    const TEXT: Notation = Notation { hex: false };
    const HEX: Notation = Notation { hex: true };

    #[test]
    fn what_is_shown_reads_back() {
        let every_byte: Vec<u8> = (0..=255).collect();
        for bytes in [&b""[..], b"key", "Grüße\\\n".as_bytes(), &every_byte, b"\xff\x41\xc3"] {
            for notation in [TEXT, HEX] {
                let shown = notation.show(bytes);
                assert_eq!(notation.parse(&shown).expect("its own text"), bytes, "{shown}");
                assert!(!shown.contains('\n'));
            }
        }
    }

    #[test]
    fn escapes_are_read() {
        assert_eq!(TEXT.parse("a\\x00\\xFFb\\\\\\n").expect("valid"), b"a\x00\xffb\\\n");
        assert_eq!(HEX.parse("00fF").expect("valid"), b"\x00\xff");
    }

    #[test]
    fn wrong_text_says_what_is_wrong() {
        let wrong = |notation: Notation, text| notation.parse(text).expect_err("this is wrong").to_string();
        assert_eq!(
            wrong(TEXT, "a\\"),
            "cannot read 'a\\': it ends in the middle of an escape; write '\\\\' for a backslash"
        );
        assert_eq!(
            wrong(TEXT, "\\q"),
            "cannot read '\\q': there is no escape '\\q'; write '\\\\' for a backslash"
        );
        assert_eq!(wrong(TEXT, "\\x4"), "cannot read '\\x4': '\\x4' needs two hexadecimal digits");
        assert_eq!(wrong(TEXT, "\\x+4"), "cannot read '\\x+4': '\\x+4' needs two hexadecimal digits");
        assert_eq!(
            wrong(HEX, "abc"),
            "cannot read 'abc': a byte has two hexadecimal digits, and one is missing"
        );
        assert_eq!(wrong(HEX, "zz"), "cannot read 'zz': 'z' is not a hexadecimal digit");
    }
}
