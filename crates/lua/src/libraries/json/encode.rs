//! Lua's values as JSON.

use mlua::{Table, Value};

use super::super::budget::Budget;
use super::super::decimal::general;
use super::super::library::{Complaint, Cost, type_name};
use super::Options;

pub(super) struct Encoder<'a> {
    pub(super) options: &'a Options,
    pub(super) budget: &'a Budget,
    pub(super) out: Vec<u8>,
    pub(super) cost: Cost<'a>,
}

impl Encoder<'_> {
    pub(super) fn value(&mut self, value: &Value, depth: usize) -> Result<(), Complaint> {
        self.cost.check(value)?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.text(&text.as_bytes())?,
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(refused(other, "type not supported")),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), Complaint> {
        if !number.is_finite() && !self.options.encode_invalid.get() {
            return Err(Complaint("Cannot serialise number: must not be NaN or Inf".into()));
        }
        self.out.extend_from_slice(general(number, self.options.digits.get()).as_bytes());
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> Result<(), Complaint> {
        // What is counted already is what the text has without escapes.
        self.cost.spend(text.iter().map(|byte| escaped_len(*byte) - 1).sum())?;
        self.out.push(b'"');
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| escaped_len(*byte) > 1) {
            self.out.extend_from_slice(&rest[..at]);
            self.escape(rest[at]);
            rest = &rest[at + 1..];
        }
        self.out.extend_from_slice(rest);
        self.out.push(b'"');
        Ok(())
    }

    fn escape(&mut self, byte: u8) {
        let sign = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            12 => b'f',
            _ => {
                let digit = |number: u8| b"0123456789abcdef"[usize::from(number & 15)];
                self.out.extend_from_slice(b"\\u00");
                return self.out.extend_from_slice(&[digit(byte >> 4), digit(byte)]);
            }
        };
        self.out.extend_from_slice(&[b'\\', sign]);
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), Complaint> {
        self.budget.check_stack()?;
        if depth > self.options.encode_depth_max.get() {
            return Err(Complaint(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len(table)? {
            Some(len) => self.array(table, len, depth),
            None => self.object(table, depth),
        }
    }

    fn array(&mut self, table: &Table, len: usize, depth: usize) -> Result<(), Complaint> {
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get::<Value>(index)?, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: usize) -> Result<(), Complaint> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::replace(&mut is_first, false) {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.text(&text.as_bytes())?,
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                other => return Err(refused(other, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    /// The highest index of a table that is an array: it has elements, and all its keys are whole
    /// numbers above 0.
    fn array_len(&self, table: &Table) -> Result<Option<usize>, Complaint> {
        let (mut highest, mut count) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            let index = match pair?.0 {
                Value::Integer(index) if index > 0 => index as usize,
                Value::Number(index) if index > 0.0 && index.fract() == 0.0 => index as usize,
                _ => return Ok(None),
            };
            highest = highest.max(index);
            count += 1;
        }
        let (converts, ratio, safe) = self.options.sparse.get();
        if ratio > 0 && highest > count * ratio && highest > safe {
            if !converts {
                return Err(Complaint("Cannot serialise table: excessively sparse array".into()));
            }
            return Ok(None);
        }
        Ok((highest > 0).then_some(highest))
    }
}

fn refused(value: &Value, why: &str) -> Complaint {
    Complaint(format!("Cannot serialise {}: {why}", type_name(value)))
}

/// How many bytes stand for `byte`.
fn escaped_len(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'/' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..32 | 127 => 6,
        _ => 1,
    }
}
