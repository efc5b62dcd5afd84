//! Jobs somewhere else, and here where that does not come off.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use firn_format::file_name::STEM_BYTES_MAX;
use firn_storage::{Clock, Priority, Spawn, Storage};

use super::Executor;
use super::handle::{Finisher, JobHandle, new_job};
use super::trust::{Fallbacks, Patience, Trust};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{JobResult, JobSpec};
use crate::verify::{is_output_of, verify, verify_files};

/// Asks one executor first and runs here, on another, what that one refuses, fails at, answers wrongly, or keeps for
/// longer than [`Patience`] allows.
///
/// 1. What the first executor answers is checked, files included as far as [`verify_files`] goes, before it is anybody's
///    result.
/// 2. An attempt there writes under a stem of its own (`<stem>-e`), so that one which comes back late meets
///    nothing of the attempt here. What it leaves is removed. A spare file that the spec names goes to whichever renames it first.
/// 3. After a failure the first executor is left alone for a while, for twice as long after each that follows.
///
/// Only the first executor may be unreliable: the answer of the second is the job's, and it MUST NOT run jobs inside
/// `submit` where [`threads`](Self::threads) made this one. Dropped, it cancels what runs and does not wait for it.
#[derive(Debug)]
pub struct Fallback {
    shared: Arc<Shared>,
    is_inline: bool,
}

#[derive(Debug)]
struct Shared {
    first: Arc<dyn Executor>,
    second: Arc<dyn Executor>,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    patience: Patience,
    fallbacks: Arc<Fallbacks>,
    /// Attempts at the first executor that came to nothing.
    given_up: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<u64, Job>,
    next: u64,
    trust: Trust,
    /// Attempts that were given up and may still write, with their stems.
    dead: Vec<(JobHandle, String)>,
    is_closed: bool,
}

/// A job in progress.
#[derive(Debug)]
struct Job {
    /// As it was submitted.
    spec: JobSpec,
    finisher: Finisher,
    handle: JobHandle,
    /// The attempt at the first executor; `None` = it runs here.
    away: Option<Away>,
    is_cancelled: bool,
}

#[derive(Debug)]
struct Away {
    stem: String,
    begun: Duration,
    deadline: Duration,
}

/// How long a cancelled attempt has to end.
const CANCEL_MAX: Duration = Duration::from_secs(1);

/// How often cancellations and deadlines are looked at while jobs run.
const LOOK: Duration = Duration::from_millis(20);

impl Fallback {
    /// Asks `first`, then `second`, about tables on `storage`; one thread of `spawn`'s watches over the jobs.
    ///
    /// # Errors
    /// `Storage` if the thread cannot be started.
    pub fn threads(
        [first, second]: [Arc<dyn Executor>; 2],
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        patience: Patience,
        spawn: &dyn Spawn,
    ) -> Result<Self> {
        let mut fallback = Self::inline([first, second], storage, clock, patience);
        fallback.is_inline = false;
        let shared = Arc::clone(&fallback.shared);
        spawn.spawn("firn-fallback".to_owned(), Priority::Normal, Box::new(move || shared.watch()))?;
        Ok(fallback)
    }

    /// As [`threads`](Self::threads) without a thread: `submit` blocks until the job has its result.
    pub fn inline(
        [first, second]: [Arc<dyn Executor>; 2],
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        patience: Patience,
    ) -> Self {
        let (fallbacks, given_up, state, changed) = Default::default();
        let shared = Shared { first, second, storage, clock, patience, fallbacks, given_up, state, changed };
        Self { shared: Arc::new(shared), is_inline: true }
    }

    /// What was not done elsewhere, and why; stays true when this executor is gone.
    pub fn fallbacks(&self) -> Arc<Fallbacks> {
        Arc::clone(&self.shared.fallbacks)
    }
}

impl Executor for Fallback {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        let (handle, finisher) = new_job();
        self.shared.begin(spec, finisher);
        while self.is_inline && handle.poll().is_none() {
            let ready = self.shared.ready(Some(&handle));
            ready.into_iter().flatten().for_each(|job| self.shared.settle(job));
        }
        Ok(handle)
    }

    fn given_up_count(&self) -> u64 {
        let elsewhere = self.shared.first.given_up_count() + self.shared.second.given_up_count();
        self.shared.given_up.load(Ordering::Relaxed) + elsewhere
    }

    fn urge(&self, stalls_in: Option<Duration>) {
        self.shared.first.urge(stalls_in);
        self.shared.second.urge(stalls_in);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the job to whoever should have it now.
    fn begin(self: &Arc<Self>, spec: JobSpec, finisher: Finisher) {
        let now = self.clock.now();
        if self.lock().trust.is_paused(now) {
            return self.run_here(spec, finisher);
        }
        let stem = format!("{}-e", spec.output_stem());
        if stem.len() > STEM_BYTES_MAX {
            return self.run_here(spec, finisher);
        }
        match self.first.submit(spec.with_stem(&stem)) {
            Err(error) => {
                self.refused(format!("it was refused: {error}"), Duration::ZERO);
                self.run_here(spec, finisher);
            }
            Ok(handle) => {
                let deadline = now.saturating_add(self.patience.with(spec.input_bytes()));
                let away = Some(Away { stem, begun: now, deadline });
                self.follow(Job { spec, finisher, handle, away, is_cancelled: false });
            }
        }
    }

    fn run_here(self: &Arc<Self>, spec: JobSpec, finisher: Finisher) {
        if self.lock().is_closed {
            return finisher.finish(Err(closed()));
        }
        self.fallbacks.count_one();
        match self.second.submit(spec.clone()) {
            Err(error) => finisher.finish(Err(error)),
            Ok(handle) => self.follow(Job { spec, finisher, handle, away: None, is_cancelled: false }),
        }
    }

    /// Watches over `job` from now on.
    fn follow(self: &Arc<Self>, job: Job) {
        let handle = job.handle.clone();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.jobs.insert(number, job);
        drop(state);
        self.changed.notify_all();
        // An executor that keeps the job for ever must not keep this one, and through it itself.
        let shared: Weak<Self> = Arc::downgrade(self);
        handle.on_finished(Box::new(move || {
            if let Some(shared) = shared.upgrade() {
                // Whoever looks has either seen the result or waits by now.
                drop(shared.lock());
                shared.changed.notify_all();
            }
        }));
    }

    /// The watching thread's life.
    fn watch(self: Arc<Self>) {
        while let Some(ready) = self.ready(None) {
            ready.into_iter().for_each(|job| self.settle(job));
        }
    }

    /// Waits for jobs that have ended or are late, or for the result of `own`, which another thread may have taken and
    /// given its result meanwhile; `None` once nothing runs and nothing will.
    fn ready(&self, own: Option<&JobHandle>) -> Option<Vec<Job>> {
        let mut state = self.lock();
        loop {
            if own.is_some_and(|own| own.poll().is_some()) {
                return Some(Vec::new());
            }
            let dead = state.take_dead();
            if !dead.is_empty() {
                drop(state);
                dead.iter().for_each(|stem| self.remove_outputs(stem));
                state = self.lock();
                continue;
            }
            let ready = state.take_ready(self.clock.now());
            if !ready.is_empty() {
                return Some(ready);
            }
            if state.is_closed && state.jobs.is_empty() {
                return None;
            }
            state = match state.jobs.is_empty() && own.is_none() {
                true => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                false => self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Gives a job that has ended or is late its result, or to the second executor.
    fn settle(self: &Arc<Self>, job: Job) {
        let result = job.handle.poll();
        let Some(away) = job.away else {
            return job.finisher.finish(result.unwrap_or_else(|| Err(closed())));
        };
        let waited = self.clock.now().saturating_sub(away.begun);
        let refusal = match result {
            Some(Ok(result)) => match self.believe(&job.spec, &away.stem, &result) {
                Ok(()) => {
                    self.lock().trust.went_well();
                    return job.finisher.finish(Ok(result));
                }
                Err(error) => format!("the answer was wrong: {error}"),
            },
            Some(Err(error)) => format!("it failed: {error}"),
            None => format!("there was no answer in {:.1} s", waited.as_secs_f64()),
        };
        job.handle.cancel();
        self.given_up.fetch_add(1, Ordering::Relaxed);
        self.remove_outputs(&away.stem);
        if job.handle.poll().is_none() {
            self.lock().dead.push((job.handle, away.stem));
        }
        if job.is_cancelled {
            return job.finisher.finish(Err(closed()));
        }
        self.refused(refusal, waited);
        self.run_here(job.spec, job.finisher);
    }

    fn believe(&self, spec: &JobSpec, stem: &str, result: &JobResult) -> Result<()> {
        verify(&spec.with_stem(stem), result)?;
        verify_files(&*self.storage, spec, result)
    }

    fn refused(&self, reason: String, waited: Duration) {
        self.lock().trust.refused(self.clock.now(), waited);
        self.fallbacks.explain(reason);
    }

    /// Removes what was written under `stem`. The result does not tell: there may be none, or a wrong one.
    fn remove_outputs(&self, stem: &str) {
        // What cannot be listed or removed now is garbage that the committer finds by its name.
        for (name, _) in self.storage.list().unwrap_or_default() {
            if is_output_of(&name, stem) {
                let _removed = self.storage.remove(&name);
            }
        }
    }
}

impl State {
    /// Stems of attempts that were given up and have ended since.
    fn take_dead(&mut self) -> Vec<String> {
        let ended = self.dead.extract_if(.., |(handle, _)| handle.poll().is_some());
        ended.map(|(_, stem)| stem).collect()
    }

    /// Jobs that have a result or are late; passes cancellations on.
    fn take_ready(&mut self, now: Duration) -> Vec<Job> {
        for job in self.jobs.values_mut() {
            let is_asked = self.is_closed || job.finisher.control().is_cancelled();
            if is_asked && !job.is_cancelled {
                job.is_cancelled = true;
                job.handle.cancel();
                if let Some(away) = &mut job.away {
                    away.deadline = away.deadline.min(now.saturating_add(CANCEL_MAX));
                }
            }
        }
        let is_late = |job: &Job| job.away.as_ref().is_some_and(|away| now >= away.deadline);
        let is_ready = |_: &u64, job: &mut Job| job.handle.poll().is_some() || is_late(job);
        self.jobs.extract_if(.., is_ready).map(|(_, job)| job).collect()
    }
}

impl Drop for Fallback {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, "the job was cancelled")
}
