//! Rust source as far as the checks must understand it: comments and literals out of the way,
//! braces matched.
//!
//! Not a parser. It knows where comments, strings, functions and test modules begin and end;
//! everything that needs more belongs to the compiler.

mod items;

use std::borrow::Cow;
use std::ops::Range;

pub(crate) use items::Type;

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source<'t> {
    text: &'t str,
    /// As long as `text`, with comments and the insides of literals replaced by spaces; newlines
    /// stay.
    masked: Vec<u8>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) line_count: usize,
}

/// A `mod name;` line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModuleLine {
    pub(crate) name: String,
    /// Modules written inline around it, outermost first.
    pub(crate) inside: Vec<String>,
    /// The file named by `#[path = "…"]`.
    pub(crate) path: Option<String>,
    pub(crate) is_test: bool,
}

impl<'t> Source<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, masked: mask(text.as_bytes()) }
    }

    /// The text as written.
    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// A part of the text with comments and the insides of literals replaced by blanks.
    pub(crate) fn code(&self, range: Range<usize>) -> Cow<'_, str> {
        let end = range.end.min(self.masked.len());
        String::from_utf8_lossy(self.masked.get(range.start..end).unwrap_or_default())
    }

    /// Where comments and literals are, in order.
    pub(crate) fn asides(&self) -> Vec<Range<usize>> {
        asides(self.text.as_bytes())
    }

    /// The number of the line that holds byte `at`.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        1 + self.masked.iter().take(at).filter(|&&byte| byte == b'\n').count()
    }

    /// Byte ranges of items under `#[cfg(test)]` and of `#[test]` functions.
    pub(crate) fn test_ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (at, attribute) in self.attributes() {
            let is_inside = ranges.last().is_some_and(|range| range.contains(&at));
            if is_test_attribute(&attribute) && !is_inside {
                let end = self.item_end(at + attribute.len());
                ranges.push(at..end);
            }
        }
        ranges
    }

    /// Lines outside tests.
    pub(crate) fn production_line_count(&self) -> usize {
        let tests: usize = self.test_ranges().iter().map(|range| self.lines_in(range)).sum();
        self.text.lines().count().saturating_sub(tests)
    }

    /// Lines of code outside tests: neither blank nor nothing but comment.
    pub(crate) fn production_code_line_count(&self) -> usize {
        let tests = self.test_ranges();
        let mut begin = 0;
        let mut count = 0;
        for line in self.masked.split(|&byte| byte == b'\n') {
            let is_test = tests.iter().any(|range| range.contains(&begin));
            count += usize::from(!is_test && !line.trim_ascii().is_empty());
            begin += line.len() + 1;
        }
        count
    }

    /// Functions with bodies outside tests.
    pub(crate) fn production_functions(&self) -> Vec<Function> {
        let tests = self.test_ranges();
        let mut functions = Vec::new();
        for at in self.words("fn") {
            if tests.iter().any(|range| range.contains(&at)) {
                continue;
            }
            let name = self.word_after(at + 2);
            let Some(open) = self.body_start(at) else { continue };
            if name.is_empty() {
                continue; // a function pointer type
            }
            let range = at..self.closing(open);
            functions.push(Function { name, line: self.line_of(at), line_count: self.lines_in(&range) });
        }
        functions
    }

    /// Every `mod name;`.
    pub(crate) fn module_lines(&self) -> Vec<ModuleLine> {
        let mut inline: Vec<(String, Range<usize>)> = Vec::new();
        let mut lines = Vec::new();
        for at in self.words("mod") {
            let name = self.word_after(at + 3);
            let Some(stop) = self.masked.iter().skip(at).position(|byte| b"{;".contains(byte)) else {
                continue;
            };
            let stop = at + stop;
            if self.masked.get(stop) == Some(&b'{') {
                inline.push((name, stop..self.closing(stop)));
                continue;
            }
            let inside = inline.iter().filter(|(_, range)| range.contains(&at)).map(|(name, _)| name.clone());
            let before = self.attributes_before(at);
            lines.push(ModuleLine {
                name,
                inside: inside.collect(),
                path: before.iter().find_map(|attribute| path_attribute(attribute)),
                is_test: before.iter().any(|attribute| is_test_attribute(attribute)),
            });
        }
        lines
    }

    /// Positions of `word` as a whole word in code.
    pub(crate) fn words(&self, word: &str) -> Vec<usize> {
        let is_part =
            |byte: Option<&u8>| byte.is_some_and(|&byte| byte == b'_' || byte.is_ascii_alphanumeric());
        self.masked
            .windows(word.len())
            .enumerate()
            .filter(|(_, window)| *window == word.as_bytes())
            .map(|(at, _)| at)
            .filter(|&at| at == 0 || !is_part(self.masked.get(at - 1)))
            .filter(|&at| !is_part(self.masked.get(at + word.len())))
            .collect()
    }

    /// The identifier after `at`, blanks skipped; empty if none follows.
    pub(crate) fn word_after(&self, at: usize) -> String {
        let rest = self.masked.iter().skip(at).map(|&byte| char::from(byte));
        rest.skip_while(|c| c.is_whitespace()).take_while(|c| *c == '_' || c.is_alphanumeric()).collect()
    }

    /// The end (exclusive) of the statement or item at `at`: its first `;` or matched `{}` outside
    /// parentheses.
    pub(crate) fn item_end(&self, at: usize) -> usize {
        let mut depth = 0usize;
        for (offset, byte) in self.masked.iter().enumerate().skip(at) {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b'{' if depth == 0 => return self.closing(offset),
                b';' if depth == 0 => return offset + 1,
                _ => {}
            }
        }
        self.masked.len()
    }

    /// `#[…]` and `#![…]` with their text as written (literals included).
    fn attributes(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (at, byte) in self.masked.iter().enumerate() {
            let open = at + 1 + usize::from(self.masked.get(at + 1) == Some(&b'!'));
            if *byte == b'#' && self.masked.get(open) == Some(&b'[') {
                let text = self.text.get(at..self.closing(open)).unwrap_or_default();
                found.push((at, text.to_owned()));
            }
        }
        found
    }

    /// The attributes that stand directly before the item at `at`.
    fn attributes_before(&self, at: usize) -> Vec<String> {
        let previous_end = |upto: usize| {
            let ends = |byte: &u8| b";{}".contains(byte);
            self.masked.iter().take(upto).rposition(ends).map_or(0, |found| found + 1)
        };
        let start = previous_end(at);
        self.attributes()
            .into_iter()
            .filter(|(found, _)| (start..at).contains(found))
            .map(|(_, text)| text)
            .collect()
    }

    /// Where the body of the function at `at` opens; `None` for declarations and function pointers.
    fn body_start(&self, at: usize) -> Option<usize> {
        let end = self.item_end(at);
        let mut depth = 0usize;
        for offset in at..end {
            match self.masked.get(offset)? {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b'{' if depth == 0 => return Some(offset),
                b';' if depth == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// One past the bracket that closes the one at `open`.
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (offset, byte) in self.masked.iter().enumerate().skip(open) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return offset + 1;
            }
        }
        self.masked.len()
    }

    fn lines_in(&self, range: &Range<usize>) -> usize {
        self.line_of(range.end.saturating_sub(1)) + 1 - self.line_of(range.start)
    }
}

fn is_test_attribute(attribute: &str) -> bool {
    let compact: String = attribute.chars().filter(|c| !c.is_whitespace()).collect();
    let condition = compact.strip_prefix("#[cfg(").unwrap_or_default();
    compact == "#[test]" || condition.starts_with("test)") || condition.starts_with("all(test")
}

fn path_attribute(attribute: &str) -> Option<String> {
    let value = attribute.strip_prefix("#[path")?.trim_start().strip_prefix('=')?;
    Some(value.trim_start().strip_prefix('"')?.split('"').next()?.to_owned())
}

/// Blanks comments and the insides of literals; keeps length and newlines.
fn mask(text: &[u8]) -> Vec<u8> {
    let mut masked = text.to_vec();
    for aside in asides(text) {
        for byte in masked.iter_mut().take(aside.end).skip(aside.start).filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    }
    masked
}

/// Comments and literals, in order.
fn asides(text: &[u8]) -> Vec<Range<usize>> {
    let mut asides = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match literal_end(text, at) {
            None => at += 1,
            Some(end) => {
                asides.push(at..end);
                at = end;
            }
        }
    }
    asides
}

/// If a comment or literal starts at `at`, its end.
fn literal_end(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let is_word_before =
        at > 0 && text.get(at - 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    match rest {
        [b'/', b'/', ..] => Some(at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(at + block_comment_bytes(rest)),
        [b'"', ..] => Some(at + quoted_bytes(rest, b'"')),
        [b'r' | b'b' | b'c', ..] if !is_word_before => raw_string_bytes(rest).map(|bytes| at + bytes),
        [b'\'', b'\\', ..] => Some(at + quoted_bytes(rest, b'\'')),
        [b'\'', ..] => char_bytes(rest).map(|bytes| at + bytes),
        _ => None,
    }
}

fn block_comment_bytes(rest: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        match rest.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth.saturating_sub(1), at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_bytes(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        match byte {
            b'\\' => at += 2,
            _ if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of `r"…"`, `br#"…"#` and the like; `None` for anything else (`b"…"` is met at its quote).
fn raw_string_bytes(rest: &[u8]) -> Option<usize> {
    let prefix = if rest.first() == Some(&b'r') { 1 } else { 2 };
    if rest.get(prefix - 1) != Some(&b'r') {
        return None;
    }
    let hashes = rest.iter().skip(prefix).take_while(|&&byte| byte == b'#').count();
    let body = prefix + hashes + 1;
    if rest.get(body - 1) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let found = rest.get(body..)?.windows(close.len()).position(|window| window == close);
    Some(found.map_or(rest.len(), |found| body + found + close.len()))
}

/// Length of a character literal at `rest`; `None` for a lifetime.
fn char_bytes(rest: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(rest.get(1..rest.len().min(6))?);
    let valid = match &text {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(rest.get(1..1 + error.valid_up_to())?).ok()?,
    };
    let width = valid.chars().next()?.len_utf8();
    (rest.get(1 + width) == Some(&b'\'')).then_some(2 + width)
}

#[cfg(test)]
mod tests;
