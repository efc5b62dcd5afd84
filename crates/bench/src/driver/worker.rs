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

/// The schedule of an open loop: operation `n` is due `offset + n * interval` after the start.
struct Pace {
    interval: Duration,
    offset: Duration,
    due: Option<Instant>,
}

impl Pace {
    /// Waits until the next operation is due and returns when that was.
    fn next(&mut self, begun: Instant) -> Instant {
        let due = self.due.map_or(begun + self.offset, |due| due + self.interval);
        self.due = Some(due);
        sleep_until(due);
        due
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
            offset: interval.mul_f64(index as f64 / counted.max(1) as f64),
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
