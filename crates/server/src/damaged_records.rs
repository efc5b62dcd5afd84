//! Records that background work came upon, could not read and passed over: each is counted and told
//! once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::bounds::DAMAGED_RECORDS_MAX;

/// The damaged records of a server that are known.
#[derive(Debug, Default)]
pub(crate) struct DamagedRecords {
    /// The keyspace's name, and the engine's key.
    known: Mutex<HashSet<(&'static str, Vec<u8>)>>,
}

impl DamagedRecords {
    /// The record at the engine's key `key` cannot be read; whether that is news. Of more than
    /// [`DAMAGED_RECORDS_MAX`] none is.
    pub(crate) fn note(&self, keyspace: &'static str, key: &[u8]) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < DAMAGED_RECORDS_MAX && known.insert((keyspace, key.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_and_so_many_at_most() {
        let damaged = DamagedRecords::default();
        assert!(damaged.note("expiry", b"a"));
        assert!(!damaged.note("expiry", b"a"));
        assert!(damaged.note("purges", b"a"));
        let reported =
            (0..2 * DAMAGED_RECORDS_MAX).filter(|number| damaged.note("keys", &number.to_be_bytes()));
        assert_eq!(reported.count(), DAMAGED_RECORDS_MAX - 2);
    }
}
