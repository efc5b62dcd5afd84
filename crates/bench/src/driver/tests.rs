use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::measure::sleep;
use crate::target::{Client, MemoryTarget, Settings, Visit};
use crate::workload::Done;

/// Counts its operations, each of which sleeps `pause`; one of them, the `stall_at`th, sleeps
/// `stall`.
struct Scripted {
    performed: Arc<AtomicU64>,
    pause: Duration,
    stall: Option<(u64, Duration)>,
    fails_at: Option<u64>,
}

impl Scripted {
    fn stream(performed: &Arc<AtomicU64>, quota: Option<u64>) -> Stream {
        let operations =
            Scripted { performed: Arc::clone(performed), pause: Duration::ZERO, stall: None, fails_at: None };
        Stream { operations: Box::new(operations), quota, counted: true }
    }
}

impl Operations for Scripted {
    fn prepare(&mut self) -> Option<Kind> {
        Some(Kind::Update)
    }

    fn perform(&mut self, client: &mut dyn Client) -> Result<Done> {
        let index = self.performed.fetch_add(1, Ordering::Relaxed);
        if self.fails_at == Some(index) {
            return Err(Error::invalid("scripted failure"));
        }
        match self.stall {
            Some((at, stall)) if at == index => sleep(stall),
            _ if !self.pause.is_zero() => sleep(self.pause),
            _ => {}
        }
        client.update(b"key", b"value")?;
        Ok(Done::wrote(8))
    }
}

#[derive(Default)]
struct Watched {
    samples: usize,
    drains: usize,
}

impl Watcher for Watched {
    fn phase_begins(&mut self, _phase: &Phase) {}
    fn sample(&mut self, _sample: &Sample) {
        self.samples += 1;
    }
    fn drain_begins(&mut self) {
        self.drains += 1;
    }
    fn phase_ends(&mut self) {}
}

fn phase(streams: Vec<Stream>) -> Phase {
    Phase {
        name: "scripted".to_owned(),
        streams,
        operations: 0,
        time: None,
        warmup: Duration::ZERO,
        rate: None,
        drains: false,
    }
}

#[test]
fn quotas_are_met_exactly_by_every_thread() {
    let performed = Arc::new(AtomicU64::new(0));
    let streams = (0..3).map(|_| Scripted::stream(&performed, Some(1_000))).collect();
    let measured = run_phase(&MemoryTarget::default(), phase(streams), &mut Watched::default()).unwrap();
    assert_eq!(measured.operations, 3_000);
    assert_eq!(performed.load(Ordering::Relaxed), 3_000);
    assert_eq!(measured.user_written_bytes, 24_000);
    assert_eq!(measured.counters.bytes_written, 24_000);
    assert_eq!(measured.all_latencies().count(), 3_000);
    assert_eq!(measured.drain, Duration::ZERO);
}

#[test]
fn time_ends_a_phase_without_quota_and_warmup_is_not_counted() {
    let run = || {
        let performed = Arc::new(AtomicU64::new(0));
        let mut timed = phase(vec![Scripted::stream(&performed, None)]);
        timed.time = Some(Duration::from_millis(350));
        timed.warmup = Duration::from_millis(200);
        let mut watched = Watched::default();
        let measured = run_phase(&MemoryTarget::default(), timed, &mut watched).unwrap();
        assert!(measured.run >= Duration::from_millis(340), "{:?}", measured.run);
        assert_eq!(measured.series.len(), watched.samples);
        (watched.samples, measured.operations, performed.load(Ordering::Relaxed))
    };
    // A thread that gets no processor may miss all of a warm-up, or of a phase, and not five times.
    let is_right = |(samples, counted, all): &(usize, u64, u64)| *samples >= 2 && counted < all;
    let mut runs = vec![run()];
    while !runs.last().is_some_and(is_right) {
        assert!(runs.len() < 5, "samples, operations that were counted, and all: {runs:?}");
        runs.push(run());
    }
}

/// One stall of 300 ms among operations due every millisecond.
fn stalled(rate: Option<f64>) -> Measured {
    let performed = Arc::new(AtomicU64::new(0));
    let mut stream = Scripted::stream(&performed, Some(600));
    stream.operations = Box::new(Scripted {
        performed,
        pause: Duration::ZERO,
        stall: Some((100, Duration::from_millis(300))),
        fails_at: None,
    });
    let mut stalled = phase(vec![stream]);
    stalled.rate = rate;
    run_phase(&MemoryTarget::default(), stalled, &mut Watched::default()).unwrap()
}

#[test]
fn an_open_loop_charges_a_stall_to_every_operation_it_delayed() {
    let open = stalled(Some(1_000.0)).all_latencies().percentiles();
    let closed = stalled(None).all_latencies().percentiles();
    assert!(open.p90_us > 100_000.0, "open loop p90 {} us", open.p90_us);
    assert!(closed.p90_us < 10_000.0, "closed loop p90 {} us", closed.p90_us);
    assert!(closed.max_us > 290_000.0, "closed loop max {} us", closed.max_us);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let performed = Arc::new(AtomicU64::new(0));
    let mut paced = phase((0..2).map(|_| Scripted::stream(&performed, Some(200))).collect());
    paced.rate = Some(1_000.0);
    let measured = run_phase(&MemoryTarget::default(), paced, &mut Watched::default()).unwrap();
    assert!(measured.run >= Duration::from_millis(390), "400 operations took {:?}", measured.run);
}

#[test]
fn uncounted_streams_stop_with_the_others_and_stay_out_of_the_latencies() {
    let performed = Arc::new(AtomicU64::new(0));
    let mut background = Scripted::stream(&performed, None);
    background.counted = false;
    let streams = vec![Scripted::stream(&Arc::new(AtomicU64::new(0)), Some(20_000)), background];
    let measured = run_phase(&MemoryTarget::default(), phase(streams), &mut Watched::default()).unwrap();
    assert_eq!(measured.operations, 20_000);
    assert_eq!(measured.all_latencies().count(), 20_000);
    assert_eq!(measured.background_operations, performed.load(Ordering::Relaxed));
}

#[test]
fn the_first_error_stops_the_phase_and_comes_back() {
    let performed = Arc::new(AtomicU64::new(0));
    let mut failing = Scripted::stream(&performed, None);
    failing.operations = Box::new(Scripted {
        performed: Arc::clone(&performed),
        pause: Duration::ZERO,
        stall: None,
        fails_at: Some(500),
    });
    let streams = vec![failing, Scripted::stream(&Arc::new(AtomicU64::new(0)), None)];
    let error = run_phase(&MemoryTarget::default(), phase(streams), &mut Watched::default()).unwrap_err();
    assert_eq!(error.message(), "scripted failure");
}

/// A memory target whose drain takes 150 ms.
struct SlowDrain(MemoryTarget);

impl Target for SlowDrain {
    fn name(&self) -> &str {
        "slow-drain"
    }
    fn settings(&self) -> Settings {
        Settings::new()
    }
    fn client(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(Unread(self.0.client()?)))
    }
    fn drain(&self) -> Result<()> {
        sleep(Duration::from_millis(150));
        self.0.client()?.insert(b"drained", b"12345")
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
    fn disk_bytes(&self) -> u64 {
        0
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A client that only writes.
struct Unread(Box<dyn Client>);

impl Client for Unread {
    fn read(&mut self, _key: &[u8], _value: &mut Vec<u8>) -> Result<bool> {
        Err(Error::invalid("never read"))
    }
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key, value)
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.delete(key)
    }
    fn scan(&mut self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize> {
        self.0.scan(start, count, visit)
    }
}

#[test]
fn a_drain_is_measured_with_its_bytes() {
    let performed = Arc::new(AtomicU64::new(0));
    let mut drained = phase(vec![Scripted::stream(&performed, Some(100))]);
    drained.drains = true;
    let mut watched = Watched::default();
    let begun = now();
    let measured = run_phase(&SlowDrain(MemoryTarget::default()), drained, &mut watched).unwrap();
    let whole = begun.elapsed();
    assert_eq!(watched.drains, 1);
    assert!(measured.drain >= Duration::from_millis(150), "{:?}", measured.drain);
    let both = (measured.run, measured.drain);
    assert!(both.0 + both.1 <= whole, "{both:?} of {whole:?}: neither has a part of the other");
    assert_eq!(measured.counters.bytes_written, 100 * 8 + 12);
}
