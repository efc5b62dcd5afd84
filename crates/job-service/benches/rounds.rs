//! How long each request holds a control plane's lock while many jobs wait:
//! `cargo bench -p firn-job-service --bench rounds`.
//!
//! Prints medians and greatest times in microseconds. Measured are a tick (a round of the
//! scheduler, and the search for silent peers), what databases and workers ask, and what people
//! look at. Each question has a round of its own but `follow` and `beat`. Jobs of 16 to 1024 MiB
//! come 6 ms one after the other from 100 tenants with a database each. Workers have four slots,
//! are measured at 60 to 140 MiB a second, and half of them are in another zone than the files.
//!
//! - `mixed`: a third of the jobs is L0 work of databases that stall in 10 s to 100 s.
//! - `deep`: all waiting jobs are deep work, and what comes then is L0 work that nothing presses,
//!   for which slots are kept. It comes after all others and is leased nevertheless.
//! - `unfit`: as mixed, and no worker there has what the jobs need.
//! - `barred`: as mixed, and half of the workers lack what the jobs need: their slots are free, and
//!   no job may have them.
//!
//! Arguments: numbers of jobs, which take the place of 1000, 10 000 and 100 000.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use firn_job_service::control::pool::{Held, JobKey, Lease, Limits, Order, Outcome, Pool, Profile, Timings};
use firn_job_service::control::{Elsewhere, Lane};
use firn_storage::{Clock, SystemClock};

const TENANTS: u64 = 100;
const SLOTS: u32 = 4;
const REPETITIONS: usize = 51;

fn main() {
    let given: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let counts = if given.is_empty() { vec![1000, 10_000, 100_000] } else { given };
    println!("{:>8} {:>7}  {:<8} {:>12} {:>12}", "jobs", "workers", "what", "median us", "greatest us");
    let scenes = counts.iter().flat_map(|jobs| [(*jobs, 10), (*jobs, 100)]);
    for (jobs, workers) in scenes {
        for queue in [Queue::Mixed, Queue::Deep, Queue::Barred, Queue::Unfit] {
            for (what, mut times) in Scene::new(queue, jobs, workers).measure() {
                times.sort_unstable();
                let micros = |time: Duration| time.as_secs_f64() * 1e6;
                let (middle, last) = (micros(times[times.len() / 2]), micros(times[times.len() - 1]));
                let queue = format!("{queue:?}").to_lowercase();
                println!("{queue:<7} {jobs:>8} {workers:>7}  {what:<8} {middle:>12.1} {last:>12.1}");
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Mixed,
    Deep,
    Barred,
    Unfit,
}

struct Scene {
    queue: Queue,
    is_full: bool,
    pool: Pool,
    random: fastrand::Rng,
    clock: SystemClock,
    now: Duration,
    workers: Vec<(Profile, Vec<Lease>)>,
    next: u64,
}

/// What is done, with one of the workers if it needs any.
type Act = fn(&mut Scene, usize);

impl Scene {
    /// All jobs wait except the ones that workers have.
    fn new(queue: Queue, jobs: u64, workers: u64) -> Self {
        // No client or job is forgotten while the queue fills up.
        let (long, jobs_max) = (Duration::from_secs(1 << 20), usize::MAX);
        let limits = Limits { jobs_max, client: long, no_worker: long, ..Limits::default() };
        let is_barred = |id: u64| match queue {
            Queue::Mixed | Queue::Deep => false,
            Queue::Barred => id % 4 < 2,
            Queue::Unfit => true,
        };
        let mut scene = Self {
            queue,
            is_full: false,
            pool: Pool::new(limits, 1),
            random: fastrand::Rng::with_seed(jobs + workers),
            clock: SystemClock::new(),
            now: Duration::ZERO,
            workers: (0..workers).map(|id| (profile(id, is_barred(id)), Vec::new())).collect(),
            next: 0,
        };
        for _ in 0..jobs {
            scene.now += Duration::from_millis(6);
            scene.submit();
        }
        (0..scene.workers.len()).for_each(|worker| scene.pull(worker));
        // Each slot's first job tells how fast it is.
        for worker in 0..scene.workers.len() {
            for _ in 0..SLOTS {
                scene.finish(worker);
                scene.pull(worker);
            }
        }
        while scene.next < jobs + workers * u64::from(SLOTS) {
            scene.submit();
        }
        scene.is_full = true;
        scene
    }

    /// Each thing's times, in turn, so that all of them see the same queue.
    fn measure(&mut self) -> Vec<(&'static str, Vec<Duration>)> {
        const WHAT: [(&str, Act); 8] = [
            ("tick", |scene, _| scene.pool.tick(scene.now)),
            ("submit", |scene, _| scene.submit()),
            ("pull", |scene, worker| scene.pull(worker)),
            ("finish", |scene, worker| scene.finish(worker)),
            ("beat", |scene, worker| scene.beat(worker)),
            ("follow", |scene, _| scene.follow()),
            ("figures", |scene, _| drop(black_box(scene.pool.figures(scene.now)))),
            ("rows", |scene, _| drop(black_box(scene.pool.rows(scene.now, 1000)))),
        ];
        let mut times = WHAT.map(|(what, _)| (what, Vec::new()));
        for repetition in 0..REPETITIONS {
            let worker = repetition % self.workers.len();
            for (times, (_, act)) in times.iter_mut().zip(WHAT) {
                self.now += Duration::from_millis(1);
                let begun = self.clock.now();
                act(self, worker);
                times.1.push(self.clock.now() - begun);
            }
        }
        times.into()
    }

    fn submit(&mut self) {
        self.next += 1;
        let tenant = self.next % TENANTS;
        let (is_l0, stalls_in) = match self.queue {
            Queue::Deep => (self.is_full, None),
            Queue::Mixed | Queue::Barred | Queue::Unfit => {
                (self.random.u8(0..3) == 0, Some(Duration::from_secs(10 + tenant)))
            }
        };
        let order = Order {
            tenant: format!("database-{tenant}"),
            weight: 1.0,
            location: "s3://tables".to_owned(),
            zone: "a".to_owned(),
            spec: vec![7; 100],
            spec_version: 1,
            needs: ["merge:sum".to_owned()].into(),
            lane: if is_l0 { Lane::L0 } else { Lane::Deep },
            bytes: self.random.u64(16..1024) << 20,
            stalls_in,
        };
        let key = JobKey { client: u128::from(tenant), number: self.next };
        self.pool.submit(self.now, key, order).expect("there is room");
    }

    fn held(&self, worker: usize) -> Vec<Held> {
        let held = |lease: &Lease| Held {
            key: lease.key,
            token: lease.token,
            done_bytes: 1,
            moved_bytes: 1,
            is_syncing: false,
            is_waiting: false,
        };
        self.workers[worker].1.iter().map(held).collect()
    }

    fn pull(&mut self, worker: usize) {
        let held = self.held(worker);
        let (profile, leases) = &mut self.workers[worker];
        let question = self.pool.hear(self.now, profile.clone(), &held);
        let pulled = self.pool.answer(self.now, question);
        leases.retain(|lease| !pulled.stop.contains(&lease.token));
        leases.extend(pulled.leases);
    }

    fn beat(&mut self, worker: usize) {
        let held = self.held(worker);
        let stop = self.pool.beat(self.now, self.workers[worker].0.id, &held).expect("it is known");
        self.workers[worker].1.retain(|lease| !stop.contains(&lease.token));
    }

    /// The worker's oldest job is done, if it has one.
    fn finish(&mut self, worker: usize) {
        let mut speed = || (60 + self.random.u64(0..80)) as f64;
        let opened = Duration::from_millis(20);
        let timings =
            Timings { opened, ran: opened + Duration::from_secs_f64(500.0 / speed()), ..Timings::default() };
        let (profile, leases) = &mut self.workers[worker];
        if leases.is_empty() {
            return;
        }
        let lease = leases.remove(0);
        let held = Held {
            key: lease.key,
            token: lease.token,
            done_bytes: 1,
            moved_bytes: 1,
            is_syncing: false,
            is_waiting: false,
        };
        self.pool.finish(self.now, profile.id, held, Outcome::Done(vec![1; 100]), timings);
    }

    fn follow(&mut self) {
        let client = u128::from(self.next % TENANTS);
        black_box(self.pool.follow(self.now, client, &[1, 2, 3], &[]));
        black_box(self.pool.slots_for_each(self.now));
    }
}

fn profile(id: u64, is_barred: bool) -> Profile {
    Profile {
        id: u128::from(id),
        name: format!("worker-{id}"),
        zone: if id.is_multiple_of(2) { "a" } else { "b" }.to_owned(),
        slots: SLOTS,
        has: if is_barred { BTreeSet::new() } else { ["merge:sum".to_owned()].into() },
        spec_versions: 1..=1,
        build: "bench".to_owned(),
        is_draining: false,
        elsewhere: Elsewhere::default(),
    }
}
