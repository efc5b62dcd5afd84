//! What an action changes of the state, as it is begun.

use std::time::Duration;

use super::super::action::{Action, Reason, Result, To, Why};
use super::super::trust::Concern;
use super::{Answer, Job, Stage, State, Took};
use crate::executor::cause::Cause;

/// How long a cancelled attempt at a link has to end.
const CANCEL_MAX: Duration = Duration::from_secs(1);

impl State {
    /// Notes that `action` is begun at the moment `now`.
    pub(in crate::executor::chain) fn apply(&mut self, action: Action, now: Duration) {
        match action {
            Action::Wait => {}
            Action::Hand(number, to, reason) => self.hand(number, to, reason, now),
            Action::Hold(number) => {
                if let Some(job) = self.jobs.get_mut(&number) {
                    job.held_since.get_or_insert(now);
                }
                self.put(number, Stage::Held);
            }
            Action::Stop(number) => self.stop(number, now),
            Action::Cancel(number) => {
                if let Some(Stage::Away(away) | Stage::Checked { away, .. }) = self.stage(number) {
                    let (link, is_probe) = (away.link, away.is_probe);
                    self.end_probe(link, is_probe);
                }
                self.jobs.remove(&number);
            }
            Action::GiveUp(number, why) => self.give_up(number, why, now),
            Action::Check(number, deadline) => self.check(number, deadline, now),
            Action::Reexecute(number) => {
                if let Some((link, ran)) = self.believe(number) {
                    self.put(number, Stage::Reexecuted { link, ran, is_stopped: false });
                }
            }
            Action::Compare(number, deadline) => {
                if let Some(Stage::Reexecuted { link, ran, .. }) = self.stage(number) {
                    let (link, ran) = (*link, *ran);
                    self.put(number, Stage::Compared { link, ran, deadline });
                }
            }
            Action::Finish(number, result) => self.finish(number, result, now),
            Action::TakeBack(number, allowed) => {
                if let Some(job) = self.jobs.get_mut(&number) {
                    job.was_taken_back = true;
                }
                self.put(number, Stage::Handing(To::Idle(allowed), now));
            }
            Action::Extend(number, until) => {
                if let Some(Job { stage: Stage::Idle(attempt), seen, .. }) = self.jobs.get_mut(&number) {
                    attempt.extend(until, seen.passed, now);
                }
            }
            Action::GiveAway(number, is_late) => {
                // What failed, or is wanted no more, says nothing of what idles.
                if is_late {
                    self.idleness.learn(true);
                }
                self.put(number, Stage::Ready { from: 0 });
            }
        }
    }

    fn stage(&self, number: u64) -> Option<&Stage> {
        self.jobs.get(&number).map(|job| &job.stage)
    }

    fn hand(&mut self, number: u64, to: To, reason: Reason, now: Duration) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        match (to, reason) {
            // What became of it before is of no account.
            (To::Link { .. }, _) => job.cause = Cause::Away,
            (_, Reason::Lacking) => job.cause = Cause::Lacking,
            (_, Reason::Turn) => self.rate.begin(job.about.bytes, now, &self.patience),
            _ => {}
        }
        if let To::Link { link, is_probe: true } = to {
            self.links[link].trust.begin_probe();
        }
        self.put(number, Stage::Handing(to, now));
    }

    fn stop(&mut self, number: u64, now: Duration) {
        let is_over = self.jobs.get(&number).is_some_and(|job| self.is_over(job));
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.is_cancelled |= is_over;
        match &mut job.stage {
            Stage::Away(away) => away.deadline = away.deadline.min(now.saturating_add(CANCEL_MAX)),
            Stage::Reexecuted { is_stopped, .. } => *is_stopped = true,
            Stage::Idle(attempt) => attempt.is_late |= !is_over,
            _ => {}
        }
    }

    fn give_up(&mut self, number: u64, why: Why, now: Duration) {
        let (Stage::Away(away) | Stage::Checked { away, .. }) = (match self.stage(number) {
            Some(stage) => stage,
            None => return,
        }) else {
            return;
        };
        let (link, is_probe) = (away.link, away.is_probe);
        let waited = match self.stage(number) {
            Some(Stage::Checked { waited, .. }) => *waited,
            _ => now.saturating_sub(away.begun),
        };
        self.end_probe(link, is_probe);
        self.fail(number, link, why, now, waited);
    }

    fn check(&mut self, number: u64, deadline: Duration, now: Duration) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let took = match job.seen.answer {
            Some(Answer::Well(took)) => took,
            _ => Took::default(),
        };
        match std::mem::replace(&mut job.stage, Stage::Held) {
            Stage::Away(away) => {
                let waited = now.saturating_sub(away.begun);
                self.put(number, Stage::Checked { away, took, waited, deadline, is_drawn: false });
            }
            other => job.stage = other,
        }
    }

    /// What the link of the job `number` has done was as it should be. The link, and how long it
    /// took.
    fn believe(&mut self, number: u64) -> Option<(usize, Duration)> {
        let job = self.jobs.get(&number)?;
        let Stage::Checked { away, took, waited, .. } = &job.stage else { return None };
        let (number, is_probe) = (away.link, away.is_probe);
        let link = self.links.get_mut(number)?;
        link.trust.went_well(&job.about.need);
        if let Some(ran) = took.ran {
            link.there.learn(&job.about, took.opened, ran);
        }
        let ran = took.ran.unwrap_or(*waited);
        self.end_probe(number, is_probe);
        Some((number, ran))
    }

    fn finish(&mut self, number: u64, result: Result, now: Duration) {
        if result == Result::Checked {
            self.believe(number);
        }
        let Some(job) = self.jobs.remove(&number) else { return };
        match (result, &job.stage) {
            (Result::Last, _) => {
                let is_whole = matches!(job.seen.answer, Some(Answer::Well(_)));
                let accuser = job.failed_at.filter(|_| job.cause == Cause::Damaged && is_whole);
                if let Some(link) = accuser.and_then(|link| self.links.get_mut(link)) {
                    link.trust.failed(&job.about.need, Concern::Job, now, Duration::ZERO);
                }
            }
            (Result::Differs, Stage::Compared { link, ran, .. }) => {
                self.links[*link].trust.failed(&job.about.need, Concern::Service, now, *ran);
            }
            (Result::Idle, Stage::Idle(attempt)) => {
                self.idleness.learn(false);
                let open = self.links.iter().find_map(|link| link.there.open(&job.about));
                self.here.learn(&job.about, open, now.saturating_sub(attempt.begun), now);
            }
            _ => {}
        }
    }
}
