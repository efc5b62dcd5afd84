//! Bulk ingestion: sorted records that become part of a keyspace together.

use crate::{Error, Position, Result};

/// Sorted records on their way into a keyspace ([`Ordered::ingest`](crate::Ordered::ingest)).
///
/// They are written where they are to stay, past the log and the memtable, as they come.
/// 1. No reader sees any of them before [`finish`](Self::finish), and all of them afterwards. The
///    same holds of a crash: it leaves all of them or none.
/// 2. They count as written at `finish`: newer than every write before, older than every later one.
///    A snapshot of an earlier moment shows none of them.
/// 3. Dropped without `finish`, an ingestion leaves nothing.
///
/// Everything else goes on meanwhile, writes to the same keys too. Memory does not grow with what
/// is ingested. Every call may block on the device.
pub trait Ingestion: Send {
    /// Adds the record of `key`, which is greater than all keys before it. It counts as deleted
    /// from `expires_at_ms` (milliseconds since the Unix epoch) on; 0 = never.
    ///
    /// # Errors
    /// - `Invalid` for a key that is not greater than the one before, or beyond its limit, a value
    ///   beyond its limit, or a dropped keyspace: nothing is added, and the ingestion goes on.
    /// - `Retry` when the disk is full, `Closed` after `close`, and others of writing: each later
    ///   call fails with the same, so that the ingestion can only be dropped.
    fn put(&mut self, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()>;

    /// Makes all records visible, durable at `Disk` or where the database's tables lie. Answers the
    /// position after them. Without records it does nothing, and answers the position read at.
    ///
    /// What the keyspace's buffer holds among their keys is flushed first. Other writes are
    /// acknowledged only once the edit is durable that names the new files: for one or two syncs.
    ///
    /// # Errors
    /// Nothing is ingested then:
    /// - `Conflict` where other writers wrote among the keys each time that this was tried.
    /// - `Invalid` if the keyspace was dropped.
    /// - As [`Session::write`](crate::Session::write) else.
    fn finish(self: Box<Self>) -> Result<Position>;
}

/// Keys that have to rise: for engines, which are told keys of an ingestion.
#[derive(Debug, Default)]
pub struct RisingKeys {
    last: Option<Vec<u8>>,
}

/// Bytes of a key that an error shows.
const SHOWN_BYTES: usize = 64;

impl RisingKeys {
    /// Whether no key has come yet.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Refuses `key` unless it is greater than the last one.
    ///
    /// # Errors
    /// `Invalid`, which names both keys.
    #[inline]
    pub fn check(&self, key: &[u8]) -> Result<()> {
        match &self.last {
            Some(last) if key <= last.as_slice() => Err(refused(last, key)),
            _ => Ok(()),
        }
    }

    /// `key` is the last one from now on.
    #[inline]
    pub fn note(&mut self, key: &[u8]) {
        let last = self.last.get_or_insert_with(Vec::new);
        last.clear();
        last.extend_from_slice(key);
    }
}

#[cold]
fn refused(last: &[u8], key: &[u8]) -> Error {
    let (last_shown, shown) = (shown(last), shown(key));
    Error::invalid(match last == key {
        true => format!("the key {shown} comes twice: an ingestion takes each key once"),
        false => format!("the key {shown} comes after {last_shown}: an ingestion takes keys in rising order"),
    })
}

fn shown(key: &[u8]) -> String {
    match key.get(..SHOWN_BYTES) {
        Some(start) if key.len() > SHOWN_BYTES => {
            format!("\"{}\"... of {} bytes", start.escape_ascii(), key.len())
        }
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_does_not_rise_is_refused_with_both_keys() {
        let mut keys = RisingKeys::default();
        assert!(keys.is_empty() && keys.check(b"").is_ok());
        keys.note(b"b");
        for (key, words) in [
            (&b"a"[..], vec!["\"a\" comes after \"b\"", "rising"]),
            (b"b", vec!["\"b\" comes twice"]),
            (b"", vec!["\"\" comes after \"b\""]),
        ] {
            let message = keys.check(key).unwrap_err().to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
        assert!(keys.check(b"b\0").is_ok());
        keys.note(&[b'x'; 100]);
        let message = keys.check(&[b'x'; 99]).unwrap_err().to_string();
        let expected = format!("\"{}\"... of 99 bytes comes after", "x".repeat(64));
        assert!(message.contains(&expected), "{message}");
    }
}
