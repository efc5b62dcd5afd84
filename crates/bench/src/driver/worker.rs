//! One thread of a phase.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firn_engine::Result;

use super::{MEASURING, STOPPED, Shared, Stream};
use crate::measure::{Latencies, now, sleep_until};
use crate::target::Client;
use crate::workload::{Done, Kind};

/// What a thread recorded.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) counted: bool,
    pub(super) operations: u64,
    pub(super) not_found: u64,
    pub(super) written_bytes: u64,
    pub(super) read_bytes: u64,
    /// End of the last counted operation; `None` for streams that are not counted.
    pub(super) ended: Option<Instant>,
    latencies: [Option<Box<Latencies>>; Kind::COUNT],
}

impl Recorder {
    pub(super) fn latencies(&self, kind: Kind) -> Option<&Latencies> {
        self.latencies[kind as usize].as_deref()
    }

    #[inline]
    fn record(&mut self, kind: Kind, latency_ns: u64, done: Done) {
        self.operations += done.operations;
        self.not_found += done.not_found;
        self.written_bytes += done.written_bytes;
        self.read_bytes += done.read_bytes;
        self.latencies[kind as usize].get_or_insert_default().record(latency_ns, done.operations);
    }
}

/// A thread before it runs.
pub(super) struct Worker {
    index: usize,
    client: Box<dyn Client>,
    stream: Stream,
    pace: Option<Pace>,
    recorder: Recorder,
}

/// The schedule of an open loop: operation `n` is due `share * interval + n * interval` after the
/// start.
///
/// To sleep takes more processor time than most operations. So operations of one thread that are
/// due within [`TOGETHER`] of each other begin together, at its end. The threads' turns are apart.
struct Pace {
    interval: Duration,
    /// Of the interval and of [`TOGETHER`], by which this thread comes later than the first one.
    share: f64,
    due: Option<Duration>,
}

/// See [`Pace`]. Operations that are further apart begin one by one.
const TOGETHER: Duration = Duration::from_micros(100);

impl Pace {
    /// Waits until the next operation is to begin and returns when that was.
    fn next(&mut self, begun: Instant) -> Instant {
        let begins = begun + self.plan();
        sleep_until(begins);
        begins
    }

    /// When the next operation is to begin, from the start on.
    fn plan(&mut self) -> Duration {
        let due = self.due.map_or(self.interval.mul_f64(self.share), |due| due + self.interval);
        self.due = Some(due);
        if self.interval >= TOGETHER {
            return due;
        }
        let turns = due.as_nanos().div_ceil(TOGETHER.as_nanos());
        Duration::from_nanos((turns * TOGETHER.as_nanos()) as u64) + TOGETHER.mul_f64(self.share)
    }
}

impl Worker {
    /// `counted` = how many threads share the rate, each beginning an operation every `interval`.
    pub(super) fn new(
        index: usize,
        counted: usize,
        client: Box<dyn Client>,
        stream: Stream,
        interval: Option<Duration>,
    ) -> Self {
        let pace = interval.filter(|_| stream.counted).map(|interval| Pace {
            interval,
            share: index as f64 / counted.max(1) as f64,
            due: None,
        });
        let recorder = Recorder {
            counted: stream.counted,
            operations: 0,
            not_found: 0,
            written_bytes: 0,
            read_bytes: 0,
            ended: None,
            latencies: Default::default(),
        };
        Self { index, client, stream, pace, recorder }
    }

    /// Performs operations until the stream, its quota or the phase is over.
    pub(super) fn run(mut self, shared: &Shared) -> Recorder {
        let leaving = Leaving { shared, counted: self.stream.counted };
        if self.pace.is_some() {
            // Wake when the schedule says, not up to 50 us later.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        }
        shared.ready.wait();
        let result = self.perform_all(shared).and_then(|()| self.client.finish());
        self.recorder.ended = self.stream.counted.then(now);
        if let Err(error) = result {
            shared.fail(error);
        }
        drop(leaving);
        self.recorder
    }

    fn perform_all(&mut self, shared: &Shared) -> Result<()> {
        let gauge = &shared.gauges[self.index];
        let begun = shared.begun.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(now);
        let quota = self.stream.quota.unwrap_or(u64::MAX);
        loop {
            let stage = shared.stage.load(Ordering::Relaxed);
            if stage == STOPPED || self.recorder.operations >= quota {
                return Ok(());
            }
            let Some(kind) = self.stream.operations.prepare() else { return Ok(()) };
            let start = match &mut self.pace {
                None => now(),
                Some(pace) => pace.next(begun),
            };
            let done = self.stream.operations.perform(self.client.as_mut())?;
            if stage == MEASURING && done.operations > 0 {
                let elapsed = now().saturating_duration_since(start);
                let latency_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) / done.operations;
                self.recorder.record(kind, latency_ns, done);
                gauge.add(kind, latency_ns, done.operations);
            }
        }
    }
}

/// Tells the watching thread that this one is gone, by a panic too.
struct Leaving<'s> {
    shared: &'s Shared,
    counted: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.shared.counted_left.fetch_sub(1, Ordering::AcqRel);
        }
        let _guard = self.shared.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_within_a_tenth_of_a_millisecond_begins_together_and_nothing_early() {
        let interval = Duration::from_micros(7);
        for share in [0.0, 0.5] {
            let mut pace = Pace { interval, share, due: None };
            let plans: Vec<Duration> = (0..100_000).map(|_| pace.plan()).collect();
            for (number, begins) in plans.iter().enumerate() {
                let due = interval.mul_f64(share) + interval * number as u32;
                let late = begins.checked_sub(due).unwrap_or_else(|| panic!("{number} begins early"));
                assert!(late <= TOGETHER.mul_f64(1.0 + share), "{number}: {late:?}");
            }
            let mut turns = plans.clone();
            turns.dedup();
            assert!(
                turns.is_sorted() && (7000..=7001).contains(&turns.len()),
                "{} turns of 0.7 s",
                turns.len()
            );
        }
        let mut slow = Pace { interval: TOGETHER, share: 0.5, due: None };
        let [first, second] = [slow.plan(), slow.plan()];
        assert_eq!((first, second), (TOGETHER / 2, TOGETHER * 3 / 2), "one by one");
    }
}
