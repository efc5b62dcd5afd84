//! A record of the hybrid log, in words of 8 bytes.
//!
//! ```text
//! word 0   previous address 45 │ … │ invalid 1
//! word 1   sequence or checksum 32 │ shape 32
//! [word]   lengths of a long record: value 32 │ key 16 │ slack 16
//! [word]   expiry, milliseconds since the Unix epoch
//! [word]   keyspace, unless it is the default one
//! key      filled up with zeros to a whole word
//! value    likewise
//! slack    words that a longer value may take
//! ```
//! All that says where the next record begins is in one word, or in a word that never changes
//! while one bit of the first one is set. So a reader that comes while the value is changed always
//! steps to the next record.
//!
//! In memory the lower half of word 1 counts changes: odd while one is made. On a device nothing
//! changes, and there it is the checksum of all other bits.

/// Bits of an address: it counts words of 8 bytes from the beginning of the log.
pub const ADDRESS_BITS: u32 = 45;

/// The first address that a record may have: 0 says that there is none.
pub const ADDRESS_MIN: u64 = 8;

/// Addresses from this one on are of the cold log, which begins here; those below are of the hybrid
/// log.
pub const COLD_MIN: u64 = 1 << (ADDRESS_BITS - 1);

/// The largest address.
pub const ADDRESS_MAX: u64 = (1 << ADDRESS_BITS) - 1;

const INVALID: u64 = 1 << 63;

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(pub u64);

impl Link {
    /// The record before is at `previous`; 0 = there is none.
    pub fn new(previous: u64) -> Self {
        debug_assert!(previous <= ADDRESS_MAX);
        // One bit is always set: a word of zero is no record.
        Self(previous | Self::RECORD)
    }

    /// A record begins here.
    const RECORD: u64 = 1 << 62;

    /// Whether a record begins with this word.
    pub fn is_record(self) -> bool {
        self.0 & Self::RECORD != 0
    }

    /// Where the record before this one in its chain lies; 0 = there is none.
    #[inline]
    pub fn previous(self) -> u64 {
        self.0 & ADDRESS_MAX
    }

    /// The record never came into a chain.
    pub fn is_invalid(self) -> bool {
        self.0 & INVALID != 0
    }

    /// The same record, which did not come into a chain.
    #[must_use]
    pub fn invalid(self) -> Self {
        Self(self.0 | INVALID)
    }
}

/// Keys up to this long, and values up to [`SHORT_VALUE_BYTES_MAX`], need no word for lengths.
pub const SHORT_KEY_BYTES_MAX: usize = 0xff;

/// As [`SHORT_KEY_BYTES_MAX`].
pub const SHORT_VALUE_BYTES_MAX: usize = 0xfff;

const SHORT_SLACK_WORDS_MAX: usize = 0x1f;

/// The second word of a record: its sequence and its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(pub u64);

impl State {
    const SEALED: u64 = 1 << 32;
    const TOMBSTONE: u64 = 1 << 33;
    const EXPIRY: u64 = 1 << 34;
    const LONG: u64 = 1 << 35;
    const OPERAND: u64 = 1 << 36;
    const KEYSPACE: u64 = 1 << 37;
    const REFERENCE: u64 = 1 << 38;
    const KEY_SHIFT: u32 = 39;
    const VALUE_SHIFT: u32 = 47;
    const SLACK_SHIFT: u32 = 59;

    /// The count of changes, or the checksum.
    #[inline]
    pub fn sequence(self) -> u32 {
        self.0 as u32
    }

    /// The same shape with another count of changes, or with a checksum.
    #[inline]
    #[must_use]
    pub fn with_sequence(self, sequence: u32) -> Self {
        Self(self.0 & !0xffff_ffff | u64::from(sequence))
    }

    /// A change is being made: an odd count.
    #[inline]
    pub fn is_locked(self) -> bool {
        self.0 & 1 != 0
    }

    /// The value stays as it is for good: a newer record takes its place.
    #[inline]
    pub fn is_sealed(self) -> bool {
        self.0 & Self::SEALED != 0
    }

    /// The same, sealed.
    #[must_use]
    pub fn sealed(self) -> Self {
        Self(self.0 | Self::SEALED)
    }

    /// The same, not sealed: as it is written to a device.
    #[must_use]
    pub fn unsealed(self) -> Self {
        Self(self.0 & !Self::SEALED)
    }

    /// The key has no value.
    #[inline]
    pub fn is_tombstone(self) -> bool {
        self.0 & Self::TOMBSTONE != 0
    }

    /// The same shape, as a tombstone or not.
    #[inline]
    #[must_use]
    pub fn as_tombstone(self, is_tombstone: bool) -> Self {
        Self(if is_tombstone { self.0 | Self::TOMBSTONE } else { self.0 & !Self::TOMBSTONE })
    }

    /// There is a word with an expiry.
    #[inline]
    pub fn has_expiry(self) -> bool {
        self.0 & Self::EXPIRY != 0
    }

    /// There is a word with lengths.
    #[inline]
    pub fn is_long(self) -> bool {
        self.0 & Self::LONG != 0
    }

    /// The value is an operand of a merge.
    #[inline]
    pub fn is_operand(self) -> bool {
        self.0 & Self::OPERAND != 0
    }

    /// The value says where the value is.
    #[inline]
    pub fn is_reference(self) -> bool {
        self.0 & Self::REFERENCE != 0
    }

    /// There is a word with a keyspace.
    #[inline]
    pub fn has_keyspace(self) -> bool {
        self.0 & Self::KEYSPACE != 0
    }
}

/// What a record has and how long its parts are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the key: 65 535 at most.
    pub key_bytes: usize,
    /// Bytes of the value: below 4 GiB.
    pub value_bytes: usize,
    /// Words behind the value: 31 at most, 65 535 of a long record.
    pub slack_words: usize,
    /// There is an expiry.
    pub has_expiry: bool,
    /// There is a keyspace.
    pub has_keyspace: bool,
    /// The key has no value.
    pub is_tombstone: bool,
    /// The value is an operand.
    pub is_operand: bool,
    /// The value says where the value is.
    pub is_reference: bool,
    /// The lengths have a word of their own.
    pub is_long: bool,
}

impl Shape {
    /// The shape whose second word is `state`; `lengths` gives the word behind it, where there is
    /// one.
    #[inline]
    pub fn decode(state: State, lengths: impl FnOnce() -> u64) -> Self {
        let word = state.0;
        let (key_bytes, value_bytes, slack_words) = if state.is_long() {
            let lengths = lengths();
            (lengths >> 32 & 0xffff, lengths & 0xffff_ffff, lengths >> 48)
        } else {
            let key = word >> State::KEY_SHIFT & SHORT_KEY_BYTES_MAX as u64;
            let value = word >> State::VALUE_SHIFT & SHORT_VALUE_BYTES_MAX as u64;
            (key, value, word >> State::SLACK_SHIFT)
        };
        Self {
            key_bytes: key_bytes as usize,
            value_bytes: value_bytes as usize,
            slack_words: slack_words as usize,
            has_expiry: state.has_expiry(),
            has_keyspace: state.has_keyspace(),
            is_tombstone: state.is_tombstone(),
            is_operand: state.is_operand(),
            is_reference: state.is_reference(),
            is_long: state.is_long(),
        }
    }

    /// This shape with [`is_long`](Self::is_long) as its lengths ask for.
    #[must_use]
    pub fn fitted(self) -> Self {
        let is_short = self.key_bytes <= SHORT_KEY_BYTES_MAX
            && self.value_bytes <= SHORT_VALUE_BYTES_MAX
            && self.slack_words <= SHORT_SLACK_WORDS_MAX;
        Self { is_long: !is_short, ..self }
    }

    /// The second word, and the one with the lengths where the record is long.
    #[inline]
    pub fn encode(self, sequence: u32) -> (State, Option<u64>) {
        let mut word = u64::from(sequence);
        for (has, bit) in [
            (self.has_expiry, State::EXPIRY),
            (self.has_keyspace, State::KEYSPACE),
            (self.is_tombstone, State::TOMBSTONE),
            (self.is_operand, State::OPERAND),
            (self.is_reference, State::REFERENCE),
            (self.is_long, State::LONG),
        ] {
            word |= if has { bit } else { 0 };
        }
        let (key, value, slack) = (self.key_bytes as u64, self.value_bytes as u64, self.slack_words as u64);
        if self.is_long {
            return (State(word), Some(slack << 48 | key << 32 | value));
        }
        let lengths = key << State::KEY_SHIFT | value << State::VALUE_SHIFT | slack << State::SLACK_SHIFT;
        (State(word | lengths), None)
    }

    /// Whether a value of `value_bytes` could take the place of this one's where it lies.
    #[inline]
    pub fn holds(self, value_bytes: usize) -> bool {
        let room = self.value_words() + self.slack_words;
        let Some(slack) = room.checked_sub(value_bytes.div_ceil(8)) else { return false };
        self.is_long && slack <= 0xffff
            || value_bytes <= SHORT_VALUE_BYTES_MAX && slack <= SHORT_SLACK_WORDS_MAX
    }

    /// The shape after a value of `value_bytes`, which it [`holds`](Self::holds), has been put in.
    #[inline]
    #[must_use]
    pub fn with_value(self, value_bytes: usize) -> Self {
        let room = self.value_words() + self.slack_words;
        Self {
            value_bytes,
            slack_words: room.saturating_sub(value_bytes.div_ceil(8)),
            is_tombstone: false,
            ..self
        }
    }

    /// Words before the expiry, the keyspace or the key.
    #[inline]
    pub fn expiry_at(self) -> usize {
        2 + usize::from(self.is_long)
    }

    /// Where the keyspace is, if there is one.
    #[inline]
    pub fn keyspace_at(self) -> usize {
        self.expiry_at() + usize::from(self.has_expiry)
    }

    /// Where the key begins.
    #[inline]
    pub fn key_at(self) -> usize {
        self.keyspace_at() + usize::from(self.has_keyspace)
    }

    /// Where the value begins.
    #[inline]
    pub fn value_at(self) -> usize {
        self.key_at() + self.key_bytes.div_ceil(8)
    }

    /// Words of the value.
    #[inline]
    pub fn value_words(self) -> usize {
        self.value_bytes.div_ceil(8)
    }

    /// Words of the whole record.
    #[inline]
    pub fn words(self) -> usize {
        self.value_at() + self.value_words() + self.slack_words
    }
}

#[cfg(test)]
mod tests;
