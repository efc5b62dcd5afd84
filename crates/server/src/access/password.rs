//! Passwords, known only by their SHA-256.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;

/// What is kept of a password: its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    /// The digest of `password`.
    pub(crate) fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// The digest written as 64 lower case hexadecimal digits; `None` if it is not.
    pub(crate) fn from_hex(digits: &[u8]) -> Option<Self> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; DIGEST_BYTES];
        let (pairs, []) = digits.as_chunks::<2>() else { return None };
        if pairs.len() != DIGEST_BYTES {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = value(*high)? << 4 | value(*low)?;
        }
        Some(Self(bytes))
    }

    /// 64 lower case hexadecimal digits.
    pub(crate) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether they are the same, in a time that does not tell where they differ.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }
}

/// Nothing of it: logs are read by many.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}
