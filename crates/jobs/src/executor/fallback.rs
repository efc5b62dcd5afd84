//! Jobs somewhere else, and here where that does not come off.
//!
//! ```text
//!   submit ─► Trust: ask? ─┬─ yes ─► the first executor ─┬─ well ─► the job's result; of one in a hundred, if the second comes to the same
//!                          │             ▲               └─ not ──┐
//!                          │             │ it is back             ▼
//!                          └─ no ────► relief, or what it cannot do ─────────────► the second executor
//!                                        │ no                                              ▲
//!                                        └─► held ── its turn, too long, writers will stop ┘
//! ```

mod state; // its jobs, and which of them are to be gone on with
mod check; // looking at what was answered, and removing unwanted outputs
mod reexecute; // what others did, done again here
mod share; // what would wait there, done here meanwhile

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use firn_storage::{Clock, Load, Priority, Spawn, Storage};

use super::Executor;
use super::caught::caught;
use super::cause::Cause;
use super::fallbacks::Fallbacks;
use super::handle::{JobHandle, new_job};
use super::ran::Ran;
use super::trust::{Advice, Concern, Patience};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::JobSpec;
use check::{CHECKERS, Chores};
pub(super) use state::Job;
use state::{Away, Place, Ready, Running, State, Syncs};

/// Asks one executor first. What that one refuses, fails at, answers wrongly, or keeps for longer
/// than [`Patience`] allows, it runs here on a second one.
///
/// 1. What the first executor answers is checked before it is the job's result, files included as
///    far as [`verify_files`](crate::verify_files) goes. Threads of their own do that: where the
///    place is slow or away, no other job's end, lateness or cancellation waits for it. A job that
///    is cancelled meanwhile is answered at once. A check that takes longer than
///    [`Patience::check_max`] is given up, and the job is done here.
/// 2. An attempt there writes under a stem of its own (`<stem>-e`, then `<stem>-e1` and so on): a
///    late attempt meets no file of another. What it leaves is removed. A spare file that the spec
///    names goes to the attempt that renames it first.
/// 3. After a failure that concerns every job the first executor is left alone for a while, twice
///    as long after each further failure. It is relied on again once several jobs, one after
///    another, went well. What it lacks for one job keeps no other from it.
/// 4. While it is left alone relief is done here at once, and bulk jobs are held. They begin here
///    at [`Patience::bulk_bytes_per_second`], and are offered to the first executor once it is
///    back. They are held until [`Patience::wait_max`], or until writers are about to stop. A
///    fallback without a thread ([`inline`](Self::inline)) does them here at once.
/// 5. A job that has not begun there, where the first executor says so ([`JobHandle::is_waiting`]),
///    does not count against it. It is waited for as long as any other, then done here. Where
///    writers are about to stop, relief is done here after [`Patience::begin_max`]. A job that
///    begins has its whole time from then on. Its waits for syncs, where they are reported
///    ([`JobHandle::is_syncing`]), do not count, up to [`Patience::sync_max`], unless an attempt
///    has failed there.
/// 6. A share of what the first executor did is done here too ([`Patience::reexecuted_share`]).
///    Where the results differ, this process's is the job's, and the first executor is doubted.
/// 7. A job that waits there is taken back if idle processors of this process are expected to end
///    it sooner ([`with_idle`](Self::with_idle)). A job that then takes too long is given to the
///    first executor again.
///
/// Only the first executor may be unreliable: the answer of the second is the job's. The second
/// MUST NOT run jobs inside `submit` where [`threads`](Self::threads) made this fallback. Dropped,
/// it cancels what runs and what is held, and does not wait for it.
#[derive(Debug)]
pub struct Fallback {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    first: Arc<dyn Executor>,
    second: Arc<dyn Executor>,
    /// Runs jobs on processors that idle.
    idle: OnceLock<(Arc<dyn Executor>, Arc<dyn Load>)>,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    patience: Patience,
    fallbacks: Arc<Fallbacks>,
    is_inline: bool,
    /// Attempts at the first executor that came to nothing.
    given_up: AtomicU64,
    chores: Chores,
    state: Mutex<State>,
    changed: Condvar,
}

/// Names the worker of an executor that does not tell it.
const ELSEWHERE: &str = "elsewhere";

/// How often cancellations and deadlines are looked at while jobs run.
const LOOK: Duration = Duration::from_millis(20);

impl Fallback {
    /// Asks `first`, then `second`, about tables on `storage`. One thread of `spawn`'s watches over
    /// the jobs, and two look at files. `seed` draws which jobs are done again.
    ///
    /// # Errors
    /// `Storage` if a thread cannot be started; those that were started end.
    pub fn threads(
        [first, second]: [Arc<dyn Executor>; 2],
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        patience: Patience,
        seed: u64,
        spawn: &dyn Spawn,
    ) -> Result<Self> {
        let fallback = Self::new([first, second], storage, clock, patience, (seed, false));
        let shared = Arc::clone(&fallback.shared);
        spawn.spawn("firn-fallback".to_owned(), Priority::Normal, Box::new(move || shared.watch()))?;
        for number in 0..CHECKERS {
            let shared = Arc::clone(&fallback.shared);
            let body = Box::new(move || shared.do_chores());
            spawn.spawn(format!("firn-check-{number}"), Priority::Normal, body)?;
        }
        Ok(fallback)
    }

    /// As [`threads`](Self::threads) without a thread: `submit` blocks until the job has its
    /// result.
    pub fn inline(
        [first, second]: [Arc<dyn Executor>; 2],
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        patience: Patience,
        seed: u64,
    ) -> Self {
        Self::new([first, second], storage, clock, patience, (seed, true))
    }

    fn new(
        [first, second]: [Arc<dyn Executor>; 2],
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        patience: Patience,
        (seed, is_inline): (u64, bool),
    ) -> Self {
        let (fallbacks, given_up, chores, changed, idle) = Default::default();
        let state = Mutex::new(State::new(seed));
        let shared = Shared {
            first,
            second,
            idle,
            storage,
            clock,
            patience,
            fallbacks,
            is_inline,
            given_up,
            chores,
            state,
            changed,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Has `idle` do waiting jobs that it is expected to end sooner than the first executor, while
    /// `load` says that processors idle. It gets as many at a time as processors idle, and no more
    /// than its width. It is to run at [`Priority::Idle`]. Does nothing for a fallback without a
    /// thread.
    #[must_use]
    pub fn with_idle(self, idle: Arc<dyn Executor>, load: Arc<dyn Load>) -> Self {
        let _ours_alone = self.shared.idle.set((idle, load));
        self
    }

    /// What was not done elsewhere, and why; stays true when this executor is gone.
    pub fn fallbacks(&self) -> Arc<Fallbacks> {
        Arc::clone(&self.shared.fallbacks)
    }
}

impl Executor for Fallback {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        let (handle, finisher) = new_job();
        let number = self.shared.lock().draw();
        let submitted = self.shared.clock.now();
        self.shared.go_on(
            Job {
                number,
                submitted,
                spec,
                finisher,
                attempts: 0,
                held_since: None,
                was_shared: false,
                cause: Cause::Away,
            },
            false,
        );
        while self.shared.is_inline && handle.poll().is_none() {
            let ready = self.shared.ready(Some(&handle));
            ready.into_iter().flatten().for_each(|ready| self.shared.handle(ready));
        }
        Ok(handle)
    }

    fn given_up_count(&self) -> u64 {
        let elsewhere = self.shared.first.given_up_count() + self.shared.second.given_up_count();
        self.shared.given_up.load(Ordering::Relaxed) + elsewhere
    }

    fn width(&self) -> Option<usize> {
        let elsewhere = self.shared.first.width()?;
        let is_away = self.shared.lock().trust.is_doubted();
        if is_away { self.shared.second.width() } else { Some(elsewhere) }
    }

    fn urge(&self, stalls_in: Option<Duration>) {
        self.shared.lock().turn.urge(self.shared.clock.now(), stalls_in);
        self.shared.first.urge(stalls_in);
        self.shared.second.urge(stalls_in);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the job to the executor that should have it now. If the first is not asked and it is
    /// the job's `turn`, that is the second.
    fn go_on(self: &Arc<Self>, job: Job, is_turn: bool) {
        let now = self.clock.now();
        let (advice, is_over) = {
            let mut state = self.lock();
            let advice = state.trust.advise(&job.spec, now);
            if advice == Advice::Probe {
                state.trust.begin_probe();
            }
            (advice, state.is_closed || job.finisher.control().is_cancelled())
        };
        match advice {
            _ if is_over => {
                if advice == Advice::Probe {
                    self.lock().trust.end_probe();
                }
                job.finisher.finish(Err(closed()));
            }
            Advice::Ask => self.ask(job, false),
            Advice::Probe => self.ask(job, true),
            Advice::Lacking => self.run_here(Job { cause: Cause::Lacking, ..job }),
            Advice::Wait if is_turn => self.run_here(job),
            Advice::Wait => self.relieve_or_hold(job),
        }
    }

    /// Gives the job to the first executor.
    fn ask(self: &Arc<Self>, mut job: Job, is_probe: bool) {
        let now = self.clock.now();
        let end_probe = || {
            if is_probe {
                self.lock().trust.end_probe();
            }
        };
        let Some(stem) = job.draw_stem() else {
            end_probe();
            return self.run_here(Job { cause: Cause::Lacking, ..job });
        };
        // What became of it before is of no account.
        job.cause = Cause::Away;
        match submit(&*self.first, job.spec.with_stem(&stem)) {
            Err(error) => {
                end_probe();
                let concern = Concern::of(error.kind);
                job.cause = Cause::of(error.kind);
                self.refused(&job.spec, concern, format!("it was refused: {error}"), Duration::ZERO);
                self.do_without(job, concern);
            }
            Ok(handle) => {
                let bytes = job.spec.input_bytes().saturating_add(self.lock().before(&job.spec).1);
                let deadline = now.saturating_add(self.patience.with(bytes));
                let place = Place::Away(Away {
                    stem,
                    deadline,
                    is_probe,
                    was_waiting: false,
                    syncs: Syncs::default(),
                });
                self.follow(Running { job, handle, begun: now, place, is_cancelled: false });
            }
        }
    }

    /// Goes on with a job that the first executor did not do.
    fn do_without(self: &Arc<Self>, job: Job, concern: Concern) {
        match concern {
            // No executor there ever will.
            Concern::Need | Concern::Job | Concern::Files | Concern::Queue => self.run_here(job),
            Concern::Service => self.relieve_or_hold(job),
        }
    }

    /// What writers wait for is done here at once; everything else waits.
    fn relieve_or_hold(self: &Arc<Self>, mut job: Job) {
        if self.is_inline || job.spec.is_relief() {
            return self.run_here(job);
        }
        job.held_since.get_or_insert(self.clock.now());
        self.fallbacks.hold(job.spec.input_bytes());
        self.lock().held.insert(job.number, job);
        self.changed.notify_all();
    }

    fn run_here(self: &Arc<Self>, job: Job) {
        if self.lock().is_closed {
            return job.finisher.finish(Err(closed()));
        }
        self.fallbacks.count_one(job.cause);
        let begun = self.clock.now();
        match submit(&*self.second, job.spec.clone()) {
            Err(error) => job.finisher.finish(Err(error)),
            Ok(handle) => {
                self.follow(Running { job, handle, begun, place: Place::Here, is_cancelled: false });
            }
        }
    }

    /// Watches over `job` from now on.
    fn follow(self: &Arc<Self>, running: Running) {
        let handle = running.handle.clone();
        let mut state = self.lock();
        state.jobs.insert(running.job.number, running);
        self.fallbacks.set_here(state.here_count());
        drop(state);
        self.changed.notify_all();
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

    /// The watching thread's life.
    fn watch(self: Arc<Self>) {
        while let Some(ready) = self.ready(None) {
            ready.into_iter().for_each(|ready| self.handle(ready));
        }
        self.chores.close();
    }

    fn handle(self: &Arc<Self>, ready: Ready) {
        match ready {
            Ready::Settle(running) => self.settle(running),
            Ready::Share(running, allowed) => self.share(running, allowed),
            Ready::Go(job, is_turn) => {
                self.fallbacks.let_go(job.spec.input_bytes());
                self.go_on(job, is_turn);
            }
        }
    }

    /// Waits for jobs that have ended or are late, or for the result of `own`, which another thread
    /// may have taken and finished meanwhile. `None` once nothing runs and nothing will.
    fn ready(&self, own: Option<&JobHandle>) -> Option<Vec<Ready>> {
        let mut state = self.lock();
        loop {
            if own.is_some_and(|own| own.poll().is_some()) {
                return Some(Vec::new());
            }
            let dead = state.take_dead();
            if !dead.is_empty() {
                drop(state);
                dead.into_iter().for_each(|stem| self.discard(stem));
                state = self.lock();
                continue;
            }
            let now = self.clock.now();
            let mut ready = state.take_ready(now, &self.patience);
            ready.extend(self.take_waiting(&mut state, now));
            self.fallbacks.set_here(state.here_count());
            if !ready.is_empty() {
                return Some(ready);
            }
            let is_idle = state.jobs.is_empty() && state.held.is_empty();
            if state.is_closed && is_idle {
                return None;
            }
            state = match is_idle && own.is_none() {
                true => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                false => self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Gives a job that has ended or is late its result, or hands it to the next executor.
    fn settle(self: &Arc<Self>, running: Running) {
        let Running { mut job, handle, begun, place, is_cancelled } = running;
        let result = handle.poll();
        let waited = self.clock.now().saturating_sub(begun);
        let away = match place {
            Place::Away(away) => away,
            Place::Here => {
                let queued = begun.saturating_sub(job.submitted);
                let ran = Ran { queued, ran: waited, ..Ran::default() };
                if job.cause == Cause::Damaged && matches!(result, Some(Ok(_))) {
                    let reason = "it called files damaged that are whole".to_owned();
                    self.refused(&job.spec, Concern::Job, reason, Duration::ZERO);
                }
                return job.finisher.finish_ran(result.unwrap_or_else(|| Err(closed())), ran);
            }
            Place::Reexecuted(answered) => {
                return self.compare(job, answered, result.unwrap_or_else(|| Err(closed())));
            }
            Place::Checked(checked) => {
                handle.cancel();
                return self.settle_checked(job, *checked, result, (begun, is_cancelled));
            }
            Place::Compared(compared) => {
                handle.cancel();
                return self.settle_compared(job, *compared, result);
            }
            Place::Idle(idle) => {
                let result = result.unwrap_or_else(|| Err(closed()));
                return self.settle_idle(job, idle, result, (begun, waited));
            }
        };
        let late = |what: &str| {
            let tried = handle.trouble().map(|why| format!("; it was tried, and failed: {why}"));
            format!("{what} in {:.1} s{}", waited.as_secs_f64(), tried.unwrap_or_default())
        };
        let (cause, concern, refusal) = match result {
            Some(Ok(result)) => return self.check((job, handle, away), result, waited),
            Some(Err(error)) => {
                (Cause::of(error.kind), Concern::of(error.kind), format!("it failed: {error}"))
            }
            None if handle.is_waiting() => {
                // A job that was tried in vain waits to be tried again.
                let cause = handle.trouble().map_or(Cause::Unbegun, |_| Cause::Failed);
                (cause, Concern::Queue, late("no worker began it"))
            }
            None => (Cause::Late, Concern::Service, late("there was no answer")),
        };
        job.cause = cause;
        self.give_up((job, handle, away), (concern, refusal), waited, is_cancelled);
    }

    /// Goes on with a job that came to nothing at the first executor, which has had it for so long.
    fn give_up(
        self: &Arc<Self>,
        (job, handle, away): (Job, JobHandle, Away),
        (concern, refusal): (Concern, String),
        waited: Duration,
        is_cancelled: bool,
    ) {
        self.end_probe(&away);
        handle.cancel();
        self.given_up.fetch_add(1, Ordering::Relaxed);
        self.discard(away.stem.clone());
        if handle.poll().is_none() {
            self.lock().dead.push((handle, away.stem));
        }
        if is_cancelled {
            return job.finisher.finish(Err(closed()));
        }
        self.refused(&job.spec, concern, refusal, waited);
        self.do_without(job, concern);
    }

    fn end_probe(&self, away: &Away) {
        if away.is_probe {
            self.lock().trust.end_probe();
        }
    }

    fn went_well(&self, spec: &JobSpec) {
        let mut state = self.lock();
        state.trust.went_well(spec);
        self.fallbacks.set_away(state.trust.is_doubted());
    }

    fn refused(&self, spec: &JobSpec, concern: Concern, reason: String, waited: Duration) {
        let mut state = self.lock();
        state.trust.failed(spec, concern, self.clock.now(), waited);
        self.fallbacks.set_away(state.trust.is_doubted());
        drop(state);
        self.fallbacks.explain(reason);
    }
}

impl Drop for Fallback {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

/// Hands `spec` to `executor`. A panic there fails this job alone: the thread that watches over all
/// jobs goes on.
fn submit(executor: &dyn Executor, spec: JobSpec) -> Result<JobHandle> {
    caught("taking the job", || executor.submit(spec))
}

fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, "the job was cancelled")
}
