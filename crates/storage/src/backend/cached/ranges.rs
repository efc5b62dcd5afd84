//! The blocks that are here or on their way, and the file that they lie in.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use firn_format::checksum::xxh3;

use crate::{Error, ErrorKind, Result, Storage, StorageLock, WriteFile};

use super::slots::{FileId, Found, Key, Slots};

/// What is asked of the store, and kept, at once.
pub(super) const BLOCK_BYTES: u64 = 256 << 10;

/// What a checksum is for: a read from here is rounded to it.
const PIECE_BYTES: usize = 16 << 10;

/// What the file is called.
const FILE: &str = "ranges.cache";

/// Blocks of many files. A failure of their directory is counted, and fails no read.
#[derive(Debug)]
pub(super) struct Ranges {
    disk: Option<Disk>,
    state: Mutex<State>,
    pub(super) counts: Counts,
}

#[derive(Debug)]
struct State {
    slots: Slots,
    flights: HashMap<Key, Arc<Flight>>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) fetched_bytes: AtomicU64,
    pub(super) passed_bytes: AtomicU64,
    pub(super) failures: AtomicU64,
}

/// One more, or so many more. Counters say nothing about other memory.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// The file that blocks lie in, at multiples of their length.
#[derive(Debug)]
struct Disk {
    directory: Arc<dyn Storage>,
    file: Arc<dyn WriteFile>,
    _lock: Box<dyn StorageLock>,
}

impl Disk {
    /// An empty file instead of whatever an earlier process has left.
    fn open(directory: Arc<dyn Storage>) -> Result<Self> {
        let lock = directory.lock(true)?;
        match directory.remove(FILE) {
            Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = directory.create(FILE)?;
        Ok(Self { directory, file, _lock: lock })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The next process to open the directory removes what stays.
        let _removed = self.directory.remove(FILE);
    }
}

/// A block that a thread asks the store for.
#[derive(Debug, Default)]
pub(super) struct Flight {
    landed: Mutex<Option<Result<Bytes>>>,
    landing: Condvar,
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, Option<Result<Bytes>>> {
        self.landed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn land(&self, bytes: Result<Bytes>) {
        self.lock().get_or_insert(bytes);
        self.landing.notify_all();
    }

    /// Blocks until the asking thread has an answer; what that is.
    pub(super) fn wait(&self) -> Result<Bytes> {
        let mut landed = self.lock();
        loop {
            match &*landed {
                Some(bytes) => return bytes.clone(),
                None => landed = self.landing.wait(landed).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// What is to be done for one block.
pub(super) enum Claim {
    /// It is here.
    Here(Found),
    /// Another thread asks the store for it.
    Coming(Arc<Flight>),
    /// The caller asks the store, at once: others wait for that.
    Mine(Claimed),
}

/// The duty to ask for a block. Dropped without an answer, it tells waiting threads that there is
/// none.
#[derive(Debug)]
pub(super) struct Claimed {
    ranges: Arc<Ranges>,
    key: Key,
    flight: Arc<Flight>,
}

impl Claimed {
    /// Waiting threads get `answer`; a block is kept if that can be done.
    pub(super) fn land(self, answer: Result<Bytes>) {
        let bytes = answer.as_ref().ok().cloned();
        self.flight.land(answer);
        if let Some(bytes) = bytes {
            self.ranges.keep(self.key, &bytes);
        }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.ranges.lock().flights.remove(&self.key);
        self.flight.land(Err(Error::new(
            ErrorKind::Refused,
            "",
            "the read that asked for it gave up; ask again",
        )));
    }
}

impl Ranges {
    /// At most `bytes` bytes in `directory`, and why none can be kept there, if so.
    pub(super) fn open(directory: Arc<dyn Storage>, bytes: u64) -> (Self, Option<Error>) {
        let slots_max = usize::try_from(bytes / BLOCK_BYTES).unwrap_or(usize::MAX);
        let opened = match slots_max {
            0 => Err(Error::new(ErrorKind::Invalid, "", format!("expected room for {BLOCK_BYTES} bytes"))),
            _ => Disk::open(directory),
        };
        match opened {
            Ok(disk) => {
                let state = Mutex::new(State { slots: Slots::new(slots_max), flights: HashMap::new() });
                (Self { disk: Some(disk), state, counts: Counts::default() }, None)
            }
            Err(error) => (Self::without_directory(), Some(error)),
        }
    }

    /// Nothing is kept.
    pub(super) fn without_directory() -> Self {
        let counts = Counts { failures: AtomicU64::new(1), ..Counts::default() };
        let state = Mutex::new(State { slots: Slots::new(0), flights: HashMap::new() });
        Self { disk: None, state, counts }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks held, and how many went for others.
    pub(super) fn held(&self) -> (u64, u64) {
        let state = self.lock();
        (state.slots.held() as u64, state.slots.evictions())
    }

    /// A handle of the file `name`, of `bytes` bytes; `None` if nothing of it can be kept.
    pub(super) fn file(&self, name: &str, bytes: u64) -> Option<FileId> {
        self.disk.as_ref()?;
        self.lock().slots.open(name, bytes)
    }

    pub(super) fn close(&self, file: FileId) {
        self.lock().slots.close(file);
    }

    /// Nothing of the file `name` is here any more, nor will what is on its way be.
    pub(super) fn forget(&self, name: &str) {
        self.lock().slots.forget(name);
    }

    /// Decides for each of `blocks` of `file`, all at once.
    pub(super) fn claim(self: &Arc<Self>, file: FileId, blocks: RangeInclusive<u64>) -> Vec<(u64, Claim)> {
        let mut state = self.lock();
        let State { slots, flights } = &mut *state;
        let mut claim = |block: u64| {
            let key = (file, block);
            if let Some(found) = slots.find(key) {
                add(&self.counts.hits, 1);
                return (block, Claim::Here(found));
            }
            if let Some(flight) = flights.get(&key) {
                add(&self.counts.hits, 1);
                return (block, Claim::Coming(Arc::clone(flight)));
            }
            add(&self.counts.misses, 1);
            let flight = Arc::new(Flight::default());
            flights.insert(key, Arc::clone(&flight));
            (block, Claim::Mine(Claimed { ranges: Arc::clone(self), key, flight }))
        };
        blocks.map(&mut claim).collect()
    }

    /// Of `blocks` of `file`, the ones that are neither here nor on their way.
    pub(super) fn missing(&self, file: FileId, blocks: RangeInclusive<u64>) -> Vec<u64> {
        let state = self.lock();
        blocks
            .filter(|block| !state.slots.has((file, *block)) && !state.flights.contains_key(&(file, *block)))
            .collect()
    }

    /// Fills `out` from `start` of the block that was `found`, checked by its checksums. `false` if
    /// that cannot be had any more: then it is given up.
    pub(super) fn read(
        &self,
        key: Key,
        found: &Found,
        start: usize,
        out: &mut [u8],
        block_bytes: usize,
    ) -> bool {
        let first = start / PIECE_BYTES;
        let (from, until) =
            (first * PIECE_BYTES, (start + out.len()).next_multiple_of(PIECE_BYTES).min(block_bytes));
        let mut stored = vec![0; until - from];
        let at = found.slot as u64 * BLOCK_BYTES + from as u64;
        let read = self.disk.as_ref().is_some_and(|disk| disk.file.read_at(at, &mut stored).is_ok());
        let sums = found.sums.get(first..).unwrap_or_default();
        let is_good = read
            && stored
                .chunks(PIECE_BYTES)
                .enumerate()
                .all(|(piece, bytes)| sums.get(piece) == Some(&xxh3(bytes)));
        if let (true, Some(wanted)) = (is_good, stored.get(start - from..start - from + out.len())) {
            out.copy_from_slice(wanted);
            return true;
        }
        // Unless another block lies there by now, which is no failure.
        if self.lock().slots.drop_bad(key, found) {
            add(&self.counts.failures, 1);
        }
        false
    }

    fn keep(&self, key: Key, bytes: &Bytes) {
        let Some(disk) = &self.disk else { return };
        let Some(taken) = self.lock().slots.take() else { return };
        let sums: Arc<[u64]> = bytes.chunks(PIECE_BYTES).map(xxh3).collect();
        let written = disk.file.write_at(taken.slot as u64 * BLOCK_BYTES, bytes);
        let mut state = self.lock();
        match written {
            Ok(()) => state.slots.fill(taken, key, sums),
            Err(_) => {
                state.slots.give_back(taken);
                add(&self.counts.failures, 1);
            }
        }
    }
}
