//! A backend that fails on command, and counts what is asked of it.

mod counters;
mod file;
mod ledger;
mod script;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backend::{CacheCounters, SharedPart, UnfinishedUpload};
use crate::{Clock, Error, ErrorKind, ManualClock, ReadFile, Result, Storage, StorageLock, WriteFile};

use self::file::{FaultyReadFile, FaultyWriteFile};
use self::ledger::Ledger;
use self::script::Armed;

pub use self::counters::{Count, Counters};
pub use self::script::{Effect, Fault, Operation, When};

/// Another backend, with scripted faults, a limit on its space, and counters.
///
/// A clone is another handle of the same backend. Without faults and limit it behaves as the
/// backend inside does.
///
/// As on Linux, a failed sync loses what it should have written. Later syncs of that file, through
/// whatever handle, say yes and do nothing. So a crash of the backend inside shows which callers
/// believed them.
#[derive(Clone, Debug)]
pub struct Faulty {
    inner: Arc<dyn Storage>,
    ways: Arc<Ways>,
}

/// What all handles of one faulty backend and its files share.
#[derive(Debug)]
struct Ways {
    clock: Arc<dyn Clock>,
    /// Those of backends that were linked from this one, too.
    script: Arc<Mutex<Vec<Armed>>>,
    counters: Mutex<Counters>,
    ledger: Mutex<Ledger>,
}

impl Faulty {
    /// `inner`, without faults so far. Delays take no real time.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self::with_clock(inner, Arc::new(ManualClock::default()))
    }

    /// `inner`, whose delays are slept on `clock`.
    pub fn with_clock(inner: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Self {
        let (script, counters, ledger) = Default::default();
        Self { inner, ways: Arc::new(Ways { clock, script, counters, ledger }) }
    }

    /// Adds a fault to the script; its count of matching operations begins now.
    pub fn inject(&self, fault: Fault) {
        self.ways.script().push(Armed::new(fault));
    }

    /// Forgets all faults of the script. Files whose sync failed stay as they are.
    pub fn clear_faults(&self) {
        self.ways.script().clear();
    }

    /// How often a fault of the script struck since it was last cleared, delays included.
    pub fn struck_count(&self) -> u64 {
        self.ways.script().iter().map(|armed| armed.struck).sum()
    }

    /// Lets the files grow by `bytes` more in sum, from now on; `None` lifts the limit.
    ///
    /// A file takes its length, or what was allocated for it if that is more. A write beyond the
    /// limit is done as far as it goes and fails with `Full`; a publication fails whole. Removing
    /// or cutting a file gives its space back at once, though it be open. Fails if the backend
    /// inside cannot be listed.
    pub fn limit_space(&self, bytes: Option<u64>) -> Result<()> {
        let files = self.inner.list()?;
        self.ways.ledger().limit(bytes, &files);
        Ok(())
    }

    /// What was asked of this backend so far.
    pub fn counters(&self) -> Counters {
        self.ways.counters().clone()
    }
}

impl Ways {
    fn script(&self) -> MutexGuard<'_, Vec<Armed>> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation, sleeps the delays that strike it, and says what else strikes it.
    fn meet(&self, on: Operation, file: &str) -> Option<Effect> {
        self.counters().add(on, file, Count { operations: 1, bytes: 0 });
        let (mut delay, mut effect) = (Duration::ZERO, None);
        for armed in self.script().iter_mut() {
            match armed.meet(on, file) {
                Some(Effect::Delay(time)) => delay += time,
                Some(other) => effect = effect.or(Some(other)),
                None => {}
            }
        }
        if delay > Duration::ZERO {
            self.clock.sleep(delay);
        }
        effect
    }

    /// Does `action` as operation `on` of `file`, unless a fault strikes it.
    fn run<T>(&self, on: Operation, file: &str, action: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.meet(on, file) {
            None | Some(Effect::Delay(_) | Effect::Turn) => action(),
            Some(Effect::FailAfter(kind)) => {
                action()?;
                Err(injected(kind, on, file))
            }
            Some(Effect::Fail(kind) | Effect::ShortWrite { kind, .. }) => Err(injected(kind, on, file)),
        }
    }

    fn add_bytes(&self, on: Operation, file: &str, bytes: usize) {
        self.counters().add(on, file, Count { operations: 0, bytes: bytes as u64 });
    }
}

fn injected(kind: ErrorKind, on: Operation, file: &str) -> Error {
    let kind = match (kind, on) {
        // As the system's own: whatever the device says of a sync, what it has is unknown.
        (ErrorKind::Io, Operation::Sync | Operation::SyncDir | Operation::WriteBack) => ErrorKind::Unsynced,
        _ => kind,
    };
    let advice = if kind == ErrorKind::Full { ": free some space" } else { "" };
    Error::new(kind, file, format!("cannot {} (a scripted fault){advice}", on.verb()))
}

fn full(file: &str) -> Error {
    Error::new(ErrorKind::Full, file, "no space left (a scripted limit): free some space")
}

impl Faulty {
    fn write_handle(&self, inner: Arc<dyn WriteFile>, name: &str) -> Arc<dyn WriteFile> {
        let number = self.ways.ledger().file(name);
        Arc::new(FaultyWriteFile { inner, ways: self.ways.clone(), name: name.to_owned(), number })
    }

    fn read_handle(&self, inner: Arc<dyn ReadFile>, name: &str) -> Arc<dyn ReadFile> {
        Arc::new(FaultyReadFile { inner, ways: self.ways.clone(), name: name.to_owned() })
    }
}

impl Storage for Faulty {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        let file = self.ways.run(Operation::Create, name, || self.inner.create(name))?;
        Ok(self.write_handle(file, name))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        let file = self.ways.run(Operation::OpenWrite, name, || self.inner.open_write(name))?;
        Ok(self.write_handle(file, name))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let inner = self.ways.run(Operation::OpenRead, name, || self.inner.open_read(name))?;
        Ok(self.read_handle(inner, name))
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        let inner = self.ways.run(Operation::OpenRead, name, || self.inner.open_read_known(name, bytes))?;
        Ok(self.read_handle(inner, name))
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.ways.run(Operation::Publish, name, || {
            if !self.ways.ledger().has_space_for(bytes.len() as u64) {
                return Err(full(name));
            }
            self.inner.publish(name, bytes)?;
            self.ways.ledger().published(name, bytes.len() as u64);
            self.ways.add_bytes(Operation::Publish, name, bytes.len());
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.ways.run(Operation::Rename, from, || {
            self.inner.rename(from, to)?;
            self.ways.ledger().renamed(from, to);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.ways.run(Operation::Remove, name, || {
            self.inner.remove(name)?;
            self.ways.ledger().removed(name);
            Ok(())
        })
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.ways.run(Operation::List, "", || self.inner.list())
    }

    fn sync_dir(&self) -> Result<()> {
        self.ways.run(Operation::SyncDir, "", || self.inner.sync_dir())
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn StorageLock>> {
        self.ways.run(Operation::Lock, "", || self.inner.lock(exclusive))
    }

    /// What is asked of the directory that comes back meets the same faults; it is not counted
    /// here, and has no limit.
    fn link_into(&self, names: &[String], path: &Path) -> Result<Arc<dyn Storage>> {
        let inner = self.ways.run(Operation::LinkInto, "", || self.inner.link_into(names, path))?;
        let (clock, script) = (Arc::clone(&self.ways.clock), Arc::clone(&self.ways.script));
        let (counters, ledger) = Default::default();
        Ok(Arc::new(Self { inner, ways: Arc::new(Ways { clock, script, counters, ledger }) }))
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        let free = self.ways.ledger().free();
        match free {
            Some(_) => Ok(free),
            None => self.inner.free_bytes(),
        }
    }

    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }

    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        self.ways.run(Operation::ListUploads, "", || self.inner.unfinished_uploads())
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        self.ways.run(Operation::AbortUpload, &upload.name, || self.inner.abort_upload(upload))
    }

    fn describe(&self) -> String {
        format!("faulty {}", self.inner.describe())
    }

    /// What is shared is shared without faults: for those the parts are to be faulty, not the
    /// whole.
    fn shared_part(&self) -> Option<&dyn SharedPart> {
        self.inner.shared_part()
    }

    fn cache_counters(&self) -> Option<CacheCounters> {
        self.inner.cache_counters()
    }
}
