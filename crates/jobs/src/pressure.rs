//! When a database stops its writers.

use std::time::Duration;

/// How full a database is, and how fast it fills.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Sorted runs in level 0.
    pub level0_runs: u32,
    /// At so many writers stop.
    pub level0_runs_max: u32,
    /// Bytes of one such run, on average.
    pub run_bytes: u64,
    /// Bytes that the buffer takes before writers stop.
    pub buffer_headroom_bytes: u64,
    /// Bytes a second that are written, lately.
    pub fill_bytes_per_second: f64,
    /// Writers are held up now, whatever else is said here.
    pub is_stalled: bool,
}

impl Pressure {
    /// Until writers stop if nothing is compacted; zero if they have; `None` if nothing is written.
    pub fn stalls_in(&self) -> Option<Duration> {
        if self.is_stalled {
            // Stopped writers write nothing, which would look like rest.
            return Some(Duration::ZERO);
        }
        let runs = self.level0_runs_max.saturating_sub(self.level0_runs);
        let room = u64::from(runs).saturating_mul(self.run_bytes).saturating_add(self.buffer_headroom_bytes);
        let seconds = room as f64 / self.fill_bytes_per_second;
        // More than a year is out of sight, and a rate may be zero or no number.
        (self.fill_bytes_per_second > 0.0 && seconds < 3e7).then(|| Duration::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_as_far_away_as_there_is_room_at_this_rate() {
        let pressure = Pressure {
            level0_runs: 4,
            level0_runs_max: 12,
            run_bytes: 50,
            buffer_headroom_bytes: 100,
            fill_bytes_per_second: 10.0,
            is_stalled: false,
        };
        assert_eq!(pressure.stalls_in(), Some(Duration::from_secs(50)));
        let full = Pressure { level0_runs: 13, buffer_headroom_bytes: 0, ..pressure };
        assert_eq!(full.stalls_in(), Some(Duration::ZERO));
        for rate in [0.0, -1.0, f64::NAN, 1e-9] {
            assert_eq!(Pressure { fill_bytes_per_second: rate, ..pressure }.stalls_in(), None, "{rate}");
        }
        let stalled = Pressure { fill_bytes_per_second: 0.0, is_stalled: true, ..pressure };
        assert_eq!(stalled.stalls_in(), Some(Duration::ZERO), "they would write if they could");
    }
}
