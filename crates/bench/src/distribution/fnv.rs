//! The hash that scatters key numbers over the key space.

const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 1_099_511_628_211;

/// FNV-1a over the eight bytes of `number`, least significant first, made non-negative as YCSB
/// does.
#[inline]
pub fn fnv_hash_64(number: u64) -> u64 {
    let mut hash = OFFSET_BASIS;
    let mut rest = number;
    for _ in 0..8 {
        hash = (hash ^ (rest & 0xFF)).wrapping_mul(PRIME);
        rest >>= 8;
    }
    hash.cast_signed().unsigned_abs()
}
