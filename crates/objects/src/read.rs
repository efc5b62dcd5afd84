//! One object being read: by ranges, some of them asked for before they are wanted.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use firn_storage::{Error, FileBytes, ReadFile, Result};
use object_store::ObjectStoreExt;
use tokio::task::JoinHandle;

use crate::limits::RequestClass;
use crate::place::Store;

/// Ranges that one file has ahead of its reader; the oldest is forgotten for the next one.
const AHEAD_MAX: usize = 4;

/// An object of known length.
#[derive(Debug)]
pub(crate) struct ObjectReadFile {
    store: Arc<Store>,
    name: String,
    len: u64,
    ahead: Mutex<Vec<Ahead>>,
}

/// A range that somebody said he will need.
#[derive(Debug)]
struct Ahead {
    range: Range<u64>,
    bytes: Coming,
}

#[derive(Debug)]
enum Coming {
    Asked(JoinHandle<object_store::Result<Bytes>>),
    Here(Bytes),
}

impl ObjectReadFile {
    pub(crate) fn new(store: Arc<Store>, name: &str, len: u64) -> Self {
        Self { store, name: name.to_owned(), len, ahead: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked for ahead and has all of `range`, if it came.
    fn take_ahead(&self, range: &Range<u64>) -> Option<Bytes> {
        let mut ahead = self.lock();
        let has = |known: &Ahead| known.range.start <= range.start && range.end <= known.range.end;
        let at = ahead.iter().position(has)?;
        let found = ahead.remove(at);
        drop(ahead);
        let bytes = match found.bytes {
            Coming::Here(bytes) => bytes,
            // What failed is asked for again by whoever wants it.
            Coming::Asked(asked) => self.store.runtime.wait(asked).ok()?.ok()?,
        };
        let start = (range.start - found.range.start) as usize;
        let wanted = bytes.get(start..start + (range.end - range.start) as usize)?;
        let wanted = bytes.slice_ref(wanted);
        if range.end < found.range.end {
            self.lock().push(Ahead { range: found.range, bytes: Coming::Here(bytes) });
        }
        Some(wanted)
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
        if out.is_empty() {
            return Ok(());
        }
        let range = offset..end;
        let found = match self.take_ahead(&range) {
            Some(found) => found,
            None => self.store.read(&self.name, offset, end)?,
        };
        if found.len() != out.len() {
            let message = format!("expected {} bytes, but the store sent {}", out.len(), found.len());
            return Err(Error::corrupt(&self.name, offset, message));
        }
        out.copy_from_slice(&found);
        Ok(())
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        let range = offset.min(self.len)..offset.saturating_add(bytes).min(self.len);
        let mut ahead = self.lock();
        let has = |known: &Ahead| known.range.start <= range.start && range.end <= known.range.end;
        if range.is_empty() || ahead.iter().any(has) {
            return;
        }
        if ahead.len() >= AHEAD_MAX {
            ahead.remove(0);
        }
        self.store.pass(RequestClass::Read, range.end - range.start);
        let (objects, path) = (Arc::clone(self.store.objects()), self.store.path(&self.name));
        let wanted = range.clone();
        let asked = self.store.runtime.begin(async move { objects.get_range(&path, wanted).await });
        ahead.push(Ahead { range, bytes: Coming::Asked(asked) });
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        Ok(None)
    }
}
