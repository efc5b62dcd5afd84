//! Writers that are faster than drains, and writers that are not.

use std::time::Duration;

use super::{Admission, Flow};

const SOFT: u64 = 32 << 20;
const HARD: u64 = 64 << 20;
const SEGMENT: u64 = 8 << 20;
const DRAIN: u64 = 24 << 20;
const RECORD: u64 = 1 << 10;

/// A buffer, its writers and its drains, in a time that only they move.
struct Model {
    now: Duration,
    admission: Admission,
    /// Bytes of full segments, and of the active one.
    full: u64,
    active: u64,
    written: u64,
    freed: u64,
    stops: u64,
    /// When the drain in progress will end.
    drain_end: Option<Duration>,
    drains: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            now: Duration::ZERO,
            admission: Admission::default(),
            full: 0,
            active: 0,
            written: 0,
            freed: 0,
            stops: 0,
            drain_end: None,
            drains: 0,
        }
    }

    fn held(&self) -> u64 {
        self.full + SEGMENT
    }

    fn set_pace(&self) {
        let room = (HARD + SEGMENT - self.active).saturating_sub(self.held() + SEGMENT);
        self.admission.set_pace(self.held() > SOFT, room, DRAIN, self.now);
    }

    /// Begins and ends drains; each takes what `took` says of its number.
    fn drain(&mut self, took: impl Fn(u64) -> Duration) {
        if self.drain_end.is_some_and(|end| self.now >= end) {
            self.drain_end = None;
            self.full -= DRAIN;
            self.freed += DRAIN;
            self.admission.freed(DRAIN, self.now);
            self.set_pace();
        }
        if self.drain_end.is_none() && self.held() > SOFT && self.full >= DRAIN {
            self.drain_end = Some(self.now + took(self.drains));
            self.drains += 1;
        }
    }

    /// One record, `each` after the one before at the soonest; answers how long it was delayed.
    fn write(&mut self, each: Duration) -> Duration {
        self.now += each;
        if self.admission.is_pace_old(self.now) {
            self.set_pace();
        }
        let delay = self.admission.delay(RECORD, self.now);
        self.now += delay;
        if self.active + RECORD > SEGMENT {
            if self.held() + SEGMENT > HARD {
                self.stops += 1;
                return delay;
            }
            self.full += SEGMENT;
            self.active = 0;
            self.set_pace();
        }
        self.active += RECORD;
        self.written += RECORD;
        delay
    }

    /// A minute of writers that never rest, at about 400 MB a second.
    fn minute(took: impl Fn(u64) -> Duration) -> (Self, u64, u64) {
        let mut model = Self::new();
        let (mut writes, mut delayed) = (0, 0);
        while model.now < Duration::from_secs(60) {
            model.drain(&took);
            delayed += u64::from(!model.write(Duration::from_nanos(2500)).is_zero());
            writes += 1;
        }
        (model, writes, delayed)
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_long_overload_stops_nobody_and_keeps_drains_busy() {
    let (model, writes, delayed) = Model::minute(|_| ms(240));
    assert_eq!(model.stops, 0);
    // 24 MiB each 240 ms.
    let ideal = 60_000 / 240 * DRAIN;
    assert!(model.freed * 10 >= ideal * 9, "{} of {ideal} bytes drained", model.freed);
    assert!(model.written * 10 >= ideal * 9);
    assert!(delayed * 150 < writes, "{delayed} of {writes} writes slept: a 99th percentile is a sleep");
}

#[test]
fn drains_that_begin_late_are_part_of_the_rate() {
    // Something else keeps each third drain waiting for as long as it takes.
    let took = |number: u64| if number % 3 == 2 { ms(480) } else { ms(240) };
    let (model, ..) = Model::minute(took);
    assert_eq!(model.stops, 0);
    let ideal = 60_000 / 320 * DRAIN;
    assert!(model.freed * 10 >= ideal * 9, "{} of {ideal} bytes drained", model.freed);
}

/// Where one drain does not end the pressure, the next is measured from its end.
#[test]
fn drains_under_lasting_pressure_are_measured_one_by_one() {
    let mut flow = Flow::default();
    flow.press(true, ms(0));
    for number in 1..=5 {
        flow.press(true, ms(number * 100 - 50));
        flow.freed(10_000_000, ms(number * 100));
    }
    // Room for just what the next drain will free: as fast as drains.
    let pace = flow.pace(10_000_000, 1, ms(500));
    assert!((99_000_000..101_000_000).contains(&pace), "{pace} bytes a second");
}

#[test]
fn drains_that_become_slow_stop_nobody() {
    let took = |number: u64| if number % 40 < 20 { ms(100) } else { ms(300) };
    let (model, ..) = Model::minute(took);
    assert_eq!(model.stops, 0);
    let ideal = 60_000 / 200 * DRAIN;
    assert!(model.freed * 10 >= ideal * 9, "{} of {ideal} bytes drained", model.freed);
}

#[test]
fn a_burst_into_an_empty_buffer_is_not_slowed() {
    let mut model = Model::new();
    let mut slept = Duration::ZERO;
    for _ in 0..(SOFT - SEGMENT) / RECORD {
        slept += model.write(Duration::from_nanos(100));
    }
    assert_eq!(slept, Duration::ZERO);
}

#[test]
fn writers_slower_than_drains_are_not_slowed() {
    let mut model = Model::new();
    let mut slept = Duration::ZERO;
    while model.now < Duration::from_secs(60) {
        model.drain(|_| ms(240));
        // 85 MB a second, where drains achieve 105.
        slept += model.write(Duration::from_micros(12));
    }
    assert!(model.drains > 100 && model.stops == 0);
    assert!(slept < ms(600), "slept {slept:?} of a minute");
}

#[test]
fn a_large_write_at_the_slowest_pace_does_not_outwait_the_next_drain() {
    let admission = Admission::default();
    admission.set_pace(true, 0, DRAIN, ms(1));
    admission.freed(1, ms(1000));
    admission.set_pace(true, 0, DRAIN, ms(1000));
    // A quarter of a second at that pace.
    let delay = admission.delay(256 << 10, ms(1000));
    assert!(delay > ms(10) && delay < ms(50), "{delay:?}");
}
