//! When writers will stop if nothing is compacted; executors elsewhere are given this forecast.
//!
//! ```text
//!   bytes of the log, held-up time ─► Window: bytes a second of late ─┐
//!   level 0 of each keyspace, room in the buffer ─────────────────────┤
//!      Executor::urge ◄─ the soonest stall ◄─ Pressure of each keyspace ◄┘
//! ```
//! Level 0 counts as full where drains begin to wait for its compactions. The buffer's room is
//! added: it fills once drains wait.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firn_jobs::Pressure;

/// How much writers bring, and how long they are held up, of late.
#[derive(Debug, Default)]
pub(crate) struct StallForecast {
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
pub(crate) struct Sample {
    pub(crate) at: Duration,
    /// Written to the log.
    pub(crate) log_bytes: u64,
    /// Microseconds that writers were slowed or stopped.
    pub(crate) held_up_us: u64,
}

/// What a window shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    bytes_per_second: f64,
    /// Of the time; above 1 where several writers were.
    held_up: f64,
}

impl StallForecast {
    /// Takes a sample and returns the pace of late; `None` where the last sample is so new that no
    /// other is due.
    pub(crate) fn look(&self, now: Duration, sample: impl FnOnce() -> Sample) -> Option<Pace> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if !window.is_due(now) {
            return None;
        }
        window.add(sample());
        Some(window.pace())
    }
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
pub(crate) struct Filling {
    /// Sorted runs of level 0 over one key, at most.
    pub(crate) depth: u32,
    pub(crate) run_bytes: u64,
    /// Records of it in the buffer.
    pub(crate) records: u64,
}

/// When the first of `keyspaces` stops writers, where each may have `depth_max` runs and the buffer
/// takes `room` bytes more; `None` = nothing is written. Writes are assumed to be shared out as the
/// buffer's records are.
pub(crate) fn stalls_in(keyspaces: &[Filling], depth_max: u32, room: u64, pace: Pace) -> Option<Duration> {
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

#[cfg(test)]
mod tests;
