//! Where time comes from.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time and waits, so that a test or a simulator can own time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since an arbitrary start; never goes back.
    fn now(&self) -> Duration;

    /// Milliseconds since 1970-01-01 UTC as people count them; may jump either way.
    fn unix_ms(&self) -> u64;

    /// Blocks the calling thread for at least `time`.
    fn sleep(&self, time: Duration);
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "the one place that asks the machine for the time")]
impl SystemClock {
    /// A clock whose `now` starts at zero.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    fn instant() -> Instant {
        Instant::now()
    }

    fn wall() -> SystemTime {
        SystemTime::now()
    }

    fn pause(time: Duration) {
        std::thread::sleep(time);
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        Self::instant().saturating_duration_since(self.start)
    }

    fn unix_ms(&self) -> u64 {
        // A machine set before 1970 counts as being at 1970.
        let since = Self::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, time: Duration) {
        Self::pause(time);
    }
}

/// A clock that stands still until a test moves it; sleeping moves it too.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<ManualTime>,
}

#[derive(Debug)]
struct ManualTime {
    now: Duration,
    unix_start: Duration,
}

impl ManualClock {
    /// A clock at zero whose calendar says `unix_ms`.
    pub fn new(unix_ms: u64) -> Self {
        let unix_start = Duration::from_millis(unix_ms);
        Self { state: Mutex::new(ManualTime { now: Duration::ZERO, unix_start }) }
    }

    /// Moves both the clock and its calendar forward by `time`.
    pub fn advance(&self, time: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = state.now.saturating_add(time);
    }

    /// Sets the calendar alone, either way, as an operator might.
    pub fn set_unix_ms(&self, unix_ms: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.unix_start = Duration::from_millis(unix_ms).saturating_sub(state.now);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).now
    }

    fn unix_ms(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        u64::try_from(state.unix_start.saturating_add(state.now).as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(5_000);
        assert_eq!((clock.now(), clock.unix_ms()), (Duration::ZERO, 5_000));
        clock.sleep(Duration::from_millis(250));
        clock.advance(Duration::from_secs(1));
        assert_eq!((clock.now(), clock.unix_ms()), (Duration::from_millis(1_250), 6_250));
        clock.set_unix_ms(9_000);
        assert_eq!((clock.now(), clock.unix_ms()), (Duration::from_millis(1_250), 9_000));
    }

    #[test]
    fn the_system_clock_goes_forward_and_knows_the_year() {
        let clock = SystemClock::new();
        let before = clock.now();
        clock.sleep(Duration::from_millis(2));
        assert!(clock.now() >= before + Duration::from_millis(2));
        assert!(clock.unix_ms() > 1_700_000_000_000);
    }
}
