//! Several records in front of their chains: all of them, or none.
//!
//! ```text
//!   stripes held, an epoch has passed ─► no other thread puts a record in front of these chains
//!   buckets for new entries are promised ─► words for all records are reserved
//!                                             │ what is missing is the answer, and nothing was done
//!   records become visible one by one ◄───────┘ nothing keeps them from it
//! ```
//! What others may do to an entry meanwhile (its bucket is split, a copy of the read cache comes or
//! goes) leaves the chain as it is: the record leads to the same one, and the swap is tried again.

use super::{Attempt, Key, Store};
use crate::epoch::Inside;
use crate::index::Promise;
use crate::log::{Parts, Room};

impl Store {
    /// Puts a record in front of each chain, in this order; answers their addresses. Either all are
    /// there, or nothing was done. The redo log does not know them.
    ///
    /// The caller holds the stripes of all keys, and an epoch has passed since, or no other
    /// operation is under way.
    pub(crate) fn append_together(
        &self,
        _inside: &Inside<'_>,
        records: &[(Key<'_>, Parts<'_>)],
    ) -> Attempt<Vec<u64>> {
        let is_new = |(key, _): &&(Key<'_>, Parts<'_>)| self.index.find(key.hash).is_none();
        let Some(mut promise) = self.index.promise(records.iter().filter(is_new).count() as u64) else {
            return Attempt::IndexFull;
        };
        let addresses = match self.reserve_all(records) {
            Ok(addresses) => addresses,
            Err(beyond) => return Attempt::NoRoom(beyond),
        };
        for ((key, parts), address) in records.iter().zip(&addresses) {
            self.publish_at(*address, *key, parts, &mut promise);
        }
        Attempt::Done(addresses)
    }

    /// Words for each record. Where not all have room the answer is how far memory has to reach for
    /// more, and records that no chain has are where there was room.
    fn reserve_all(&self, records: &[(Key<'_>, Parts<'_>)]) -> Result<Vec<u64>, u64> {
        let mut addresses = Vec::with_capacity(records.len());
        for (_, parts) in records {
            match self.log.tail.reserve(parts.shape.words() as u64) {
                Room::At(address) => addresses.push(address),
                Room::Turned(address) => {
                    self.log.turn(&self.epochs, address);
                    addresses.push(address);
                }
                Room::Full(beyond) => {
                    for ((_, parts), address) in records.iter().zip(&addresses) {
                        self.log.reserved(*address, parts.shape.words()).fill(parts, 0);
                        self.log.record(*address).invalidate();
                    }
                    return Err(beyond);
                }
            }
        }
        Ok(addresses)
    }

    /// Puts a record into the words at `address`, which are newer than all of its chain.
    fn publish_at(&self, address: u64, key: Key<'_>, parts: &Parts<'_>, promise: &mut Promise) {
        let record = self.log.reserved(address, parts.shape.words());
        record.fill(parts, 0);
        loop {
            let (found, newest) = self.find(key);
            let is_published = match found {
                Some((place, entry)) => {
                    debug_assert!(self.top(entry) < address, "another thread has written into the chain");
                    record.lead_to(self.top(entry));
                    self.index.lead_to(place, entry, address)
                }
                None => self.index.insert_promised(key.hash, address, promise),
            };
            if is_published {
                self.note_replaced(newest, address, parts);
                return;
            }
        }
    }
}
