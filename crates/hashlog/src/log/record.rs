//! A record in memory: how its value is read and changed while others do the same.
//!
//! The second word of a record is its latch. Its lower half counts changes, and is odd while one is
//! made; its upper half says how long the parts are. So that word is all that a reader compares.
//!
//! ```text
//!   reader  word 1, even ─► value, word by word ─► fence ─► word 1 the same? else again
//!   writer  word 1: even → odd, by compare-and-swap ─► fence ─► value ─► word 1: next even count
//! ```
//! Every word is read and stored atomically, so a reader that comes amid a change reads words that
//! do not belong together, sees that word 1 is another, and throws them away.

use firn_arena::Words;
use firn_format::hybrid::redo::RedoChange;
use firn_format::hybrid::{Link, Shape, State};

use crate::sync::{AtomicU64, Ordering, Patience, fence};

/// A record that is in memory, for as long as the operation is under way.
#[derive(Clone, Copy)]
pub(crate) struct Record<'l> {
    memory: &'l Words,
    first: usize,
}

impl<'l> Record<'l> {
    #[inline]
    pub(super) fn at(memory: &'l Words, first: usize) -> Self {
        Self { memory, first }
    }

    #[inline]
    fn word(self, index: usize) -> &'l AtomicU64 {
        self.memory.word(self.first + index)
    }

    /// Where the record before this one lies, and whether this one came into its chain.
    #[inline]
    pub(crate) fn link(self) -> Link {
        Link(self.word(0).load(Ordering::Acquire))
    }

    /// Makes a record that lost the race for its entry one that no scan of the log takes.
    pub(crate) fn invalidate(self) {
        let link = Link(self.word(0).load(Ordering::Relaxed));
        self.word(0).store(link.invalid().0, Ordering::Release);
    }

    /// The second word, as soon as nothing changes the record.
    #[inline]
    fn state(self) -> State {
        let mut patience = Patience::default();
        loop {
            let state = State(self.word(1).load(Ordering::Acquire));
            if !state.is_locked() {
                return state;
            }
            patience.wait();
        }
    }

    #[inline]
    fn shape(self, state: State) -> Shape {
        Shape::decode(state, || self.word(2).load(Ordering::Relaxed))
    }

    /// Whether this is a record of `key` in `keyspace`. Neither ever changes, and no change moves
    /// them.
    #[inline]
    pub(crate) fn is_of(self, keyspace: u32, key: &[u8]) -> bool {
        let shape = self.shape(State(self.word(1).load(Ordering::Acquire)));
        if shape.key_bytes != key.len() {
            return false;
        }
        let found = match shape.has_keyspace {
            true => self.word(shape.keyspace_at()).load(Ordering::Relaxed) as u32,
            false => 0,
        };
        if found != keyspace {
            return false;
        }
        let words = self.memory.words(self.first + shape.key_at()..self.first + shape.value_at());
        let (whole, rest) = key.as_chunks::<8>();
        let is_equal = |(word, bytes): (&AtomicU64, &[u8; 8])| {
            word.load(Ordering::Relaxed) == u64::from_le_bytes(*bytes)
        };
        words.iter().zip(whole).all(is_equal)
            && (rest.is_empty()
                || words
                    .get(whole.len())
                    .is_some_and(|word| word.load(Ordering::Relaxed) == partial_word(rest)))
    }

    /// Reads the record as of one moment: `out`, which is cleared, gets the bytes of its value, and
    /// the answer says what they are.
    #[inline]
    pub(crate) fn read(self, out: &mut Vec<u8>) -> Content {
        loop {
            let state = self.state();
            let shape = self.shape(state);
            let content = self.content(state, shape);
            self.copy_value(shape, out);
            fence(Ordering::Acquire);
            if self.word(1).load(Ordering::Relaxed) == state.0 {
                return content;
            }
        }
    }

    #[inline]
    fn content(self, state: State, shape: Shape) -> Content {
        let expires_at_ms = match shape.has_expiry {
            true => self.word(shape.expiry_at()).load(Ordering::Relaxed),
            false => 0,
        };
        Content {
            is_tombstone: shape.is_tombstone,
            is_operand: shape.is_operand,
            is_reference: shape.is_reference,
            expires_at_ms,
            sequence: state.sequence(),
        }
    }

    fn copy_value(self, shape: Shape, out: &mut Vec<u8>) {
        let first = self.first + shape.value_at();
        out.clear();
        // A shape that is read amid a change of a long record may say anything.
        if first + shape.value_words() > self.memory.count() {
            return;
        }
        out.reserve(shape.value_words() * 8);
        for word in self.memory.words(first..first + shape.value_words()) {
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        out.truncate(shape.value_bytes);
    }

    /// Whether the record has an operand. That never changes.
    pub(crate) fn is_operand(self) -> bool {
        self.shape(State(self.word(1).load(Ordering::Acquire))).is_operand
    }

    /// The shape of a record whose words are filled; `None` where there are none.
    pub(crate) fn filled_shape(self) -> Option<Shape> {
        let is_filled = self.word(0).load(Ordering::Acquire) != 0;
        is_filled.then(|| self.shape(State(self.word(1).load(Ordering::Relaxed))))
    }

    /// Copies the key to `out`, which is cleared; answers its keyspace.
    pub(crate) fn copy_key(self, out: &mut Vec<u8>) -> u32 {
        let shape = self.shape(self.state());
        out.clear();
        for word in self.memory.words(self.first + shape.key_at()..self.first + shape.value_at()) {
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        out.truncate(shape.key_bytes);
        if shape.has_keyspace { self.word(shape.keyspace_at()).load(Ordering::Relaxed) as u32 } else { 0 }
    }

    /// Notes that a copy, which nothing changes, was read.
    #[inline]
    pub(crate) fn mark(self) {
        let word = self.word(1);
        let state = State(word.load(Ordering::Relaxed));
        if !state.is_sealed() {
            word.store(state.sealed().0, Ordering::Relaxed);
        }
    }

    /// Whether a copy was read.
    pub(crate) fn is_marked(self) -> bool {
        self.state().is_sealed()
    }

    /// The number of the value that lies alone, if it does.
    #[inline]
    pub(crate) fn value_alone(self) -> Option<u64> {
        let shape = self.shape(self.state());
        let is_alone = shape.is_reference && !shape.is_operand;
        is_alone.then(|| self.word(shape.value_at()).load(Ordering::Relaxed))
    }

    /// Tells the content that the record has now from others.
    pub(crate) fn sequence(self) -> u32 {
        self.state().sequence()
    }

    /// Takes the record's latch; `None` if it is sealed: it never changes again.
    #[inline]
    pub(crate) fn latch(self) -> Option<Latched<'l>> {
        loop {
            let state = self.state();
            if state.is_sealed() {
                return None;
            }
            let locked = state.with_sequence(state.sequence() | 1);
            let word = self.word(1);
            let taken = word.compare_exchange_weak(state.0, locked.0, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                // No store of the change may be seen before the odd count is.
                fence(Ordering::Release);
                return Some(Latched { record: self, state, shape: self.shape(state) });
            }
        }
    }
}

/// What was read of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) is_tombstone: bool,
    /// The value is an operand of a merge.
    pub(crate) is_operand: bool,
    /// The value says where the value is.
    pub(crate) is_reference: bool,
    /// 0 = never.
    pub(crate) expires_at_ms: u64,
    /// Tells this content of the record from others.
    pub(crate) sequence: u32,
}

/// The last even count of changes after which there is another one.
const SEQUENCE_MAX: u32 = u32::MAX - 1;

/// A record whose latch is held. It is released, unchanged, when this is dropped.
pub(crate) struct Latched<'l> {
    record: Record<'l>,
    state: State,
    shape: Shape,
}

impl Latched<'_> {
    /// What the record has now.
    #[inline]
    pub(crate) fn content(&self) -> Content {
        self.record.content(self.state, self.shape)
    }

    /// Its count of changes after the one that is about to be made.
    #[inline]
    pub(crate) fn next_sequence(&self) -> u32 {
        self.state.sequence().wrapping_add(2)
    }

    /// Whether the count of changes is at its end. Another change would make it look older than
    /// those before it, so the key needs a new record.
    #[inline]
    fn is_worn(&self) -> bool {
        self.state.sequence() >= SEQUENCE_MAX
    }

    /// The value as a number, where it is one that does not expire and may be changed.
    #[inline]
    pub(crate) fn number(&self) -> Option<u64> {
        let Shape { value_bytes, is_tombstone, is_operand, is_reference, has_expiry, .. } = self.shape;
        let is_number = value_bytes == 8 && !(is_tombstone || is_operand || is_reference || has_expiry);
        (is_number && !self.is_worn())
            .then(|| self.record.word(self.shape.value_at()).load(Ordering::Relaxed))
    }

    /// Whether the record may say that its key has no value.
    pub(crate) fn can_end(&self) -> bool {
        !self.shape.is_operand && !self.shape.is_reference && !self.is_worn()
    }

    /// Whether what `parts` say could take the place of what is there.
    #[inline]
    pub(crate) fn fits(&self, parts: &Parts<'_>) -> bool {
        if !self.can_end() {
            return false;
        }
        let new = parts.shape;
        new.is_tombstone
            || new.has_expiry == self.shape.has_expiry
                && !new.is_operand
                && !new.is_reference
                && self.shape.holds(parts.value.len())
    }

    /// Puts what `parts` say, which [`fits`](Self::fits), in the place of what is there.
    #[inline]
    pub(crate) fn put(self, parts: &Parts<'_>) {
        if parts.shape.is_tombstone {
            let shape = Shape { is_tombstone: true, ..self.shape };
            self.release(shape);
            return;
        }
        let shape = self.shape.with_value(parts.value.len());
        let first = self.record.first + shape.value_at();
        store_bytes(self.record.memory.words(first..first + shape.value_words()), parts.value);
        if shape.has_expiry {
            self.record.word(shape.expiry_at()).store(parts.expires_at_ms, Ordering::Relaxed);
        }
        self.release(shape);
    }

    /// Puts a number in the place of one.
    #[inline]
    pub(crate) fn put_number(self, number: u64) {
        self.record.word(self.shape.value_at()).store(number, Ordering::Relaxed);
        let shape = self.shape;
        self.release(shape);
    }

    /// Has the record stay as it is for good.
    pub(crate) fn seal(self) {
        self.record.word(1).store(self.state.sealed().0, Ordering::Release);
        // Not released again, as it was.
        std::mem::forget(self);
    }

    #[inline]
    fn release(self, shape: Shape) {
        let (state, lengths) = shape.encode(self.next_sequence());
        if let Some(lengths) = lengths {
            self.record.word(2).store(lengths, Ordering::Relaxed);
        }
        self.record.word(1).store(state.0, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        self.record.word(1).store(self.state.0, Ordering::Release);
    }
}

/// Words of the log that belong to one writer, for a record that no other thread sees yet.
pub(crate) struct NewRecord<'l> {
    words: &'l [AtomicU64],
}

/// What a new record is to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) shape: Shape,
    pub(crate) keyspace: u32,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expires_at_ms: u64,
}

impl Parts<'_> {
    /// As a change that leaves the record at `address` so, after so many changes.
    #[inline]
    pub(crate) fn change(&self, address: u64, sequence: u32) -> RedoChange<'_> {
        RedoChange {
            address,
            sequence,
            shape: self.shape,
            keyspace: self.keyspace,
            expires_at_ms: self.expires_at_ms,
            key: self.key,
            value: self.value,
        }
    }
}

impl<'l> NewRecord<'l> {
    pub(super) fn over(words: &'l [AtomicU64]) -> Self {
        Self { words }
    }

    /// Fills the words. The lengths are stored first and the link last, so that a scan
    /// of memory finds zero, or a record that is whole.
    pub(crate) fn fill(&self, parts: &Parts<'_>, previous: u64) {
        let shape = parts.shape;
        let (state, lengths) = shape.encode(0);
        self.words[1].store(state.0, Ordering::Relaxed);
        if let Some(lengths) = lengths {
            self.words[2].store(lengths, Ordering::Relaxed);
        }
        if shape.has_expiry {
            self.words[shape.expiry_at()].store(parts.expires_at_ms, Ordering::Relaxed);
        }
        if shape.has_keyspace {
            self.words[shape.keyspace_at()].store(u64::from(parts.keyspace), Ordering::Relaxed);
        }
        store_bytes(&self.words[shape.key_at()..shape.value_at()], parts.key);
        store_bytes(&self.words[shape.value_at()..shape.value_at() + shape.value_words()], parts.value);
        self.lead_to(previous);
    }

    /// Has the record lead to `previous` instead.
    pub(crate) fn lead_to(&self, previous: u64) {
        self.words[0].store(Link::new(previous).0, Ordering::Release);
    }
}

/// Stores `bytes`, filled up with zeros, to `words`.
#[inline]
fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if let (Some(word), false) = (words.get(whole.len()), rest.is_empty()) {
        word.store(partial_word(rest), Ordering::Relaxed);
    }
}

/// Up to 7 bytes as a word.
#[inline]
fn partial_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Pitfall 10: a count of changes that began anew would make the newest change look like the
    /// oldest. So a record is not changed in place any more once the count is at its end.
    #[test]
    fn a_record_is_changed_in_place_until_its_count_ends() {
        let value = 1_u64.to_le_bytes();
        let shape = Shape { key_bytes: 3, value_bytes: 8, ..Shape::default() }.fitted();
        let parts = Parts { shape, keyspace: 0, key: b"key", value: &value, expires_at_ms: 0 };
        let words = Words::zeroed(shape.words()).expect("words");
        NewRecord::over(words.words(0..shape.words())).fill(&parts, 0);
        let record = Record::at(&words, 0);
        let state = State(words.word(1).load(Ordering::Relaxed));
        words.word(1).store(state.with_sequence(u32::MAX - 3).0, Ordering::Relaxed);
        let latched = record.latch().expect("not sealed");
        assert!(latched.fits(&parts) && latched.number().is_some() && latched.can_end());
        latched.put_number(2);
        assert_eq!(record.sequence(), u32::MAX - 1);
        let latched = record.latch().expect("not sealed");
        assert!(!latched.fits(&parts) && latched.number().is_none() && !latched.can_end());
        latched.seal();
        let mut value = Vec::new();
        record.read(&mut value);
        assert_eq!(value, 2_u64.to_le_bytes());
    }
}
