//! What the policy of a chain knows: jobs, executors and what was seen of them, as plain values.
//!
//! Nothing here locks, waits or asks the time. The driver reports what happened ([`State::see`],
//! [`State::handed`], [`State::refused`]); [`next`](super::policy::next) says what to do, and
//! [`State::apply`] notes that it is being done.

mod apply; // what an action changes

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::about::About;
use super::action::{To, Why};
use super::idle::{Attempt, Here, Idleness, There};
use super::patience::Patience;
use super::rate::Rate;
use super::trust::{Concern, Trust};
use crate::error::ErrorKind;
use crate::executor::cause::Cause;

/// What a chain knows.
///
/// 1. A job is in exactly one [`Stage`], and only [`apply`](Self::apply) and the reports of the
///    driver move it.
/// 2. A link that has failed at a job for the job's sake is never asked for that job again.
#[derive(Debug)]
pub(super) struct State {
    pub(super) patience: Patience,
    /// Whether no thread watches over the jobs, so that none is held.
    pub(super) is_inline: bool,
    /// The executors but the last, in the order in which they are asked.
    pub(super) links: Vec<Link>,
    /// By the numbers that they were given as they came.
    pub(super) jobs: BTreeMap<u64, Job>,
    number: u64,
    pub(super) rate: Rate,
    pub(super) idleness: Idleness,
    pub(super) here: Here,
    pub(super) is_closed: bool,
    /// Which jobs are done again.
    random: fastrand::Rng,
}

/// An executor that may fail.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) trust: Trust,
    /// How long jobs took there of late.
    pub(super) there: There,
    /// Jobs that it does at a time, if it says.
    pub(super) width: Option<usize>,
}

/// A job that has no result yet.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) about: About,
    pub(super) stage: Stage,
    pub(super) seen: Seen,
    /// Its attempt was asked to stop, since nothing waits for the job any more.
    pub(super) is_cancelled: bool,
    /// Why the last executor does it, if it does.
    pub(super) cause: Cause,
    /// The link that failed at it last.
    pub(super) failed_at: Option<usize>,
    /// Links that are not asked for it again.
    pub(super) excluded: BTreeSet<usize>,
    /// When it was held first.
    pub(super) held_since: Option<Duration>,
    /// Idle processors had it once.
    pub(super) was_taken_back: bool,
}

/// What was seen of an attempt in the latest look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) answer: Option<Answer>,
    /// It has not begun, its executor says.
    pub(super) is_waiting: bool,
    pub(super) is_syncing: bool,
    /// It was tried in vain there, and may be tried again.
    pub(super) was_tried: bool,
    /// Entries that it has gone over.
    pub(super) passed: u64,
    /// The submitter has cancelled the job.
    pub(super) is_unwanted: bool,
}

/// What an attempt, or a look at what came of one, came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Well(Took),
    Failed(ErrorKind),
    /// Of a look: the storage refused it.
    Unseen {
        /// It was a file of the result that the last executor wrote.
        is_own: bool,
    },
}

/// How long an attempt took, as its executor says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Took {
    pub(super) opened: Duration,
    /// `None` = it does not say.
    pub(super) ran: Option<Duration>,
}

/// Where a job is.
#[derive(Debug)]
pub(super) enum Stage {
    /// No executor has it. Links from `from` on may be asked for it.
    Ready { from: usize },
    /// No executor has it, and it waits: for a link to be relied on, or for the rate of deep work.
    Held,
    /// It is being handed to an executor.
    Handing(To, Duration),
    /// A link has it.
    Away(Away),
    /// The last executor has it.
    Last,
    /// Idle processors have it.
    Idle(Attempt),
    /// A link has done it, which is looked at until `deadline`.
    Checked { away: Away, took: Took, waited: Duration, deadline: Duration, is_drawn: bool },
    /// The last executor does it too.
    Reexecuted { link: usize, ran: Duration, is_stopped: bool },
    /// Both have done it, which is compared until `deadline`.
    Compared { link: usize, ran: Duration, deadline: Duration },
}

/// An attempt at a link.
#[derive(Debug)]
pub(super) struct Away {
    pub(super) link: usize,
    pub(super) begun: Duration,
    pub(super) deadline: Duration,
    pub(super) is_probe: bool,
    /// As was looked last.
    was_waiting: bool,
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

    pub(super) fn waited(&self, now: Duration) -> Duration {
        let waits = self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.ended.saturating_add(waits)
    }
}

impl State {
    /// Of a chain of so many `links` before the last executor; `seed` draws which jobs are done
    /// again.
    pub(super) fn new(links: usize, patience: Patience, is_inline: bool, seed: u64) -> Self {
        Self {
            patience,
            is_inline,
            links: (0..links).map(|_| Link::default()).collect(),
            jobs: BTreeMap::new(),
            number: 0,
            rate: Rate::default(),
            idleness: Idleness::default(),
            here: Here::default(),
            is_closed: false,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Takes a job, of which no executor knows yet; its number.
    pub(super) fn add(&mut self, about: About) -> u64 {
        self.number += 1;
        let job = Job {
            about,
            stage: Stage::Ready { from: 0 },
            seen: Seen::default(),
            is_cancelled: false,
            cause: Cause::Away,
            failed_at: None,
            excluded: BTreeSet::new(),
            held_since: None,
            was_taken_back: false,
        };
        self.jobs.insert(self.number, job);
        self.number
    }

    /// Whether writers are about to stop.
    pub(super) fn is_stall_near(&self, now: Duration) -> bool {
        self.rate.is_stall_near(now, &self.patience)
    }

    /// Whether nothing waits for `job` any more.
    pub(super) fn is_over(&self, job: &Job) -> bool {
        self.is_closed || job.seen.is_unwanted
    }

    /// Whether no link is relied on.
    pub(super) fn is_away(&self) -> bool {
        !self.links.is_empty() && self.links.iter().all(|link| link.trust.is_doubted())
    }

    /// Jobs that `link` has, in the order of their coming.
    pub(super) fn away(&self, link: usize) -> impl DoubleEndedIterator<Item = (u64, &Job, &Away)> {
        self.jobs.iter().filter_map(move |(number, job)| match &job.stage {
            Stage::Away(away) if away.link == link => Some((*number, job, away)),
            _ => None,
        })
    }

    /// The jobs that `link` has and may do before one that `is_l0`: how many, and bytes of
    /// their inputs. There may be one worker for all, and L0 work goes before deep work.
    pub(super) fn before(&self, link: usize, is_l0: bool) -> (usize, u64) {
        let before = self.away(link).filter(|(_, job, _)| job.about.is_l0 || !is_l0);
        before.fold((0, 0), |(jobs, bytes), (_, job, _)| (jobs + 1, bytes.saturating_add(job.about.bytes)))
    }

    /// Until when what came of `job` may be looked at, behind all that is.
    pub(super) fn check_until(&self, job: &Job, now: Duration) -> Duration {
        let is_looked_at = |job: &&Job| matches!(job.stage, Stage::Checked { .. } | Stage::Compared { .. });
        let looked_at = self.jobs.values().filter(is_looked_at).map(|job| job.about.bytes);
        let bytes = looked_at.fold(job.about.bytes, u64::saturating_add);
        now.saturating_add(self.patience.check_limit(bytes))
    }

    /// Jobs on idle processors.
    pub(super) fn idle_count(&self) -> usize {
        let is_idle = |job: &&Job| matches!(job.stage, Stage::Idle(_) | Stage::Handing(To::Idle(_), _));
        self.jobs.values().filter(is_idle).count()
    }

    /// Compactions that are done or looked at here, except those that are here because they only
    /// waited elsewhere.
    pub(super) fn here_count(&self) -> u64 {
        let compactions = self.jobs.values().filter(|job| job.about.entries.is_some());
        let is_here = |job: &&Job| match job.stage {
            Stage::Ready { .. } | Stage::Held | Stage::Handing(..) | Stage::Away(_) => false,
            Stage::Last => job.cause != Cause::Unbegun,
            Stage::Checked { .. } | Stage::Reexecuted { .. } | Stage::Compared { .. } | Stage::Idle(_) => {
                true
            }
        };
        compactions.filter(is_here).count() as u64
    }

    /// Held jobs, and bytes of their inputs.
    pub(super) fn held(&self) -> (u64, u64) {
        let held = self.jobs.values().filter(|job| matches!(job.stage, Stage::Held));
        held.fold((0, 0), |(jobs, bytes), job| (jobs + 1, bytes + job.about.bytes))
    }

    /// Notes what was seen of the attempt at the job `number` that goes on.
    pub(super) fn see(&mut self, number: u64, seen: Seen, now: Duration) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        match &mut job.stage {
            // Once it has begun, it has as long as if no job had been before it.
            Stage::Away(away) => {
                if away.was_waiting && !seen.is_waiting && !job.is_cancelled {
                    let whole = self.patience.with(job.about.bytes);
                    away.deadline = away.deadline.max(now.saturating_add(whole));
                }
                away.was_waiting = seen.is_waiting;
                away.syncs.note(seen.is_syncing, now);
            }
            Stage::Checked { is_drawn, .. } => {
                let is_new = job.seen.answer.is_none();
                if is_new && matches!(seen.answer, Some(Answer::Well(_))) {
                    *is_drawn = self.random.f64() < self.patience.reexecuted_share;
                }
            }
            _ => {}
        }
        job.seen = seen;
    }

    /// The executor that the job `number` was handed to has it now.
    pub(super) fn handed(&mut self, number: u64) {
        let Some(Stage::Handing(to, begun)) = self.jobs.get(&number).map(|job| &job.stage) else { return };
        let (to, begun) = (*to, *begun);
        let stage = match to {
            To::Link { link, is_probe } => {
                let job = &self.jobs[&number];
                let bytes = job.about.bytes.saturating_add(self.before(link, job.about.is_l0).1);
                let deadline = begun.saturating_add(self.patience.with(bytes));
                let (was_waiting, syncs) = Default::default();
                Stage::Away(Away { link, begun, deadline, is_probe, was_waiting, syncs })
            }
            To::Last => Stage::Last,
            To::Idle(allowed) => Stage::Idle(Attempt::new(begun, allowed)),
        };
        self.put(number, stage);
    }

    /// The executor that the job `number` was handed to refused it.
    pub(super) fn refused(&mut self, number: u64, kind: ErrorKind, now: Duration) {
        match self.jobs.get(&number).map(|job| &job.stage) {
            Some(Stage::Handing(To::Link { link, is_probe }, _)) => {
                let (link, is_probe) = (*link, *is_probe);
                self.end_probe(link, is_probe);
                self.fail(number, link, Why::Failed(kind), now, Duration::ZERO);
            }
            Some(Stage::Handing(To::Idle(_), _)) => self.put(number, Stage::Ready { from: 0 }),
            _ => drop(self.jobs.remove(&number)),
        }
    }

    /// The name of an attempt at the job `number` would be too long: idle processors are not given
    /// it, or no link is.
    pub(super) fn unnamed(&mut self, number: u64) {
        match self.jobs.get(&number).map(|job| &job.stage) {
            Some(Stage::Handing(To::Link { link, is_probe }, _)) => {
                let (link, is_probe) = (*link, *is_probe);
                self.end_probe(link, is_probe);
            }
            _ => return self.put(number, Stage::Ready { from: 0 }),
        }
        let last = self.links.len();
        if let Some(job) = self.jobs.get_mut(&number) {
            job.cause = Cause::Lacking;
            job.excluded = (0..last).collect();
        }
        self.put(number, Stage::Ready { from: last });
    }

    fn put(&mut self, number: u64, stage: Stage) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.stage = stage;
            // What was seen is of the attempt before.
            job.seen = Seen { is_unwanted: job.seen.is_unwanted, ..Seen::default() };
        }
    }

    fn end_probe(&mut self, link: usize, is_probe: bool) {
        if is_probe {
            self.links[link].trust.end_probe();
        }
    }

    /// `link` came to nothing with the job `number`, which it has had for `waited`.
    fn fail(&mut self, number: u64, link: usize, why: Why, now: Duration, waited: Duration) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let concern = why.concern();
        job.cause = why.cause();
        job.failed_at = Some(link);
        match concern {
            // It may be asked again once it is relied on, or has what was lacking.
            Concern::Service | Concern::Need => {}
            Concern::Job | Concern::Queue => drop(job.excluded.insert(link)),
            // The last executor finds out whether they are damaged.
            Concern::Files => job.excluded = (0..self.links.len()).collect(),
        }
        let from = link + 1;
        self.links[link].trust.failed(&job.about.need, concern, now, waited);
        self.put(number, Stage::Ready { from });
    }
}
