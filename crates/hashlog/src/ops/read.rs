//! Reading the value of a key.
//!
//! | newest record | outcome |
//! |---|---|
//! | in memory, a value | that value, as of one moment |
//! | in memory, a tombstone or expired | none |
//! | in memory, an operand or a reference | the caller follows it |
//! | on the device, a copy in the read cache | that value |
//! | on the device | the caller reads it, and has it copied |
//! | nowhere in the log, perhaps in the cold log | the caller looks there |
//! | nowhere | none |

use super::{Attempt, Key, Newest, Store};
use crate::log::Content;

/// What a read found, so that a later change can say that it is still so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No record of the key in the log, when so many [moves](crate::cold::Cold::moves) had begun.
    Absent { moves: u64 },
    /// This record in memory, after so many changes.
    Record { address: u64, sequence: u32 },
    /// A record, or none, in a chain that began with this one, and none of the key in memory.
    Below { top: u64 },
}

impl Store {
    /// Reads the newest record of `key` that is older than `end`. `out`, which is cleared, gets its
    /// value.
    #[inline]
    pub(crate) fn read(&self, key: Key<'_>, end: u64, out: &mut Vec<u8>) -> Attempt<(Option<Content>, Seen)> {
        let moves = self.cold.moves();
        let Some((_, entry)) = self.index.find(key.hash) else { return self.read_absent(key, moves, out) };
        if let Some(cache) = &self.cache
            && entry.is_copy()
            && end == u64::MAX
        {
            let copy = cache.record(entry.target());
            if copy.is_of(key.keyspace, key.bytes) {
                let content = copy.read(out);
                copy.mark();
                let top = copy.link().previous();
                // What the copy was made of may have left the log meanwhile, and the chain not.
                let seen = match self.walk(key, top, u64::MAX) {
                    Newest::Nowhere => Seen::Absent { moves },
                    _ => Seen::Below { top },
                };
                return Attempt::Done((Some(content), seen));
            }
        }
        match self.walk(key, self.top(entry), end) {
            Newest::At(address, record) => {
                let content = record.read(out);
                Attempt::Done((Some(content), Seen::Record { address, sequence: content.sequence }))
            }
            Newest::OnDevice(_) => Attempt::OnDevice,
            Newest::Nowhere => self.read_absent(key, moves, out),
        }
    }

    /// The log has no record of `key`.
    #[inline]
    fn read_absent(&self, key: Key<'_>, moves: u64, out: &mut Vec<u8>) -> Attempt<(Option<Content>, Seen)> {
        if self.cold.may_have(key.hash.order()) {
            return Attempt::OnDevice;
        }
        out.clear();
        Attempt::Done((None, Seen::Absent { moves }))
    }
}
