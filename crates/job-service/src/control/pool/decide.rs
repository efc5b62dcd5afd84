//! Which worker gets what: the pool as the scheduler sees it, and what becomes of the scheduler's
//! decisions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use firn_engine::Identity;

use super::Pool;
use super::doubts::Paused;
use super::job::{Attempt, Failure, FailureKind, Job, Kind, KindId, Outcome, State, Timings, Token, Wanted};
use super::member::{Member, may_have};
use crate::control::rank::Class;
use crate::control::schedule::{Moment, Waiters, plan};
use crate::control::scheduler::Scheduler;
use crate::control::view::{Decision, JobId, Lane, Running, TenantId, Worker, WorkerId, Zone};

impl Pool {
    /// Has the scheduler decide, and does what it says.
    pub(super) fn decide(&mut self, now: Duration) {
        self.jobs.wake(now);
        let tenants: BTreeSet<TenantId> = self.jobs.lines().map(|(group, _)| group.tenant).collect();
        self.ledger.set_waiting(&tenants);
        if tenants.is_empty() {
            return;
        }
        let seed = self.random.u64(..);
        let mut probed = BTreeSet::new();
        let scheduler = self.limits.scheduler;
        let decisions = self.at(now, |moment| match scheduler {
            Scheduler::Urgency => plan(moment),
            // They are there to compare with, and look at every job.
            other => other.decide(&moment.view(), seed),
        });
        for decision in decisions {
            match decision {
                Decision::Lease { job, worker } if self.may_begin(&mut probed, job, worker) => {
                    self.lease(now, job, worker);
                }
                Decision::Preempt { job, worker, l0 } if self.may_begin(&mut probed, l0, worker) => {
                    self.counts.preempted += 1;
                    self.stop_attempt(now, job);
                    self.release(job);
                }
                // Nothing is stopped for what would not begin.
                Decision::Lease { .. } | Decision::Preempt { .. } => {}
            }
        }
    }

    /// What `look` makes of everything at `now`.
    pub(super) fn at<T>(&self, now: Duration, look: impl FnOnce(&Moment<'_>) -> T) -> T {
        let there: Vec<(WorkerId, &Member)> = self.there(now).collect();
        let workers: Vec<Worker> = there.iter().map(|(id, member)| self.worker(now, *id, member)).collect();
        let owed = self.ledger.owed();
        let refusals = self.refusals(now, &there);
        let none = BTreeSet::new();
        let lines = self.jobs.lines().map(|(group, jobs)| {
            let stalls_at = self.clients.get(&group.client).and_then(|client| client.stalls_at);
            let stalls_in = stalls_at.map(|at| at.saturating_sub(now));
            let class = Class { tenant: group.tenant, lane: group.lane, zone: group.zone, stalls_in };
            Waiters { class, refused_by: refusals.get(&group.kind).unwrap_or(&none), jobs }
        });
        let refused_by = |id| self.refused_by(id, &there, &refusals);
        look(&Moment { now, lines: lines.collect(), workers: &workers, owed: &owed, refused_by: &refused_by })
    }

    /// Which workers of `there` can have no job of each kind now.
    fn refusals(&self, now: Duration, there: &[(WorkerId, &Member)]) -> BTreeMap<KindId, BTreeSet<WorkerId>> {
        let waiting: BTreeSet<KindId> = self.jobs.lines().map(|(group, _)| group.kind).collect();
        let doubtful: Vec<_> = there.iter().filter(|(_, member)| !member.doubts.is_empty()).collect();
        // Many locations need the same.
        let mut cannot: BTreeMap<(&BTreeSet<String>, u32), BTreeSet<WorkerId>> = BTreeMap::new();
        let kinds = self.kinds.iter().map(|(kind, id)| (kind, KindId(id)));
        let kinds = kinds.filter(|(_, id)| waiting.contains(id));
        let refusals = kinds.map(|(Kind { location, needs, spec_version }, id)| {
            let cannot = cannot.entry((needs, *spec_version)).or_insert_with(|| {
                let cannot = there.iter().filter(|(_, member)| !member.can(needs, *spec_version));
                cannot.map(|(id, _)| *id).collect()
            });
            let paused = doubtful.iter().filter(|(_, member)| member.doubts.is_paused(now, location));
            (id, cannot.iter().copied().chain(paused.map(|(id, _)| *id)).collect())
        });
        refusals.collect()
    }

    /// Which workers of `there` cannot have a job now that a worker refused or failed at; `None` =
    /// as its kind.
    fn refused_by(
        &self,
        id: JobId,
        there: &[(WorkerId, &Member)],
        refusals: &BTreeMap<KindId, BTreeSet<WorkerId>>,
    ) -> Option<BTreeSet<WorkerId>> {
        let job = self.jobs.get(id)?;
        let of_kind = refusals.get(&job.wanted.as_ref()?.kind)?;
        if job.refused_by.is_empty() && job.failed_by.is_empty() {
            return None;
        }
        let all = || there.iter().map(|(id, _)| *id);
        // Workers that can, and that nothing speaks against now. Of these, if there are any, the
        // ones that have not failed at it.
        let can = all().filter(|id| !of_kind.contains(id) && !job.refused_by.contains(id));
        let mut may: BTreeSet<WorkerId> = can.collect();
        if !may.is_subset(&job.failed_by) {
            may.retain(|id| !job.failed_by.contains(id));
        }
        Some(all().filter(|id| !may.contains(id)).collect())
    }

    /// Workers that can be given work.
    fn there(&self, now: Duration) -> impl Iterator<Item = (WorkerId, &Member)> {
        let there = self.members.iter().filter(move |(_, member)| self.is_there(now, member));
        there.map(|(id, member)| (*id, member))
    }

    /// Whether `worker` may begin `id`, now or in the place of what is stopped for it. Where jobs
    /// with files at its location failed, one alone finds out; `probed` are the locations where
    /// this decision has one already. What is in the view is not paused.
    fn may_begin(&self, probed: &mut BTreeSet<(WorkerId, String)>, id: JobId, worker: WorkerId) -> bool {
        let location = self.jobs.get(id).and_then(Job::location);
        let is_doubted = |location: &&str| {
            self.members.get(&worker).is_some_and(|member| member.doubts.has_failed_at(location))
        };
        location.filter(is_doubted).is_none_or(|location| probed.insert((worker, location.to_owned())))
    }

    fn lease(&mut self, now: Duration, id: JobId, worker: WorkerId) {
        let token = Token(self.random.u64(..));
        let longest = self.limits.lease;
        if let Some(member) = self.members.get_mut(&worker) {
            member.take_place(self.jobs.of_worker(worker).count());
        }
        let (members, ledger, counts) = (&mut self.members, &mut self.ledger, &mut self.counts);
        self.jobs.change(id, |job| {
            if let (Some(member), Some(location)) = (members.get_mut(&worker), job.location()) {
                member.doubts.begin(now, location, longest);
            }
            job.attempts += 1;
            job.nobody_since = None;
            job.state = State::Leased(Attempt {
                worker,
                token,
                since: now,
                is_handed: false,
                is_named: false,
                has_begun: false,
                seen: now,
                done_bytes: 0,
                moved_bytes: 0,
                is_syncing: false,
                progressed: now,
            });
            if let Some(wanted) = &job.wanted {
                ledger.lease(wanted.tenant, wanted.order.bytes);
                counts.lease(&wanted.order.tenant, wanted.order.bytes);
            }
        });
    }

    /// Whether a worker can be given work.
    pub(super) fn is_there(&self, now: Duration, member: &Member) -> bool {
        let is_heard = now.saturating_sub(member.heard) <= self.limits.lease;
        is_heard && !member.profile.is_draining && !member.connections.is_broken()
    }

    fn worker(&self, now: Duration, id: WorkerId, member: &Member) -> Worker {
        let running = self.jobs.of_worker(id).filter_map(|(id, job)| Some((id, job, job.attempt()?)));
        let running = running.map(|(job_id, job, attempt)| {
            let wanted = job.wanted.as_ref();
            Running {
                id: job_id,
                tenant: wanted.map_or(TenantId(0), |wanted| wanted.tenant),
                waited: now.saturating_sub(job.submitted),
                // A job without a client yet cannot be given to other workers, and is not stopped
                // for others.
                lane: wanted.map_or(Lane::L0, |wanted| wanted.order.lane),
                zone: wanted.map_or(Zone::EVERYWHERE, |wanted| wanted.zone),
                bytes: job.bytes(),
                bytes_done: attempt.done_bytes,
            }
        });
        Worker {
            id,
            zone: member.zone,
            slots: member.profile.slots,
            running: running.collect(),
            elsewhere: member.profile.elsewhere.clone(),
            near: member.near.speed,
            far: member.far.speed,
        }
    }

    /// Jobs that no worker there can do fail once that has been so for a while. They fail at once
    /// if all workers refused them, do not reach their location, or get no job with files there for
    /// as long. The database that handed them in may be nearer to the files.
    pub(super) fn fail_what_nobody_can(&mut self, now: Duration) {
        let there: Vec<(WorkerId, &Member)> = self.there(now).collect();
        let (mut failed, mut since_when) = (Vec::new(), Vec::new());
        let (suspects, kinds) = self.suspects(now, &there);
        for id in suspects {
            let Some(job) = self.jobs.get(id) else { continue };
            let of_kind = job.wanted.as_ref().and_then(|wanted| kinds.get(&wanted.kind));
            let all_can = there.iter().filter(|(id, member)| may_have(*id, member, job));
            let can = match of_kind.filter(|_| job.refused_by.is_empty()) {
                Some(can) => Cow::Borrowed(can),
                None => Cow::Owned(all_can.map(|(_, member)| *member).collect()),
            };
            if !can.is_empty() {
                if job.nobody_since.is_some() {
                    since_when.push((id, None));
                }
                let location = job.location();
                let failure =
                    location.and_then(|location| all_paused(now, location, &can, self.limits.no_worker));
                failed.extend(failure.map(|failure| (id, failure)));
                continue;
            }
            let since = job.nobody_since.unwrap_or(now);
            if job.nobody_since.is_none() {
                since_when.push((id, Some(since)));
            }
            let all_refused = !there.is_empty() && there.iter().all(|(id, _)| job.refused_by.contains(id));
            if all_refused || now.saturating_sub(since) >= self.limits.no_worker {
                failed.push((id, no_worker(job, &there)));
            }
        }
        for (id, since) in since_when {
            self.jobs.change(id, |job| job.nobody_since = since);
        }
        for (id, failure) in failed {
            self.end(now, id, Outcome::Failed(failure), Timings::default());
        }
    }

    /// Waiting jobs that perhaps no worker can do: of kinds that no worker of `there` can have or
    /// gets, or looked at before, or refused. With these kinds, and the workers that can have their
    /// jobs.
    fn suspects<'m>(
        &self,
        now: Duration,
        there: &[(WorkerId, &'m Member)],
    ) -> (Vec<JobId>, BTreeMap<KindId, Vec<&'m Member>>) {
        let later = self.jobs.later().filter_map(|(_, job)| Some(job.wanted.as_ref()?.kind));
        let waiting: BTreeSet<KindId> = self.jobs.lines().map(|(group, _)| group.kind).chain(later).collect();
        // Many locations need the same.
        let mut able: BTreeMap<(&BTreeSet<String>, u32), Vec<&'m Member>> = BTreeMap::new();
        let mut suspect = BTreeMap::new();
        let kinds = self.kinds.iter().map(|(kind, id)| (kind, KindId(id)));
        for (Kind { location, needs, spec_version }, id) in kinds.filter(|(_, id)| waiting.contains(id)) {
            let can = able.entry((needs, *spec_version)).or_insert_with(|| {
                let can = there.iter().filter(|(_, member)| member.can(needs, *spec_version));
                can.map(|(_, member)| *member).collect()
            });
            if can.is_empty() || all_paused(now, location, can, self.limits.no_worker).is_some() {
                suspect.insert(id, can.clone());
            }
        }
        let lines = self.jobs.lines().filter(|(group, _)| suspect.contains_key(&group.kind));
        let waiting = lines.flat_map(|(_, line)| line.jobs()).map(|entry| entry.id);
        let is_of = |job: &Job| job.wanted.as_ref().is_some_and(|wanted| suspect.contains_key(&wanted.kind));
        let later = self.jobs.later().filter(|(_, job)| is_of(job)).map(|(id, _)| id);
        let mut ids: Vec<JobId> = waiting.chain(later).chain(self.jobs.suspects().iter().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        (ids, suspect)
    }
}

/// Why none of `can` gets a job with files at `location` for longer than `most` from now on; `None`
/// = one may.
fn all_paused(now: Duration, location: &str, can: &[&Member], most: Duration) -> Option<Failure> {
    let paused: Option<Vec<Paused<'_>>> =
        can.iter().map(|member| member.doubts.paused_beyond(now, location, most)).collect();
    let paused = paused?;
    // A worker that reaches the location says best what is wrong with it.
    let last = paused.iter().rev().min_by_key(|paused| paused.is_out_of_reach)?;
    let (kind, what) = match last.is_out_of_reach {
        true => (FailureKind::Unavailable, format!("no worker that could do it reaches {location}")),
        false => (FailureKind::Storage, format!("jobs at {location} fail at all workers")),
    };
    Some(Failure { kind, message: format!("{what}: {}", last.message) })
}

/// Why no worker of `there` can do `job`.
fn no_worker(job: &Job, there: &[(WorkerId, &Member)]) -> Failure {
    let needs = |wanted: &Wanted| wanted.order.needs.iter().cloned().collect::<Vec<_>>().join(", ");
    let (kind, message) = match (&job.failure, &job.wanted) {
        (Some(failure), _) if !job.refused_by.is_empty() => {
            let message = &failure.message;
            let message = format!("no other worker is there that could do it, and one refused: {message}");
            // Locations that workers do not reach, or cannot read now, are no fault of the job.
            let is_of_location = matches!(failure.kind, FailureKind::Unavailable | FailureKind::Storage);
            (if is_of_location { failure.kind } else { FailureKind::Rejected }, message)
        }
        (_, Some(wanted)) if !there.is_empty() => {
            let (version, needs) = (wanted.order.spec_version, needs(wanted));
            let all = |is: &dyn Fn(&RangeInclusive<u32>) -> bool| {
                there.iter().all(|(_, member)| is(&member.profile.spec_versions))
            };
            let advice = if all(&|read| *read.end() < version) {
                "; upgrade them".to_owned()
            } else if all(&|read| *read.start() > version) {
                "; upgrade the database".to_owned()
            } else if let Some(other) = with_other_parameters(&wanted.order.needs, there) {
                format!(
                    "; one has {other}, which is of other parameters: register it there with the database's"
                )
            } else {
                String::new()
            };
            let message = format!(
                "none of {} workers reads specs of version {version} and has all that it needs ({needs}){advice}",
                there.len()
            );
            (FailureKind::Rejected, message)
        }
        _ => (FailureKind::Unavailable, "no worker is there".to_owned()),
    };
    Failure { kind, message }
}

/// What a worker of `there` has by the name of something that it lacks of `needs`.
fn with_other_parameters<'m>(needs: &BTreeSet<String>, there: &[(WorkerId, &'m Member)]) -> Option<&'m str> {
    there.iter().find_map(|(_, member)| {
        let has = &member.profile.has;
        let lacking: BTreeSet<&str> = needs.difference(has).map(|need| Identity::read(need).name).collect();
        has.iter().map(String::as_str).find(|one| lacking.contains(Identity::read(one).name))
    })
}
