//! A run walked in order, both ways.

use std::ops::Deref;

use firn_format::key::Entry;
use firn_jobs::Cursor;

use super::{Arc, Records, Result, Run, Sequence, find};

/// How many entries ahead of a walk records are loaded.
const AHEAD_ENTRIES: usize = 8;

/// Bytes of each record to load ahead while a walk is short and may end before it gets there. A
/// walk of `LONG_WALK` steps loads records whole.
const FRONT_BYTES: usize = 256;
const LONG_WALK: usize = 64;

/// A cursor on a version of a run that lies below a sequence. Holds the run, and what leads to its
/// records.
#[derive(Debug)]
pub(crate) struct RunCursor<P> {
    run: Arc<Run>,
    before: Sequence,
    records: P,
    /// Index of the entry it stands on; the record there was found.
    at: Option<usize>,
    /// Bytes of the record that it stood on last; the next ones may have as many.
    record_bytes: usize,
    /// Steps forward since it was set somewhere.
    walked: usize,
}

impl<P> RunCursor<P> {
    pub(super) fn new(run: Arc<Run>, before: Sequence, records: P) -> Self {
        Self { run, before, records, at: None, record_bytes: 0, walked: 0 }
    }
}

impl<P: Deref<Target: Records>> RunCursor<P> {
    /// Stands on the first visible entry at `start` or behind.
    fn settle_forward(&mut self, start: usize) -> Result<()> {
        let before = self.before;
        let tail = self.run.entries.get(start..).unwrap_or_default();
        let visible = tail.iter().position(|entry| entry.trailer.sequence() < before);
        self.stand(visible.map(|skipped| start + skipped))
    }

    /// Stands on the last visible entry in front of `end`.
    fn settle_backward(&mut self, end: usize) -> Result<()> {
        let before = self.before;
        let head = self.run.entries.get(..end).unwrap_or_default();
        self.stand(head.iter().rposition(|entry| entry.trailer.sequence() < before))
    }

    /// Begins to load the record that a walk forward reaches soon: each lies somewhere else.
    #[inline]
    fn look_ahead(&mut self, from: usize) {
        self.walked += 1;
        if let Some(entry) = self.run.entries.get(from + AHEAD_ENTRIES) {
            let bytes = if self.walked < LONG_WALK { FRONT_BYTES } else { self.record_bytes };
            self.records.begin_load(entry.position(), bytes);
        }
    }

    fn stand(&mut self, at: Option<usize>) -> Result<()> {
        self.at = None;
        if let Some(index) = at {
            self.record_bytes = find(self.run.entries[index], &*self.records)?.bytes();
        }
        self.at = at;
        Ok(())
    }
}

impl<P: Deref<Target: Records> + Send> Cursor for RunCursor<P> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let entry = *self.run.entries.get(self.at?)?;
        let record = self.records.record(entry.position())?;
        Some(Entry {
            key: record.key,
            sequence: entry.trailer.sequence(),
            kind: record.kind,
            expires_at_ms: record.expires_at_ms,
            value: record.value,
        })
    }

    fn seek_first(&mut self) -> Result<()> {
        self.walked = 0;
        self.settle_forward(0)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.walked = 0;
        self.settle_backward(self.run.entries.len())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.walked = 0;
        self.at = None;
        let start = self.run.lower_bound(key, &*self.records)?;
        self.settle_forward(start)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.walked = 0;
        self.at = None;
        let end = self.run.lower_bound(key, &*self.records)?;
        self.settle_backward(end)
    }

    fn next(&mut self) -> Result<()> {
        match self.at {
            Some(at) => {
                self.look_ahead(at);
                self.settle_forward(at + 1)
            }
            None => Ok(()),
        }
    }

    fn prev(&mut self) -> Result<()> {
        match self.at {
            Some(at) => self.settle_backward(at),
            None => Ok(()),
        }
    }
}
