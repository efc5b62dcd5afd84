//! Classes of bytes, and sets of them.

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set([u64; 4]);

impl Set {
    pub(super) fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn inverted(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }
}

/// Whether `byte` is of the class that a letter names; any other sign stands for itself.
pub(super) fn is_of_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return byte == class,
    };
    is != class.is_ascii_uppercase()
}

/// The set that begins with the bracket at `start` of `pattern`, and where it ends; `None` if it
/// does not.
pub(super) fn parse_set(pattern: &[u8], start: usize) -> Option<(Set, usize)> {
    let sign = |index: usize| pattern.get(index).copied().unwrap_or(0);
    let is_inverted = sign(start + 1) == b'^';
    let first = start + 1 + usize::from(is_inverted);
    // A bracket that stands first is one of the set's.
    let mut end = first;
    loop {
        match sign(end) {
            0 => return None,
            b'%' if sign(end + 1) != 0 => end += 2,
            _ => end += 1,
        }
        if sign(end) == b']' {
            break;
        }
    }
    let (mut set, mut at) = (Set::default(), first);
    while at < end {
        if sign(at) == b'%' {
            at += 1;
            (0..=255).filter(|byte| is_of_class(*byte, sign(at))).for_each(|byte| set.add(byte));
            at += 1;
        } else if sign(at + 1) == b'-' && at + 2 < end {
            (sign(at)..=sign(at + 2)).for_each(|byte| set.add(byte));
            at += 3;
        } else {
            set.add(sign(at));
            at += 1;
        }
    }
    Some((if is_inverted { set.inverted() } else { set }, end + 1))
}
