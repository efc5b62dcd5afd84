//! Runs one phase: threads that perform operations, a clock that watches them, a drain at the end.
//!
//! ```text
//!   Phase ─► one thread per stream ─► Client        every operation timed into the thread's histograms
//!              │ gauges                             every 100 ms the caller's thread reads the gauges
//!              └──────────────► Sample ─► Watcher   live progress
//!   then Target::drain ─► Measured
//! ```
//!
//! Closed loop: a thread's next operation begins when its last one is over. Open loop (`rate`):
//! operations begin on a schedule, those of one thread that are due in the same tenth of a
//! millisecond together. Latency counts from the *intended* start, so that a stall shows in every
//! operation it delayed (no coordinated omission).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use firn_engine::{Error, Result};

use crate::measure::{CpuUse, IoBytes, Latencies, now, peak_memory_bytes, reset_peak_memory};
use crate::target::{Counters, Target};
use crate::workload::{Kind, Operations};

mod gauge;
mod worker;
#[cfg(test)]
mod tests;

pub(crate) use gauge::Gauge;
pub use gauge::{KindGauge, Sample};
use worker::{Recorder, Worker};

/// How often gauges are read.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// One thread's part of a phase.
pub struct Stream {
    /// What the thread does.
    pub operations: Box<dyn Operations>,
    /// Operations after which it stops; `None` = at the stream's end or the phase's.
    pub quota: Option<u64>,
    /// Whether its operations are the phase's; if not it runs beside the others until they are
    /// over.
    pub counted: bool,
}

/// What is run and measured as one.
pub struct Phase {
    /// Name for progress and results.
    pub name: String,
    /// One per thread.
    pub streams: Vec<Stream>,
    /// Operations expected, for progress; 0 = unknown.
    pub operations: u64,
    /// Stops the phase after this time.
    pub time: Option<Duration>,
    /// Operations are performed but not measured for this long first.
    pub warmup: Duration,
    /// Operations per second begun by all counted threads together; `None` = closed loop.
    pub rate: Option<f64>,
    /// Whether the phase writes and so ends with a drain.
    pub drains: bool,
}

/// Sees a phase while it runs.
pub trait Watcher {
    /// A phase begins.
    fn phase_begins(&mut self, phase: &Phase);

    /// Called every 100 ms.
    fn sample(&mut self, sample: &Sample);

    /// The operations are over, the drain begins.
    fn drain_begins(&mut self);

    /// The phase is over.
    fn phase_ends(&mut self);
}

/// What a phase measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// From the first operation to the end of the last.
    pub run: Duration,
    /// From there until no background work was left; zero for phases that do not drain.
    pub drain: Duration,
    /// Latencies of counted operations by kind.
    pub latencies: Vec<(Kind, Latencies)>,
    /// Operations counted.
    pub operations: u64,
    /// Operations of uncounted streams.
    pub background_operations: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Bytes of keys and values handed to the store, by all streams.
    pub user_written_bytes: u64,
    /// Bytes of keys and values the store handed back, to all streams.
    pub user_read_bytes: u64,
    /// Processor time, drain included.
    pub cpu: CpuUse,
    /// The store's counters, drain included.
    pub counters: Counters,
    /// The kernel's counters, drain included.
    pub io: IoBytes,
    /// Highest resident memory during the phase.
    pub peak_memory_bytes: u64,
    /// Whether that is the phase's own peak and not an earlier one's.
    pub peak_is_of_phase: bool,
    /// Samples, every 100 ms.
    pub series: Vec<Sample>,
    /// Bytes of disk that the store occupied, every second; none of a server.
    pub disk: Vec<(Duration, u64)>,
}

/// Where the threads of a phase are.
const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const STOPPED: u8 = 2;

/// What the threads of a phase share.
struct Shared {
    stage: AtomicU8,
    counted_left: AtomicUsize,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    ready: Barrier,
    begun: Mutex<Option<Instant>>,
    /// Held while a thread says that it is gone; `left` is told then.
    leaving: Mutex<()>,
    left: Condvar,
    gauges: Vec<Gauge>,
}

/// Totals at one moment.
#[derive(Clone, Copy)]
struct Totals {
    at: Instant,
    cpu: CpuUse,
    io: IoBytes,
    counters: Counters,
}

impl Totals {
    fn of(target: &dyn Target) -> Self {
        Self { at: now(), cpu: CpuUse::now(), io: IoBytes::now(), counters: target.counters() }
    }
}

/// Runs `phase` on `target` and drains it.
///
/// # Errors
/// The first error any operation or the drain met; the phase stops then.
pub fn run_phase(target: &dyn Target, phase: Phase, watcher: &mut dyn Watcher) -> Result<Measured> {
    watcher.phase_begins(&phase);
    let Phase { streams, time, warmup, rate, drains, .. } = phase;
    let counted = streams.iter().filter(|stream| stream.counted).count();
    let shared = Shared {
        stage: AtomicU8::new(if warmup.is_zero() { MEASURING } else { WARMING }),
        counted_left: AtomicUsize::new(counted),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
        ready: Barrier::new(streams.len() + 1),
        begun: Mutex::new(None),
        leaving: Mutex::new(()),
        left: Condvar::new(),
        gauges: streams.iter().map(|stream| Gauge::new(stream.counted)).collect(),
    };
    let interval = rate.map(|rate| Duration::from_secs_f64(counted.max(1) as f64 / rate.max(1e-3)));
    let workers = streams
        .into_iter()
        .enumerate()
        .map(|(index, stream)| Ok(Worker::new(index, counted, target.client()?, stream, interval)))
        .collect::<Result<Vec<_>>>()?;

    let (watched, recorders) = std::thread::scope(|scope| {
        let handles: Vec<_> = workers.into_iter().map(|worker| scope.spawn(|| worker.run(&shared))).collect();
        let watched = watch(target, &shared, time, warmup, watcher);
        let recorders: Vec<Recorder> = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        (watched, recorders)
    });
    let Watched { base, series, disk, peak_is_of_phase } = watched;
    if let Some(error) = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let ended = recorders.iter().filter_map(|recorder| recorder.ended).max().unwrap_or_else(now);
    let drain_base = now();
    if drains {
        watcher.drain_begins();
        target.drain()?;
    }
    let end = Totals::of(target);
    watcher.phase_ends();
    let mut measured = Measured {
        run: ended.saturating_duration_since(base.at),
        drain: if drains { end.at.saturating_duration_since(drain_base) } else { Duration::ZERO },
        latencies: Vec::new(),
        operations: 0,
        background_operations: 0,
        not_found: 0,
        user_written_bytes: 0,
        user_read_bytes: 0,
        cpu: end.cpu.since(base.cpu),
        counters: end.counters.since(base.counters),
        io: end.io.since(base.io),
        peak_memory_bytes: peak_memory_bytes(),
        peak_is_of_phase,
        series,
        disk,
    };
    measured.add(recorders);
    Ok(measured)
}

/// What was seen while workers worked.
struct Watched {
    /// The totals when measuring began.
    base: Totals,
    series: Vec<Sample>,
    disk: Vec<(Duration, u64)>,
    /// Whether the memory peak was reset.
    peak_is_of_phase: bool,
}

/// Samples from one look at the disk to the next.
const SAMPLES_PER_LOOK: usize = 10;

/// Lets the workers go and watches them until the counted ones are over.
fn watch(
    target: &dyn Target,
    shared: &Shared,
    time: Option<Duration>,
    warmup: Duration,
    watcher: &mut dyn Watcher,
) -> Watched {
    let mut peak_is_of_phase = reset_peak_memory();
    let mut base = Totals::of(target);
    *shared.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(base.at);
    shared.ready.wait();
    if !warmup.is_zero() {
        shared.wait_until(base.at + warmup);
        peak_is_of_phase = reset_peak_memory();
        base = Totals::of(target);
        shared.stage.store(MEASURING, Ordering::Release);
    }
    let stop_at = time.map(|time| base.at + time);
    let (mut series, mut disk, mut next) = (Vec::new(), Vec::new(), base.at + SAMPLE_EVERY);
    while !shared.is_over() && stop_at.is_none_or(|stop| now() < stop) {
        shared.wait_until(stop_at.map_or(next, |stop| next.min(stop)));
        let at = now();
        if at >= next {
            let sample = Sample::take(at - base.at, &shared.gauges);
            watcher.sample(&sample);
            series.push(sample);
            if !target.is_server() && series.len() % SAMPLES_PER_LOOK == 1 {
                disk.push((at - base.at, target.disk_bytes()));
            }
            while next <= at {
                next += SAMPLE_EVERY;
            }
        }
    }
    shared.stage.store(STOPPED, Ordering::Release);
    Watched { base, series, disk, peak_is_of_phase }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.counted_left.load(Ordering::Acquire) == 0 || self.failed.load(Ordering::Acquire)
    }

    /// Waits until `deadline`, or until the counted threads are over.
    fn wait_until(&self, deadline: Instant) {
        let mut guard = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_over() {
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                return;
            }
            guard = self.left.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
        self.stage.store(STOPPED, Ordering::Release);
    }
}

impl Measured {
    fn add(&mut self, recorders: Vec<Recorder>) {
        for kind in Kind::ALL {
            let mut merged = Latencies::new();
            for recorder in recorders.iter().filter(|recorder| recorder.counted) {
                if let Some(latencies) = recorder.latencies(kind) {
                    merged.add(latencies);
                }
            }
            if merged.count() > 0 {
                self.latencies.push((kind, merged));
            }
        }
        for recorder in recorders {
            let operations =
                if recorder.counted { &mut self.operations } else { &mut self.background_operations };
            *operations += recorder.operations;
            self.not_found += recorder.not_found;
            self.user_written_bytes += recorder.written_bytes;
            self.user_read_bytes += recorder.read_bytes;
        }
    }

    /// Latencies of all counted operations together.
    pub fn all_latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        self.latencies.iter().for_each(|(_, latencies)| all.add(latencies));
        all
    }
}
