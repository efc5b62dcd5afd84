//! Jobs of a fallback, and which of them are to be gone on with.

use std::collections::BTreeMap;
use std::time::Duration;

use firn_format::file_name::STEM_BYTES_MAX;

use super::super::cause::Cause;
use super::super::handle::{Finisher, JobHandle};
use super::super::held::Turn;
use super::super::ran::Ran;
use super::super::trust::{Advice, Patience, Trust};
use super::share::{Idle, Idleness, Rates};
use crate::spec::{JobResult, JobSpec};

#[derive(Debug)]
pub(super) struct State {
    pub(super) jobs: BTreeMap<u64, Running>,
    next: u64,
    pub(super) trust: Trust,
    /// Jobs without an executor, by the numbers that they were drawn as they came.
    pub(super) held: BTreeMap<u64, Job>,
    pub(super) turn: Turn,
    pub(super) rates: Rates,
    pub(super) idleness: Idleness,
    /// Attempts that were given up and may still write, with their stems.
    pub(super) dead: Vec<(JobHandle, String)>,
    pub(super) is_closed: bool,
    /// Which jobs are done again.
    pub(super) random: fastrand::Rng,
}

/// A job that has no result yet.
#[derive(Debug)]
pub(in crate::executor) struct Job {
    /// Of the jobs of this executor; the older one has the smaller.
    pub(super) number: u64,
    pub(super) submitted: Duration,
    /// As it was submitted.
    pub(in crate::executor) spec: JobSpec,
    pub(super) finisher: Finisher,
    /// Attempts at the first executor.
    pub(super) attempts: u32,
    /// When it was held first.
    pub(in crate::executor) held_since: Option<Duration>,
    /// Idle processors here had it once.
    pub(super) was_shared: bool,
    /// Why it is done here, if it is.
    pub(super) cause: Cause,
}

impl Job {
    /// What the outputs of its next attempt at the first executor are called; `None` if that is too
    /// long for a name.
    pub(super) fn draw_stem(&mut self) -> Option<String> {
        let stem = match self.attempts {
            0 => format!("{}-e", self.spec.output_stem()),
            attempts => format!("{}-e{attempts}", self.spec.output_stem()),
        };
        self.attempts += 1;
        (stem.len() <= STEM_BYTES_MAX).then_some(stem)
    }
}

/// A job that an executor has.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) job: Job,
    pub(super) handle: JobHandle,
    pub(super) begun: Duration,
    pub(super) place: Place,
    pub(super) is_cancelled: bool,
}

/// Where an attempt runs.
#[derive(Debug)]
pub(super) enum Place {
    /// At the first executor.
    Away(Away),
    /// At the second.
    Here,
    /// The first has done it, which is looked at.
    Checked(Box<Checked>),
    /// At the second, after the first had done it.
    Reexecuted(Box<Answered>),
    /// Both have done it, which is compared.
    Compared(Box<Compared>),
    /// On idle processors, while it would only wait at the first.
    Idle(Idle),
}

/// What the first executor has answered, before it is believed.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) away: Away,
    /// Of the attempt, which has ended.
    pub(super) answered: JobHandle,
    /// How long it was waited for.
    pub(super) waited: Duration,
    /// When it is looked at no longer.
    pub(super) deadline: Duration,
}

/// What both executors came to.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) answered: Answered,
    pub(super) second: JobResult,
    /// When it is compared no longer.
    pub(super) deadline: Duration,
}

/// What the first executor came to, which is compared with what the second comes to.
#[derive(Debug)]
pub(super) struct Answered {
    /// Of the first one's outputs.
    pub(super) stem: String,
    /// Of the second one's.
    pub(super) own_stem: String,
    pub(super) result: JobResult,
    pub(super) ran: Ran,
}

#[derive(Debug)]
pub(super) struct Away {
    pub(super) stem: String,
    pub(super) deadline: Duration,
    /// It is to find out whether the executor can be relied on.
    pub(super) is_probe: bool,
    /// As was looked last.
    pub(super) was_waiting: bool,
    pub(super) syncs: Syncs,
}

/// How long an attempt has waited for syncs, as far as was looked.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    ended: Duration,
    /// When the sync that it waits for began.
    since: Option<Duration>,
}

impl Syncs {
    fn note(&mut self, is_syncing: bool, now: Duration) {
        if !is_syncing {
            self.ended = self.waited(now);
            self.since = None;
        } else if self.since.is_none() {
            self.since = Some(now);
        }
    }

    fn waited(&self, now: Duration) -> Duration {
        let waits = self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.ended.saturating_add(waits)
    }
}

/// What is to be gone on with.
#[derive(Debug)]
pub(super) enum Ready {
    /// It has ended, or is late.
    Settle(Running),
    /// It waits, and may take so long on idle processors.
    Share(Running, Duration),
    /// It was held and is no longer; whether it is to be done here.
    Go(Job, bool),
}

/// How long a cancelled attempt has to end.
const CANCEL_MAX: Duration = Duration::from_secs(1);

impl Running {
    /// Once it has begun, it has as long as if no job had been before it.
    fn note_begin(&mut self, now: Duration, patience: &Patience) {
        let is_waiting = self.handle.is_waiting();
        if let Place::Away(away) = &mut self.place {
            if away.was_waiting && !is_waiting && !self.is_cancelled {
                let whole = patience.with(self.job.spec.input_bytes());
                away.deadline = away.deadline.max(now.saturating_add(whole));
            }
            away.was_waiting = is_waiting;
            away.syncs.note(self.handle.is_syncing(), now);
        }
    }

    /// Whether it has taken longer than it may. While writers are about to wait for it, or it is to
    /// stop, its syncs count.
    fn is_late(&self, away: &Away, now: Duration, patience: &Patience, is_urgent: bool) -> bool {
        // A place that fails is not a slow one.
        let counts = is_urgent || self.is_cancelled || self.handle.trouble().is_some();
        let waits = if counts { Duration::ZERO } else { away.syncs.waited(now).min(patience.sync_max) };
        now >= away.deadline.saturating_add(waits)
    }

    /// Whether it has waited to begin for longer than relief may.
    fn is_overdue(&self, now: Duration, patience: &Patience) -> bool {
        now.saturating_sub(self.begun) >= patience.begin_max && self.handle.is_waiting()
    }
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            jobs: BTreeMap::new(),
            next: 0,
            trust: Trust::default(),
            held: BTreeMap::new(),
            turn: Turn::default(),
            rates: Rates::default(),
            idleness: Idleness::default(),
            dead: Vec::new(),
            is_closed: false,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// The jobs that were given away and may be done before `spec`: how many, and bytes of their
    /// inputs. There may be one worker for all, and relief goes before bulk work.
    pub(super) fn before(&self, spec: &JobSpec) -> (usize, u64) {
        let before = self.away().filter(|running| running.job.spec.is_relief() || !spec.is_relief());
        before.fold((0, 0), |(jobs, bytes), running| {
            (jobs + 1, bytes.saturating_add(running.job.spec.input_bytes()))
        })
    }

    /// Bytes of the jobs of which results are looked at.
    pub(super) fn bytes_looked_at(&self) -> u64 {
        let is_looked_at =
            |running: &&Running| matches!(running.place, Place::Checked(_) | Place::Compared(_));
        let looked_at = self.jobs.values().filter(is_looked_at);
        looked_at.map(|running| running.job.spec.input_bytes()).fold(0, u64::saturating_add)
    }

    /// Jobs that were given away, in the order of their coming.
    pub(super) fn away(&self) -> impl DoubleEndedIterator<Item = &Running> {
        self.jobs.values().filter(|running| matches!(running.place, Place::Away(_)))
    }

    /// Jobs on idle processors.
    pub(super) fn idle_count(&self) -> usize {
        self.jobs.values().filter(|running| matches!(running.place, Place::Idle(_))).count()
    }

    /// Compactions that are done or looked at here, except those that are here because they only
    /// waited elsewhere.
    pub(super) fn here_count(&self) -> u64 {
        let compactions =
            self.jobs.values().filter(|running| matches!(running.job.spec, JobSpec::Compact(_)));
        let is_here = |running: &&Running| match running.place {
            Place::Away(_) => false,
            Place::Here => running.job.cause != Cause::Unbegun,
            Place::Checked(_) | Place::Reexecuted(_) | Place::Compared(_) | Place::Idle(_) => true,
        };
        compactions.filter(is_here).count() as u64
    }

    /// Whether what came of a job elsewhere is looked at again here.
    pub(super) fn draw_reexecution(&mut self, now: Duration, patience: &Patience) -> bool {
        self.random.f64() < patience.reexecuted_share && !self.turn.is_stall_near(now, patience)
    }

    /// Stems of attempts that were given up and have ended since.
    pub(super) fn take_dead(&mut self) -> Vec<String> {
        let ended = self.dead.extract_if(.., |(handle, _)| handle.poll().is_some());
        ended.map(|(_, stem)| stem).collect()
    }

    /// Jobs that have a result or are late, and the next job that need not be held any longer;
    /// passes cancellations on.
    pub(super) fn take_ready(&mut self, now: Duration, patience: &Patience) -> Vec<Ready> {
        for running in self.jobs.values_mut() {
            let is_asked = self.is_closed || running.job.finisher.control().is_cancelled();
            if is_asked && !running.is_cancelled {
                running.is_cancelled = true;
                running.handle.cancel();
                if let Place::Away(away) = &mut running.place {
                    away.deadline = away.deadline.min(now.saturating_add(CANCEL_MAX));
                }
            }
        }
        self.stop_late(now);
        // What came of it elsewhere is believed as of all others, rather than that writers wait.
        let is_near = self.turn.is_stall_near(now, patience);
        let again = |job: &&mut Running| is_near && matches!(job.place, Place::Reexecuted(_));
        self.jobs.values_mut().filter(again).for_each(|job| job.handle.cancel());
        self.jobs.values_mut().for_each(|running| running.note_begin(now, patience));
        let is_late = |job: &Running| match &job.place {
            Place::Away(away) => {
                let is_urgent = is_near && job.job.spec.is_relief();
                job.is_late(away, now, patience, is_urgent) || is_urgent && job.is_overdue(now, patience)
            }
            // Once cancelled, its look is of no use.
            Place::Checked(checked) => job.is_cancelled || now >= checked.deadline,
            Place::Compared(compared) => job.is_cancelled || is_near || now >= compared.deadline,
            Place::Here | Place::Reexecuted(_) | Place::Idle(_) => false,
        };
        let is_ready = |_: &u64, job: &mut Running| job.handle.poll().is_some() || is_late(job);
        let ready = self.jobs.extract_if(.., is_ready).map(|(_, running)| Ready::Settle(running));
        let mut ready: Vec<Ready> = ready.collect();
        ready.extend(self.take_held(now, patience));
        ready
    }

    /// The first of the jobs that are held which is wanted somewhere, or nowhere any more. One at a
    /// time: what becomes of it may change what becomes of the next.
    fn take_held(&mut self, now: Duration, patience: &Patience) -> Option<Ready> {
        let is_over = |job: &Job| self.is_closed || job.finisher.control().is_cancelled();
        let is_wanted = |job: &Job| is_over(job) || self.trust.advise(&job.spec, now) != Advice::Wait;
        let free = self.held.iter().find(|(_, job)| is_wanted(job)).map(|(number, _)| *number);
        if let Some(job) = free.and_then(|number| self.held.remove(&number)) {
            return Some(Ready::Go(job, false));
        }
        let due = self.held.iter().find(|(_, job)| self.turn.is_come(job, now, patience));
        let job = due.map(|(number, _)| *number).and_then(|number| self.held.remove(&number))?;
        self.turn.begin(&job, now, patience);
        Some(Ready::Go(job, true))
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
