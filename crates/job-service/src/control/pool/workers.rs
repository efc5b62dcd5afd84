//! What workers ask.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::connections::{ConnectionId, said_of_lost};
use super::doubts::Doubts;
use super::job::{Attempt, Failure, FailureKind, Job, JobKey, Outcome, State, Timings, Token};
use super::jobs::Stage;
use super::member::{Member, Profile};
use super::{Client, Limits, Pool};
use crate::control::view::{Elsewhere, JobId, Lane, WorkerId};

/// A job that a worker says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub key: JobKey,
    /// Which attempt.
    pub token: Token,
    /// Bytes of inputs that are read.
    pub done_bytes: u64,
    /// Bytes that were read, written, and made durable.
    pub moved_bytes: u64,
    /// Whether it waits for what was written to become durable.
    pub is_syncing: bool,
    /// Whether it waits for a slot of the worker.
    pub is_waiting: bool,
}

/// A job for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which.
    pub key: JobKey,
    /// Which attempt.
    pub token: Token,
    /// Where the files are.
    pub location: String,
    /// The encoded spec.
    pub spec: Vec<u8>,
    /// What kind of work.
    pub lane: Lane,
    /// Since it was submitted.
    pub waited: Duration,
}

/// What a worker is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulled {
    /// Work.
    pub leases: Vec<Lease>,
    /// Attempts that do not count any more.
    pub stop: Vec<Token>,
}

/// A question of a worker for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    pub(crate) worker: u128,
    pub(super) number: u64,
}

/// Answers that were lost with the same job, after which the next one is waited for.
const UNHEARD_MAX: u32 = 2;

/// Workers that have not been heard of for so many leases are forgotten.
const FORGET_LEASES: u32 = 6;

impl Pool {
    /// A worker is there and has `held`, and asks for work: which of its questions that is.
    pub fn hear(&mut self, now: Duration, profile: Profile, held: &[Held]) -> Question {
        let zone = self.zone(&profile.zone);
        let id = match self.member_ids.get(&profile.id) {
            Some(id) => *id,
            None => WorkerId(self.draw_id()),
        };
        self.member_ids.insert(profile.id, id);
        let question = Question { worker: profile.id, number: self.draw_id() };
        let member = self.members.entry(id).or_insert_with(|| Member::new(profile.clone(), zone, now));
        (member.profile, member.zone, member.heard, member.question) = (profile, zone, now, question.number);
        self.see(now, id, held);
        self.release_unheard(now, id);
        self.decide(now);
        question
    }

    /// Attempts that were handed to `worker` with an answer that it never had wait again. A worker
    /// asks once more only when it has the answer before, or has given it up, and names all it has.
    /// What it has named it may have ended since. A job that was lost with two such answers is left
    /// to the end of its lease, for it may be the reason. That does not hold where the worker
    /// drains.
    fn release_unheard(&mut self, now: Duration, worker: WorkerId) {
        let is_draining = self.members.get(&worker).is_some_and(|member| member.profile.is_draining);
        let unheard = |(id, job): (JobId, &Job)| {
            let attempt = job.attempt().filter(|attempt| attempt.is_handed && !attempt.is_named)?;
            (is_draining || job.unheard < UNHEARD_MAX).then_some((id, attempt.since))
        };
        let unheard: Vec<(JobId, Duration)> = self.jobs.of_worker(worker).filter_map(unheard).collect();
        for (id, began) in unheard {
            let location = self.jobs.get(id).and_then(Job::location);
            if let (Some(member), Some(location)) = (self.members.get_mut(&worker), location) {
                member.doubts.said_nothing(now, began, location);
            }
            self.jobs.change(id, |job| job.unheard += 1);
            self.release(id);
        }
    }

    /// What there is for the worker that asks `question`, each once. Nothing if it has asked
    /// another one since: an answer to an older question may reach no worker.
    pub fn answer(&mut self, now: Duration, question: Question) -> Pulled {
        let Some(id) = self.member_ids.get(&question.worker).copied() else { return Pulled::default() };
        let member = self.members.get_mut(&id).filter(|member| member.question == question.number);
        let Some(member) = member else { return Pulled::default() };
        let stop = std::mem::take(&mut member.stop);
        let mut leases = Vec::new();
        let is_new = |job: &Job| job.attempt().is_some_and(|attempt| !attempt.is_handed);
        let new: Vec<JobId> =
            self.jobs.of_worker(id).filter(|(_, job)| is_new(job)).map(|(id, _)| id).collect();
        for id in new {
            let lease = self.jobs.change(id, |job| {
                let (State::Leased(attempt), Some(wanted)) = (&mut job.state, &job.wanted) else {
                    return None;
                };
                (attempt.is_handed, attempt.seen, attempt.progressed) = (true, now, now);
                let (location, spec) = (wanted.order.location.clone(), wanted.order.spec.clone());
                let (lane, waited) = (wanted.order.lane, now.saturating_sub(job.submitted));
                Some(Lease { key: job.key, token: attempt.token, location, spec, lane, waited })
            });
            leases.extend(lease.flatten());
        }
        Pulled { leases, stop: stop.into_iter().collect() }
    }

    /// The worker `id` lives and has `held`: what it is to stop, or `None` if it is not known here.
    pub fn beat(&mut self, now: Duration, id: u128, held: &[Held]) -> Option<Vec<Token>> {
        let id = self.member_ids.get(&id).copied()?;
        let member = self.members.get_mut(&id)?;
        member.heard = now;
        self.see(now, id, held);
        let member = self.members.get_mut(&id)?;
        Some(std::mem::take(&mut member.stop).into_iter().collect())
    }

    /// The worker `id` does `elsewhere` for others, from now on.
    pub fn note_elsewhere(&mut self, now: Duration, id: u128, elsewhere: Elsewhere) {
        let member = self.member_ids.get(&id).and_then(|id| self.members.get_mut(id));
        let Some(member) = member else { return };
        let before = std::mem::replace(&mut member.profile.elsewhere, elsewhere);
        let Elsewhere { slots, gives_way } = &member.profile.elsewhere;
        // Less to be had is nothing to decide about.
        if *slots < before.slots || gives_way.len() > before.gives_way.len() {
            self.decide(now);
        }
    }

    /// An attempt of the worker `id` has ended; whether that counts.
    pub fn finish(
        &mut self,
        now: Duration,
        id: u128,
        held: Held,
        outcome: Outcome,
        timings: Timings,
    ) -> bool {
        let Some(worker) = self.member_ids.get(&id).copied() else { return false };
        // A restarted control plane may hear of the attempt by its end. And what is done is done,
        // stopped or not, if no other worker is at it.
        if matches!(outcome, Outcome::Done(_))
            && let Some(member) = self.members.get_mut(&worker)
        {
            member.stopped.remove(&held.token);
        }
        self.see(now, worker, &[held]);
        let Some(id) = self.jobs.id(&held.key) else { return false };
        let Some(job) = self.jobs.get(id) else { return false };
        let is_current =
            job.attempt().is_some_and(|attempt| (attempt.worker, attempt.token) == (worker, held.token));
        if !is_current {
            return false;
        }
        let (zone, bytes) = (job.wanted.as_ref().map(|wanted| wanted.zone), job.bytes());
        match outcome {
            Outcome::Done(_) => {
                if let (Some(member), Some(zone)) = (self.members.get_mut(&worker), zone) {
                    member.learn(zone, bytes, &timings);
                }
                self.learn_of_location(now, id, worker, None);
                self.end(now, id, outcome, timings);
            }
            Outcome::Failed(mut failure) => {
                if let Some(member) = self.members.get_mut(&worker) {
                    member.stopped.insert(held.token, now);
                    // The control plane wanted it: it was the worker that did not.
                    if failure.kind == FailureKind::Cancelled {
                        failure.message = format!("its worker {} gave it back", member.profile.name);
                    }
                }
                self.counts.given_up.add(failure.kind);
                self.attempt_failed(now, id, worker, failure, timings);
            }
        }
        self.decide(now);
        true
    }

    fn attempt_failed(
        &mut self,
        now: Duration,
        id: JobId,
        worker: WorkerId,
        failure: Failure,
        timings: Timings,
    ) {
        let limits = self.limits;
        self.learn_of_location(now, id, worker, Some(&failure));
        let is_over = self.jobs.change(id, |job| {
            job.failure = Some(failure.clone());
            match failure.kind {
                FailureKind::Invalid | FailureKind::NotConserved | FailureKind::Corrupt => true,
                // A worker that drains gives it back so.
                FailureKind::Cancelled => false,
                FailureKind::Rejected | FailureKind::Unavailable => {
                    job.refused_by.insert(worker);
                    false
                }
                FailureKind::Storage => {
                    job.failed_by.insert(worker);
                    job.failures += 1;
                    job.not_before = now + limits.pause.saturating_mul(1 << (job.failures - 1).min(6));
                    job.failures >= limits.attempts_max
                }
            }
        });
        match is_over {
            Some(true) => self.end(now, id, Outcome::Failed(failure), timings),
            Some(false) => self.release(id),
            None => {}
        }
    }

    /// What the end of an attempt says of its worker and the location of its files.
    fn learn_of_location(&mut self, now: Duration, id: JobId, worker: WorkerId, failure: Option<&Failure>) {
        let job = self.jobs.get(id);
        let began = job.and_then(Job::attempt).map_or(now, |attempt| attempt.since);
        let location = job.and_then(Job::location);
        let (Some(member), Some(location)) = (self.members.get_mut(&worker), location) else { return };
        let pause = self.limits.pause;
        let Some(failure) = failure else { return member.doubts.went_well(location) };
        match failure.kind {
            FailureKind::NotConserved => member.doubts.went_well(location),
            FailureKind::Storage | FailureKind::Unavailable => {
                member.doubts.failed(now, began, location, pause, failure);
            }
            FailureKind::Rejected | FailureKind::Cancelled | FailureKind::Invalid | FailureKind::Corrupt => {
                member.doubts.said_nothing(now, began, location);
            }
        }
    }

    /// The job waits again if its client was heard of, else it is forgotten.
    pub(super) fn release(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        match &job.wanted {
            Some(wanted) => {
                self.ledger.stop(wanted.tenant, wanted.order.bytes);
                self.jobs.change(id, Job::release);
            }
            None => drop(self.jobs.remove(id)),
        }
    }

    /// Notes that `worker` has `held`, and what of it it should stop.
    fn see(&mut self, now: Duration, worker: WorkerId, held: &[Held]) {
        let mut stop = BTreeSet::new();
        let is_stopped = |members: &BTreeMap<WorkerId, Member>, token| {
            members.get(&worker).is_some_and(|member| member.stopped.contains_key(&token))
        };
        for one in held {
            // It hears so with this answer, or has heard so since it said this; in case it has not
            // it is told again.
            if is_stopped(&self.members, one.token) {
                stop.insert(one.token);
                continue;
            }
            let id = match self.jobs.id(&one.key) {
                Some(id) => id,
                None if self.forgotten.contains_key(&one.key) => {
                    stop.insert(one.token);
                    continue;
                }
                // It goes on, and counts once there is room or its client is heard of.
                None if !self.has_room_for_reported(one.key.client) => continue,
                None => self.adopt(now, worker, one),
            };
            let ledger = &mut self.ledger;
            self.jobs.change(id, |job| match &mut job.state {
                State::Leased(attempt) if (attempt.worker, attempt.token) == (worker, one.token) => {
                    (attempt.seen, attempt.is_named) = (now, true);
                    job.unheard = 0;
                    let has_moved =
                        one.done_bytes > attempt.done_bytes || one.moved_bytes > attempt.moved_bytes;
                    let has_synced = attempt.is_syncing && !one.is_syncing;
                    let begins = !attempt.has_begun && !one.is_waiting;
                    attempt.has_begun |= begins;
                    if has_moved || has_synced || begins {
                        attempt.progressed = now;
                    }
                    attempt.is_syncing = one.is_syncing;
                    attempt.done_bytes = attempt.done_bytes.max(one.done_bytes);
                    attempt.moved_bytes = attempt.moved_bytes.max(one.moved_bytes);
                }
                // No worker has it but this one, which was thought to be gone, or has it from a
                // control plane before.
                State::Waiting => {
                    job.attempts += 1;
                    job.state = State::Leased(held_attempt(now, worker, one));
                    if let Some(wanted) = &job.wanted {
                        ledger.lease(wanted.tenant, wanted.order.bytes);
                    }
                }
                State::Leased(_) | State::Ended { .. } => {
                    stop.insert(one.token);
                }
            });
        }
        if let Some(member) = self.members.get_mut(&worker) {
            member.stop.extend(stop);
        }
    }

    /// A job that only its worker has told of.
    fn adopt(&mut self, now: Duration, worker: WorkerId, held: &Held) -> JobId {
        let id = JobId(self.draw_id());
        let state = State::Leased(held_attempt(now, worker, held));
        self.jobs.insert(id, Job { attempts: 1, ..Job::new(held.key, None, now, state) });
        // Its client has as long as any other to be heard of.
        self.clients.entry(held.key.client).or_insert(Client { heard: now, stalls_at: None });
        id
    }

    /// Attempts of workers that do not name them, or get nowhere.
    pub(super) fn expire_attempts(&mut self, now: Duration) {
        let Limits { lease, progress, sync, .. } = self.limits;
        let silent = |attempt: &Attempt| now.saturating_sub(attempt.seen) > lease;
        let allowed = |attempt: &Attempt| if attempt.is_syncing { progress.max(sync) } else { progress };
        let since = |attempt: &Attempt| now.saturating_sub(attempt.progressed);
        let stuck = |attempt: &Attempt| attempt.has_begun && since(attempt) > allowed(attempt);
        let unbegun = |attempt: &Attempt| !attempt.has_begun && since(attempt) > lease;
        let lost: Vec<(JobId, Attempt)> = self
            .jobs
            .in_stage(Stage::Running)
            .filter_map(|(id, job)| Some((id, job.attempt()?)))
            .filter(|(_, attempt)| silent(attempt) || stuck(attempt) || unbegun(attempt))
            .map(|(id, attempt)| (id, *attempt))
            .collect();
        for (id, attempt) in lost {
            if !silent(&attempt) {
                self.stop_attempt(now, id);
            }
            if !silent(&attempt) && !attempt.has_begun {
                // It has more to do than was known here, which is no failure.
                self.counts.expired_unbegun += 1;
                let message = format!("its worker did not begin it for {} s", lease.as_secs());
                let failure = Failure { kind: FailureKind::Cancelled, message };
                self.attempt_failed(now, id, attempt.worker, failure, Timings::default());
                continue;
            }
            let (count, message) = match silent(&attempt) {
                true => (
                    &mut self.counts.expired_silent,
                    format!("its worker was not heard of for {} s", lease.as_secs()),
                ),
                false => (
                    &mut self.counts.expired_stuck,
                    format!("its worker got no further for {} s", allowed(&attempt).as_secs()),
                ),
            };
            *count += 1;
            let failure = Failure { kind: FailureKind::Storage, message };
            self.jobs.change(id, |job| job.expired += 1);
            self.attempt_failed(now, id, attempt.worker, failure, Timings::default());
        }
    }

    /// The worker `id`, which was just heard of, said so on `connection`, which is open.
    pub fn note_connection(&mut self, now: Duration, id: u128, connection: ConnectionId) {
        let member = self.member_ids.get(&id).and_then(|id| self.members.get_mut(id));
        let Some(member) = member else { return };
        let (was_lost, was_broken) = member.connections.begin(connection);
        if was_lost {
            self.history.say(format!("worker {} is back", member.profile.name));
        }
        if was_broken {
            self.decide(now);
        }
    }

    /// `connection` has ended. A worker without any other gets no jobs, and is given up for lost
    /// if it does not come back for [`Limits::reconnect`].
    pub fn end_connection(&mut self, now: Duration, connection: ConnectionId) {
        self.members.values_mut().for_each(|member| member.connections.end(now, connection));
    }

    /// Gives up workers that did not come back: their jobs wait for others. One that had said it
    /// takes no more jobs, and has none, has left.
    pub(super) fn lose_members(&mut self, now: Duration) {
        let patience = self.limits.reconnect;
        let is_gone = |member: &Member| member.connections.is_to_be_given_up(now, patience);
        let gone = self.members.iter().filter(|(_, member)| is_gone(member));
        let gone: Vec<WorkerId> = gone.map(|(id, _)| *id).collect();
        for worker in gone {
            let jobs: Vec<(JobId, JobKey)> =
                self.jobs.of_worker(worker).map(|(id, job)| (id, job.key)).collect();
            let has_left = |member: &mut Member| jobs.is_empty() && member.profile.is_draining;
            if let Some((_, member)) = self.members.extract_if(worker..=worker, |_, it| has_left(it)).next() {
                self.member_ids.remove(&member.profile.id);
                continue;
            }
            self.lose(now, worker, jobs);
        }
    }

    fn lose(&mut self, now: Duration, worker: WorkerId, jobs: Vec<(JobId, JobKey)>) {
        let Some(name) = self.members.get(&worker).map(|member| member.profile.name.clone()) else { return };
        for (id, _) in &jobs {
            self.counts.expired_lost += 1;
            self.jobs.change(*id, |job| job.expired += 1);
            let message = format!("its worker {name} was lost: the connection to it broke");
            let failure = Failure { kind: FailureKind::Storage, message };
            self.attempt_failed(now, *id, worker, failure, Timings::default());
        }
        self.history.say(said_of_lost(&name, jobs.len()));
        if let Some(member) = self.members.get_mut(&worker) {
            // What its jobs ended with says nothing of the locations of their files.
            member.doubts = Doubts::default();
            member.connections.give_up(jobs.into_iter().map(|(_, key)| key).collect());
        }
    }

    /// Workers that were not heard of for long, and what others were told as long ago.
    pub(super) fn drop_members(&mut self, now: Duration) {
        let limit = self.limits.lease * FORGET_LEASES;
        for member in self.members.values_mut() {
            member.stopped.retain(|_, since| now.saturating_sub(*since) <= limit);
        }
        let gone = self.members.extract_if(.., |_, member| now.saturating_sub(member.heard) > limit);
        for (_, member) in gone {
            self.member_ids.remove(&member.profile.id);
        }
    }
}

fn held_attempt(now: Duration, worker: WorkerId, held: &Held) -> Attempt {
    Attempt {
        worker,
        token: held.token,
        since: now,
        is_handed: true,
        is_named: true,
        has_begun: !held.is_waiting,
        seen: now,
        done_bytes: held.done_bytes,
        moved_bytes: held.moved_bytes,
        is_syncing: held.is_syncing,
        progressed: now,
    }
}
