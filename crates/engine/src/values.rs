//! Values of several keys, in one buffer.

use std::ops::Range;

use crate::expiries::Expiries;

/// Values found by `multi_get`, in the order of the keys, in one buffer that is reused.
#[derive(Clone, Debug, Default)]
pub struct Values {
    bytes: Vec<u8>,
    found: Vec<Option<Range<usize>>>,
    /// Indexes of keys of which an expired value is stored, in order.
    expired: Vec<usize>,
    expiries: Expiries,
    bytes_max: Option<usize>,
}

impl Values {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// No values, and full once they have `bytes_max` bytes: reads stop there, after one key at
    /// least.
    pub fn with_bytes_max(bytes_max: usize) -> Self {
        Self { bytes_max: Some(bytes_max), ..Self::default() }
    }

    /// Whether there are as many bytes as were wanted at most. For engines.
    pub fn is_full(&self) -> bool {
        self.bytes_max.is_some_and(|bytes_max| self.bytes.len() >= bytes_max)
    }

    /// The value of the key at `index`; `None` if it has none or `index` is past the keys asked
    /// for.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.found.get(index)?.clone().map(|range| &self.bytes[range])
    }

    /// When the value of the key at `index` expires, in milliseconds since the Unix epoch; 0 =
    /// never, or there is none. A value that operands were merged into says 0.
    pub fn expires_at_ms(&self, index: usize) -> u64 {
        self.expiries.get(index)
    }

    /// Whether a value of the key at `index` is stored, a live or an expired one, as for
    /// [`Session::is_stored`](crate::Session::is_stored).
    pub fn is_stored(&self, index: usize) -> bool {
        self.get(index).is_some() || self.expired.binary_search(&index).is_ok()
    }

    /// How many keys were asked for; fewer if these are [full](Self::is_full), and then of the
    /// first ones.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no key was asked for.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Values in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.found.iter().map(|range| range.clone().map(|range| &self.bytes[range]))
    }

    /// Forgets the values and keeps the memory. For engines.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.found.clear();
        self.expired.clear();
        self.expiries.truncate(0);
    }

    /// Adds the next key's value. For engines.
    pub fn push(&mut self, value: Option<&[u8]>) {
        let start = self.bytes.len();
        self.found.push(value.map(|value| {
            self.bytes.extend_from_slice(value);
            start..self.bytes.len()
        }));
    }

    /// Adds the next key's value, which expires then; 0 = never. For engines.
    pub fn push_until(&mut self, value: &[u8], expires_at_ms: u64) {
        self.expiries.note(self.found.len(), expires_at_ms);
        self.push(Some(value));
    }

    /// Adds the next key, whose value has expired and is stored. For engines.
    pub fn push_expired(&mut self) {
        self.expired.push(self.found.len());
        self.found.push(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_what_is_stored_and_forget_it() {
        let mut values = Values::new();
        values.push(None);
        values.push_expired();
        values.push(Some(b""));
        values.push_expired();
        let stored = |values: &Values| (0..5).map(|index| values.is_stored(index)).collect::<Vec<_>>();
        assert_eq!(stored(&values), [false, true, true, true, false]);
        assert_eq!(values.iter().collect::<Vec<_>>(), [None, None, Some(&b""[..]), None]);
        values.clear();
        values.push(None);
        values.push(None);
        assert_eq!(stored(&values), [false; 5]);
    }
}
