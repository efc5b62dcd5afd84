//! Who gets what: the pool as the scheduler sees it, and what becomes of the scheduler's decisions.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Pool;
use super::doubts::Paused;
use super::job::{Attempt, Failure, FailureKind, Job, Outcome, State, Timings, Token, Wanted};
use super::member::{Member, may_have};
use crate::control::view::{Decision, JobId, Lane, Running, TenantId, View, Waiting, Worker, WorkerId, Zone};

impl Pool {
    /// Has the scheduler decide, and does what it says.
    pub(super) fn decide(&mut self, now: Duration) {
        let waiting: Vec<Waiting> =
            self.jobs.iter().filter_map(|(id, job)| self.waiting(now, *id, job)).collect();
        let tenants: BTreeSet<TenantId> = waiting.iter().map(|job| job.tenant).collect();
        self.ledger.set_waiting(&tenants);
        if waiting.is_empty() {
            return;
        }
        let workers = self.members.iter().filter(|(_, member)| self.is_there(now, member));
        let workers = workers.map(|(id, member)| self.worker(now, *id, member)).collect();
        let view = View { waiting, workers, owed: self.ledger.owed() };
        let seed = self.random.u64(..);
        let mut probed = BTreeSet::new();
        for decision in self.limits.scheduler.decide(&view, seed) {
            match decision {
                Decision::Lease { job, worker } if self.may_begin(&mut probed, job, worker) => {
                    self.lease(now, job, worker);
                }
                Decision::Preempt { job, worker, relief } if self.may_begin(&mut probed, relief, worker) => {
                    self.counts.preempted += 1;
                    self.stop_attempt(job);
                    self.release(job);
                }
                // Nothing is stopped for what would not begin.
                Decision::Lease { .. } | Decision::Preempt { .. } => {}
            }
        }
    }

    /// Whether `worker` may begin `id`, now or in the place of what is stopped for it: where jobs with files at its place failed, one alone finds out, and
    /// `probed` are the places where this decision has one already. What is in the view is not paused.
    fn may_begin(&self, probed: &mut BTreeSet<(WorkerId, String)>, id: JobId, worker: WorkerId) -> bool {
        let place = self.jobs.get(&id).and_then(Job::place);
        let is_doubted =
            |place: &&str| self.members.get(&worker).is_some_and(|member| member.doubts.has_failed_at(place));
        place.filter(is_doubted).is_none_or(|place| probed.insert((worker, place.to_owned())))
    }

    fn lease(&mut self, now: Duration, id: JobId, worker: WorkerId) {
        let token = Token(self.random.u64(..));
        let longest = self.limits.lease;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let (Some(member), Some(place)) = (self.members.get_mut(&worker), job.place()) {
            member.doubts.begin(now, place, longest);
        }
        job.attempts += 1;
        job.nobody_since = None;
        job.state = State::Leased(Attempt {
            worker,
            token,
            since: now,
            is_handed: false,
            seen: now,
            done_bytes: 0,
            progressed: now,
        });
        if let Some(wanted) = &job.wanted {
            self.ledger.lease(wanted.tenant, wanted.order.bytes);
            self.counts.lease(&wanted.order.tenant, wanted.order.bytes);
        }
    }

    /// Whether a worker can be given work.
    pub(super) fn is_there(&self, now: Duration, member: &Member) -> bool {
        !member.profile.is_draining && now.saturating_sub(member.heard) <= self.limits.lease
    }

    /// `job`, if somebody could have it now.
    fn waiting(&self, now: Duration, id: JobId, job: &Job) -> Option<Waiting> {
        let (State::Waiting, Some(wanted)) = (&job.state, &job.wanted) else { return None };
        if job.not_before > now {
            return None;
        }
        let waited = now.saturating_sub(job.submitted);
        let stalls_at = self.clients.get(&job.key.client).and_then(|client| client.stalls_at);
        // Who can and whom nothing speaks against now; of those, if there is any, who has not failed at it.
        let there = self.members.iter().filter(|(_, member)| self.is_there(now, member));
        let is_free = |member: &Member| !member.doubts.is_paused(now, &wanted.order.place);
        let can = there.filter(|(id, member)| may_have(**id, member, job) && is_free(member));
        let mut may: BTreeSet<WorkerId> = can.map(|(id, _)| *id).collect();
        if !may.is_subset(&job.failed_by) {
            may.retain(|id| !job.failed_by.contains(id));
        }
        Some(Waiting {
            id,
            tenant: wanted.tenant,
            lane: wanted.order.lane,
            bytes: wanted.order.bytes,
            zone: wanted.zone,
            waited,
            stalls_in: stalls_at.map(|at| at.saturating_sub(now)),
            refused_by: self.members.keys().filter(|id| !may.contains(id)).copied().collect(),
        })
    }

    fn worker(&self, now: Duration, id: WorkerId, member: &Member) -> Worker {
        let jobs = self.jobs.iter().filter_map(|(job_id, job)| Some((*job_id, job, job.attempt()?)));
        let running = jobs.filter(|(_, _, attempt)| attempt.worker == id).map(|(job_id, job, attempt)| {
            let wanted = job.wanted.as_ref();
            Running {
                id: job_id,
                tenant: wanted.map_or(TenantId(0), |wanted| wanted.tenant),
                waited: now.saturating_sub(job.submitted),
                // What nobody has asked for yet cannot be given to others, and is not stopped for them.
                lane: wanted.map_or(Lane::Relief, |wanted| wanted.order.lane),
                zone: wanted.map_or(Zone(0), |wanted| wanted.zone),
                bytes: job.bytes(),
                bytes_done: attempt.done_bytes,
            }
        });
        Worker {
            id,
            zone: member.zone,
            slots: member.profile.slots,
            running: running.collect(),
            near: member.near,
            far: member.far,
        }
    }

    /// Jobs that nobody who is there can do fail once that has been so for a while; at once if all have said so, or do not reach its place, or get no job
    /// with files there for as long: whoever handed it in may be nearer to them.
    pub(super) fn fail_what_nobody_can(&mut self, now: Duration) {
        let there: Vec<WorkerId> =
            self.members.iter().filter(|(_, member)| self.is_there(now, member)).map(|(id, _)| *id).collect();
        let mut failed = Vec::new();
        for (id, job) in &mut self.jobs {
            let (State::Waiting, Some(_)) = (&job.state, &job.wanted) else { continue };
            let can = |id: &&WorkerId| self.members.get(id).is_some_and(|member| may_have(**id, member, job));
            let can: Vec<&Member> = there.iter().filter(can).filter_map(|id| self.members.get(id)).collect();
            if !can.is_empty() {
                job.nobody_since = None;
                failed.extend(all_paused(now, job, &can, self.limits.nobody).map(|failure| (*id, failure)));
                continue;
            }
            let since = *job.nobody_since.get_or_insert(now);
            let all_refused = !there.is_empty() && there.iter().all(|id| job.refused_by.contains(id));
            if all_refused || now.saturating_sub(since) >= self.limits.nobody {
                failed.push((*id, nobody(job, there.len())));
            }
        }
        for (id, failure) in failed {
            self.end(now, id, Outcome::Failed(failure), Timings::default());
        }
    }
}

/// Why none of `can` gets `job` for longer than `most` from now on; `None` = one may.
fn all_paused(now: Duration, job: &Job, can: &[&Member], most: Duration) -> Option<Failure> {
    let place = job.place()?;
    let paused: Option<Vec<Paused<'_>>> =
        can.iter().map(|member| member.doubts.paused_beyond(now, place, most)).collect();
    let paused = paused?;
    // Of both it is those who reach the place that say what is wrong with it.
    let last = paused.iter().rev().min_by_key(|paused| paused.is_out_of_reach)?;
    let (kind, what) = match last.is_out_of_reach {
        true => (FailureKind::Unavailable, format!("no worker that could do it reaches {place}")),
        false => (FailureKind::Storage, format!("jobs at {place} fail at all workers")),
    };
    Some(Failure { kind, message: format!("{what}: {}", last.message) })
}

/// Why nobody can do `job`, where so many workers are there.
fn nobody(job: &Job, there: usize) -> Failure {
    let needs = |wanted: &Wanted| wanted.order.needs.iter().cloned().collect::<Vec<_>>().join(", ");
    let (kind, message) = match (&job.failure, &job.wanted) {
        (Some(failure), _) if !job.refused_by.is_empty() => {
            let message = &failure.message;
            let message = format!("no other worker is there that could do it, and one refused: {message}");
            // Places that workers do not reach, or cannot read now, are no fault of the job.
            let is_place = matches!(failure.kind, FailureKind::Unavailable | FailureKind::Storage);
            (if is_place { failure.kind } else { FailureKind::Rejected }, message)
        }
        (_, Some(wanted)) if there > 0 => {
            let (version, needs) = (wanted.order.spec_version, needs(wanted));
            let message = format!(
                "none of {there} workers reads specs of version {version} and has all that it needs ({needs})"
            );
            (FailureKind::Rejected, message)
        }
        _ => (FailureKind::Unavailable, "no worker is there".to_owned()),
    };
    Failure { kind, message }
}
