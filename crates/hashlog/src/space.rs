//! How much of the log lives: an estimate.
//!
//! ```text
//!   index ─► where the newest record of each chain lies, counted by segment
//!   segments ─► how long their records are, how many of their words are tombstones, have expired or
//!               are a dropped keyspace's
//!   words that live of a segment: its newest records × the length of one, less what is dead anyway
//! ```
//! Chains of several keys have more than one record that lives; the number of entries says how many
//! there should be. The estimate is made again when the log has grown by a part: it reads all of
//! the index.

use firn_engine::KeyspaceId;

use crate::database::Database;
use crate::index::{Index, SLOTS};
use crate::ops::Access;
use crate::reclaim::Estimate;

/// The estimate is made again when the log has grown by this part of it.
const PART: u64 = 16;

impl Database {
    /// Words of the log that live, by an estimate that holds; `None` if it is to be made again.
    pub(crate) fn estimated_live_words(&self) -> Option<u64> {
        let (tail, begin) = (self.store.log.tail.next(), self.store.log.begin());
        let estimate = (*self.reclaim.estimate())?;
        let holds = estimate.made_at == self.now_of_estimates()
            && tail.saturating_sub(estimate.tail) <= (tail - begin) / PART;
        holds.then_some(estimate.live)
    }

    /// Estimates how many words of the log live, unless an estimate holds. Blocks for reading all
    /// of the index.
    pub(crate) fn estimate_live_words(&self) {
        if self.estimated_live_words().is_none() {
            let (tail, made_at) = (self.store.log.tail.next(), self.now_of_estimates());
            let live = self.count_live_words();
            *self.reclaim.estimate() = Some(Estimate { live, tail, made_at });
        }
    }

    fn now_of_estimates(&self) -> (usize, u64) {
        (self.keyspaces.count(), self.now_ms() >> 20)
    }

    fn count_live_words(&self) -> u64 {
        let Some(mut access) = Access::new(&self.store) else { return u64::MAX };
        let begin = self.store.log.begin();
        let (mut tops, mut entries) = (Vec::<u64>::new(), 0);
        for slot in 0..SLOTS {
            let (store, inside) = access.enter();
            store.index.tops(&inside, slot, |entry| {
                let address = store.top(entry);
                entries += 1;
                if address >= begin {
                    let segment = self.device.segments_between(begin, address);
                    tops.resize(tops.len().max(segment + 1), 0);
                    tops[segment] += 1;
                }
            });
        }
        let is_there = |id| self.keyspaces.check(KeyspaceId(id)).is_ok();
        let live = self.device.live_words(begin, &tops, self.now_ms(), is_there);
        (live * Index::keys_of(entries) / (entries.max(1)) as f64) as u64
    }
}
