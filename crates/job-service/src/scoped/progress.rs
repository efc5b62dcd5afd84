//! How far an attempt is, and what it waited for.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use firn_jobs::Control;
use firn_storage::{Clock, Error, ErrorKind, Result};

/// How far an attempt is, and what it waited for.
#[derive(Debug)]
pub(crate) struct Progress {
    clock: Arc<dyn Clock>,
    control: Control,
    input_bytes: AtomicU64,
    /// Of outputs.
    read_back_bytes: AtomicU64,
    write_bytes: AtomicU64,
    sync_bytes: AtomicU64,
    /// Syncs that have begun and not ended.
    syncs: AtomicU32,
    first_read: OnceLock<Duration>,
    /// For inputs.
    reading: Waits,
    /// For outputs.
    writing: Waits,
}

impl Progress {
    /// Of an attempt that has not begun, until `control` is cancelled.
    pub(super) fn new(control: Control, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            control,
            input_bytes: AtomicU64::default(),
            read_back_bytes: AtomicU64::default(),
            write_bytes: AtomicU64::default(),
            sync_bytes: AtomicU64::default(),
            syncs: AtomicU32::default(),
            first_read: OnceLock::default(),
            reading: Waits::default(),
            writing: Waits::default(),
        }
    }

    /// # Errors
    /// `Refused`: the attempt is stopped.
    pub(super) fn check(&self) -> Result<()> {
        match self.control.is_cancelled() {
            true => Err(Error::new(ErrorKind::Refused, "", "the job was cancelled")),
            false => Ok(()),
        }
    }

    /// Bytes of inputs that were read so far.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.input_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were read so far, bytes of outputs included.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.input_bytes() + self.read_back_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were written so far.
    pub(crate) fn write_bytes(&self) -> u64 {
        self.write_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were read, written, and synced so far: a backend may be at the upload of what was
    /// written for long.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.read_bytes() + self.write_bytes() + self.sync_bytes.load(Ordering::Relaxed)
    }

    /// Whether it waits for what was written to become durable.
    pub(crate) fn is_syncing(&self) -> bool {
        self.syncs.load(Ordering::Relaxed) > 0
    }

    /// When the first byte was there.
    pub(crate) fn first_read(&self) -> Option<Duration> {
        self.first_read.get().copied()
    }

    /// How long it waited for bytes of inputs since the first was there.
    pub(crate) fn reading(&self) -> Duration {
        self.reading.sum()
    }

    /// How long it waited for its outputs since then: to take bytes, to become durable, to be read
    /// back.
    pub(crate) fn writing(&self) -> Duration {
        self.writing.sum()
    }

    pub(super) fn count_written(&self, bytes: u64) {
        // Numbers for people, as all of them here; nothing is ordered by them.
        self.write_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_synced(&self, bytes: u64) {
        self.sync_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Does `read` of so many bytes of an input.
    pub(super) fn during_read(&self, bytes: u64, read: impl FnOnce() -> Result<()>) -> Result<()> {
        self.during(&self.reading, read)?;
        self.input_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.first_read.get_or_init(|| self.clock.now());
        Ok(())
    }

    /// Does `read` of so many bytes of an output.
    pub(super) fn during_read_back(&self, bytes: u64, read: impl FnOnce() -> Result<()>) -> Result<()> {
        self.during(&self.writing, read)?;
        self.read_back_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Does `write`, or whatever else is done with an output.
    pub(super) fn during_write<T>(&self, write: impl FnOnce() -> Result<T>) -> Result<T> {
        self.during(&self.writing, write)
    }

    /// Does `sync`, which is told of meanwhile.
    pub(super) fn during_sync(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        self.check()?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let _ends = Ends(&self.syncs);
        self.during(&self.writing, sync)
    }

    /// Opens a file to read.
    pub(super) fn during_open<T>(&self, is_input: bool, open: impl FnOnce() -> Result<T>) -> Result<T> {
        self.during(if is_input { &self.reading } else { &self.writing }, open)
    }

    /// Does `work`; its time counts among `waits` unless it begins before an input was read.
    fn during<T>(&self, waits: &Waits, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        if self.first_read.get().is_none() {
            return work();
        }
        let _waits = waits.begin(&*self.clock);
        work()
    }
}

/// Counts one less, however that came to its end.
struct Ends<'c>(&'c AtomicU32);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time in which at least one thread waited, however many did.
#[derive(Debug, Default)]
struct Waits {
    state: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    count: u32,
    /// Since when at least one thread has waited.
    since: Duration,
    sum: Duration,
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more waits, until the answer is dropped.
    fn begin<'w>(&'w self, clock: &'w dyn Clock) -> Waiter<'w> {
        let mut waiting = self.lock();
        if waiting.count == 0 {
            waiting.since = clock.now();
        }
        waiting.count += 1;
        Waiter { waits: self, clock }
    }

    fn sum(&self) -> Duration {
        self.lock().sum
    }
}

/// Waits until it is dropped.
struct Waiter<'w> {
    waits: &'w Waits,
    clock: &'w dyn Clock,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waits.lock();
        waiting.count -= 1;
        if waiting.count == 0 {
            let since = waiting.since;
            waiting.sum += self.clock.now().saturating_sub(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_storage::ManualClock;

    use super::*;

    #[test]
    fn waits_are_counted_once_however_many_there_are_at_a_time() {
        let clock = Arc::new(ManualClock::default());
        let progress = Progress::new(Control::new(), Arc::<ManualClock>::clone(&clock));
        let pass = |ms: u64| {
            clock.advance(Duration::from_millis(ms));
            Ok(())
        };
        let waits = || [progress.reading(), progress.writing()].map(|time| time.as_millis());
        // Up to the first byte it opens its inputs, and waits for nothing else.
        progress.during_write(|| pass(1)).unwrap();
        progress.during_read(10, || pass(2)).unwrap();
        assert_eq!((progress.first_read(), waits()), (Some(Duration::from_millis(3)), [0, 0]));
        progress.during_read(10, || pass(4)).unwrap();
        pass(8).unwrap();
        progress.during_write(|| pass(16)).unwrap();
        progress.during_sync(|| pass(32)).unwrap();
        progress.during_read_back(5, || pass(64)).unwrap();
        assert_eq!(waits(), [4, 16 + 32 + 64]);
        // Two at a time, and a read that fails.
        let second = || progress.during_read(10, || pass(128));
        progress.during_read(10, || second().and_then(|()| pass(256))).unwrap();
        let failed = || pass(512).and(Err(Error::new(ErrorKind::Refused, "", "test")));
        progress.during_read(10, failed).unwrap_err();
        assert_eq!(waits(), [4 + 128 + 256 + 512, 112]);
        assert_eq!((progress.input_bytes(), progress.read_bytes()), (40, 45));
        progress.during_open(true, || pass(1000)).unwrap();
        progress.during_open(false, || pass(2000)).unwrap();
        assert_eq!(waits(), [900 + 1000, 112 + 2000]);
    }
}
