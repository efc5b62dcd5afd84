//! A scheduler that knows what users will write and which workers will be killed, under the same
//! rules as the control plane, which cannot know.
//!
//! ```text
//!   every few seconds: each way for as long, then the control plane's ─► the fleet minutes later, with what will be written
//!                      ─► the way after which writers stand still least is gone
//! ```
//! What it comes to is no bound: there may be better ways. It tells what is lost by not knowing,
//! and by deciding once.

use std::time::Duration;

use firn_job_service::control::{Lane, View};

use super::database::Database;
use super::run::{Fleet, Plan, STEP};

/// How far is looked before one is chosen, and how long each is gone.
const LOOK_SECONDS: f64 = 200.0;
const GO_SECONDS: f64 = 5.0;

/// What users will write.
pub(super) struct Oracle {
    /// Of each database, bytes that are wanted before each step, from the first on.
    wanted: Vec<Vec<f64>>,
}

/// What the rule of the control plane is told.
#[derive(Clone, Copy, Debug)]
struct Way {
    stalls: Stalls,
    /// Deep jobs wait for as long as there is L0 work.
    l0_alone: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stalls {
    /// As databases report.
    Reported,
    /// As they will be.
    Known,
    /// Those, each wrong by a factor of up to two that is drawn from this.
    Shaken(u64),
}

/// The control plane's.
const AS_REPORTED: Way = Way { stalls: Stalls::Reported, l0_alone: false };

const WAYS: [Way; 8] = [
    AS_REPORTED,
    Way { stalls: Stalls::Known, l0_alone: false },
    Way { stalls: Stalls::Known, l0_alone: true },
    Way { stalls: Stalls::Reported, l0_alone: true },
    Way { stalls: Stalls::Shaken(1), l0_alone: false },
    Way { stalls: Stalls::Shaken(2), l0_alone: false },
    Way { stalls: Stalls::Shaken(3), l0_alone: true },
    Way { stalls: Stalls::Shaken(4), l0_alone: true },
];

impl Oracle {
    /// Of `databases` as they begin, for `steps`.
    pub(super) fn new(databases: &[Database], plan: &Plan, steps: u64) -> Self {
        let all = steps + (LOOK_SECONDS / STEP) as u64;
        let sums = |database: &Database| {
            let (mut database, mut sum) = (database.clone(), 0.0);
            let next = |_| {
                let before = sum;
                sum += database.wishes(STEP, plan.load);
                before
            };
            (0..all).map(next).collect()
        };
        Self { wanted: databases.iter().map(sums).collect() }
    }

    /// Has `fleet` go the best way through all of its `steps`.
    pub(super) fn run(&self, fleet: &mut Fleet, steps: u64) {
        let (look, go) = ((LOOK_SECONDS / STEP) as u64, (GO_SECONDS / STEP) as u64);
        for begin in (0..steps).step_by(go as usize) {
            let tried = WAYS.into_iter().map(|way| {
                let mut fleet = fleet.clone();
                self.go(&mut fleet, way, begin..begin + go);
                self.go(&mut fleet, AS_REPORTED, begin + go..begin + look);
                (fleet.stalled_seconds(), way)
            });
            let best = tried.min_by(|one, other| one.0.total_cmp(&other.0));
            if let Some((_, way)) = best {
                self.go(fleet, way, begin..(begin + go).min(steps));
            }
        }
    }

    fn go(&self, fleet: &mut Fleet, way: Way, steps: std::ops::Range<u64>) {
        for step in steps {
            fleet.step_seeing(step, &|view, databases| self.see(view, databases, way, step));
        }
    }

    fn see(&self, view: &mut View, databases: &[Database], way: Way, step: u64) {
        if way.l0_alone && view.waiting.iter().any(|job| job.lane == Lane::L0) {
            view.waiting.retain(|job| job.lane == Lane::L0);
        }
        for job in &mut view.waiting {
            let database = job.tenant.0 as usize;
            let known = || self.stalls_in(database, step, databases[database].room());
            job.stalls_in = match way.stalls {
                Stalls::Reported => continue,
                Stalls::Known => known(),
                Stalls::Shaken(seed) => {
                    let mut random = fastrand::Rng::with_seed(seed ^ (job.id.0 << 8));
                    known().map(|time| time.mul_f64(2.0_f64.powf(2.0 * random.f64() - 1.0)))
                }
            };
        }
    }

    /// From `step` on until users have written `room` bytes; `None` = later than is known.
    fn stalls_in(&self, database: usize, step: u64, room: f64) -> Option<Duration> {
        let wanted = &self.wanted[database];
        let until = wanted.get(step as usize + 1)? + room;
        let at = wanted.partition_point(|sum| *sum < until);
        let left = (at as u64).saturating_sub(step + 1);
        (at < wanted.len()).then(|| Duration::from_secs_f64(left as f64 * STEP))
    }
}
