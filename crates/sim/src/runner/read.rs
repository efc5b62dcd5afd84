//! Reads on both sides.

use std::collections::VecDeque;

use firn_engine::{
    BatchLimit, Completion, Direction, KeyspaceId, ReadAt, Scan, ScanBatch, ScanRange, Values,
};

use super::{OpenScan, Runner, Stop, TakeTime};
use crate::model::{Content, Moment, Records, shown};
use crate::ops::{KEY_COUNT, SPACE_COUNT, Visit, key, may_be_gone, space_name};
use crate::sessions;

/// Scans in one go take this much at once.
const WHOLE: BatchLimit = BatchLimit { records: 1 << 20, bytes: 1 << 30 };

impl Runner<'_> {
    /// The moment slot `at` looks at; an empty slot looks at the present.
    fn moment(&mut self, at: Option<u8>) -> Result<Moment, Stop> {
        let end = self.model.end();
        Ok(at.and_then(|slot| self.open.as_ref()?.snapshots.get(&slot)).map_or(end, |(_, moment)| *moment))
    }

    pub(super) fn get(&mut self, at: Option<u8>, space: u8, number: u16) -> Result<(), Stop> {
        let Some((id, model_id)) = self.space(space)? else { return Ok(()) };
        let (key, moment) = (key(number), self.moment(at)?);
        let expected = self.modelled_value(moment, model_id, &key)?;
        let open = self.opened()?;
        let mut out = b"left over".to_vec();
        let at = at.and_then(|slot| open.snapshots.get(&slot));
        let read_at = at.map_or(ReadAt::Latest, |(snapshot, _)| ReadAt::Snapshot(snapshot));
        // A hint, which no answer may depend on.
        open.session.prefetch(id, &[&key, &crate::ops::key(number.wrapping_add(1)), b"", &[0xff; 300]]);
        let outcome = open.session.get(read_at, id, &key, &mut out);
        let outcome = outcome.map(|outcome| match outcome {
            firn_engine::Outcome::Done(found) => firn_engine::Outcome::Done(found.then_some(out)),
            firn_engine::Outcome::Pending(ticket) => firn_engine::Outcome::Pending(ticket),
        });
        let found = self.settle(outcome, TakeTime::No, |completion| match completion {
            Completion::Value(value) => Some(value),
            _ => None,
        })?;
        let found = found.map_err(|error| self.failed("get", &error))?;
        self.same("get", space, &key, found.as_deref(), expected.as_deref())
    }

    pub(super) fn multi_get(&mut self, at: Option<u8>, space: u8, numbers: &[u16]) -> Result<(), Stop> {
        let Some((id, model_id)) = self.space(space)? else { return Ok(()) };
        let moment = self.moment(at)?;
        let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let open = self.opened()?;
        let mut out = Values::new();
        let at = at.and_then(|slot| open.snapshots.get(&slot));
        let read_at = at.map_or(ReadAt::Latest, |(snapshot, _)| ReadAt::Snapshot(snapshot));
        let outcome = open.session.multi_get(read_at, id, &slices, &mut out);
        let outcome = outcome.map(|outcome| match outcome {
            firn_engine::Outcome::Done(()) => firn_engine::Outcome::Done(out),
            firn_engine::Outcome::Pending(ticket) => firn_engine::Outcome::Pending(ticket),
        });
        let found = self.settle(outcome, TakeTime::No, |completion| match completion {
            Completion::Values(values) => Some(values),
            _ => None,
        })?;
        let found = found.map_err(|error| self.failed("multi_get", &error))?;
        if found.len() != keys.len() {
            return Err(Stop::Violation(format!("multi_get of {} keys gave {}", keys.len(), found.len())));
        }
        for (key, found) in keys.iter().zip(found.iter()) {
            let expected = self.modelled_value(moment, model_id, key)?;
            self.same("multi_get", space, key, found, expected.as_deref())?;
        }
        Ok(())
    }

    pub(super) fn scan(&mut self, at: Option<u8>, visit: Visit) -> Result<(), Stop> {
        let Some((id, model_id)) = self.space(visit.space)? else { return Ok(()) };
        let range = range(visit);
        let expected = self.expected(at, model_id, &range)?;
        let mut scan = self.begin_scan(at, id, range)?;
        self.walk(&mut *scan, visit.space, usize::from(visit.records.max(1)), expected)
    }

    /// Walks all of `scan`, so many records at a time, and holds it to `expected`.
    pub(super) fn walk(
        &mut self,
        scan: &mut dyn Scan,
        space: u8,
        records: usize,
        expected: Records,
    ) -> Result<(), Stop> {
        let mut found = Records::new();
        let limit = BatchLimit { records, ..WHOLE };
        loop {
            let batch = self.next_batch(scan, limit)?;
            found.extend(batch.records().map(|(key, value)| (key.to_vec(), value.to_vec())));
            if batch.is_finished() {
                break;
            }
        }
        let mut expected = expected.into();
        self.same_records(space, &found, &mut expected)?;
        self.is_exhausted(space, &expected)
    }

    pub(super) fn scan_open(&mut self, slot: u8, at: Option<u8>, visit: Visit) -> Result<(), Stop> {
        let Some((id, model_id)) = self.space(visit.space)? else { return Ok(()) };
        let range = range(visit);
        let expected = self.expected(at, model_id, &range)?.into();
        let moment = self.moment(at)?;
        let scan = self.begin_scan(at, id, range.clone())?;
        let (space, records_max) = (visit.space % SPACE_COUNT, usize::from(visit.records.max(1)));
        let open_scan = OpenScan { scan, space, range, moment, records_max, expected, is_finished: false };
        self.opened()?.scans.insert(slot, open_scan);
        Ok(())
    }

    /// Opens the other direction from an open scan, and walks all of it.
    pub(super) fn scan_turn(&mut self, slot: u8) -> Result<(), Stop> {
        let Some(open_scan) = self.opened()?.scans.remove(&slot) else { return Ok(()) };
        let OpenScan { space, ref range, moment, records_max, .. } = open_scan;
        let Some((_, model_id)) = self.space(space)? else { return Ok(()) };
        let direction = match range.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        let range = ScanRange { direction, ..range.clone() };
        let expected = self.model.scan(moment, model_id, &range, self.now_ms());
        let expected =
            expected.map_err(|error| Stop::Violation(format!("the model itself fails: {error}")))?;
        let mut turned = open_scan.scan.reopen(range).map_err(|error| self.failed("reopen", &error))?;
        self.walk(&mut *turned, space, records_max, expected)?;
        self.opened()?.scans.insert(slot, open_scan);
        Ok(())
    }

    pub(super) fn scan_next(&mut self, slot: u8) -> Result<(), Stop> {
        let Some(mut open_scan) = self.opened()?.scans.remove(&slot) else { return Ok(()) };
        let limit = BatchLimit { records: open_scan.records_max, ..WHOLE };
        let batch = self.next_batch(&mut *open_scan.scan, limit)?;
        if open_scan.is_finished && !(batch.is_empty() && batch.is_finished()) {
            return Err(Stop::Violation("a finished scan went on".to_owned()));
        }
        let found: Records = batch.records().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        self.same_records(open_scan.space, &found, &mut open_scan.expected)?;
        open_scan.is_finished = batch.is_finished();
        if open_scan.is_finished {
            self.is_exhausted(open_scan.space, &open_scan.expected)?;
        }
        self.opened()?.scans.insert(slot, open_scan);
        Ok(())
    }

    pub(super) fn snapshot_open(&mut self, slot: u8) -> Result<(), Stop> {
        let moment = self.model.end();
        let snapshot = self.opened()?.opened.engine.snapshot();
        let snapshot = snapshot.map_err(|error| self.failed("snapshot", &error))?;
        self.opened()?.snapshots.insert(slot, (snapshot, moment));
        Ok(())
    }

    /// Reads everything every way, now and at every open snapshot.
    pub(super) fn verify(&mut self) -> Result<(), Stop> {
        let slots: Vec<u8> = self.opened()?.snapshots.keys().copied().collect();
        let numbers: Vec<u16> = (0..KEY_COUNT).collect();
        let keeps_order = self.keeps_order()?;
        for at in std::iter::once(None).chain(slots.into_iter().map(Some)) {
            for space in 0..SPACE_COUNT {
                for backward in if keeps_order { &[false, true][..] } else { &[] } {
                    let backward = *backward;
                    self.scan(at, Visit { space, backward, records: 1000, ..Visit::default() })?;
                }
                self.multi_get(at, space, &numbers)?;
            }
        }
        Ok(())
    }

    /// Everything the engine holds.
    pub(super) fn content(&mut self) -> Result<Content, Stop> {
        let keys: Vec<Vec<u8>> = (0..KEY_COUNT).map(key).collect();
        let content = sessions::content(&self.opened()?.opened.engine, &keys);
        content.map_err(|error| self.failed("reading everything", &error))
    }

    fn expected(&mut self, at: Option<u8>, id: KeyspaceId, range: &ScanRange) -> Result<Records, Stop> {
        let moment = self.moment(at)?;
        let records = self.model.scan(moment, id, range, self.now_ms());
        records.map_err(|error| Stop::Violation(format!("the model itself fails: {error}")))
    }

    pub(super) fn same(
        &mut self,
        what: &str,
        space: u8,
        key: &[u8],
        found: Option<&[u8]>,
        expected: Option<&[u8]>,
    ) -> Result<(), Stop> {
        if found == expected {
            return Ok(());
        }
        if found.is_none() && expected.is_some_and(|value| may_be_gone(space, value)) {
            self.gone_count += 1;
            return Ok(());
        }
        let show = |value: Option<&[u8]>| value.map_or("nothing".to_owned(), shown);
        let text = format!("{what} of {}: found {}, expected {}", shown(key), show(found), show(expected));
        Err(Stop::Violation(text))
    }

    /// Takes `found` from the front of `expected`, with whatever compactions may have dropped
    /// between.
    pub(super) fn same_records(
        &mut self,
        space: u8,
        found: &Records,
        expected: &mut VecDeque<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), Stop> {
        for (index, found) in found.iter().enumerate() {
            let mut next = expected.pop_front();
            while next.as_ref().is_some_and(|next| next != found && may_be_gone(space, &next.1)) {
                self.gone_count += 1;
                next = expected.pop_front();
            }
            if next.as_ref() != Some(found) {
                return Err(different(space, index, Some(found), next.as_ref()));
            }
        }
        Ok(())
    }

    /// Nothing is left in `expected` that must be found.
    pub(super) fn is_exhausted(
        &mut self,
        space: u8,
        expected: &VecDeque<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), Stop> {
        match expected.iter().find(|(_, value)| !may_be_gone(space, value)) {
            Some(left) => Err(different(space, 0, None, Some(left))),
            None => {
                self.gone_count += expected.len() as u64;
                Ok(())
            }
        }
    }

    fn begin_scan(
        &mut self,
        at: Option<u8>,
        id: KeyspaceId,
        range: ScanRange,
    ) -> Result<Box<dyn Scan>, Stop> {
        let open = self.opened()?;
        let at = at.and_then(|slot| open.snapshots.get(&slot));
        let read_at = at.map_or(ReadAt::Latest, |(snapshot, _)| ReadAt::Snapshot(snapshot));
        let Some(session) = open.session.ordered() else { return Err(unordered()) };
        let scan = session.scan(read_at, id, range);
        scan.map_err(|error| self.failed("scan", &error))
    }

    fn next_batch(&mut self, scan: &mut dyn Scan, limit: BatchLimit) -> Result<ScanBatch, Stop> {
        let mut out = ScanBatch::new();
        let outcome = scan.next_batch(limit, &mut out).map(|outcome| match outcome {
            firn_engine::Outcome::Done(()) => firn_engine::Outcome::Done(out),
            firn_engine::Outcome::Pending(ticket) => firn_engine::Outcome::Pending(ticket),
        });
        let batch = self.settle(outcome, TakeTime::No, |completion| match completion {
            Completion::Scanned(batch) => Some(batch),
            _ => None,
        })?;
        let batch = batch.map_err(|error| self.failed("next_batch", &error))?;
        match batch.len() {
            count if count > limit.records => {
                Err(Stop::Violation(format!("a batch of {count} records, limit {}", limit.records)))
            }
            _ => Ok(batch),
        }
    }
}

/// A step that needs order on an engine without.
pub(super) fn unordered() -> Stop {
    Stop::Violation("a step that needs order was not left out".to_owned())
}

pub(super) fn range(visit: Visit) -> ScanRange {
    let prefix = visit.prefix.map(|(number, bytes)| {
        let mut prefix = key(number);
        prefix.truncate(usize::from(bytes));
        prefix
    });
    let direction = if visit.backward { Direction::Backward } else { Direction::Forward };
    ScanRange { start: visit.start.map(key).unwrap_or_default(), end: visit.end.map(key), prefix, direction }
}

/// What is wrong with record `index` of a scan (counted within a batch).
fn different(
    space: u8,
    index: usize,
    found: Option<&(Vec<u8>, Vec<u8>)>,
    expected: Option<&(Vec<u8>, Vec<u8>)>,
) -> Stop {
    let show = |record: Option<&(Vec<u8>, Vec<u8>)>| {
        record.map_or("the end".to_owned(), |(key, value)| format!("{} = {}", shown(key), shown(value)))
    };
    let (found, expected, name) = (show(found), show(expected), space_name(space));
    Stop::Violation(format!("record {index} of a scan of {name}: found {found}, expected {expected}"))
}
