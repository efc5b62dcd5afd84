//! The hash by which jobs show that they lost nothing.

use std::fmt;

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128, xxh3_128_with_seed};

use crate::key::{Entry, Trailer};

/// 128 bits over key, sequence, kind, expiry and value; where the entry lies has no say. Frozen.
///
/// `xxh3-128(key hash | value hash | expires_at_ms)`, 32 bytes little-endian, where the key hash is
/// xxh3-128 of the key with the trailer word as seed and the value hash xxh3-64. A table's content
/// hash is the sum of its entries' hashes and of its range tombstones'
/// ([`crate::tombstone::FragmentList::content_hash`]) mod 2^128.
#[inline]
pub fn entry_hash(entry: &Entry<'_>) -> u128 {
    let key = xxh3_128_with_seed(entry.key, Trailer::new(entry.sequence, entry.kind).0);
    let value = u128::from(xxh3_64(entry.value));
    let tail = value << 64 | u128::from(entry.expires_at_ms);
    let mut words = [0; 32];
    let (low, high) = words.split_at_mut(16);
    low.copy_from_slice(&key.to_le_bytes());
    high.copy_from_slice(&tail.to_le_bytes());
    xxh3_128(&words)
}

/// The checksum of a whole file, taken piece by piece: xxh3-64, seed 0.
#[derive(Clone, Default)]
pub struct FileChecksum(Box<Xxh3>);

impl FileChecksum {
    /// Takes in the file's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of what was taken in so far.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

impl fmt::Debug for FileChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileChecksum({:#018x})", self.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Sequence};

    #[test]
    fn every_field_matters_and_the_value_is_frozen() {
        let entry =
            Entry { key: b"key", sequence: Sequence(7), kind: Kind::Put, expires_at_ms: 9, value: b"value" };
        let base = entry_hash(&entry);
        assert_eq!(base, 28_189_165_018_348_449_017_021_409_010_985_442_933);
        for other in [
            Entry { key: b"kex", ..entry },
            Entry { sequence: Sequence(8), ..entry },
            Entry { kind: Kind::Merge, ..entry },
            Entry { expires_at_ms: 0, ..entry },
            Entry { value: b"", ..entry },
        ] {
            assert_ne!(entry_hash(&other), base, "{other:?}");
        }
    }
}
