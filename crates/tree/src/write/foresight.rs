//! When writers will stop if nothing is compacted; executors elsewhere are given this forecast.
//!
//! ```text
//!   bytes of the log, held-up time ─► Window: bytes a second of late ─┐
//!   level 0 of each keyspace, room in the buffer ─────────────────────┤
//!      Executor::urge ◄─ the soonest stall ◄─ Pressure of each keyspace ◄┘
//! ```
//! Level 0 counts as full where drains begin to wait for its compactions ([`FAR_BEHIND`]). The
//! buffer's room is added: it fills once drains wait.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firn_jobs::Pressure;

use crate::background::FAR_BEHIND;
use crate::buffer::pick::drain_bytes;
use crate::compact::pick::deepest;
use crate::database::Database;
use crate::version::{Keyspace, Version};

/// How much writers bring, and how long they are held up, of late.
#[derive(Debug, Default)]
pub(crate) struct Foresight {
    window: Mutex<Window>,
}

/// The time counted over: long enough that a pause between two bursts is no rest, and short enough
/// that a rest shows soon.
const SPAN: Duration = Duration::from_secs(10);
/// Time between two samples.
const LOOK: Duration = Duration::from_millis(250);
/// Writers that are held up for this part of the time count as stopped.
const HELD_UP_MAX: f64 = 0.5;

/// Samples of two numbers that only grow, [`LOOK`] apart, over [`SPAN`].
#[derive(Debug, Default)]
struct Window {
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    /// Written to the log.
    log_bytes: u64,
    /// Microseconds that writers were slowed or stopped.
    held_up_us: u64,
}

/// What a window shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pace {
    bytes_per_second: f64,
    /// Of the time; above 1 where several writers were.
    held_up: f64,
}

impl Window {
    /// Whether another sample is due.
    fn is_due(&self, now: Duration) -> bool {
        self.samples.back().is_none_or(|last| now.saturating_sub(last.at) >= LOOK)
    }

    fn add(&mut self, sample: Sample) {
        self.samples.push_back(sample);
        // The newest sample older than the span stays, so that the span is covered.
        let is_old = |sample: &Sample, now: Duration| now.saturating_sub(sample.at) >= SPAN;
        while self.samples.get(1).is_some_and(|second| is_old(second, sample.at)) {
            self.samples.pop_front();
        }
    }

    /// Zero before there are two samples.
    fn pace(&self) -> Pace {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Pace::default();
        };
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        if seconds <= 0.0 {
            return Pace::default();
        }
        let over = |last: u64, first: u64| last.saturating_sub(first) as f64 / seconds;
        Pace {
            bytes_per_second: over(last.log_bytes, first.log_bytes),
            held_up: over(last.held_up_us, first.held_up_us) / 1e6,
        }
    }
}

/// A keyspace, as far as it stops writers.
#[derive(Clone, Copy, Debug)]
struct Filling {
    /// Sorted runs of level 0 over one key, at most.
    depth: u32,
    run_bytes: u64,
    /// Records of it in the buffer.
    records: u64,
}

/// When the first of `keyspaces` stops writers, where each may have `depth_max` runs and the buffer
/// takes `room` bytes more; `None` = nothing is written. Writes are assumed to be shared out as the
/// buffer's records are.
fn stalls_in(keyspaces: &[Filling], depth_max: u32, room: u64, pace: Pace) -> Option<Duration> {
    if pace.held_up >= HELD_UP_MAX {
        return Some(Duration::ZERO);
    }
    let records: u64 = keyspaces.iter().map(|keyspace| keyspace.records).sum();
    let pressures = keyspaces.iter().map(|keyspace| {
        let share = keyspace.records as f64 / records.max(1) as f64;
        Pressure {
            level0_runs: keyspace.depth,
            level0_runs_max: depth_max,
            run_bytes: keyspace.run_bytes,
            // All of the room is for the writers of any keyspace, and fills by what all bring.
            buffer_headroom_bytes: (room as f64 * share) as u64,
            fill_bytes_per_second: pace.bytes_per_second * share,
            is_stalled: false,
        }
    });
    pressures.filter_map(|pressure| pressure.stalls_in()).min()
}

impl Database {
    /// Gives the executor the time until writers stop, four times a second at most. Where all jobs
    /// run here it does nothing.
    pub(crate) fn tell_urgency(&self) {
        if self.maintenance.jobs.fallbacks.is_none() || self.read_only {
            return;
        }
        let now = self.clock.now();
        let pace = {
            let mut window = self.commit.foresight.window.lock().unwrap_or_else(PoisonError::into_inner);
            if !window.is_due(now) {
                return;
            }
            let held_up_us = self.commit.admission.slowdown_us() + self.commit.admission.stop_us();
            window.add(Sample {
                at: now,
                log_bytes: self.commit.log.written_bytes.load(Ordering::Relaxed),
                held_up_us,
            });
            window.pace()
        };
        self.maintenance.jobs.urge(self.stalls_in(pace));
    }

    fn stalls_in(&self, pace: Pace) -> Option<Duration> {
        if self.commit.admission.is_somebody_stopped() {
            return Some(Duration::ZERO);
        }
        let version = self.catalog.version.load();
        let keyspaces: Vec<Filling> = version.live().map(|keyspace| self.filling(keyspace)).collect();
        let depth_max = self.pick_rules().depth_max as f64 * FAR_BEHIND;
        stalls_in(&keyspaces, depth_max as u32, self.room(&version), pace)
    }

    fn filling(&self, keyspace: &Keyspace) -> Filling {
        let level0 = &keyspace.levels.level0;
        let bytes: u64 = level0.iter().map(|run| run.bytes()).sum();
        let frozen: usize = keyspace.frozen.iter().map(|frozen| frozen.memtable.len()).sum();
        let runs: usize = keyspace.runs.iter().map(|run| run.len()).sum();
        Filling {
            depth: deepest(&keyspace.levels, &self.pick_rules()) as u32,
            run_bytes: bytes
                .checked_div(level0.len() as u64)
                .unwrap_or(drain_bytes(self.settings.buffer_bytes)),
            records: (keyspace.memtable.len() + frozen + runs) as u64,
        }
    }

    /// Bytes that may be written before the buffer is full.
    fn room(&self, version: &Version) -> u64 {
        let active = self.commit.log.active();
        let unused = active.memory_bytes().saturating_sub(active.region().published() as u64);
        let held: u64 = version.segments.segments().iter().map(|segment| segment.memory_bytes()).sum();
        (self.settings.buffer_bytes_max + unused).saturating_sub(held + self.index_bytes())
    }
}

#[cfg(test)]
mod tests;
