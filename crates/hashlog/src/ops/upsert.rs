//! Setting a key to a value, whatever it has.
//!
//! | newest record | outcome |
//! |---|---|
//! | in memory, mutable, the value fits | changed in place |
//! | in memory, mutable, too small or sealed | a new record |
//! | in memory, read-only | a new record |
//! | on the device | a new record; nothing is read |
//! | nowhere | a new record, and perhaps an entry |

use super::{Attempt, Key, Newest, Store};
use crate::epoch::Inside;
use crate::log::Parts;

impl Store {
    /// Sets `key` to the value of `parts`; answers the address where it lies.
    #[inline]
    pub(crate) fn upsert(&self, inside: &Inside<'_>, key: Key<'_>, parts: &Parts<'_>) -> Attempt<u64> {
        let (found, newest) = self.find(key);
        if let Newest::At(address, record) = newest
            && address >= self.log.read_only()
            && let Some(latched) = record.latch()
            && latched.fits(parts)
        {
            if let Err(error) = self.log_change(inside, parts, (address, latched.next_sequence())) {
                return Attempt::Failed(error);
            }
            latched.put(parts);
            return Attempt::Done(address);
        }
        self.publish(inside, key, (found, newest), parts)
    }
}
