//! Threads that choose work and do it, and waiting for them.
//!
//! ```text
//!   lock ─► choose ─► claim ─► unlock ─► perform ─► what came of it ─► lock ─► release
//!    ▲        │ nothing                                                          │
//!    │        ▼                                                                  │
//!    └──── sleep, 100 ms at most ◄───────────────────────────────────────────────┘
//! ```
//! With threads, each of them goes round. Without (deterministic tests), the owner calls [`step`],
//! which goes round once.
//!
//! # Invariants
//! 1. A task is chosen and claimed under one lock: `claim_next`.
//! 2. A unit counts as running until what it claimed and held is gone, whatever became of it:
//!    `Claim`.
//! 3. A panic ends no thread: writers would miss it, and so would a close. It poisons the engine:
//!    `perform`.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, Result};
use firn_jobs::caught;
use firn_storage::{Priority, Spawn};

use crate::backoff::Room;
use crate::claims::{InProgress, Schedule};
use crate::error::from_storage;
use crate::failure::{Answer, answer_to};

/// An engine's background work: what there is to do, and how it is done.
///
/// Methods are called by several threads at the same time. Those that are given a state are called
/// under the schedule's lock: they MUST NOT take it, and should not block.
pub trait Work {
    /// One unit.
    type Task: Debug;
    /// What tasks in progress have claimed.
    type Claims;
    /// Kinds of units: one of them may rest while all others go on.
    type Kind: Copy + Ord;

    /// What is in progress. MUST be the same each time.
    fn schedule(&self) -> &Schedule<Self::Claims, Self::Kind>;

    /// Now, as the engine's clock has it.
    fn now(&self) -> Duration;

    /// Something to do before each choice. May be called under the schedule's lock.
    fn before_choice(&self) {}

    /// The most urgent unit that can be worked on now, beside what is in progress. MUST be `None`
    /// once [`failure`](Self::failure) is not.
    fn choose(&self, state: &InProgress<Self::Claims, Self::Kind>) -> Option<Self::Task>;

    /// Marks what `task` works on, so that no other thread chooses it.
    fn claim(&self, claims: &mut Self::Claims, task: &Self::Task);

    /// Unmarks it. Called once for each claim.
    fn release(&self, claims: &mut Self::Claims, task: &Self::Task);

    /// Does `task`. May block for as long as it takes.
    ///
    /// # Errors
    /// Whatever it failed with. Nothing changed then, unless [`answer_to`] has it poison the
    /// engine.
    fn perform(&self, task: &Self::Task) -> Result<()>;

    /// Of which kind `task` is.
    fn kind(&self, task: &Self::Task) -> Self::Kind;

    /// What room `task` needs.
    fn room(&self, task: &Self::Task) -> Room;

    /// Whether the success of `task` shows that others of its kind may be tried again.
    fn is_proof(&self, _task: &Self::Task) -> bool {
        true
    }

    /// Sets aside the inputs of `task`, which fails each time with `error`; `false` if it has none,
    /// or they have nothing to do with it.
    fn set_aside(&self, task: &Self::Task, error: &Error) -> bool;

    /// Gives up what the disk has to spare, as a unit found no room.
    fn make_room(&self);

    /// What `error`, with which a unit failed, comes from.
    fn explain(&self, error: Error) -> Error {
        error
    }

    /// Refuses writes from now on, because background work failed for good.
    fn poison(&self, error: &Error);

    /// What [`poison`](Self::poison) was called with first.
    fn failure(&self) -> Option<Error>;
}

/// Starts `count` threads, which end after [`Schedule::stop`].
///
/// # Errors
/// If a thread cannot be started; those that were have ended then, or are about to.
pub fn start_threads<W>(work: &Arc<W>, count: usize, spawn: &dyn Spawn) -> Result<()>
where
    W: Work + Send + Sync + 'static,
{
    for index in 0..count {
        let worked_on = Arc::clone(work);
        let body = Box::new(move || work_until_stopped(&*worked_on));
        let started = spawn.spawn(format!("firn-work-{index}"), Priority::Background, body);
        if let Err(error) = started {
            work.schedule().stop();
            return Err(from_storage(error));
        }
    }
    Ok(())
}

/// The loop of a background thread.
fn work_until_stopped<W: Work>(work: &W) {
    while let Some(task) = next(work) {
        // What fails for good is kept by the engine; the rest is chosen again.
        let _kept = perform(work, task);
    }
}

/// The next task, once there is one; `None` once the schedule is stopped.
fn next<W: Work>(work: &W) -> Option<W::Task> {
    let mut state = work.schedule().lock();
    loop {
        if state.is_stopping() {
            return None;
        }
        work.before_choice();
        if let Some(task) = claim_next(work, &mut state) {
            return Some(task);
        }
        state = work.schedule().wait_for_work(state);
    }
}

/// Chooses a task and claims it.
fn claim_next<W: Work>(work: &W, state: &mut InProgress<W::Claims, W::Kind>) -> Option<W::Task> {
    let task = work.choose(state)?;
    state.begin();
    work.claim(&mut state.claims, &task);
    Some(task)
}

/// Does one unit of work on this thread, if there is any; tells whether there was.
///
/// # Errors
/// Whatever the unit failed with; it is chosen again by a later call unless the failure is final.
pub fn step<W: Work>(work: &W) -> Result<bool> {
    work.before_choice();
    let chosen = claim_next(work, &mut work.schedule().lock());
    let Some(task) = chosen else { return Ok(false) };
    perform(work, task).map(|()| true)
}

/// Works (where there are no threads for it) or waits until `is_done`, or until there is nothing
/// left to do.
///
/// # Errors
/// The engine's failure. Without threads, what a unit failed with, unless its inputs are set aside
/// for that: a caller that waits for those asks for them afterwards.
pub fn wait_until<W: Work>(work: &W, is_done: impl Fn() -> bool) -> Result<()> {
    loop {
        if let Some(failure) = work.failure() {
            return Err(failure);
        }
        if is_done() {
            return Ok(());
        }
        if work.schedule().is_manual() {
            match step(work) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if answer_to(&error) == Answer::SetAside => {}
                Err(error) => return Err(error),
            }
            continue;
        }
        let state = work.schedule().lock();
        if state.is_stopping() || (state.is_idle() && work.choose(&state).is_none()) {
            return Ok(());
        }
        work.schedule().wake();
        work.schedule().wait_for_end(state);
    }
}

fn perform<W: Work>(work: &W, task: W::Task) -> Result<()> {
    let claim = Claim { work, task: Some(task) };
    let Some(task) = &claim.task else { return Ok(()) };
    let result = match caught("background work", || Ok(work.perform(task))) {
        Ok(done) => done.map_err(|error| work.explain(error)),
        Err(panic) => {
            let panic = Error::bug(panic.message);
            work.poison(&panic);
            Err(panic)
        }
    };
    match &result {
        Ok(()) => note_done(work, task),
        Err(error) => note_failed(work, task, error),
    }
    drop(claim);
    result
}

fn note_done<W: Work>(work: &W, task: &W::Task) {
    let (kind, is_proof, writes) = (work.kind(task), work.is_proof(task), work.room(task) != Room::None);
    let mut state = work.schedule().lock();
    if is_proof {
        state.backoff.note_done(kind);
    }
    if writes {
        state.backoff.forget_room();
    }
}

/// Gives the failure of `task` its answer; see [`answer_to`].
fn note_failed<W: Work>(work: &W, task: &W::Task, error: &Error) {
    let (kind, room) = (work.kind(task), work.room(task));
    let rest = || work.schedule().lock().backoff.rest(kind, error.clone(), work.now());
    match answer_to(error) {
        Answer::Retried => {
            // Before room is made, so that the removal of a file from now on lifts it.
            work.schedule().lock().backoff.refuse(kind, room, error.clone(), work.now());
            if room != Room::None {
                work.make_room();
            }
        }
        _ if work.schedule().is_stopping() => {}
        Answer::SetAside => match work.set_aside(task, error) {
            true => note_done(work, task),
            false => rest(),
        },
        Answer::Poisoned => work.poison(error),
    }
}

/// A unit of work in progress; given up when dropped, by a panic too. It counts as running until
/// what it held is gone: files that it replaced are known to be obsolete then, and a caller that
/// waits for quiet waits for their removal.
struct Claim<'w, W: Work> {
    work: &'w W,
    task: Option<W::Task>,
}

impl<W: Work> Drop for Claim<'_, W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.work.poison(&Error::bug(format!("background work panicked: {:?}", self.task)));
        }
        if let Some(task) = self.task.take() {
            self.work.release(&mut self.work.schedule().lock().claims, &task);
        }
        self.work.schedule().end();
    }
}

#[cfg(test)]
mod tests;
