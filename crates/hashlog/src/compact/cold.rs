//! Compaction of the cold log: its oldest segment goes, what lives of it is appended again.
//!
//! | newest record of the key in the cold log | what becomes of one in the oldest segment |
//! |---|---|
//! | it, a value | appended again |
//! | it, a tombstone, expired, dropped, or one that a filter drops | left: nothing older counts |
//! | a newer one, or the log has a value or a tombstone | left |

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use firn_engine::Result;
use firn_format::hybrid::Shape;

use super::Compaction;
use super::mover::{Fate, Mover};
use crate::cold::{Appender, Pages};
use crate::device::DeviceRecord;
use crate::log::Parts;
use crate::ops::{Key, parts_of};
use crate::reclaim::Left;
use crate::values::number_of;

/// Bytes of records that are looked up together, in the order of their hashes: so pages of runs are
/// read once.
const BYTES: u64 = 4 << 20;

impl Compaction<'_> {
    pub(super) fn compact_cold(&self) -> Result<()> {
        let mut access = self.database.reclaim.access.lock().unwrap_or_else(PoisonError::into_inner);
        let cold = &self.database.store.cold;
        let from = self.database.reclaim.cold_progress().compacted;
        let end = cold.device.end_of(from);
        let mut mover = Mover::new(self.database, &mut access);
        let mut round = Round { appender: Appender::new(cold), values: Vec::new(), copied: 0 };
        let (mut records, mut bytes) = (Vec::new(), 0);
        cold.device.scan((from, end), cold.page_bits(), &mut |address, record| {
            records.push((address, record.clone()));
            bytes += 8 * record.words();
            if bytes < BYTES {
                return Ok(());
            }
            bytes = 0;
            self.go_on()?;
            round.take(&mut mover, &mut records)
        })?;
        round.take(&mut mover, &mut records)?;
        round.appender.write(cold)?;
        let (log_end, cold_end) = (self.database.store.log.tail.next(), cold.end());
        self.database.counters.compacted_bytes.fetch_add(8 * (end - from), Ordering::Relaxed);
        self.database.counters.copied_bytes.fetch_add(8 * round.copied, Ordering::Relaxed);
        self.database.reclaim.cold_progress().leave(Left { end, log_end, cold_end, values: round.values });
        *self.database.reclaim.estimate() = None;
        Ok(())
    }
}

/// What compacting one segment came to so far.
struct Round {
    appender: Appender,
    /// Values that lie alone, and only dead records lead to.
    values: Vec<u64>,
    /// Words that were appended again.
    copied: u64,
}

impl Round {
    fn take(&mut self, mover: &mut Mover<'_>, records: &mut Vec<(u64, DeviceRecord)>) -> Result<()> {
        let cold = &mover.database.store.cold;
        let order = |record: &DeviceRecord| Key::new(record.keyspace(), record.key()).hash.order();
        mover.ask_for_newer(records);
        // Of one order the oldest first: copies stay in their order.
        records.sort_by_cached_key(|(address, record)| (order(record), *address));
        let mut pages = Pages::default();
        for (address, record) in records.drain(..) {
            let key = Key::new(record.keyspace(), record.key());
            let content = record.content();
            let newer = cold.newest_above(key.cold(), address, &mut pages)?;
            let lives =
                newer.is_none() && mover.fate(key, &record)? == Fate::Lives && !mover.is_overwritten(key)?;
            if lives {
                let words = record.words();
                if self.appender.is_full(cold, words) {
                    self.appender.write(cold)?;
                }
                let parts = parts_of(key, record.value(), content.expires_at_ms);
                let shape = Shape { is_reference: content.is_reference, ..parts.shape };
                self.appender.push(cold, key.cold().order, &Parts { shape, ..parts });
                self.copied += words;
            }
            if let (true, Some(number)) = (content.is_reference, number_of(record.value())) {
                match lives {
                    true => mover.database.reclaim.note_moved(number),
                    false if mover.leads_to_value(key, number, address)? => {}
                    false => self.values.push(number),
                }
            }
        }
        Ok(())
    }
}
