//! What a worker has.
//!
//! ```text
//!   accept ─► waits ──next──► runs ──ended──► ended ──forget──► gone
//!               │ stop          │ stop, and it hangs: another thread takes its slot
//!               └─► gone        └─► left ──ended──► gone
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_jobs::Control;
use firn_storage::Clock;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::control::pool::{Failure, FailureKind, Held, JobKey, Lease, Outcome, Timings, Token};
use crate::control::{Elsewhere, Lane};
use crate::scoped::Progress;

/// An attempt that was stopped has so long to end before another thread takes its slot.
pub(super) const END_MAX: Duration = Duration::from_millis(400);

/// Deep work that was submitted so long ago gives way to no L0 work of another control plane, as it
/// does to none of its own.
const GIVE_WAY_MAX: Duration = Duration::from_secs(150);

/// Attempts by token, from their lease until their end is told.
///
/// 1. At most as many run as there are slots. Beside them as many again may hang that were stopped:
///    there are two threads for each slot.
/// 2. L0 work begins before deep work, and of each the oldest.
/// 3. An attempt ends once: the worker does not wait for one that it left, and tells nothing of it
///    later.
#[derive(Debug)]
pub(super) struct Holdings {
    slots: usize,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// A thread may have something to do.
    wakes: Condvar,
    /// What control planes are told may be something else.
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    attempts: BTreeMap<Token, Holding>,
    /// Attempts that hang, and have lost their slots.
    left: BTreeSet<Token>,
    /// Attempts that ever were here.
    count: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Holding {
    /// Which control plane gave it.
    plane: usize,
    key: JobKey,
    lane: Lane,
    /// It was submitted so long before that.
    waited: Duration,
    /// When it was leased, and after how many others.
    claimed: Duration,
    number: u64,
    control: Control,
    reports: UnboundedSender<AttemptReport>,
    stage: Stage,
    /// When it was cancelled.
    cancelled: Option<Duration>,
    /// Its control plane wants it no more.
    is_stopped: bool,
}

#[derive(Debug)]
enum Stage {
    /// For a slot.
    Waits(Lease),
    Runs {
        since: Duration,
        progress: Option<Arc<Progress>>,
    },
    /// That is to be reported.
    Ended,
}

/// A job for a thread.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) lease: Lease,
    pub(super) control: Control,
    /// When it was leased.
    pub(super) claimed: Duration,
    /// To the task that reports how it ended.
    pub(super) reports: UnboundedSender<AttemptReport>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) struct AttemptReport {
    pub(super) key: JobKey,
    pub(super) token: Token,
    pub(super) outcome: Outcome,
    pub(super) timings: Timings,
    /// When that was.
    pub(super) ended: Duration,
}

/// The status that a control plane is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkerStatus {
    /// What it gave.
    pub(super) held: Vec<Held>,
    /// What the worker does beside that.
    pub(super) elsewhere: Elsewhere,
}

impl WorkerStatus {
    /// What a control plane should know at once: how many slots it can have, and which of its jobs
    /// wait.
    pub(super) fn news(&self) -> (u32, usize, Vec<Token>) {
        let waiting = self.held.iter().filter(|held| held.is_waiting).map(|held| held.token);
        (self.elsewhere.slots, self.elsewhere.gives_way.len(), waiting.collect())
    }
}

impl Holding {
    fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits(_))
    }

    fn runs(&self) -> bool {
        matches!(self.stage, Stage::Runs { .. })
    }

    /// How long it has run, where it is deep work that gives way to L0 work of `plane`.
    fn gives_way(&self, plane: usize, now: Duration) -> Option<Duration> {
        let Stage::Runs { since, .. } = self.stage else { return None };
        let gives_way = self.plane != plane && self.lane == Lane::Deep && self.cancelled.is_none();
        let is_young = self.waited + now.saturating_sub(self.claimed) < GIVE_WAY_MAX;
        (gives_way && is_young).then(|| now.saturating_sub(since))
    }

    /// It has ended as a stopped attempt, which is reported where its control plane still wants it.
    fn give_back(&mut self, token: Token, now: Duration) {
        self.stage = Stage::Ended;
        if self.is_stopped {
            return;
        }
        let message = "the job was cancelled".to_owned();
        let outcome = Outcome::Failed(Failure { kind: FailureKind::Cancelled, message });
        let report = AttemptReport { key: self.key, token, outcome, timings: Timings::default(), ended: now };
        // The task that reports is gone only when the worker is.
        let _sent_or_gone = self.reports.send(report);
    }
}

impl State {
    /// Slots that no thread is at.
    fn free(&self, slots: usize) -> usize {
        slots.saturating_sub(self.attempts.values().filter(|one| one.runs()).count())
    }

    /// What waits, the next first.
    fn queue(&self) -> Vec<Token> {
        let mut waiting: Vec<_> = self.attempts.iter().filter(|(_, one)| one.waits()).collect();
        waiting.sort_by_key(|(_, one)| (one.lane, one.number));
        waiting.into_iter().map(|(token, _)| *token).collect()
    }

    /// Stops deep work of other control planes than `plane` if its L0 work, which has just come,
    /// would wait for that.
    fn make_room(&mut self, plane: usize, slots: usize, now: Duration) {
        let l0 = self.attempts.values().filter(|one| one.waits() && one.lane == Lane::L0).count();
        let ending = self.attempts.values().filter(|one| one.runs() && one.cancelled.is_some()).count();
        if l0 <= self.free(slots) + ending {
            return;
        }
        let attempts = self.attempts.values_mut();
        let giving = attempts.filter_map(|one| Some((one.gives_way(plane, now)?, one)));
        if let Some((_, one)) = giving.min_by_key(|(ran, _)| *ran) {
            one.cancelled = Some(now);
            one.control.cancel();
        }
    }

    /// Leaves what was stopped and hangs; when the next one does.
    fn leave(&mut self, slots: usize, now: Duration) -> Option<Duration> {
        let State { attempts, left, .. } = self;
        let cancelled = attempts.iter_mut().filter(|(_, one)| one.runs());
        let mut due: Vec<_> =
            cancelled.filter_map(|(token, one)| Some((one.cancelled?, *token, one))).collect();
        due.sort_by_key(|(cancelled, ..)| *cancelled);
        for (cancelled, token, one) in due {
            if left.len() >= slots {
                return None;
            }
            if now < cancelled + END_MAX {
                return Some(cancelled + END_MAX - now);
            }
            left.insert(token);
            one.give_back(token, now);
        }
        None
    }

    /// Forgets stopped attempts that wait or have ended.
    fn sweep(&mut self) {
        self.attempts
            .retain(|_, one| !(one.is_stopped && (one.waits() || matches!(one.stage, Stage::Ended))));
    }
}

impl Holdings {
    /// Nothing, for so many `slots`.
    pub(super) fn new(slots: usize, clock: Arc<dyn Clock>) -> Self {
        let (state, wakes, changes) = (Mutex::default(), Condvar::new(), watch::Sender::new(()));
        Self { slots, clock, state, wakes, changes }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Threads that run jobs, by number: as many as there are slots, and as many again for attempts
    /// that hang.
    pub(super) fn threads(&self) -> std::ops::Range<usize> {
        0..self.slots * 2
    }

    /// Threads look again, and so do the tasks that tell.
    fn changed(&self) {
        self.wakes.notify_all();
        self.changes.send_replace(());
    }

    /// Hears when what is told may be something else.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Jobs that it has, without stopped ones that hang.
    pub(super) fn count(&self) -> usize {
        self.lock().attempts.len()
    }

    /// Attempts that were stopped and hang.
    pub(super) fn left_count(&self) -> usize {
        self.lock().left.len()
    }

    /// A job that the control plane `plane` gave; how it ended goes to `reports`. What is here
    /// already is not begun again: only a control plane that repeats itself gives a token twice.
    pub(super) fn accept(&self, plane: usize, lease: Lease, reports: UnboundedSender<AttemptReport>) {
        let now = self.clock.now();
        let mut state = self.lock();
        let (token, lane) = (lease.token, lease.lane);
        if state.attempts.contains_key(&token) || state.left.contains(&token) {
            return;
        }
        state.count += 1;
        let holding = Holding {
            plane,
            key: lease.key,
            lane,
            waited: lease.waited,
            claimed: now,
            number: state.count,
            control: Control::new(),
            reports,
            stage: Stage::Waits(lease),
            cancelled: None,
            is_stopped: false,
        };
        state.attempts.insert(token, holding);
        if lane == Lane::L0 {
            state.make_room(plane, self.slots, now);
        }
        drop(state);
        self.changed();
    }

    /// The next job of the thread `thread`, which waits until there is one; `None` = no more.
    pub(super) fn next(&self, thread: usize) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let now = self.clock.now();
            let left = state.left.len();
            let again = state.leave(self.slots, now);
            state.sweep();
            if state.left.len() > left {
                self.changed();
            }
            // A thread that is not needed rests, so that only as many threads as slots have memory
            // of their own.
            let is_needed = thread < self.slots + state.left.len() && state.free(self.slots) > 0;
            let first = if is_needed { state.queue().first().copied() } else { None };
            if let Some(token) = first
                && let Some(one) = state.attempts.get_mut(&token)
                && let Stage::Waits(lease) =
                    std::mem::replace(&mut one.stage, Stage::Runs { since: now, progress: None })
            {
                let (control, claimed, reports) = (one.control.clone(), one.claimed, one.reports.clone());
                self.changes.send_replace(());
                return Some(Task { lease, control, claimed, reports });
            }
            state = match again {
                Some(time) => {
                    let waited = self.wakes.wait_timeout(state, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.wakes.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// The attempt runs, and this far is it.
    pub(super) fn runs(&self, token: Token, now_at: Arc<Progress>) {
        if let Some(Holding { stage: Stage::Runs { progress, .. }, .. }) =
            self.lock().attempts.get_mut(&token)
        {
            *progress = Some(now_at);
        }
    }

    /// The attempt does not run any more; whether its end is to be reported.
    pub(super) fn ended(&self, token: Token) -> bool {
        let mut state = self.lock();
        let is_left = state.left.remove(&token);
        if let Some(one) = state.attempts.get_mut(&token).filter(|_| !is_left) {
            one.stage = Stage::Ended;
        }
        state.sweep();
        let needs_report = !is_left && state.attempts.contains_key(&token);
        drop(state);
        self.changed();
        needs_report
    }

    /// The status that the control plane `plane` is sent now.
    pub(super) fn status(&self, plane: usize) -> WorkerStatus {
        let now = self.clock.now();
        let state = self.lock();
        let waiting: BTreeSet<Token> = state.queue().into_iter().skip(state.free(self.slots)).collect();
        let is_its = |one: &Holding| one.plane == plane && !one.is_stopped;
        let held = state.attempts.iter().filter(|(_, one)| is_its(one)).map(|(token, one)| {
            let progress = match &one.stage {
                Stage::Runs { progress, .. } => progress.as_deref(),
                Stage::Waits(_) | Stage::Ended => None,
            };
            Held {
                key: one.key,
                token: *token,
                done_bytes: progress.map_or(0, Progress::input_bytes),
                moved_bytes: progress.map_or(0, Progress::moved_bytes),
                is_syncing: progress.is_some_and(Progress::is_syncing),
                is_waiting: waiting.contains(token),
            }
        });
        let others = state.attempts.values().filter(|one| !is_its(one) && (one.waits() || one.runs()));
        let slots = others.count().min(self.slots) as u32;
        let gives_way = state.attempts.values().filter_map(|one| one.gives_way(plane, now)).collect();
        WorkerStatus { held: held.collect(), elsewhere: Elsewhere { slots, gives_way } }
    }

    /// Stops attempts that their control plane wants no more.
    pub(super) fn stop(&self, tokens: impl IntoIterator<Item = Token>) {
        let mut tokens = tokens.into_iter().peekable();
        if tokens.peek().is_none() {
            return;
        }
        let now = self.clock.now();
        let mut state = self.lock();
        for token in tokens {
            if let Some(one) = state.attempts.get_mut(&token) {
                one.is_stopped = true;
                one.cancelled.get_or_insert(now);
                one.control.cancel();
            }
        }
        state.sweep();
        drop(state);
        self.changed();
    }

    /// Stops everything that `plane` gave: it counts on none of it any more.
    pub(super) fn stop_plane(&self, plane: usize) {
        let of_plane = |(token, one): (&Token, &Holding)| (one.plane == plane).then_some(*token);
        let tokens: Vec<Token> = self.lock().attempts.iter().filter_map(of_plane).collect();
        self.stop(tokens);
    }

    /// Cancels everything; ends are told.
    pub(super) fn cancel_all(&self) {
        let now = self.clock.now();
        for (token, one) in &mut self.lock().attempts {
            one.cancelled.get_or_insert(now);
            one.control.cancel();
            if one.waits() {
                one.give_back(*token, now);
            }
        }
        self.changed();
    }

    /// Threads end with what they do.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed();
    }

    /// Whether the control plane wants to hear how the attempt ended.
    pub(super) fn is_wanted(&self, token: Token) -> bool {
        self.lock().attempts.get(&token).is_some_and(|one| !one.is_stopped)
    }

    /// Its end is told, or not wanted.
    pub(super) fn forget(&self, token: Token) {
        self.lock().attempts.remove(&token);
    }
}

#[cfg(test)]
mod tests;
