//! Which threads are amid an operation, and since when.
//!
//! An operation reads addresses and then touches what lies there. What it may still touch must not
//! be flushed, evicted or freed meanwhile. So each operation says that it has begun, and in which
//! *epoch*; what takes something away begins a new epoch, and acts when all operations of the old
//! one have ended.
//!
//! ```text
//!   operation ─► enter: cell = current epoch ─► … ─► leave: cell = 0
//!   bump(action): current += 1; action runs once no cell has an epoch up to the old one
//!   pass: current += 1; returns once no cell has an epoch up to the old one
//!   stop: no operation begins; returns when all cells are 0
//! ```
//!
//! # Order of memory
//! A participant stores its cell and then reads shared addresses; a thread that takes something
//! away stores the new address and then reads all cells. Both have a sequentially consistent fence
//! between the two. Fences are totally ordered: if the participant's comes first, its cell is
//! seen and waited for; if it comes last, the participant reads the new address. The same holds
//! for `stop`'s flag. Leaving releases what the operation did, and a thread that finds the cell
//! empty acquires it.
//!
//! A participant MUST NOT wait for anything while it is inside: all others would wait for it.

use std::fmt;
use std::sync::Arc;

use firn_storage::Clock;

use crate::sync::{
    Apart, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, Patience, fence, lock,
};
use crate::waits::Waits;

/// What runs once an epoch has passed.
type Action = Box<dyn FnOnce() + Send>;

/// Participants for which there are cells: threads that may be amid an operation at once.
pub(crate) const PARTICIPANTS_MAX: usize = if cfg!(loom) { 3 } else { 1024 };

/// A cell outside any operation.
const OUTSIDE: u64 = 0;

/// The epochs of one engine.
pub(crate) struct Epochs {
    current: AtomicU64,
    cells: Box<[Apart<Cell>]>,
    /// Cells that were ever taken: those behind are empty.
    used: AtomicUsize,
    /// No operation may begin.
    is_stopped: AtomicBool,
    stopping: Mutex<()>,
    waiting: Mutex<Vec<(u64, Action)>>,
    /// As many as `waiting` has: looked at without its lock.
    waiting_count: AtomicUsize,
    /// Of operations that could not begin, since all were stopped.
    stop_waits: Waits,
}

#[derive(Debug, Default)]
struct Cell {
    /// The epoch that the operation under way began in.
    epoch: AtomicU64,
    is_taken: AtomicBool,
}

impl Epochs {
    /// Waits of operations are timed by `clock`, if there is one.
    pub(crate) fn new(clock: Option<&Arc<dyn Clock>>) -> Arc<Self> {
        Arc::new(Self {
            current: AtomicU64::new(1),
            cells: (0..PARTICIPANTS_MAX).map(|_| Apart::default()).collect(),
            used: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            stopping: Mutex::new(()),
            waiting: Mutex::new(Vec::new()),
            waiting_count: AtomicUsize::new(0),
            stop_waits: Waits::timed_by(clock),
        })
    }

    /// Waits of operations that could not begin, since all were stopped.
    pub(crate) fn stop_waits(&self) -> &Waits {
        &self.stop_waits
    }

    /// A cell of one's own; `None` if all are taken.
    pub(crate) fn join(self: &Arc<Self>) -> Option<Participant> {
        self.join_leaving(0)
    }

    /// As [`join`](Self::join), for one of many: so many places are left to others.
    pub(crate) fn join_leaving(self: &Arc<Self>, places: usize) -> Option<Participant> {
        let index = self.cells[..self.cells.len() - places].iter().position(|cell| {
            let taken = &cell.0.is_taken;
            !taken.load(Ordering::Relaxed) && !taken.swap(true, Ordering::Acquire)
        })?;
        // Before the first epoch is stored there, which a fence follows.
        self.used.fetch_max(index + 1, Ordering::SeqCst);
        Some(Participant { epochs: Arc::clone(self), index, writer: index, is_logged: true })
    }

    /// Begins an epoch. `action` runs once, on some thread, when every operation that had begun
    /// before has ended. Actions run in the order of their epochs.
    pub(crate) fn bump(&self, action: impl FnOnce() + Send + 'static) {
        let mut waiting = lock(&self.waiting);
        let old = self.current.fetch_add(1, Ordering::SeqCst);
        waiting.push((old, Box::new(action)));
        self.waiting_count.store(waiting.len(), Ordering::Release);
        drop(waiting);
        self.run_due();
    }

    /// Runs what is due; costs a load if nothing waits.
    #[inline]
    pub(crate) fn run_due(&self) {
        if self.waiting_count.load(Ordering::Acquire) > 0 {
            self.run_due_slowly();
        }
    }

    #[cold]
    fn run_due_slowly(&self) {
        // With the lock held, so that actions run one after another and in order. An action may
        // not begin an epoch: it would wait for itself.
        let mut waiting = lock(&self.waiting);
        let oldest = self.oldest();
        let due = waiting.iter().take_while(|(epoch, _)| *epoch < oldest).count();
        waiting.drain(..due).for_each(|(_, action)| action());
        self.waiting_count.store(waiting.len(), Ordering::Release);
    }

    /// The oldest epoch that an operation under way began in, or the current one.
    fn oldest(&self) -> u64 {
        let current = self.current.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.under_way().fold(current, u64::min)
    }

    /// Epochs of all operations under way.
    fn under_way(&self) -> impl Iterator<Item = u64> {
        let used = self.used.load(Ordering::SeqCst);
        let epochs = self.cells[..used].iter().map(|cell| cell.0.epoch.load(Ordering::Acquire));
        epochs.filter(|epoch| *epoch != OUTSIDE)
    }

    /// Waits until every operation that is under way has ended. Others begin meanwhile, and see
    /// what the caller has stored before. The caller MUST NOT be inside.
    pub(crate) fn pass(&self) {
        let old = self.current.fetch_add(1, Ordering::SeqCst);
        let mut patience = Patience::default();
        while self.oldest() <= old {
            patience.wait();
        }
    }

    /// Waits until no operation is under way, and lets none begin until the answer is dropped. One
    /// caller at a time; the caller MUST NOT be inside.
    pub(crate) fn stop(&self) -> Stopped<'_> {
        let turn = lock(&self.stopping);
        self.is_stopped.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut patience = Patience::default();
        while self.under_way().next().is_some() {
            patience.wait();
        }
        Stopped { epochs: self, _turn: turn }
    }
}

impl fmt::Debug for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epochs").field("current", &self.current).finish_non_exhaustive()
    }
}

/// No operation is under way while this lives.
#[must_use]
pub(crate) struct Stopped<'e> {
    epochs: &'e Epochs,
    _turn: MutexGuard<'e, ()>,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.epochs.is_stopped.store(false, Ordering::SeqCst);
    }
}

/// What does one operation at a time.
#[derive(Debug)]
pub(crate) struct Participant {
    epochs: Arc<Epochs>,
    index: usize,
    /// As which it writes to the redo log: its number, unless told otherwise.
    pub(crate) writer: usize,
    /// Whether the redo log is to know what its operations change.
    pub(crate) is_logged: bool,
}

impl Participant {
    /// Begins an operation; waits while operations are stopped.
    #[inline]
    pub(crate) fn enter(&mut self) -> Inside<'_> {
        let epochs = &*self.epochs;
        epochs.run_due();
        let cell = &epochs.cells[self.index].0.epoch;
        cell.store(epochs.current.load(Ordering::Relaxed), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if epochs.is_stopped.load(Ordering::Relaxed) {
            wait_for_start(epochs, cell);
        }
        Inside { cell, writer: self.is_logged.then_some(self.writer) }
    }
}

impl Participant {
    /// Begins an operation of the one that has stopped all others.
    pub(crate) fn enter_stopped(&mut self, stopped: &Stopped<'_>) -> Inside<'_> {
        let cell = &self.epochs.cells[self.index].0.epoch;
        cell.store(stopped.epochs.current.load(Ordering::Relaxed), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Inside { cell, writer: self.is_logged.then_some(self.writer) }
    }
}

/// Leaves, and enters when operations are no longer stopped.
#[cold]
fn wait_for_start(epochs: &Epochs, cell: &AtomicU64) {
    // Before the clock is asked: the one that stops waits for this.
    cell.store(OUTSIDE, Ordering::Release);
    epochs.stop_waits.during(|| enter_once_started(epochs, cell));
}

fn enter_once_started(epochs: &Epochs, cell: &AtomicU64) {
    let mut patience = Patience::default();
    loop {
        cell.store(OUTSIDE, Ordering::Release);
        while epochs.is_stopped.load(Ordering::Acquire) {
            patience.wait();
        }
        cell.store(epochs.current.load(Ordering::Relaxed), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !epochs.is_stopped.load(Ordering::Relaxed) {
            return;
        }
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.epochs.cells[self.index].0.is_taken.store(false, Ordering::Release);
        self.epochs.run_due();
    }
}

/// An operation is under way: what it found by an address stays while this lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Inside<'p> {
    cell: &'p AtomicU64,
    /// As which it writes to the redo log, if that is to know what the operation changes.
    pub(crate) writer: Option<usize>,
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.cell.store(OUTSIDE, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use firn_storage::ManualClock;

    use super::*;

    #[test]
    fn waits_for_a_stop_are_counted_and_the_longest_is_timed() {
        let clock = Arc::new(ManualClock::new(0));
        let timed: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let epochs = Epochs::new(Some(&timed));
        let mut participant = epochs.join().expect("a place");
        drop(participant.enter());
        assert_eq!((epochs.stop_waits().count(), epochs.stop_waits().longest_us()), (0, 0));
        for ms in [7, 3] {
            let stopped = epochs.stop();
            let before = epochs.stop_waits().count();
            std::thread::scope(|scope| {
                let entering = scope.spawn(|| drop(participant.enter()));
                while epochs.stop_waits().count() == before {
                    std::thread::yield_now();
                }
                clock.advance(Duration::from_millis(ms));
                drop(stopped);
                entering.join().expect("it enters");
            });
        }
        assert_eq!((epochs.stop_waits().count(), epochs.stop_waits().longest_us()), (2, 7000));
    }
}
