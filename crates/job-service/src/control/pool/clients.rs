//! What databases ask.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::job::{Ended, Failure, FailureKind, Job, JobKey, Order, Outcome, State, Timings, Wanted};
use super::rows::row;
use super::{Client, Pool};
use crate::control::view::JobId;

/// How jobs of a client get on.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    /// Jobs with a worker that waits for what was written to become durable.
    pub syncing: BTreeSet<u64>,
    /// Jobs of which workers said that attempts failed: how many, and why the last one came to
    /// nothing.
    pub tried: BTreeMap<u64, (u32, String)>,
}

impl Attempts {
    /// Whether `other` says the same, but for words.
    pub fn is_as(&self, other: &Self) -> bool {
        let counts =
            |of: &Self| of.tried.iter().map(|(number, (count, _))| (*number, *count)).collect::<Vec<_>>();
        self.syncing == other.syncing && counts(self) == counts(other)
    }
}

impl Pool {
    /// Takes a job; a known one is left as it is.
    ///
    /// # Errors
    /// There are too many, or what is known of them takes too much memory: of all tenants, or of
    /// this one.
    pub fn submit(&mut self, now: Duration, key: JobKey, order: Order) -> Result<(), Failure> {
        let stalls_at = order.stalls_in.map(|stalls_in| now.saturating_add(stalls_in));
        self.clients.insert(key.client, Client { heard: now, stalls_at });
        let known = self.jobs.id(&key);
        if let Some(message) = known.is_none().then(|| self.too_much(&order)).flatten() {
            self.counts.refused += 1;
            return Err(Failure { kind: FailureKind::Unavailable, message });
        }
        let (tenant, zone, kind) = (self.tenant(&order.tenant), self.zone(&order.zone), self.kind(&order));
        self.ledger.set_weight(tenant, order.weight);
        let wanted = Wanted { order, tenant, zone, kind };
        match known {
            Some(id) => {
                let (counts, ledger) = (&mut self.counts, &mut self.ledger);
                self.jobs.change(id, |job| {
                    // A worker had it before its client was heard of.
                    if job.wanted.is_none() {
                        if job.attempt().is_some() {
                            ledger.lease(wanted.tenant, wanted.order.bytes);
                        }
                        job.wanted = Some(wanted);
                        counts.submit(job);
                    }
                });
            }
            None => {
                let id = JobId(self.draw_id());
                self.forgotten.remove(&key);
                let job = Job::new(key, Some(wanted), now, State::Waiting);
                self.counts.submit(&job);
                self.jobs.insert(id, job);
            }
        }
        self.decide(now);
        Ok(())
    }

    /// Writers of `client` stop in `stalls_in` if nothing is done. Its jobs go by that from the
    /// next decision on.
    pub fn urge(&mut self, now: Duration, client: u128, stalls_in: Option<Duration>) {
        self.heard(now, client).stalls_at = stalls_in.map(|stalls_in| now.saturating_add(stalls_in));
    }

    /// Jobs that all workers there do at the same time, for each of the clients that have any.
    pub fn slots_for_each(&self, now: Duration) -> u32 {
        let there = self.members.values().filter(|member| self.is_there(now, member));
        let slots: u32 = there.map(|member| member.profile.slots).fold(0, u32::saturating_add);
        slots.div_ceil(self.jobs.clients().max(1) as u32)
    }

    /// `client` is there.
    pub(super) fn heard(&mut self, now: Duration, client: u128) -> &mut Client {
        let client = self.clients.entry(client).or_insert(Client { heard: now, stalls_at: None });
        client.heard = now;
        client
    }

    /// What has ended of `waiting`, all jobs that `client` believes are here, and which of them are
    /// not. Jobs of `taken` are forgotten, and so are jobs that it has given up. Results beyond
    /// [`Limits::answer_bytes_max`](super::Limits::answer_bytes_max) are told once the ones before
    /// them are taken.
    pub fn follow(
        &mut self,
        now: Duration,
        client: u128,
        waiting: &[u64],
        taken: &[u64],
    ) -> (Vec<(u64, Ended)>, Vec<u64>) {
        self.heard(now, client);
        let newest = waiting.iter().chain(taken).max().copied();
        let taken: BTreeSet<u64> = taken.iter().copied().collect();
        let waiting: BTreeSet<u64> =
            waiting.iter().copied().filter(|number| !taken.contains(number)).collect();
        if let Some(newest) = newest {
            self.drop_given_up(now, client, &waiting, newest);
        }
        let (mut ended, mut unknown, mut bytes) = (Vec::new(), Vec::new(), 0);
        for number in waiting {
            let id = self.jobs.id(&JobKey { client, number });
            match id.and_then(|id| self.jobs.get(id)) {
                None => unknown.push(number),
                // Without its order it could not go on where its worker ends.
                Some(job) if job.wanted.is_none() => unknown.push(number),
                Some(Job { state: State::Ended { ended: end, .. }, .. }) => {
                    bytes += end.outcome.bytes();
                    if ended.is_empty() || bytes <= self.limits.answer_bytes_max {
                        ended.push((number, end.clone()));
                    }
                }
                Some(_) => {}
            }
        }
        (ended, unknown)
    }

    /// Stops and forgets jobs of `client` up to the number `newest` that it is not `waiting` for.
    ///
    /// Numbers rise, and a client that waits for a job no more never does again. So what an old
    /// question says of jobs as old as itself stays true. Of newer jobs it says nothing, in
    /// whatever order questions and jobs arrive.
    fn drop_given_up(&mut self, now: Duration, client: u128, waiting: &BTreeSet<u64>, newest: u64) {
        let jobs = self.jobs.of_client(client, newest);
        let given_up: Vec<JobId> =
            jobs.filter(|(number, _)| !waiting.contains(number)).map(|(_, id)| id).collect();
        if given_up.is_empty() {
            return;
        }
        for id in given_up {
            self.stop_attempt(now, id);
            self.forget(now, id);
        }
        self.decide(now);
    }

    /// The jobs of `waiting` that no worker has begun.
    pub fn unbegun(&self, client: u128, waiting: &[u64]) -> Vec<u64> {
        let waits = |number: &u64| {
            let id = self.jobs.id(&JobKey { client, number: *number });
            id.and_then(|id| self.jobs.get(id)).is_some_and(|job| match &job.state {
                State::Waiting => true,
                // It may lie in the worker's queue.
                State::Leased(attempt) => !attempt.has_begun,
                State::Ended { .. } => false,
            })
        };
        waiting.iter().copied().filter(waits).collect()
    }

    /// How the jobs of `waiting` get on that have not ended.
    pub fn attempts(&self, client: u128, waiting: &[u64]) -> Attempts {
        let mut attempts = Attempts::default();
        for number in waiting {
            let id = self.jobs.id(&JobKey { client, number: *number });
            let Some(job) = id.and_then(|id| self.jobs.get(id)) else { continue };
            if matches!(job.state, State::Ended { .. }) {
                continue;
            }
            if job.attempt().is_some_and(|attempt| attempt.is_syncing) {
                attempts.syncing.insert(*number);
            }
            let failures = job.failures.saturating_sub(job.expired);
            if let Some(failure) = job.failure.as_ref().filter(|_| failures > 0) {
                attempts.tried.insert(*number, (failures, failure.message.clone()));
            }
        }
        attempts
    }

    /// Ends a job; whether it was there and had not ended.
    pub fn cancel(&mut self, now: Duration, key: JobKey) -> bool {
        let Some(id) = self.jobs.id(&key) else { return false };
        let is_over = self.jobs.get(id).is_none_or(|job| matches!(job.state, State::Ended { .. }));
        if is_over {
            return false;
        }
        self.stop_attempt(now, id);
        let failure = Failure { kind: FailureKind::Cancelled, message: "the job was cancelled".to_owned() };
        self.end(now, id, Outcome::Failed(failure), Timings::default());
        self.decide(now);
        true
    }

    /// Has the worker of a job told to stop it.
    pub(super) fn stop_attempt(&mut self, now: Duration, id: JobId) {
        let Some(attempt) = self.jobs.get(id).and_then(Job::attempt) else { return };
        if let Some(member) = self.members.get_mut(&attempt.worker)
            && attempt.is_handed
        {
            member.stop.insert(attempt.token);
            member.stopped.insert(attempt.token, now);
        }
    }

    /// The job has ended.
    pub(super) fn end(&mut self, now: Duration, id: JobId, outcome: Outcome, timings: Timings) {
        let (members, counts) = (&self.members, &mut self.counts);
        self.jobs.change(id, |job| {
            if let Outcome::Failed(failure) = &outcome {
                job.failure = Some(failure.clone());
            }
            let attempt = job.attempt();
            let worker = attempt.and_then(|attempt| members.get(&attempt.worker));
            let ended = Ended {
                outcome,
                worker: worker.map(|member| member.profile.name.clone()).unwrap_or_default(),
                queued: attempt.map_or(now, |attempt| attempt.since).saturating_sub(job.submitted),
                timings,
            };
            job.state = State::Ended { at: now, ended };
            counts.end(job);
        });
    }

    /// Its client asks for the job no more.
    fn forget(&mut self, now: Duration, id: JobId) {
        let Some(job) = self.jobs.remove(id) else { return };
        self.counts.forget(&job);
        self.forgotten.insert(job.key, now);
        if matches!(job.state, State::Ended { .. }) {
            self.history.remember(row(&job, &self.members, now));
        }
    }

    /// Clients that are gone, with their jobs.
    pub(super) fn drop_clients(&mut self, now: Duration) {
        let limit = self.limits.client;
        let is_gone = |client: &Client| now.saturating_sub(client.heard) > limit;
        let gone: Vec<u128> =
            self.clients.extract_if(.., |_, client| is_gone(client)).map(|(id, _)| id).collect();
        for client in gone {
            let jobs: Vec<JobId> = self.jobs.of_client(client, u64::MAX).map(|(_, id)| id).collect();
            for id in jobs {
                self.stop_attempt(now, id);
                self.forget(now, id);
            }
        }
    }
}
