//! The checksums of the format: crc32c for the log, xxh3 for everything else.
//!
//! A frame's checksum is salted with its position. So a frame of an earlier use of the same file
//! never passes for one of this use. Frozen: changing any function here changes the format.

use crate::key::Position;

/// crc32c (Castagnoli polynomial, as in iSCSI) of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// xxh3, 64 bits, seed 0.
#[inline]
pub fn xxh3(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// xxh3, 64 bits, seed 0, of bytes that come in pieces.
#[derive(Clone, Default)]
pub struct Hasher(xxhash_rust::xxh3::Xxh3Default);

impl Hasher {
    /// Of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// [`xxh3`] of all of them.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hasher").finish()
    }
}

/// xxh3, 64 bits, of `bytes` with the xxh3 of `head` as seed: one checksum over two pieces.
#[inline]
pub fn xxh3_of_two(head: &[u8], bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, xxh3(head))
}

/// The checksum of a frame of `frame_bytes` bytes at `position` in a log of `generation`.
///
/// `body` is the frame without its first 8 bytes. crc32c of the body, exclusive-or a mix of the
/// three numbers. So the length, which lies outside the body, is covered too.
#[inline]
pub fn frame_checksum(body: &[u8], frame_bytes: u32, position: Position, generation: u64) -> u32 {
    crc32c(body) ^ frame_salt(frame_bytes, position, generation)
}

/// 32 bits in which every bit of the three numbers has a say.
#[inline]
fn frame_salt(frame_bytes: u32, position: Position, generation: u64) -> u32 {
    let word = mix(position.0 ^ mix(generation ^ mix(u64::from(frame_bytes))));
    (word >> 32) as u32
}

/// A bijection of 64-bit numbers that spreads each bit over all (the finalizer of SplitMix64).
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // RFC 3720 B.4: 32 zero bytes, 32 bytes of ones, 0..32 ascending; and the customary check
        // string.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
    }

    #[test]
    fn each_number_of_the_salt_matters() {
        let body = [7; 24];
        let here = frame_checksum(&body, 32, Position(4096), 1);
        assert_ne!(here, frame_checksum(&body, 40, Position(4096), 1));
        assert_ne!(here, frame_checksum(&body, 32, Position(4104), 1));
        assert_ne!(here, frame_checksum(&body, 32, Position(4096), 2));
        assert_ne!(here, frame_checksum(&[8; 24], 32, Position(4096), 1));
    }

    #[test]
    fn two_pieces_are_both_covered() {
        let whole = xxh3_of_two(b"head", b"tail");
        assert_ne!(whole, xxh3_of_two(b"heaD", b"tail"));
        assert_ne!(whole, xxh3_of_two(b"head", b"taiL"));
    }
}
