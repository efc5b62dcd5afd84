//! A database that is written to in bursts, and what it wants done.

use std::time::Duration;

use firn_job_service::control::{Lane, Pressure, Zone};

const MIB: f64 = (1 << 20) as f64;
/// Bytes of one run of level 0.
const RUN_BYTES: f64 = 64.0 * MIB;
/// Runs at which level 0 is compacted.
const RUNS_WANTED: u32 = 4;
/// Runs at which writers stop.
const RUNS_MAX: u32 = 12;
/// What lies below level 0 under any job, in the least.
const OVERLAP_BYTES: f64 = 256.0 * MIB;
/// Bytes of each job of a flooding database.
const FLOOD_BYTES: f64 = 1024.0 * MIB;
/// Bytes of deeper levels that one job takes at most.
const DEEP_BYTES_MAX: f64 = 1024.0 * MIB;

/// One database.
#[derive(Clone, Debug)]
pub(super) struct Database {
    pub(super) zone: Zone,
    random: fastrand::Rng,
    /// Bytes a second that its users write, and for how many seconds more.
    rate: f64,
    rate_left: f64,
    is_bursting: bool,
    /// Bytes of level 0, in whole runs and one that is not.
    level0: f64,
    /// Bytes that deeper levels have to rewrite.
    debt: f64,
    /// Whether a job of each lane is under way or waits.
    has_l0: bool,
    has_deep: bool,
    /// Jobs that it wants in any case, and how many of them are under way or wait; 0 for a database
    /// that wants what its users write.
    flood: u32,
    flooded: u32,
    pub(super) stalled_seconds: f64,
    pub(super) written: f64,
    pub(super) refused: f64,
}

/// A job that a database wants done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) lane: Lane,
    /// Bytes to read.
    pub(super) bytes: f64,
    /// Bytes of level 0, or of debt, that are gone when it is done.
    pub(super) frees: f64,
}

impl Database {
    pub(super) fn new(seed: u64, zone: Zone) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            zone,
            level0: RUN_BYTES * 3.0 * random.f64(),
            rate: MIB,
            rate_left: 120.0 * random.f64(),
            is_bursting: false,
            debt: 0.0,
            has_l0: false,
            has_deep: false,
            flood: 0,
            flooded: 0,
            stalled_seconds: 0.0,
            written: 0.0,
            refused: 0.0,
            random,
        }
    }

    /// A database that wants `jobs` done at every moment, and says that its writers stand still
    /// until then. It gets no writes.
    pub(super) fn flooding(jobs: u32, zone: Zone) -> Self {
        Self { flood: jobs, level0: 0.0, ..Self::new(0, zone) }
    }

    pub(super) fn is_flooding(&self) -> bool {
        self.flood > 0
    }

    fn runs(&self) -> u32 {
        (self.level0 / RUN_BYTES) as u32
    }

    /// Bytes that users want written in the next `seconds`; `load` scales them. Whatever is done,
    /// they want the same.
    pub(super) fn wishes(&mut self, seconds: f64, load: f64) -> f64 {
        self.rate_left -= seconds;
        if self.rate_left <= 0.0 {
            self.is_bursting = !self.is_bursting;
            let (least, most, rate_least, rate_most) =
                if self.is_bursting { (20.0, 60.0, 15.0, 45.0) } else { (60.0, 240.0, 0.5, 2.0) };
            self.rate_left = least + (most - least) * self.random.f64();
            self.rate = (rate_least + (rate_most - rate_least) * self.random.f64()) * MIB;
        }
        self.rate * load * seconds
    }

    /// Lets `seconds` pass.
    pub(super) fn pass(&mut self, seconds: f64, load: f64) {
        if self.is_flooding() {
            return;
        }
        let wanted = self.wishes(seconds, load);
        if self.runs() >= RUNS_MAX {
            self.stalled_seconds += seconds;
            self.refused += wanted;
        } else {
            self.level0 += wanted;
            self.written += wanted;
        }
    }

    /// The next job it wants done, which counts as wanted from now on.
    pub(super) fn want(&mut self) -> Option<Wanted> {
        if self.is_flooding() {
            let wants = self.flooded < self.flood;
            self.flooded += u32::from(wants);
            return wants.then_some(Wanted { lane: Lane::L0, bytes: FLOOD_BYTES, frees: 0.0 });
        }
        if !self.has_l0 && self.runs() >= RUNS_WANTED {
            self.has_l0 = true;
            let frees = f64::from(self.runs()) * RUN_BYTES;
            // The more is left undone below, the more lies under the next job.
            let bytes = frees + OVERLAP_BYTES + self.debt / 16.0;
            return Some(Wanted { lane: Lane::L0, bytes, frees });
        }
        if !self.has_deep && self.debt >= OVERLAP_BYTES {
            self.has_deep = true;
            let frees = self.debt.min(DEEP_BYTES_MAX);
            return Some(Wanted { lane: Lane::Deep, bytes: frees, frees });
        }
        None
    }

    /// A job is done.
    pub(super) fn done(&mut self, job: Wanted) {
        match job.lane {
            _ if self.is_flooding() => {
                self.flooded -= 1;
                self.written += job.bytes;
            }
            Lane::L0 => {
                self.level0 -= job.frees;
                self.debt += 2.0 * job.frees;
                self.has_l0 = false;
            }
            Lane::Deep => {
                self.debt -= job.frees;
                self.has_deep = false;
            }
        }
    }

    /// Bytes that users can write until they are stopped.
    pub(super) fn room(&self) -> f64 {
        (f64::from(RUNS_MAX) * RUN_BYTES - self.level0).max(0.0)
    }

    /// Until its writers stop, as it would report.
    pub(super) fn stalls_in(&self, load: f64) -> Option<Duration> {
        if self.is_flooding() {
            return Some(Duration::ZERO);
        }
        let pressure = Pressure {
            level0_runs: self.runs(),
            level0_runs_max: RUNS_MAX,
            run_bytes: RUN_BYTES as u64,
            buffer_headroom_bytes: 0,
            fill_bytes_per_second: self.rate * load,
            is_stalled: false,
        };
        pressure.stalls_in()
    }
}
