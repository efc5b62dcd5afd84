//! One object being read: by ranges, some of them asked for before they are wanted.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use firn_storage::backend::{ASKED_MAX, RequestClass};
use firn_storage::{Error, FileBytes, ReadFile, Result};
use tokio::task::JoinHandle;

use crate::store::{Fetched, Store, fetch};

/// Ranges that one file has ahead of its readers; the oldest is forgotten for the next one.
const AHEAD_MAX: usize = ASKED_MAX;

/// An object of known length.
#[derive(Debug)]
pub(crate) struct ObjectReadFile {
    store: Arc<Store>,
    name: String,
    len: u64,
    ahead: Mutex<VecDeque<Ahead>>,
}

/// A range that a reader said it will need. No two of a file have a byte in common.
#[derive(Debug)]
struct Ahead {
    range: Range<u64>,
    bytes: Coming,
}

#[derive(Debug)]
enum Coming {
    Asked(JoinHandle<object_store::Result<Fetched>>),
    Here(Bytes),
}

/// What comes next of a range that is read.
enum Next {
    /// It was asked for ahead.
    Ahead(Ahead),
    /// It was not, up to here.
    Missing(u64),
}

impl ObjectReadFile {
    pub(crate) fn new(store: Arc<Store>, name: &str, len: u64) -> Self {
        Self { store, name: name.to_owned(), len, ahead: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was asked for ahead at `range.start`, or says how much was not.
    fn next(&self, range: &Range<u64>) -> Next {
        let mut ahead = self.lock();
        if let Some(at) = ahead.iter().position(|known| known.range.contains(&range.start))
            && let Some(found) = ahead.remove(at)
        {
            return Next::Ahead(found);
        }
        let begins = ahead.iter().map(|known| known.range.start).filter(|start| range.contains(start));
        Next::Missing(begins.min().unwrap_or(range.end))
    }

    /// As much of `range` as `found`, which has its beginning, has; what comes behind is kept.
    /// `None` if it did not come: the reader asks again.
    fn take(&self, found: Ahead, range: &Range<u64>) -> Option<Bytes> {
        let bytes = match found.bytes {
            Coming::Here(bytes) => bytes,
            Coming::Asked(asked) => {
                let fetched = self.store.runtime.wait(asked).ok()?.ok()?;
                (fetched.object_bytes == self.len).then_some(fetched.bytes)?
            }
        };
        let at = |offset: u64| usize::try_from(offset - found.range.start).ok();
        let end = range.end.min(found.range.end);
        let (start, split) = (at(range.start)?, at(end)?);
        if bytes.len() as u64 != found.range.end - found.range.start {
            return None;
        }
        if end < found.range.end {
            let rest = Ahead { range: end..found.range.end, bytes: Coming::Here(bytes.slice(split..)) };
            self.lock().push_front(rest);
        }
        Some(bytes.slice(start..split))
    }

    /// The beginning of `range`, at least a byte.
    fn read_some(&self, range: Range<u64>) -> Result<Bytes> {
        let wanted = match self.next(&range) {
            Next::Missing(until) => range.start..until,
            Next::Ahead(found) => {
                let (until, asked_until) = (range.end.min(found.range.end), found.range.end);
                match self.take(found, &range) {
                    Some(bytes) => return Ok(bytes),
                    None => {
                        // A reader that reads on wants the rest too, by one request.
                        self.will_need(until, asked_until - until);
                        range.start..until
                    }
                }
            }
        };
        let (offset, expected) = (wanted.start, wanted.end - wanted.start);
        let found = self.store.read(&self.name, wanted, self.len)?;
        if found.len() as u64 == expected {
            return Ok(found);
        }
        let message = format!("expected {expected} bytes, but the store sent {}", found.len());
        Err(Error::corrupt(&self.name, offset, message))
    }
}

impl ReadFile for ObjectReadFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.len);
        let Some(end) = end else {
            let message = format!("expected {} bytes here, but the file ends at {}", out.len(), self.len);
            return Err(Error::corrupt(&self.name, offset, message));
        };
        let mut rest = out;
        while !rest.is_empty() {
            let found = self.read_some(end - rest.len() as u64..end)?;
            let (filled, later) = rest.split_at_mut(found.len());
            filled.copy_from_slice(&found);
            rest = later;
        }
        Ok(())
    }

    /// What is on its way or here is not asked for again.
    fn will_need(&self, offset: u64, bytes: u64) {
        let mut range = offset.min(self.len)..offset.saturating_add(bytes).min(self.len);
        let mut ahead = self.lock();
        while let Some(known) = ahead.iter().find(|known| known.range.contains(&range.start)) {
            range.start = known.range.end;
        }
        let begins = ahead.iter().map(|known| known.range.start).filter(|start| range.contains(start));
        range.end = begins.min().unwrap_or(range.end);
        if range.is_empty() {
            return;
        }
        if ahead.len() >= AHEAD_MAX {
            ahead.pop_front().into_iter().for_each(Ahead::abandon);
        }
        self.store.pass(RequestClass::Read, range.end - range.start);
        let request = fetch(Arc::clone(self.store.objects()), self.store.path(&self.name), range.clone());
        ahead.push_back(Ahead { range, bytes: Coming::Asked(self.store.runtime.begin(request)) });
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        Ok(None)
    }
}

impl Ahead {
    /// It is not wanted any more: what has not come yet need not.
    fn abandon(self) {
        if let Coming::Asked(asked) = self.bytes {
            asked.abort();
        }
    }
}

impl Drop for ObjectReadFile {
    fn drop(&mut self) {
        std::mem::take(&mut *self.lock()).into_iter().for_each(Ahead::abandon);
    }
}
