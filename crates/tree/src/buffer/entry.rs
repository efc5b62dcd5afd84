//! A record as memtables and runs hold it: its place in the order of keys and its position in the
//! log.

use firn_format::Position;
use firn_format::key::{Sequence, Trailer, key_prefix};

/// A reference to a record: 16 bytes that order it among others, mostly without a look at the
/// record itself.
///
/// 1. `prefix` is [`prefix_word`] of the record's key and of the common prefix its holder names. So
///    of two entries of one holder the one with the smaller word has the smaller key. Equal words
///    decide nothing.
/// 2. The trailer's sequence names the record's position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RunEntry {
    /// 8 bytes of the key after the holder's common prefix, big-endian.
    pub(crate) prefix: u64,
    /// Sequence and kind.
    pub(crate) trailer: Trailer,
}

impl RunEntry {
    /// Where the record lies in the log.
    #[inline]
    pub(crate) fn position(&self) -> Position {
        self.trailer.sequence().position()
    }

    /// When the record was written.
    #[inline]
    pub(crate) fn sequence(&self) -> Sequence {
        self.trailer.sequence()
    }
}

/// A word that orders `key` among keys most of which begin with `common`: the 8 bytes after it,
/// zero-filled.
///
/// Keys that do not begin with `common` are clamped: 0 if smaller than all that do, `u64::MAX` if
/// greater. So `prefix_word(a) < prefix_word(b)` implies `a < b`, and equal words imply nothing.
#[inline]
pub(crate) fn prefix_word(key: &[u8], common: &[u8]) -> u64 {
    // Asked first: comparing no bytes can take a C library as long as a miss of all caches.
    if common.is_empty() || key.starts_with(common) {
        key_prefix(key, common.len())
    } else if key < common {
        0
    } else {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_never_contradict_keys() {
        let keys: Vec<&[u8]> = vec![
            b"",
            b"\0",
            b"a",
            b"ab",
            b"ab\0",
            b"ab\0\0",
            b"abc",
            b"abc01234",
            b"abc012345",
            b"abc\xff\xff\xff\xff\xff\xff\xff\xff",
            b"abd",
            b"b",
            b"\xff",
        ];
        for common in &keys {
            for a in &keys {
                for b in &keys {
                    let (word_a, word_b) = (prefix_word(a, common), prefix_word(b, common));
                    assert!(word_a >= word_b || a < b, "{a:?} {b:?} after {common:?}");
                }
            }
        }
        assert_eq!(prefix_word(b"abc01234", b"ab"), u64::from_be_bytes(*b"c01234\0\0"));
    }

    #[test]
    fn an_entry_takes_16_bytes_and_names_its_position() {
        assert_eq!(size_of::<RunEntry>(), 16);
        let trailer = Trailer::new(Position(4096).sequence(), firn_format::Kind::Put);
        assert_eq!(RunEntry { prefix: 0, trailer }.position(), Position(4096));
    }
}
