//! The one place where this crate looks at a clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time.
#[inline]
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time; this is its one clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Lets the thread rest.
#[expect(clippy::disallowed_methods, reason = "a benchmark paces itself in real time; this is its one sleep")]
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Lets the thread rest until `instant`, at once if it has passed.
pub fn sleep_until(instant: Instant) {
    let left = instant.saturating_duration_since(now());
    if !left.is_zero() {
        sleep(left);
    }
}

/// Date and time in UTC as `2026-11-21 02:55:05`.
#[expect(clippy::disallowed_methods, reason = "reports carry the date they were made on")]
pub fn wall_clock_text() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date_text(seconds)
}

/// Seconds since the Unix epoch as a UTC date. Days to civil date by Hinnant's algorithm.
fn date_text(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::date_text;

    #[test]
    fn dates_are_civil_dates() {
        assert_eq!(date_text(0), "1970-01-01 00:00:00");
        assert_eq!(date_text(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date_text(1_795_229_705), "2026-11-21 02:55:05");
    }
}
