//! Changing a value by what it is.
//!
//! | newest record | outcome |
//! |---|---|
//! | in memory, mutable, a number, add | added to in place |
//! | in memory, mutable, as it was read, the new value fits | changed in place |
//! | in memory, too small, sealed or read-only | sealed, and copied to a new record |
//! | on the device | the caller reads it first |
//! | nowhere | a new record |
//!
//! A record is sealed under its latch before its value is copied. So no change in place comes
//! between the copy and the moment when the copy is in the chain: no update is lost, also where one
//! thread believes the record mutable and another does not.

use firn_engine::{Error, Result};

use super::{Attempt, Found, Key, Newest, Seen, Store, parts_of};
use crate::epoch::Inside;
use crate::log::Parts;

impl Store {
    /// Adds `by` to the number that `key` has where that can be done in place, and if that number
    /// `is_whole`, which is asked once it was found; `None`: it cannot, and nothing was done.
    #[inline]
    pub(crate) fn add_in_place(
        &self,
        inside: &Inside<'_>,
        key: Key<'_>,
        by: i64,
        is_whole: impl Fn() -> bool,
    ) -> Option<Result<i64>> {
        let Newest::At(address, record) = self.find(key).1 else { return None };
        if address < self.log.read_only() {
            return None;
        }
        let latched = record.latch()?;
        let number = latched.number().filter(|_| is_whole())?;
        let Some(sum) = number.cast_signed().checked_add(by) else {
            return Some(Err(Error::invalid("the sum is beyond 64 bits: nothing was added")));
        };
        if self.redo_of(inside).is_some() {
            let value = sum.to_le_bytes();
            let at = (address, latched.next_sequence());
            if let Err(error) = self.log_change(inside, &parts_of(key, &value, 0), at) {
                return Some(Err(error));
            }
        }
        latched.put_number(sum.cast_unsigned());
        Some(Ok(sum))
    }

    /// Gives `key` what `parts` say, a value or none, if it still has what was `seen`; otherwise
    /// `Again`.
    pub(crate) fn change_if(
        &self,
        inside: &Inside<'_>,
        key: Key<'_>,
        seen: Seen,
        parts: &Parts<'_>,
    ) -> Attempt<()> {
        let (found, newest) = self.find(key);
        match (newest, seen) {
            // What was written since, and has left the log, began a move.
            (Newest::Nowhere, Seen::Absent { moves }) if self.cold.moves() == moves => {}
            (Newest::At(address, record), Seen::Record { address: seen, sequence }) if address == seen => {
                // A sealed record may have been changed before it was sealed.
                match record.latch() {
                    Some(latched) if latched.content().sequence != sequence => return Attempt::Again,
                    Some(latched) if address >= self.log.read_only() && latched.fits(parts) => {
                        let at = (address, latched.next_sequence());
                        if let Err(error) = self.log_change(inside, parts, at) {
                            return Attempt::Failed(error);
                        }
                        latched.put(parts);
                        return Attempt::Done(());
                    }
                    Some(latched) => latched.seal(),
                    None if record.sequence() != sequence => return Attempt::Again,
                    None => {}
                }
            }
            // It was in memory when it was read, and may be as it was: the caller reads again.
            (Newest::OnDevice(_), Seen::Below { top }) => {
                if !self.is_below(found, top) {
                    return Attempt::Again;
                }
            }
            _ => return Attempt::Again,
        }
        self.publish(inside, key, (found, newest), parts).map(|_| ())
    }

    /// Whether `key` has what was `seen`.
    pub(crate) fn is_as_seen(&self, key: Key<'_>, seen: Seen) -> bool {
        let (found, newest) = self.find(key);
        match (newest, seen) {
            (Newest::Nowhere, Seen::Absent { moves }) => self.cold.moves() == moves,
            (Newest::At(address, record), Seen::Record { address: seen, sequence }) => {
                address == seen && record.sequence() == sequence
            }
            (Newest::OnDevice(_), Seen::Below { top }) => self.is_below(found, top),
            _ => false,
        }
    }

    /// Whether a chain that began with `top` still does, or with newer records of other keys.
    fn is_below(&self, found: Found, top: u64) -> bool {
        let mut address = found.map_or(0, |(_, entry)| self.top(entry));
        let head = self.log.head();
        while address > top {
            if address < head {
                return false;
            }
            address = self.log.record(address).link().previous();
        }
        address == top
    }
}
