//! Random histories.

use std::collections::BTreeSet;

use super::*;
use crate::control::pool::member::may_have;
use crate::control::schedule;
use crate::control::schedule::plan;
use crate::control::view::WorkerId;

/// Attempts of workers that sleep do not use up what may fail.
const PATIENT: Limits = Limits {
    lease: Duration::from_secs(10),
    reconnect: Duration::from_secs(1),
    client: Duration::from_secs(30),
    progress: Duration::from_secs(60),
    sync: Duration::from_secs(300),
    no_worker: Duration::from_secs(5),
    attempts_max: 100,
    pause: Duration::from_millis(500),
    jobs_max: 1000,
    held_bytes_max: 1 << 20,
    answer_bytes_max: 20,
    scheduler: Scheduler::Urgency,
};

/// A location, and the worker that does not reach it.
const FAR: &str = "/far";
const SHORT: u128 = 3;

fn order_of(number: u64) -> Order {
    match number % 3 {
        0 => Order { location: FAR.to_owned(), ..order() },
        _ => order(),
    }
}

/// Workers that come, go, sleep, lie about nothing and lose messages; clients that repeat
/// themselves; a pool that is replaced.
struct Storm {
    random: fastrand::Rng,
    pool: Pool,
    now: Duration,
    /// What each worker has, with the time at which it is done.
    workers: BTreeMap<u128, BTreeMap<Token, (Lease, Duration)>>,
    asleep: BTreeMap<u128, Duration>,
    waiting: Vec<u64>,
    taken: Vec<u64>,
    tokens: BTreeMap<Token, u64>,
    ends: BTreeMap<u64, Outcome>,
}

impl Storm {
    /// What is kept beside jobs is what they say, and what is decided by line is what is decided
    /// job by job.
    fn check_lines(&self) {
        self.pool.jobs.check();
        let (pool, now) = (&self.pool, self.now);
        pool.at(now, |moment| {
            let view = moment.view();
            assert_eq!(plan(moment), schedule(&view));
            for waiting in view.waiting {
                let job = pool.jobs.get(waiting.id).unwrap();
                let there = pool.members.iter().filter(|(_, member)| pool.is_there(now, member));
                let is_free = |member: &Member| !member.doubts.is_paused(now, job.location().unwrap());
                let can = there.clone().filter(|(id, member)| may_have(**id, member, job) && is_free(member));
                let mut may: BTreeSet<WorkerId> = can.map(|(id, _)| *id).collect();
                if !may.is_subset(&job.failed_by) {
                    may.retain(|id| !job.failed_by.contains(id));
                }
                let refused = there.map(|(id, _)| *id).filter(|id| !may.contains(id)).collect();
                assert_eq!(waiting.refused_by, refused, "{job:?}");
            }
        });
    }

    /// Every job that was handed in has ended, is there, or was left behind.
    fn check_counts(&self) {
        let Figures { waiting, running, counts, .. } = self.pool.figures(self.now);
        // What only a worker has told of counts as deep work until its client is heard of.
        let there = waiting.l0 + running.l0;
        let over = counts.done.l0 + counts.failed.l0 + counts.abandoned.l0;
        assert_eq!(counts.submitted.l0, over + there, "{counts:?}");
        let deep = [counts.submitted, counts.done, counts.failed, counts.abandoned].map(|jobs| jobs.deep);
        assert_eq!(deep, [0; 4], "what nobody asked for counts for nobody");
    }

    fn step(&mut self, number: u64) {
        self.check_counts();
        self.check_lines();
        self.now += Duration::from_millis(self.random.u64(50..1500));
        if number < 60 && self.random.u32(0..3) == 0 {
            self.pool.submit(self.now, key(number), order_of(number)).unwrap();
            self.waiting.push(number);
        }
        if self.random.u32(0..100) == 0 {
            self.pool = Pool::new(PATIENT, self.random.u64(..));
        }
        let ids: Vec<u128> = self.workers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.work(id));
        let (ended, unknown) = self.pool.follow(self.now, CLIENT, &self.waiting, &self.taken);
        if self.random.bool() {
            self.taken.clear();
        }
        for (number, end) in ended {
            // An answer that is lost comes again.
            if self.random.bool() {
                self.waiting.retain(|waiting| *waiting != number);
                self.taken.push(number);
                assert!(self.ends.insert(number, end.outcome).is_none(), "job {number} ended twice");
            }
        }
        for number in unknown {
            self.pool.submit(self.now, key(number), order_of(number)).unwrap();
        }
        self.pool.tick(self.now);
    }

    fn work(&mut self, id: u128) {
        if self.asleep.get(&id).is_some_and(|until| *until > self.now) {
            return;
        }
        if self.random.u32(0..40) == 0 {
            self.asleep.insert(id, self.now + seconds(self.random.u64(1..40)));
            return;
        }
        let mine = self.workers.get_mut(&id).unwrap();
        let all: Vec<Held> = mine.values().map(|(lease, _)| Held { done_bytes: 1, ..held(lease) }).collect();
        self.pool.hear(self.now, profile(id, 2), &all);
        let pulled = self.pool.take(self.now, id);
        // An answer may be lost.
        if self.random.u32(0..20) > 0 {
            pulled.stop.iter().for_each(|token| drop(mine.remove(token)));
            for lease in pulled.leases {
                assert_eq!(*self.tokens.entry(lease.token).or_insert(lease.key.number), lease.key.number);
                mine.insert(lease.token, (lease, self.now + seconds(self.random.u64(0..5))));
            }
        }
        let done: Vec<Token> =
            mine.iter().filter(|(_, (_, at))| *at <= self.now).map(|(token, _)| *token).collect();
        for token in done {
            let (lease, _) = mine.remove(&token).unwrap();
            let outcome = match (id, lease.location.as_str()) {
                (SHORT, FAR) => failed(FailureKind::Unavailable),
                _ => Outcome::Done(lease.key.number.to_le_bytes().to_vec()),
            };
            self.pool.finish(self.now, id, held(&lease), outcome, Timings::default());
        }
    }
}

#[test]
fn in_any_storm_every_job_ends_once_with_its_own_result() {
    let (mut done, mut far) = (0, 0);
    for seed in 0..200 {
        let mut storm = Storm {
            random: fastrand::Rng::with_seed(seed),
            pool: Pool::new(PATIENT, seed + 1000),
            now: Duration::ZERO,
            workers: (1..=3).map(|id| (id, BTreeMap::new())).collect(),
            asleep: BTreeMap::new(),
            waiting: Vec::new(),
            taken: Vec::new(),
            tokens: BTreeMap::new(),
            ends: BTreeMap::new(),
        };
        let mut steps = 0;
        while steps < 60 || !storm.waiting.is_empty() {
            storm.step(steps);
            steps += 1;
            assert!(steps < 5000, "seed {seed}: {:?} never end", storm.waiting);
        }
        for (number, outcome) in &storm.ends {
            match outcome {
                Outcome::Done(bytes) => {
                    assert_eq!(bytes[..], number.to_le_bytes(), "seed {seed}");
                    done += 1;
                    far += u32::from(number % 3 == 0);
                }
                // All workers slept, or all that reach the location.
                Outcome::Failed(failure) => {
                    // An attempt of a sleeping worker has failed at its location.
                    let is_far = failure.kind == FailureKind::Storage && number % 3 == 0;
                    assert!(is_far || failure.kind == FailureKind::Unavailable, "seed {seed}: {failure:?}");
                }
            }
        }
    }
    // Others reach the location.
    assert!(done > 3000 && far > 900, "{done} jobs are done, {far} of them far away");
}
