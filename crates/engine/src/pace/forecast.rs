//! What a forecast of stalls is made of: how much writers bring, and how long they are held up.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How much writers bring, and how long they are held up, of late.
#[derive(Debug, Default)]
pub struct StallForecast {
    window: Mutex<Window>,
}

/// The time counted over: long enough that a pause between two bursts is no rest, and short enough
/// that a rest shows soon.
const SPAN: Duration = Duration::from_secs(10);
/// Time between two samples.
const LOOK: Duration = Duration::from_millis(250);

/// Samples of two numbers that only grow, [`LOOK`] apart, over [`SPAN`].
#[derive(Debug, Default)]
struct Window {
    samples: VecDeque<Sample>,
}

/// What writers did until some moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// By the engine's clock.
    pub at: Duration,
    /// Written to the log.
    pub log_bytes: u64,
    /// Microseconds that writers were slowed or stopped.
    pub held_up_us: u64,
}

/// What a window shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inflow {
    /// Written to the log.
    pub bytes_per_second: f64,
    /// Of the time; above 1 where several writers were.
    pub held_up: f64,
}

impl StallForecast {
    /// Takes a sample and returns what writers did of late; `None` where the last sample is so new
    /// that no other is due.
    pub fn look(&self, now: Duration, sample: impl FnOnce() -> Sample) -> Option<Inflow> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if !window.is_due(now) {
            return None;
        }
        window.add(sample());
        Some(window.inflow())
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
    fn inflow(&self) -> Inflow {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Inflow::default();
        };
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        if seconds <= 0.0 {
            return Inflow::default();
        }
        let over = |last: u64, first: u64| last.saturating_sub(first) as f64 / seconds;
        Inflow {
            bytes_per_second: over(last.log_bytes, first.log_bytes),
            held_up: over(last.held_up_us, first.held_up_us) / 1e6,
        }
    }
}

#[cfg(test)]
mod tests;
