//! Rows of a scan whose values beside the tree were asked for and are not there yet: the device fetches several at once.

use firn_engine::{Result, ScanBatch};
use firn_format::value::Reference;

/// Rows in their order, from the first whose value was asked for.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    rows: Vec<Row>,
    /// Bytes of their keys and values.
    bytes: usize,
}

#[derive(Debug)]
struct Row {
    key: Vec<u8>,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Here(Vec<u8>),
    /// What refers to it.
    Beside(Vec<u8>),
}

/// Values asked for before the first of them is read.
const ROWS_MAX: usize = 32;
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

    /// Adds a row whose value is here.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes += key.len() + value.len();
        self.rows.push(Row { key: key.to_vec(), value: Value::Here(value.to_vec()) });
    }

    /// Adds a row whose value was asked for.
    pub(crate) fn push_asked(&mut self, key: &[u8], reference: &[u8]) {
        // What is no reference is found out when it is followed.
        let value_bytes = Reference::decode(reference).map_or(0, |reference| reference.value_bytes);
        self.bytes += key.len() + value_bytes as usize;
        self.rows.push(Row { key: key.to_vec(), value: Value::Beside(reference.to_vec()) });
    }

    /// Gives all rows to `out`; `read` appends the value that a reference of a key of so many bytes leads to.
    ///
    /// # Errors
    /// What `read` says; the rest is forgotten then.
    pub(crate) fn give_all(
        &mut self,
        out: &mut ScanBatch,
        mut read: impl FnMut(&[u8], usize, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.bytes = 0;
        let mut found = Vec::new();
        for Row { key, value } in self.rows.drain(..) {
            match value {
                Value::Here(value) => out.push(&key, &value),
                Value::Beside(reference) => {
                    found.clear();
                    read(&reference, key.len(), &mut found)?;
                    out.push(&key, &found);
                }
            }
        }
        Ok(())
    }
}
