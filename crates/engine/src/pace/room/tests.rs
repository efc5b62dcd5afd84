//! Writers that are faster than flushes, and writers that are not.

use std::time::Duration;

use super::{Flow, RoomDebt, RoomPace};

const SOFT: u64 = 32 << 20;
const HARD: u64 = 64 << 20;
const SEGMENT: u64 = 8 << 20;
const FLUSH: u64 = 24 << 20;
const RECORD: u64 = 1 << 10;

fn debt(is_pressed: bool, room_bytes: u64) -> RoomDebt {
    RoomDebt { is_pressed, room_bytes, flush_bytes: FLUSH }
}

/// A buffer, its writers and its flushes, in a time that only they move.
struct Model {
    now: Duration,
    pace: RoomPace,
    /// Bytes of full segments, and of the active one.
    full: u64,
    active: u64,
    written: u64,
    freed: u64,
    stops: u64,
    /// When the flush in progress will end.
    flush_end: Option<Duration>,
    flushes: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            now: Duration::ZERO,
            pace: RoomPace::default(),
            full: 0,
            active: 0,
            written: 0,
            freed: 0,
            stops: 0,
            flush_end: None,
            flushes: 0,
        }
    }

    fn held(&self) -> u64 {
        self.full + SEGMENT
    }

    fn set_pace(&self) {
        let room = (HARD + SEGMENT - self.active).saturating_sub(self.held() + SEGMENT);
        self.pace.set(&debt(self.held() > SOFT, room), self.now);
    }

    /// Begins and ends flushes; each takes what `took` says of its number.
    fn flush(&mut self, took: impl Fn(u64) -> Duration) {
        if self.flush_end.is_some_and(|end| self.now >= end) {
            self.flush_end = None;
            self.full -= FLUSH;
            self.freed += FLUSH;
            self.pace.freed(FLUSH, self.now);
            self.set_pace();
        }
        if self.flush_end.is_none() && self.held() > SOFT && self.full >= FLUSH {
            self.flush_end = Some(self.now + took(self.flushes));
            self.flushes += 1;
        }
    }

    /// One record, `each` after the one before at the soonest; answers how long it was delayed.
    fn write(&mut self, each: Duration) -> Duration {
        self.now += each;
        if self.pace.is_to_look(self.now) {
            self.set_pace();
        }
        let delay = self.pace.delay(RECORD, self.now);
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
            model.flush(&took);
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
fn a_long_overload_stops_nobody_and_keeps_flushes_busy() {
    let (model, writes, delayed) = Model::minute(|_| ms(240));
    assert_eq!(model.stops, 0);
    // 24 MiB each 240 ms.
    let ideal = 60_000 / 240 * FLUSH;
    assert!(model.freed * 10 >= ideal * 9, "{} of {ideal} bytes flushed", model.freed);
    assert!(model.written * 10 >= ideal * 9);
    assert!(delayed * 150 < writes, "{delayed} of {writes} writes slept: a 99th percentile is a sleep");
}

#[test]
fn flushes_that_begin_late_are_part_of_the_rate() {
    // Something else keeps each third flush waiting for as long as it takes.
    let took = |number: u64| if number % 3 == 2 { ms(480) } else { ms(240) };
    let (model, ..) = Model::minute(took);
    assert_eq!(model.stops, 0);
    let ideal = 60_000 / 320 * FLUSH;
    assert!(model.freed * 10 >= ideal * 9, "{} of {ideal} bytes flushed", model.freed);
}

/// Where one flush does not end the pressure, the next is measured from its end.
#[test]
fn flushes_under_lasting_pressure_are_measured_one_by_one() {
    let mut flow = Flow::default();
    flow.press(true, ms(0));
    for number in 1..=5 {
        flow.press(true, ms(number * 100 - 50));
        flow.freed(10_000_000, ms(number * 100));
    }
    // Room for just what the next flush will free: as fast as flushes.
    let rate = flow.rate(10_000_000, 1, ms(500));
    assert!((99_000_000..101_000_000).contains(&rate), "{rate} bytes a second");
}

#[test]
fn flushes_that_become_slow_stop_nobody() {
    let took = |number: u64| if number % 40 < 20 { ms(100) } else { ms(300) };
    let (model, ..) = Model::minute(took);
    assert_eq!(model.stops, 0);
    let ideal = 60_000 / 200 * FLUSH;
    assert!(model.freed * 10 >= ideal * 9, "{} of {ideal} bytes flushed", model.freed);
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
fn writers_slower_than_flushes_are_not_slowed() {
    let mut model = Model::new();
    let mut slept = Duration::ZERO;
    while model.now < Duration::from_secs(60) {
        model.flush(|_| ms(240));
        // 85 MB a second, where flushes achieve 105.
        slept += model.write(Duration::from_micros(12));
    }
    assert!(model.flushes > 100 && model.stops == 0);
    assert!(slept < ms(600), "slept {slept:?} of a minute");
}

#[test]
fn a_large_write_at_the_slowest_pace_does_not_outwait_the_next_flush() {
    let pace = RoomPace::default();
    pace.set(&debt(true, 0), ms(1));
    pace.freed(1, ms(1000));
    pace.set(&debt(true, 0), ms(1000));
    // A quarter of a second at that pace.
    let delay = pace.delay(256 << 10, ms(1000));
    assert!(delay > ms(10) && delay < ms(50), "{delay:?}");
}
