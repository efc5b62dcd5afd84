//! A lookup in the cold log, step by step: it says what it wants of the device, and goes on once it
//! has that. So many lookups may wait for the device together.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use firn_engine::Result;
use firn_format::hybrid::cold_run::ColdPlace;

use super::{Cold, ColdKey, ColdRecord, Run, Runs};
use crate::device::DeviceRecord;

/// What a lookup wants of the device.
#[derive(Debug)]
pub(crate) enum ColdWanted {
    /// The record at this address, which has so many words; 0 if that is not known.
    Record(u64, u64),
    /// What a page of a run has of an order.
    Places { run: Arc<Run>, page: u64, order: u64 },
}

/// What it got.
#[derive(Debug)]
pub(crate) enum ColdFetched {
    /// `None` if it was removed.
    Record(Option<DeviceRecord>),
    /// Newest first.
    Places(Vec<ColdPlace>),
}

/// What a step came to.
#[derive(Debug)]
pub(crate) enum ColdStep {
    Wants(ColdWanted),
    Found(ColdRecord),
    /// There is no record, or it was removed meanwhile: then the [beginning](Cold::begin) has
    /// moved.
    Nothing,
}

/// One lookup: first along the delta's chain, then run by run.
#[derive(Debug)]
pub(crate) struct ColdSearch {
    /// Records before are not looked at.
    begin: u64,
    /// Where the delta's chain goes on.
    next: u64,
    /// The address of the record that is wanted.
    asked: u64,
    in_runs: Option<InRuns>,
}

/// How far the runs were searched.
#[derive(Debug)]
struct InRuns {
    runs: Runs,
    /// How many of them were begun.
    begun: usize,
    /// Of the last of those: pages that may have the order, and records that are to be read.
    pages: Range<u64>,
    places: VecDeque<ColdPlace>,
}

impl InRuns {
    fn new(runs: Runs) -> Self {
        Self { runs, begun: 0, pages: 0..0, places: VecDeque::new() }
    }
}

impl ColdSearch {
    /// A lookup of `key` among records above the address `above`.
    pub(super) fn new(cold: &Cold, key: ColdKey<'_>, above: u64) -> Self {
        let next = cold.delta.get(key.order).map_or(0, ColdPlace::address);
        // Looked at after the delta: runs may have what a record that is gone took the place of.
        let begin = cold.begin().max(above + 1);
        Self { begin, next, asked: 0, in_runs: None }
    }

    /// The next step: the first is made with nothing, each other one with what the one before
    /// wanted.
    ///
    /// # Errors
    /// That of what was fetched. But a run that another one has taken the place of meanwhile may
    /// have no file any more: then the runs that are there are searched.
    pub(crate) fn step(
        &mut self,
        cold: &Cold,
        key: ColdKey<'_>,
        fetched: Option<Result<ColdFetched>>,
    ) -> Result<ColdStep> {
        match fetched {
            None => {}
            Some(Ok(ColdFetched::Places(places))) => {
                if let Some(in_runs) = &mut self.in_runs {
                    in_runs.places.extend(places);
                }
            }
            Some(Ok(ColdFetched::Record(None))) => return Ok(ColdStep::Nothing),
            Some(Ok(ColdFetched::Record(Some(record)))) => {
                if record.is_of(key.keyspace, key.bytes) {
                    return Ok(ColdStep::Found(ColdRecord { address: self.asked, record }));
                }
                if self.in_runs.is_none() {
                    self.next = record.link().previous();
                }
            }
            Some(Err(error)) => {
                let now = cold.runs();
                match &mut self.in_runs {
                    Some(in_runs) if !Arc::ptr_eq(&in_runs.runs, &now) => *in_runs = InRuns::new(now),
                    _ => return Err(error),
                }
            }
        }
        Ok(self.wanted(cold, key.order).map_or(ColdStep::Nothing, ColdStep::Wants))
    }

    /// What is wanted next.
    fn wanted(&mut self, cold: &Cold, order: u64) -> Option<ColdWanted> {
        if self.in_runs.is_none() && self.next >= self.begin {
            self.asked = self.next;
            return Some(ColdWanted::Record(self.next, 0));
        }
        // Loaded after the delta was looked at.
        let in_runs = self.in_runs.get_or_insert_with(|| InRuns::new(cold.runs()));
        loop {
            if let Some(place) = in_runs.places.pop_front() {
                if place.address() >= self.begin {
                    self.asked = place.address();
                    return Some(ColdWanted::Record(place.address(), place.words()));
                }
                // So are all that follow in this run.
                in_runs.places.clear();
                in_runs.pages = 0..0;
            }
            let last = in_runs.begun.checked_sub(1).and_then(|last| in_runs.runs.get(last));
            if let Some((run, page)) = last.zip(in_runs.pages.next()) {
                return Some(ColdWanted::Places { run: Arc::clone(run), page, order });
            }
            let run = in_runs.runs.get(in_runs.begun)?;
            in_runs.begun += 1;
            if run.may_have(order) {
                in_runs.pages = run.pages_of(order, order);
            }
        }
    }
}
