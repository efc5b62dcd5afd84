//! JSON as Lua's values.

use mlua::{Lua, Value};

use super::super::budget::Budget;
use super::super::filling::{Filling, List, Pairs};
use super::super::library::Complaint;
use super::super::work::STEP_BYTES;
use super::Options;

pub(super) struct Decoder<'a> {
    pub(super) filling: &'a Filling<'a>,
    pub(super) lua: &'a Lua,
    pub(super) options: &'a Options,
    pub(super) budget: &'a Budget,
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

/// What stands at a place, as complaints name it.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Unknown(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Unknown(why) => why,
        }
    }
}

type Found<T> = Result<T, Complaint>;

impl Decoder<'_> {
    /// The one value that the text is.
    pub(super) fn document(mut self) -> Found<Value> {
        if matches!(self.text, [0, ..] | [_, 0, ..]) {
            return Err(Complaint("JSON parser does not support UTF-16 or UTF-32".into()));
        }
        self.budget.work(self.text.len())?;
        let (start, token) = self.token();
        let value = self.value(start, token, 0)?;
        match self.token() {
            (_, Token::End) => Ok(value),
            (start, other) => Err(wrong("the end", start, &other)),
        }
    }

    fn value(&mut self, start: usize, token: Token, depth: usize) -> Found<Value> {
        self.budget.work(STEP_BYTES)?;
        Ok(match token {
            Token::Text(text) => Value::String(self.lua.create_string(text)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(yes) => Value::Boolean(yes),
            Token::Null => Value::NULL,
            Token::ObjectBegin => self.object(depth + 1)?,
            Token::ArrayBegin => self.array(depth + 1)?,
            other => return Err(wrong("value", start, &other)),
        })
    }

    fn check_depth(&self, depth: usize) -> Found<()> {
        self.budget.check_stack()?;
        if depth > self.options.decode_depth_max.get() {
            let at = self.at;
            return Err(Complaint(format!(
                "Found too many nested data structures ({depth}) at character {at}"
            )));
        }
        Ok(())
    }

    // The frame of a level is that of this or of `object`, and not of both.
    #[inline(never)]
    fn array(&mut self, depth: usize) -> Found<Value> {
        self.check_depth(depth)?;
        let mut list = List::new(self.filling)?;
        let (mut start, mut token) = self.token();
        if matches!(token, Token::ArrayEnd) {
            return Ok(list.table()?);
        }
        loop {
            list.push(self.value(start, token, depth)?)?;
            match self.token() {
                (_, Token::ArrayEnd) => return Ok(list.table()?),
                (_, Token::Comma) => {}
                (start, other) => return Err(wrong("comma or array end", start, &other)),
            }
            (start, token) = self.token();
        }
    }

    #[inline(never)]
    fn object(&mut self, depth: usize) -> Found<Value> {
        self.check_depth(depth)?;
        let mut pairs = Pairs::new(self.filling)?;
        let (mut start, mut token) = self.token();
        if matches!(token, Token::ObjectEnd) {
            return Ok(pairs.table()?);
        }
        loop {
            let key = match token {
                Token::Text(text) => self.lua.create_string(text)?,
                other => return Err(wrong("object key string", start, &other)),
            };
            match self.token() {
                (_, Token::Colon) => {}
                (start, other) => return Err(wrong("colon", start, &other)),
            }
            (start, token) = self.token();
            pairs.push(Value::String(key), self.value(start, token, depth)?)?;
            match self.token() {
                (_, Token::ObjectEnd) => return Ok(pairs.table()?),
                (_, Token::Comma) => {}
                (start, other) => return Err(wrong("comma or object end", start, &other)),
            }
            (start, token) = self.token();
        }
    }

    /// The next token and where it begins.
    fn token(&mut self) -> (usize, Token) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let start = self.at;
        let Some(byte) = self.peek() else { return (start, Token::End) };
        self.at += 1;
        let token = match byte {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => return self.string(start),
            b'-' | b'0'..=b'9' => self.number(start),
            _ if self.is_word(start, b"true", false) => Token::Boolean(true),
            _ if self.is_word(start, b"false", false) => Token::Boolean(false),
            _ if self.is_word(start, b"null", false) => Token::Null,
            b'n' | b'N' | b'i' | b'I' | b'+' if self.options.decode_invalid.get() => self.number(start),
            _ => Token::Unknown("invalid token"),
        };
        (start, token)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn is_word(&mut self, start: usize, word: &[u8], any_case: bool) -> bool {
        let found = self.text.get(start..start + word.len()).is_some_and(|text| match any_case {
            true => text.eq_ignore_ascii_case(word),
            false => text == word,
        });
        if found {
            self.at = start + word.len();
        }
        found
    }

    /// A number as C reads it: in hexadecimal too, and what is none, if that is allowed.
    fn number(&mut self, start: usize) -> Token {
        let is_negative = self.text[start] == b'-';
        let digits = start + usize::from(matches!(self.text[start], b'-' | b'+'));
        let sign = if is_negative { -1.0 } else { 1.0 };
        if self.options.decode_invalid.get() {
            for (word, number) in
                [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)]
            {
                if self.is_word(digits, word, true) {
                    return Token::Number(sign * number);
                }
            }
            if self.is_word(digits, b"0x", true) {
                let from = self.at;
                while self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                    self.at += 1;
                }
                let number = self.text[from..self.at].iter().fold(0.0, |number, byte| {
                    number * 16.0 + f64::from((*byte as char).to_digit(16).unwrap_or_default())
                });
                return Token::Number(sign * number);
            }
        }
        let Some(end) = decimal_end(self.text, digits) else { return Token::Unknown("invalid number") };
        let text = std::str::from_utf8(&self.text[digits..end]).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(number) => {
                self.at = end;
                Token::Number(sign * number)
            }
            Err(_) => Token::Unknown("invalid number"),
        }
    }

    fn string(&mut self, start: usize) -> (usize, Token) {
        let mut text = Vec::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            let Some(byte) = self.peek() else {
                return (self.at, Token::Unknown("unexpected end of string"));
            };
            self.at += 1;
            match byte {
                b'"' => return (start, Token::Text(text)),
                _ => {
                    let escaped = self.peek().unwrap_or_default();
                    self.at += 1;
                    match escaped {
                        b'"' | b'\\' | b'/' => text.push(escaped),
                        b'b' => text.push(8),
                        b'f' => text.push(12),
                        b'n' => text.push(b'\n'),
                        b'r' => text.push(b'\r'),
                        b't' => text.push(b'\t'),
                        b'u' => match self.unicode() {
                            Some(character) => {
                                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                            }
                            None => return (self.at - 2, Token::Unknown("invalid unicode escape code")),
                        },
                        _ => return (self.at - 2, Token::Unknown("invalid escape code")),
                    }
                }
            }
        }
    }

    /// What four digits, or twice four, stand for.
    fn unicode(&mut self) -> Option<char> {
        let unit = |at: usize| -> Option<u32> {
            let digits = std::str::from_utf8(self.text.get(at..at + 4)?).ok()?;
            u32::from_str_radix(digits, 16).ok()
        };
        let first = unit(self.at)?;
        if !(0xd800..0xdc00).contains(&first) {
            self.at += 4;
            return char::from_u32(first);
        }
        if self.text.get(self.at + 4..self.at + 6) != Some(b"\\u") {
            return None;
        }
        let second = unit(self.at + 6).filter(|second| (0xdc00..0xe000).contains(second))?;
        self.at += 10;
        char::from_u32(0x10000 + ((first & 0x3ff) << 10) + (second & 0x3ff))
    }
}

/// Where the decimal number without a sign ends that begins at `start`: digits, a fraction, an
/// exponent that has digits.
fn decimal_end(text: &[u8], start: usize) -> Option<usize> {
    let digits_end = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits_end(start);
    let mut digit_count = end - start;
    if text.get(end) == Some(&b'.') {
        let fraction_end = digits_end(end + 1);
        digit_count += fraction_end - end - 1;
        end = fraction_end;
    }
    if digit_count == 0 {
        return None;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let exponent = end + 1 + usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent_end = digits_end(exponent);
        if exponent_end > exponent {
            end = exponent_end;
        }
    }
    Some(end)
}

fn wrong(expected: &str, start: usize, found: &Token) -> Complaint {
    Complaint(format!("Expected {expected} but found {} at character {}", found.name(), start + 1))
}
