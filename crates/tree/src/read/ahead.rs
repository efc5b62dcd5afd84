//! Rows of a scan, or of several keys that are read together, whose separated values were
//! asked for and are not there yet. The device fetches several at once, and so does the processor
//! what lies in memory.

use std::ops::Range;

use firn_engine::{Result, Values};
use firn_format::blob::Reference;
use firn_storage::backend::ASKED_MAX;

use super::Found;

/// Rows in their order, from the first whose value was asked for.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    rows: Vec<Row>,
    /// Their keys, values and references.
    data: Vec<u8>,
    /// Bytes of their keys and values, values that are not here included.
    bytes: usize,
}

/// Where a row's parts are in the data.
#[derive(Debug)]
struct Row {
    key: Range<usize>,
    value: Value,
    /// When the value expires; 0 = never.
    expires_at_ms: u64,
}

#[derive(Debug)]
enum Value {
    /// The key has no value.
    Absent,
    /// The key has no value: it has expired.
    Expired,
    Here(Range<usize>),
    /// What refers to it.
    Beside(Range<usize>),
}

/// What a key is found to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'v> {
    /// No value.
    Absent,
    /// No value: it has expired.
    Expired,
    /// A value, and when it expires; 0 = never.
    Value(&'v [u8], u64),
}

impl Given<'_> {
    /// Adds it as the next key's.
    pub(crate) fn add_to(self, out: &mut Values) {
        match self {
            Given::Absent => out.push(None),
            Given::Expired => out.push_expired(),
            Given::Value(value, expires_at_ms) => out.push_until(value, expires_at_ms),
        }
    }
}

/// Values asked for before the first of them is read: all of them may lie in one file.
const ROWS_MAX: usize = ASKED_MAX;
/// And their bytes.
const BYTES_MAX: usize = 1 << 20;

impl Ahead {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is time to read.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_MAX || self.bytes >= BYTES_MAX
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.data.len();
        self.data.extend_from_slice(bytes);
        start..self.data.len()
    }

    /// Adds a row whose value is here, or of a key that has none.
    pub(crate) fn push(&mut self, key: &[u8], given: Given<'_>) {
        self.bytes += key.len();
        let key = self.keep(key);
        let (value, expires_at_ms) = match given {
            Given::Absent => (Value::Absent, 0),
            Given::Expired => (Value::Expired, 0),
            Given::Value(value, expires_at_ms) => {
                self.bytes += value.len();
                (Value::Here(self.keep(value)), expires_at_ms)
            }
        };
        self.rows.push(Row { key, value, expires_at_ms });
    }

    /// Adds a row whose value was asked for, and expires then.
    pub(crate) fn push_asked(&mut self, key: &[u8], reference: &[u8], expires_at_ms: u64) {
        // What is no reference is found out when it is followed.
        let value_bytes = Reference::decode(reference).map_or(0, |reference| reference.value_bytes);
        self.bytes += key.len() + value_bytes as usize;
        let key = self.keep(key);
        let value = Value::Beside(self.keep(reference));
        self.rows.push(Row { key, value, expires_at_ms });
    }

    /// Takes what a lookup has found of `key`, its value or its reference in `value`. Rows before
    /// everything that was asked for go to `out`.
    pub(crate) fn take(&mut self, found: Found, key: &[u8], value: &[u8], out: &mut Values) {
        let given = match found {
            Found::Asked { expires_at_ms, .. } => return self.push_asked(key, value, expires_at_ms),
            Found::Value { expires_at_ms, .. } => Given::Value(value, expires_at_ms),
            Found::Absent { is_stored: true, .. } => Given::Expired,
            Found::Absent { .. } | Found::Miss => Given::Absent,
        };
        match self.is_empty() {
            true => given.add_to(out),
            false => self.push(key, given),
        }
    }

    /// Gives all rows to `give`: keys, and what they have. `read` appends the value that a
    /// reference of a key of so many bytes leads to. It answers `false` if that would be to wait
    /// for the device: the rest is forgotten then, and the answer is `false`.
    ///
    /// # Errors
    /// What `read` fails with; the rest is forgotten then, too.
    pub(crate) fn give_all(
        &mut self,
        mut read: impl FnMut(&[u8], usize, &mut Vec<u8>) -> Result<bool>,
        mut give: impl FnMut(&[u8], Given<'_>),
    ) -> Result<bool> {
        self.bytes = 0;
        let mut data = std::mem::take(&mut self.data);
        let part = |range: Range<usize>| data.get(range).unwrap_or_default();
        let (mut found, mut is_all) = (Vec::new(), true);
        for Row { key, value, expires_at_ms } in self.rows.drain(..) {
            let key = part(key);
            match value {
                Value::Absent => give(key, Given::Absent),
                Value::Expired => give(key, Given::Expired),
                Value::Here(value) => give(key, Given::Value(part(value), expires_at_ms)),
                Value::Beside(reference) => {
                    found.clear();
                    is_all = read(part(reference), key.len(), &mut found)?;
                    if !is_all {
                        break;
                    }
                    give(key, Given::Value(&found, expires_at_ms));
                }
            }
        }
        data.clear();
        self.data = data;
        Ok(is_all)
    }
}
