//! What a table's filters will be built of.

use super::TableForm;
use crate::filter::filter_hash;

/// Hashes of a table's keys and of their prefixes.
#[derive(Debug, Default)]
pub(super) struct FilterHashes {
    pub(super) of_keys: Vec<u32>,
    pub(super) of_prefixes: Vec<u32>,
}

impl FilterHashes {
    /// Adds the next key, and its prefix where `form` has an extractor that finds one.
    pub(super) fn add(&mut self, key: &[u8], form: &TableForm) {
        self.of_keys.push(filter_hash(key));
        let Some((_, prefix_bytes)) = &form.prefix else { return };
        if let Some(prefix) = prefix_bytes(key).and_then(|bytes| key.get(..bytes)) {
            let hash = filter_hash(prefix);
            if self.of_prefixes.last() != Some(&hash) {
                self.of_prefixes.push(hash);
            }
        }
    }

    /// How many of both.
    pub(super) fn len(&self) -> usize {
        self.of_keys.len() + self.of_prefixes.len()
    }
}
