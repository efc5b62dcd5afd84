//! One object being written: in one request if it is small, else in parts.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use firn_storage::backend::RequestClass;
use firn_storage::{Error, ErrorKind, Result, WriteFile};
use object_store::MultipartUpload;
use tokio::task::JoinHandle;

use crate::store::{Seen, Store, cannot};

/// Parts on their way at once.
const PARTS_IN_FLIGHT_MAX: usize = 4;

/// A file that becomes an object when it is first synced. Holds up to five parts in memory. Dropped
/// before, it leaves nothing.
pub(crate) struct ObjectWriteFile {
    store: Arc<Store>,
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes written so far.
    len: u64,
    /// The last of them, which are in no part yet.
    tail: Vec<u8>,
    upload: Option<Upload>,
    in_flight: VecDeque<JoinHandle<object_store::Result<()>>>,
    is_complete: bool,
    failure: Option<Error>,
}

/// Parts that are to become an object.
struct Upload {
    parts: Box<dyn MultipartUpload>,
    /// The mark by which the object will name its owner.
    owner: String,
}

impl ObjectWriteFile {
    pub(crate) fn new(store: Arc<Store>, name: &str) -> Self {
        Self { store, name: name.to_owned(), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the tail as a part.
    fn send_part(&self, state: &mut State) -> Result<()> {
        let store = &self.store;
        if state.upload.is_none() {
            let begun = store.begin_parts(&self.name);
            let (parts, owner) = begun.map_err(|error| self.failed(&error))?;
            state.upload = Some(Upload { parts, owner });
        }
        while state.in_flight.len() >= PARTS_IN_FLIGHT_MAX {
            self.wait_for_part(state)?;
        }
        let Some(upload) = &mut state.upload else { return Ok(()) };
        let part = Bytes::from(std::mem::replace(&mut state.tail, Vec::with_capacity(store.part_bytes)));
        store.pass(RequestClass::Write, part.len() as u64);
        state.in_flight.push_back(store.runtime.begin(upload.parts.put_part(part.into())));
        Ok(())
    }

    fn wait_for_part(&self, state: &mut State) -> Result<()> {
        let Some(part) = state.in_flight.pop_front() else { return Ok(()) };
        match self.store.runtime.wait(part) {
            Ok(sent) => sent.map_err(|error| self.failed(&error)),
            Err(error) => {
                Err(Error::new(ErrorKind::Refused, &self.name, format!("a part was given up: {error}")))
            }
        }
    }

    fn complete(&self, state: &mut State) -> Result<()> {
        let store = &self.store;
        if state.upload.is_none() {
            return store.put(&self.name, Bytes::from(std::mem::take(&mut state.tail)), "write");
        }
        if !state.tail.is_empty() {
            self.send_part(state)?;
        }
        while !state.in_flight.is_empty() {
            self.wait_for_part(state)?;
        }
        // Not every store has a condition for the last step: no two writers share such a name, but
        // a mistake shows here.
        if store.is_there(&self.name)? {
            return Err(self.taken());
        }
        let Some(upload) = &mut state.upload else { return Ok(()) };
        if let Err(error) = store.ask(RequestClass::Write, 0, upload.parts.complete()) {
            // The answer that was lost may have been yes, and a received one may be about a second
            // try: what is there decides.
            match store.look(&self.name) {
                Ok(Seen { bytes, owner: Some(owner) }) if owner == upload.owner && bytes == state.len => {}
                Ok(Seen { owner: Some(owner), .. }) if owner != upload.owner => return Err(self.taken()),
                _ => return Err(self.failed(&error)),
            }
        }
        state.upload = None;
        Ok(())
    }

    /// What a request about parts has failed with. The upload may be gone, or the name taken by an
    /// unknown writer: a writer that tries again under another name meets neither.
    fn failed(&self, error: &object_store::Error) -> Error {
        let error = self.store.error(&self.name, "write", error);
        match error.kind {
            ErrorKind::NotFound | ErrorKind::Exists => Error { kind: ErrorKind::Refused, ..error },
            _ => error,
        }
    }

    fn taken(&self) -> Error {
        Error::new(ErrorKind::Exists, &self.name, "there is such an object")
    }

    /// Does `what` unless something failed before; what fails is final.
    fn unless_failed(&self, what: impl FnOnce(&mut State) -> Result<()>) -> Result<()> {
        let mut state = self.lock();
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        what(&mut state).inspect_err(|error| state.failure = Some(error.clone()))
    }
}

impl WriteFile for ObjectWriteFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.unless_failed(|state| {
            if state.is_complete || offset != state.len {
                let message =
                    format!("expected to go on at {}: an object is written once, in order", state.len);
                return Err(Error {
                    offset: Some(offset),
                    ..Error::new(ErrorKind::Invalid, &self.name, message)
                });
            }
            let mut rest = bytes;
            while !rest.is_empty() {
                let room = self.store.part_bytes - state.tail.len();
                let (now, later) = rest.split_at(room.min(rest.len()));
                state.tail.extend_from_slice(now);
                state.len += now.len() as u64;
                rest = later;
                // The last part is sent when it is known to be the last one, so that what is small
                // goes in one request.
                if state.tail.len() == self.store.part_bytes && !rest.is_empty() {
                    self.send_part(state)?;
                }
            }
            Ok(())
        })
    }

    fn read_at(&self, _offset: u64, _out: &mut [u8]) -> Result<()> {
        Err(cannot(&self.name, "an object cannot be read while it is written"))
    }

    fn sync(&self) -> Result<()> {
        self.unless_failed(|state| {
            if !state.is_complete {
                self.complete(state)?;
                state.is_complete = true;
            }
            Ok(())
        })
    }

    fn write_back(&self, _offset: u64, _bytes: u64) -> Result<()> {
        // Whole parts are on their way already.
        Ok(())
    }

    fn allocate(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        match self.lock().len == bytes {
            true => Ok(()),
            false => Err(cannot(&self.name, "an object has the length that was written")),
        }
    }
}

impl Drop for ObjectWriteFile {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut upload) = state.upload.take() {
            state.in_flight.iter().for_each(JoinHandle::abort);
            // No thread waits for it. What stays its database removes, on S3. Elsewhere the
            // bucket's rule for unfinished uploads does, or it goes after a week (Azure, which has
            // no request for it).
            drop(self.store.runtime.begin(async move { upload.parts.abort().await }));
        }
    }
}

impl fmt::Debug for ObjectWriteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectWriteFile").field("name", &self.name).finish_non_exhaustive()
    }
}
