//! What a table answered for one key.

use firn_format::key::{Sequence, Trailer};

/// Bytes of an answer in the cache before its key and value.
const HEAD_BYTES: usize = 24;

/// What a table answered for one key when asked for its newest version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CachedRecord {
    value: Box<[u8]>,
    /// `None`: the table has no version of the key.
    found: Option<(Trailer, u64)>,
}

impl CachedRecord {
    /// The newest version of a key in a table.
    pub(crate) fn found(trailer: Trailer, expires_at_ms: u64, value: &[u8]) -> Self {
        Self { value: value.into(), found: Some((trailer, expires_at_ms)) }
    }

    /// A table has no version of a key, whatever its filter says.
    pub(crate) fn absent() -> Self {
        Self { value: Box::default(), found: None }
    }

    /// Trailer and expiry of the version, if there is one.
    pub(crate) fn version(&self) -> Option<(Trailer, u64)> {
        self.found
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    /// What stands before key and value in an entry: trailer, expiry, length of the key and whether
    /// there is a version.
    pub(super) fn head(&self, key: &[u8]) -> [u8; HEAD_BYTES] {
        let (trailer, expires_at_ms) = self.found.map_or((0, 0), |(trailer, at)| (trailer.0, at));
        let last = (key.len() as u64) << 1 | u64::from(self.found.is_some());
        let mut head = [0; HEAD_BYTES];
        for (to, word) in head.as_chunks_mut::<8>().0.iter_mut().zip([trailer, expires_at_ms, last]) {
            *to = word.to_le_bytes();
        }
        head
    }

    /// The answer in `body`, if it is the answer for `key` to a reader that sees sequences below
    /// `before`.
    pub(super) fn read(body: &[u8], key: &[u8], before: Sequence) -> Option<Self> {
        let (head, rest) = body.split_first_chunk::<HEAD_BYTES>()?;
        let [trailer, expires_at_ms, last] = [0, 1, 2].map(|index| {
            head.as_chunks::<8>().0.get(index).map_or(0, |word: &[u8; 8]| u64::from_le_bytes(*word))
        });
        let (known, value) = rest.split_at_checked((last >> 1) as usize)?;
        if known != key {
            return None;
        }
        if last & 1 == 0 {
            return Some(Self::absent());
        }
        let trailer = Trailer(trailer);
        (trailer.sequence() < before).then(|| Self::found(trailer, expires_at_ms, value))
    }
}
