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
//!
//! How much of the cold log lives is estimated by
//! [samples](crate::cold::Cold::living).

use firn_engine::{KeyspaceId, Result};
use firn_format::hybrid::cold_run::ColdPlace;

use crate::cold::{ColdFetched, ColdWanted};
use crate::database::Database;
use crate::index::{Index, KeyHash, SLOTS};
use crate::ops::Access;
use crate::reclaim::{ColdEstimate, Estimate};
use crate::trail::{Fetched, Wanted};

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

    /// How many words of the log live, by an estimate that holds or is made. Blocks for reading all
    /// of the index.
    pub(crate) fn estimate_live_words(&self) -> u64 {
        self.estimated_live_words().unwrap_or_else(|| {
            let (tail, made_at) = (self.store.log.tail.next(), self.now_of_estimates());
            let live = self.count_live_words();
            *self.reclaim.estimate() = Some(Estimate { live, tail, made_at });
            live
        })
    }

    /// Words that live of both logs, by the last estimates, whether they hold or not.
    pub(crate) fn last_estimated_words(&self) -> Option<u64> {
        let live = self.reclaim.estimate().map(|estimate| estimate.live)?;
        let cold_live = match self.store.cold.is_empty() {
            true => 0,
            false => self.reclaim.cold_estimate().map(|estimate| estimate.live)?,
        };
        Some(live.saturating_add(cold_live))
    }

    /// Words of the cold log that live, by an estimate that holds; `None` if it is to be made
    /// again.
    pub(crate) fn estimated_cold_live_words(&self) -> Option<u64> {
        let (log, cold) = (&self.store.log, &self.store.cold);
        if cold.is_empty() {
            return Some(0);
        }
        let estimate = (*self.reclaim.cold_estimate())?;
        // What was written since may have taken the place of as much.
        let (end, (log_end, cold_end)) = (cold.end(), estimate.ends);
        let written = log.tail.next().saturating_sub(log_end) + end.saturating_sub(cold_end);
        let holds = estimate.made_at == self.now_of_estimates()
            && estimate.compacted == self.reclaim.cold_progress().compacted
            && written <= (end - cold.begin()) / PART;
        holds.then_some(estimate.live)
    }

    /// How many words of the cold log live, by an estimate that holds or is made. Reads some pages
    /// of each run.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn estimate_cold_live_words(&self) -> Result<u64> {
        if let Some(live) = self.estimated_cold_live_words() {
            return Ok(live);
        }
        let (log, cold, made_at) = (&self.store.log, &self.store.cold, self.now_of_estimates());
        let (ends, compacted) = ((log.tail.next(), cold.end()), self.reclaim.cold_progress().compacted);
        let Some(mut access) = Access::new(&self.store) else {
            // No thread more can look: all lives, until the next estimate.
            let live = ends.1 - compacted;
            *self.reclaim.cold_estimate() = Some(ColdEstimate { live, ends, compacted, made_at });
            return Ok(live);
        };
        let log_compacted = self.reclaim.progress().compacted.max(1);
        let living = cold.living(compacted, &mut |order| {
            let (store, _inside) = access.enter();
            let found = store.index.find(KeyHash::of_order(order));
            found.is_some_and(|(_, entry)| store.top(entry) >= log_compacted)
        })?;
        let live = living.words.saturating_sub(self.dead_words_of(&living.records));
        *self.reclaim.cold_estimate() = Some(ColdEstimate { live, ends, compacted, made_at });
        Ok(live)
    }

    /// Words for which those of `records` stand that have expired or whose keyspace was dropped.
    /// What cannot be read is not one of them.
    fn dead_words_of(&self, records: &[(ColdPlace, u64)]) -> u64 {
        let wanted = |place: &ColdPlace| Wanted::Cold(ColdWanted::Record(place.address(), place.words()));
        let wanted: Vec<Wanted> = records.iter().map(|(place, _)| wanted(place)).collect();
        let is_dead = |fetched: &Option<Result<Fetched>>| match fetched {
            Some(Ok(Fetched::Cold(ColdFetched::Record(Some(record))))) => {
                self.has_expired(record.content())
                    || self.keyspaces.check(KeyspaceId(record.keyspace())).is_err()
            }
            _ => false,
        };
        let fetched = self.fetch_together(&wanted);
        records
            .iter()
            .zip(&fetched)
            .filter(|(_, fetched)| is_dead(fetched))
            .map(|((_, words), _)| words)
            .sum()
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
