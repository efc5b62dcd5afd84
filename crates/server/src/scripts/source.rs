//! Scripts as texts.

use sha1::{Digest, Sha1};

use crate::failure::{Failure, Result};

/// The SHA-1 of a script's text.
pub(crate) type Sum = [u8; 20];

/// A script.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) sum: Sum,
    text: Vec<u8>,
    /// Where Lua begins in it.
    start: usize,
    /// It has said that it only reads.
    pub(crate) is_reading: bool,
}

impl Source {
    /// What `text` says before its first line is Lua.
    ///
    /// # Errors
    /// The first line names another language or flags that there are not.
    pub(crate) fn parse(text: &[u8]) -> Result<Self> {
        let mut source = Self { sum: sum_of(text), text: text.to_vec(), start: 0, is_reading: false };
        if !text.starts_with(b"#!") {
            return Ok(source);
        }
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
            return Err(Failure::new("ERR Invalid script shebang"));
        };
        // The line end stays, so that lines are counted right.
        source.start = end;
        let line = String::from_utf8_lossy(&text[..end]).into_owned();
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(Failure::of(format!("ERR Unexpected engine in script shebang: {engine}")));
        }
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(Failure::of(format!("ERR Unknown lua shebang option: {word}")));
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => source.is_reading = true,
                    "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    _ => return Err(Failure::of(format!("ERR Unexpected flag in script shebang: {flag}"))),
                }
            }
        }
        Ok(source)
    }

    /// Memory that keeping it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // It is named by its sum in a map, and in another by its turn.
        size_of::<Self>() + self.text.capacity() + 4 * size_of::<Sum>()
    }

    /// Its Lua.
    pub(crate) fn lua(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// The SHA-1 of `text`.
pub(crate) fn sum_of(text: &[u8]) -> Sum {
    Sha1::digest(text).into()
}

/// A sum in hexadecimal.
pub(crate) fn hexadecimal(sum: &Sum) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A sum that a client names, in any case.
pub(crate) fn parse_sum(word: &[u8]) -> Option<Sum> {
    let mut sum = Sum::default();
    if word.len() != 2 * sum.len() {
        return None;
    }
    for (byte, digits) in sum.iter_mut().zip(word.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(sum)
}
