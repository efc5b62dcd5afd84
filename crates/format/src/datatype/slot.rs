//! Which slot a key belongs to: the function of Redis Cluster.
//!
//! ```text
//! slot = crc16(tag) mod 16384
//! crc16  XMODEM: polynomial 0x1021, initial value 0, bits not reflected, nothing xored at the end
//! tag    the bytes between the first '{' and the first '}' after it, if there is at least one; else the whole key
//! ```
//! Frozen under the name [`SLOT_FUNCTION`]: keys of a database begin with it, so a database keeps
//! its function. Source: Redis Cluster specification, "Key distribution model" and "Hash tags".

/// How many slots there are.
pub const SLOT_COUNT: u16 = 16384;

/// Name of the function [`Slot::of`], as a database's catalog has it.
pub const SLOT_FUNCTION: &str = "crc16-xmodem-mod-16384-tags";

/// The generator of the checksum, without its highest term.
const POLYNOMIAL: u16 = 0x1021;

/// The checksums of each byte, with 0 to 7 zeros behind it.
const TABLES: [[u16; 256]; 8] = tables();

/// One of the [`SLOT_COUNT`] units of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The last slot.
    pub const MAX: Self = Self(SLOT_COUNT - 1);

    /// Slot `number`; `None` from [`SLOT_COUNT`] on.
    pub const fn new(number: u16) -> Option<Self> {
        if number < SLOT_COUNT { Some(Self(number)) } else { None }
    }

    /// The slot of a user's key. One table look-up a byte of the key or its tag, eight at a time:
    /// 16 bytes take 8 ns.
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        Self(crc16(hash_tag(key)) % SLOT_COUNT)
    }

    /// Its number, below [`SLOT_COUNT`].
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// The part of `key` that decides on its slot: keys with equal parts belong together.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    tag_in_braces(key).unwrap_or(key)
}

fn tag_in_braces(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let inside = key.get(open + 1..)?;
    let close = inside.iter().position(|&byte| byte == b'}')?;
    inside.get(..close).filter(|tag| !tag.is_empty())
}

/// The checksum of `bytes`: eight of them at a time, each by a table for what follows it.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let by = |table: &[u16; 256], byte: u8| table.get(usize::from(byte)).copied().unwrap_or_default();
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &TABLES;
    let crc = eights.iter().fold(0_u16, |crc, &[a, b, c, d, e, f, g, h]| {
        let [high, low] = crc.to_be_bytes();
        by(t7, a ^ high)
            ^ by(t6, b ^ low)
            ^ by(t5, c)
            ^ by(t4, d)
            ^ by(t3, e)
            ^ by(t2, f)
            ^ by(t1, g)
            ^ by(t0, h)
    });
    rest.iter().fold(crc, |crc, &byte| {
        let [high, _] = crc.to_be_bytes();
        crc << 8 ^ by(t0, high ^ byte)
    })
}

/// The checksums of each byte with so many zeros behind it.
const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut places: &mut [[u16; 256]] = &mut tables;
    let mut zeros = 0;
    while let [table, rest @ ..] = places {
        *table = table_before(zeros);
        zeros += 1;
        places = rest;
    }
    tables
}

/// The checksums of each byte with so many `zeros` behind it.
const fn table_before(zeros: u16) -> [u16; 256] {
    let mut table = [0; 256];
    let mut places: &mut [u16] = &mut table;
    let mut byte = 0;
    while let [place, rest @ ..] = places {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 * (zeros + 1) {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ POLYNOMIAL };
            bit += 1;
        }
        *place = crc;
        byte += 1;
        places = rest;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum bit by bit.
    fn crc16_by_bits(bytes: &[u8]) -> u16 {
        let mut crc = 0_u16;
        for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
            let carry = crc >> 15 ^ u16::from(bit);
            crc = (crc << 1) ^ (carry * POLYNOMIAL);
        }
        crc
    }

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [("", 0), ("123456789", 12739), ("foo", 12182), ("bar", 5061), ("hello", 866)] {
            assert_eq!(Slot::of(key.as_bytes()).number(), slot, "{key}");
        }
    }

    #[test]
    fn the_table_agrees_with_the_definition() {
        let text: Vec<u8> = (0..=255).collect();
        for start in 0..text.len() {
            // With and without a rest that is shorter than what is looked up together.
            for length in [1, 7, 8, 16, 19] {
                let bytes = &text[start..text.len().min(start + length)];
                assert_eq!(crc16(bytes), crc16_by_bits(bytes), "{bytes:02x?}");
            }
        }
    }

    #[test]
    fn tags_are_those_of_redis_cluster() {
        for (key, tag) in [
            ("{user1000}.following", "user1000"),
            ("{user1000}.followers", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("foo}bar{", "foo}bar{"),
            ("}{a}", "a"),
            ("{}", "{}"),
            ("{", "{"),
            ("", ""),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
            assert_eq!(Slot::of(key.as_bytes()).number(), crc16_by_bits(tag.as_bytes()) % 16384, "{key}");
        }
    }

    #[test]
    fn there_are_no_more_slots() {
        assert_eq!(Slot::new(16383), Some(Slot::MAX));
        assert_eq!(Slot::new(16384), None);
    }
}
