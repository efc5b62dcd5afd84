//! Executors in the order in which they are asked, the last of which always works.
//!
//! ```text
//!   submit ─► State ◄── what was seen of attempts ── Work: specs, handles, names
//!               │                                      ▲
//!               ▼                                      │ begun under the lock,
//!             policy::next ── Action ──────────────────┘ done without it: Deed
//! ```
//! What is done, and when, is decided in [`policy`], a pure function. Here are the lock, the
//! threads and the executors.

mod status; // what is reported of it
mod patience; // how long it is waited for
mod trust; // whether a link is worth asking
mod rate; // which held job may begin at the last executor
mod about; // what is known of a job's spec
mod idle; // what idle processors are expected to do sooner
mod action; // what may be done
mod state; // what is known
mod policy; // what to do next
mod check; // looking at what was answered, and removing unwanted outputs
mod work; // an action, done

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use firn_storage::{Clock, Load, Priority, Spawn, Storage};

use self::about::About;
use self::action::Action;
use self::check::{CHECKERS, Chores};
pub use self::patience::Patience;
use self::policy::{next, next_of};
use self::state::State;
pub use self::status::ChainStatus;
use self::work::{Deed, Ledger, Work};
use super::Executor;
use super::caught::caught;
use super::handle::{JobHandle, new_job};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::JobSpec;

/// Asks executors in their order. What one refuses, fails at, answers wrongly, or keeps for longer
/// than [`Patience`] allows, the next one is asked for, and in the end the last one does.
///
/// All but the last are its *links*, which may be unreliable.
///
/// 1. What a link answers is checked before it is the job's result, files included as far as
///    [`verify_files`](crate::verify_files) goes. Threads of their own do that: where the storage
///    is slow or away, no other job's end, lateness or cancellation waits for it. A job that is
///    cancelled meanwhile is answered at once. A check that takes longer than
///    [`Patience::check_max`] is given up, and the job goes on.
/// 2. An attempt at a link writes under a stem of its own (`<stem>-e`, then `<stem>-e1` and so on):
///    a late attempt meets no file of another. What it leaves is removed. A recycled file that the
///    spec names goes to the attempt that renames it first.
/// 3. After a failure that concerns every job a link is left alone for a while, twice as long after
///    each further failure. It is relied on again once several jobs, one after another, went well.
///    What it lacks for one job keeps no other from it. What fails there for the job's own sake is
///    not given to it again.
/// 4. While no link is relied on, L0 work is done by the last executor at once, and deep jobs are
///    held. They begin there at [`Patience::deep_bytes_per_second`], and are offered to a link once
///    it is back. They are held until [`Patience::wait_max`], or until writers are about to stop. A
///    chain without a thread ([`inline`](Self::inline)) does them at once.
/// 5. A job that has not begun at a link, where that says so ([`JobHandle::is_waiting`]), does not
///    count against it. It is waited for as long as any other, then goes on. Where writers are
///    about to stop, L0 work goes on after [`Patience::begin_max`]. A job that begins has its whole
///    time from then on. Its waits for syncs, where they are reported ([`JobHandle::is_syncing`]),
///    do not count, up to [`Patience::sync_max`], unless an attempt has failed there.
/// 6. A share of what links did the last executor does too ([`Patience::reexecuted_share`]). Where
///    the results differ, the last executor's is the job's, and the link is doubted.
/// 7. A job that waits at a link is taken back if idle processors of this process are expected to
///    end it sooner ([`with_idle`](Self::with_idle)). A job that then takes too long is given to a
///    link again.
///
/// The answer of the last executor is the job's. It MUST NOT run jobs inside `submit` where
/// [`threads`](Self::threads) made this chain. Dropped, the chain cancels what runs and what is
/// held, and does not wait for it.
///
/// Lock order: the ledger first, then the queue of chores, then a handle.
#[derive(Debug)]
pub struct ExecutorChain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// In the order in which they are asked.
    links: Vec<Arc<dyn Executor>>,
    last: Arc<dyn Executor>,
    /// Runs jobs on processors that idle.
    idle: OnceLock<(Arc<dyn Executor>, Arc<dyn Load>)>,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    status: Arc<ChainStatus>,
    is_inline: bool,
    /// Attempts at links that came to nothing.
    given_up: AtomicU64,
    chores: Chores,
    ledger: Mutex<Ledger>,
    changed: Condvar,
}

/// How often cancellations and deadlines are looked at while jobs run.
const LOOK: Duration = Duration::from_millis(20);

impl ExecutorChain {
    /// Asks `executors` in their order, at least one, about tables on `storage`. One thread of
    /// `spawn`'s watches over the jobs, and two look at files. `seed` draws which jobs are done
    /// again.
    ///
    /// # Panics
    /// There is no executor.
    ///
    /// # Errors
    /// `Storage` if a thread cannot be started; those that were started end.
    pub fn threads(
        executors: impl Into<Vec<Arc<dyn Executor>>>,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        patience: Patience,
        seed: u64,
        spawn: &dyn Spawn,
    ) -> Result<Self> {
        let chain =
            Self::new(executors.into(), storage, clock, |links| State::new(links, patience, false, seed));
        let shared = Arc::clone(&chain.shared);
        spawn.spawn("firn-chain".to_owned(), Priority::Normal, Box::new(move || shared.watch()))?;
        for number in 0..CHECKERS {
            let shared = Arc::clone(&chain.shared);
            let body = Box::new(move || shared.do_chores());
            spawn.spawn(format!("firn-check-{number}"), Priority::Normal, body)?;
        }
        Ok(chain)
    }

    /// As [`threads`](Self::threads) without a thread: `submit` blocks until the job has its
    /// result.
    ///
    /// # Panics
    /// As there.
    pub fn inline(
        executors: impl Into<Vec<Arc<dyn Executor>>>,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        patience: Patience,
        seed: u64,
    ) -> Self {
        Self::new(executors.into(), storage, clock, |links| State::new(links, patience, true, seed))
    }

    fn new(
        mut executors: Vec<Arc<dyn Executor>>,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        state: impl FnOnce(usize) -> State,
    ) -> Self {
        let Some(last) = executors.pop() else { panic!("a chain has a last executor") };
        let links = executors;
        let state = state(links.len());
        let (idle, status, given_up, chores, changed) = Default::default();
        let is_inline = state.is_inline;
        let ledger = Mutex::new(Ledger::new(state));
        let shared = Shared {
            links,
            last,
            idle,
            storage,
            clock,
            status,
            is_inline,
            given_up,
            chores,
            ledger,
            changed,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Has `idle` do waiting jobs that it is expected to end sooner than their link, while `load`
    /// says that processors idle. It gets as many at a time as processors idle, and no more than
    /// its width. It is to run at [`Priority::Idle`]. Does nothing for a chain without a thread.
    #[must_use]
    pub fn with_idle(self, idle: Arc<dyn Executor>, load: Arc<dyn Load>) -> Self {
        let _ours_alone = self.shared.idle.set((idle, load));
        self
    }

    /// What links did not do, and why; stays true when this executor is gone.
    pub fn status(&self) -> Arc<ChainStatus> {
        Arc::clone(&self.shared.status)
    }
}

impl Executor for ExecutorChain {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        let shared = &self.shared;
        let (handle, finisher) = new_job();
        let now = shared.clock.now();
        let about = About::of(&spec);
        let first = {
            let mut ledger = shared.lock();
            let number = ledger.state.add(about);
            ledger.work.insert(number, Work::new(spec, finisher, now));
            shared.go_on(&mut ledger, number, now)
        };
        shared.carry_out(first);
        while shared.is_inline && handle.poll().is_none() {
            shared.carry_out(shared.next(Some(&handle)));
        }
        Ok(handle)
    }

    fn given_up_count(&self) -> u64 {
        let links = self.shared.links.iter().map(|link| link.given_up_count()).sum::<u64>();
        self.shared.given_up.load(Ordering::Relaxed) + links + self.shared.last.given_up_count()
    }

    fn width(&self) -> Option<usize> {
        let widths: Option<Vec<usize>> = self.shared.links.iter().map(|link| link.width()).collect();
        let relied_on = {
            let ledger = self.shared.lock();
            ledger.state.links.iter().position(|link| !link.trust.is_doubted())
        };
        match relied_on.and_then(|link| widths.as_ref().map(|widths| widths[link])) {
            Some(width) => Some(width),
            None => widths.and_then(|_| self.shared.last.width()),
        }
    }

    fn urge(&self, stalls_in: Option<Duration>) {
        self.shared.lock().state.rate.urge(self.shared.clock.now(), stalls_in);
        self.shared.links.iter().for_each(|link| link.urge(stalls_in));
        self.shared.last.urge(stalls_in);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watching thread's life.
    fn watch(self: Arc<Self>) {
        while let Some(deed) = self.next(None) {
            self.carry_out(Some(deed));
        }
        self.chores.close();
    }

    /// Does `deed`, and what follows from it at once.
    fn carry_out(self: &Arc<Self>, deed: Option<Deed>) {
        let mut next = deed;
        while let Some(deed) = next {
            next = self.perform(deed);
        }
    }

    /// What is done next with the job `number`, begun; whatever becomes of others.
    fn go_on(&self, ledger: &mut Ledger, number: u64, now: Duration) -> Option<Deed> {
        let job = ledger.state.jobs.get(&number)?;
        let action = next_of(&ledger.state, number, job, now)?;
        self.begin(ledger, action, now)
    }

    /// Waits until there is something to do, or the result of `own`, which another thread may have
    /// taken and finished meanwhile. `None` once nothing runs and nothing will.
    fn next(&self, own: Option<&JobHandle>) -> Option<Deed> {
        let mut ledger = self.lock();
        loop {
            if own.is_some_and(JobHandle::is_finished) {
                return None;
            }
            let ended = ledger.take_ended();
            if !ended.is_empty() {
                return Some(Deed::Discard(ended));
            }
            let now = self.clock.now();
            self.look(&mut ledger, now);
            let action = next(&ledger.state, now);
            if action != Action::Wait {
                match self.begin(&mut ledger, action, now) {
                    Some(deed) => return Some(deed),
                    None => continue,
                }
            }
            let is_idle = ledger.state.jobs.is_empty();
            if ledger.state.is_closed && is_idle {
                return None;
            }
            ledger = match is_idle && own.is_none() {
                true => self.changed.wait(ledger).unwrap_or_else(PoisonError::into_inner),
                false => self.changed.wait_timeout(ledger, LOOK).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Notes what has become of all attempts, and of processors that idle.
    fn look(&self, ledger: &mut Ledger, now: Duration) {
        ledger.look(now);
        if let Some((idle, load)) = self.idle.get() {
            let jobs = ledger.state.idle_count();
            // What is done on idle processors is not to be told from the rest.
            let used = if jobs > 0 { Duration::ZERO } else { load.used() };
            let width = idle.width().unwrap_or(1);
            ledger.state.idleness.note(width, jobs, (used, load.processors()), now);
            if ledger.state.idleness.room(jobs) > 0 {
                for (link, executor) in ledger.state.links.iter_mut().zip(&self.links) {
                    let width = caught("asking how many jobs run", || Ok(executor.width()));
                    link.width = width.ok().flatten().map(|width| width.max(1));
                }
            }
        }
        self.report(ledger);
    }

    /// Reports what can be read off the state.
    fn report(&self, ledger: &Ledger) {
        self.status.set_away(ledger.state.is_away());
        self.status.set_here(ledger.state.here_count());
        self.status.set_held(ledger.state.held());
    }

    /// Has waiting threads look again once `handle` has a result.
    fn wake_for(self: &Arc<Self>, handle: &JobHandle) {
        // An executor that keeps the job for ever must not keep this one, and through it itself.
        let shared: Weak<Self> = Arc::downgrade(self);
        handle.on_finished(Box::new(move || {
            if let Some(shared) = shared.upgrade() {
                // The watching thread has either seen the result or waits by now.
                drop(shared.lock());
                shared.changed.notify_all();
            }
        }));
    }
}

impl Drop for ExecutorChain {
    fn drop(&mut self) {
        self.shared.lock().state.is_closed = true;
        self.shared.changed.notify_all();
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, "the job was cancelled")
}
