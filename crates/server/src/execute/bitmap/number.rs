//! Integers of any width among the bits of a string.

/// What a number becomes that its width cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// Its lowest bits.
    Wrap,
    /// The greatest or least that can be held.
    Saturate,
    /// Nothing: it is not written.
    Fail,
}

/// How many bits a number has, and whether one of them is its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) bits: u32,
    is_signed: bool,
}

/// Bytes in which a number of 64 bits can lie.
pub(super) const SPAN_BYTES: usize = 9;

impl Width {
    /// `i1` to `i64`, `u1` to `u63`.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (first, digits) = text.split_first()?;
        let (is_signed, bits_max) = match first {
            b'i' => (true, 64),
            b'u' => (false, 63),
            _ => return None,
        };
        let bits = firn_protocol::number::parse_integer(digits)?;
        (1..=bits_max).contains(&bits).then_some(Self { bits: bits as u32, is_signed })
    }

    fn bounds(self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// The number that lies in `bytes` from the bit `skip` of the first one on.
    pub(super) fn read(self, bytes: &[u8; SPAN_BYTES], skip: u32) -> i64 {
        let raw = self.raw(bytes, skip);
        let above = 64 - self.bits;
        match self.is_signed {
            true => (raw << above) as i64 >> above,
            false => raw as i64,
        }
    }

    fn raw(self, bytes: &[u8; SPAN_BYTES], skip: u32) -> u64 {
        (word(bytes) >> self.shift(skip)) as u64 & self.mask()
    }

    fn shift(self, skip: u32) -> u32 {
        8 * SPAN_BYTES as u32 - skip - self.bits
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Puts `number`, which can be held, where [`read`](Self::read) finds it.
    pub(super) fn write(self, bytes: &mut [u8; SPAN_BYTES], skip: u32, number: i64) {
        let shift = self.shift(skip);
        let mask = u128::from(self.mask()) << shift;
        let number = u128::from(number as u64 & self.mask()) << shift;
        let new = (word(bytes) & !mask | number).to_be_bytes();
        bytes.copy_from_slice(&new[16 - SPAN_BYTES..]);
    }

    /// What `number` becomes; `None` if it is not written.
    pub(super) fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (least, greatest) = self.bounds();
        if (least..=greatest).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(number.clamp(least, greatest) as i64),
            Overflow::Wrap => {
                let above = 64 - self.bits;
                let low = (number as u64) << above;
                Some(if self.is_signed { low as i64 >> above } else { (low >> above) as i64 })
            }
        }
    }

    /// The number that a client means by `number`: below 0 there is nothing without a sign, it is
    /// very great then.
    pub(super) fn meant(self, number: i64) -> i128 {
        if self.is_signed { i128::from(number) } else { i128::from(number as u64) }
    }
}

fn word(bytes: &[u8; SPAN_BYTES]) -> u128 {
    bytes.iter().fold(0, |word, byte| word << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(text: &str) -> Width {
        Width::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn widths_have_limits() {
        for text in ["", "i", "i0", "u0", "u64", "i65", "x8", "i-1", "u08", "8"] {
            assert_eq!(Width::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else_changes() {
        for bits in 1..=63 {
            for skip in 0..8 {
                for is_signed in [true, false] {
                    let width = Width { bits, is_signed };
                    let (least, greatest) = width.bounds();
                    for number in [least as i64, greatest as i64, 0, 1 & greatest as i64] {
                        for background in [0x00, 0xFF, 0xA5] {
                            let mut bytes = [background; SPAN_BYTES];
                            width.write(&mut bytes, skip, number);
                            assert_eq!(width.read(&bytes, skip), number, "{width:?} at {skip}");
                            let old = width.read(&[background; SPAN_BYTES], skip);
                            width.write(&mut bytes, skip, old);
                            assert_eq!(bytes, [background; SPAN_BYTES], "{width:?} at {skip}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_goes_one_of_three_ways() {
        let cases = [
            ("u8", 256, Some(0), Some(255)),
            ("u8", -1, Some(255), Some(0)),
            ("i8", 128, Some(-128), Some(127)),
            ("i8", -129, Some(127), Some(-128)),
            ("i64", 1 << 63, Some(i64::MIN), Some(i64::MAX)),
            ("u1", 3, Some(1), Some(1)),
        ];
        for (text, number, wrapped, saturated) in cases {
            assert_eq!(width(text).fit(number, Overflow::Wrap), wrapped, "{text} {number}");
            assert_eq!(width(text).fit(number, Overflow::Saturate), saturated, "{text} {number}");
            assert_eq!(width(text).fit(number, Overflow::Fail), None, "{text} {number}");
        }
        assert_eq!(width("u8").fit(255, Overflow::Fail), Some(255));
    }
}
