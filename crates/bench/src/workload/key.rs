//! Keys made of key numbers.

use crate::distribution::fnv_hash_64;

/// Shortest key that [`KeyStyle::Fixed`] can make: the number itself.
pub const DB_BENCH_KEY_BYTES_MIN: usize = 8;

/// How a key number becomes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStyle {
    /// YCSB's: `user` and the number in decimal, padded with zeros.
    User {
        /// Least number of digits; 20 makes every key 24 bytes long.
        digits: usize,
        /// Whether the number itself is written (keys in insertion order) or its hash.
        ordered: bool,
    },
    /// db_bench's: the number as eight bytes, most significant first, padded with `0` characters.
    Fixed {
        /// Length of every key.
        bytes: usize,
    },
}

impl KeyStyle {
    /// Writes the key of `number` into `out`, which is cleared first.
    #[inline]
    pub fn write(self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        match self {
            KeyStyle::User { digits, ordered } => {
                let shown = if ordered { number } else { fnv_hash_64(number) };
                out.extend_from_slice(b"user");
                write_decimal(shown, digits, out);
            }
            KeyStyle::Fixed { bytes } => {
                out.extend_from_slice(&number.to_be_bytes());
                out.resize(bytes, b'0');
            }
        }
    }

    /// Length of the keys, exact unless YCSB keys are padded to fewer than 19 digits.
    pub fn key_bytes(self) -> usize {
        match self {
            KeyStyle::User { digits, ordered: true } => 4 + digits,
            KeyStyle::User { digits, ordered: false } => 4 + digits.max(19),
            KeyStyle::Fixed { bytes } => bytes,
        }
    }
}

#[inline]
fn write_decimal(number: u64, digits: usize, out: &mut Vec<u8>) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    let mut rest = number;
    while rest > 0 || at == text.len() {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let shown = text.len() - at;
    out.resize(out.len() + digits.saturating_sub(shown), b'0');
    out.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(style: KeyStyle, number: u64) -> String {
        let mut out = b"left over".to_vec();
        style.write(number, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn ycsb_keys_are_those_of_ycsb() {
        let bare = KeyStyle::User { digits: 1, ordered: false };
        assert_eq!(key(bare, 0), "user6284781860667377211");
        assert_eq!(key(bare, 1), "user8517097267634966620");
        let padded = KeyStyle::User { digits: 20, ordered: false };
        assert_eq!(key(padded, 2), "user01820151046732198393");
        assert_eq!(padded.key_bytes(), 24);
        assert_eq!(key(KeyStyle::User { digits: 6, ordered: true }, 42), "user000042");
        assert_eq!(key(KeyStyle::User { digits: 1, ordered: true }, 0), "user0");
    }

    #[test]
    fn fixed_keys_sort_as_their_numbers() {
        let style = KeyStyle::Fixed { bytes: 16 };
        let (mut low, mut high) = (Vec::new(), Vec::new());
        style.write(255, &mut low);
        style.write(256, &mut high);
        assert_eq!(low.len(), 16);
        assert!(low < high);
        assert_eq!(&low[8..], b"00000000");
    }
}
