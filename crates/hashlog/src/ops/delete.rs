//! Removing a key.
//!
//! | newest record | outcome |
//! |---|---|
//! | in memory, a tombstone | nothing, unless the redo log may not know it: then as a value |
//! | in memory, mutable | made a tombstone in place |
//! | in memory, read-only or sealed | a new record, a tombstone |
//! | on the device | the same; nothing is read |
//! | nowhere in the log, perhaps in the cold log or a copy | the same |
//! | nowhere | nothing |

use super::{Attempt, Key, Newest, Store, tombstone_of};
use crate::epoch::Inside;
use crate::sync::Ordering;

impl Store {
    /// Removes `key`.
    pub(crate) fn delete(&self, inside: &Inside<'_>, key: Key<'_>) -> Attempt<()> {
        // Also where there is nothing to do: what removed the key may not survive yet.
        if let Err(error) = self.catch_up() {
            return Attempt::Failed(error);
        }
        let (found, newest) = self.find(key);
        let tombstone = tombstone_of(key);
        match newest {
            // A copy may be of a record that a filter has dropped since.
            Newest::Nowhere
                if !self.cold.may_have(key.hash.order())
                    && !found.is_some_and(|(_, entry)| entry.is_copy()) =>
            {
                return Attempt::Done(());
            }
            Newest::At(address, record) => {
                if let Some(latched) = record.latch() {
                    if latched.content().is_tombstone && !self.may_be_unlogged(inside) {
                        return Attempt::Done(());
                    }
                    if address >= self.log.read_only() && latched.can_end() {
                        let at = (address, latched.next_sequence());
                        if let Err(error) = self.log_change(inside, &tombstone, at) {
                            return Attempt::Failed(error);
                        }
                        latched.put(&tombstone);
                        return Attempt::Done(());
                    }
                }
            }
            Newest::OnDevice(_) | Newest::Nowhere => {}
        }
        self.publish(inside, key, (found, newest), &tombstone).map(|_| ())
    }

    /// Whether what a logged operation finds may be what the redo log does not know.
    #[inline]
    pub(crate) fn may_be_unlogged(&self, inside: &Inside<'_>) -> bool {
        inside.writer.is_some() && self.has_unlogged.load(Ordering::Relaxed)
    }
}
