//! What an operator is told while the server runs: one line on standard error for each event.

mod slow; // commands

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use firn::storage::Clock;
use firn_engine::Stats;
use slow::SlowCommands;

/// Lines of one second; more are left out, and counted.
const LINES_PER_SECOND_MAX: u64 = 20;

/// Seconds between two lines that tell of failures to accept.
const ACCEPT_LINE_S: u64 = 10;

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: time, level, event, and `name=value`.
    #[default]
    Text,
    /// For programs: one JSON object.
    Json,
}

/// What is logged: a level and those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    #[default]
    Off,
    /// What an operator must act on.
    Error,
    /// What an operator may want to look at: refused connections, slow commands, writers that stand
    /// still.
    Warn,
    /// Beginning and end.
    Info,
}

impl LogLevel {
    fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
        }
    }
}

/// A value of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    Text(&'a str),
    Number(u64),
}

/// The log of a server.
#[derive(Debug)]
pub(crate) struct Log {
    format: LogFormat,
    level: LogLevel,
    clock: Arc<dyn Clock>,
    /// The second that lines are counted in, and how many there were.
    window: Mutex<(u64, u64)>,
    /// The second from which on failures to accept are told again.
    accept_due_s: AtomicU64,
    engine: Mutex<EngineNotes>,
    slow: SlowCommands,
}

/// What was seen of the engine last.
#[derive(Debug, Default)]
struct EngineNotes {
    /// The second it was looked at.
    second: u64,
    stop_us: u64,
    is_stopped: bool,
    has_failed: bool,
    damaged_file_count: u64,
    set_aside_file_count: u64,
    is_refused: bool,
    is_full: bool,
}

impl Log {
    pub(crate) fn new(format: LogFormat, level: LogLevel, clock: Arc<dyn Clock>) -> Self {
        Self {
            format,
            level,
            clock,
            window: Mutex::default(),
            accept_due_s: AtomicU64::default(),
            engine: Mutex::default(),
            slow: SlowCommands::default(),
        }
    }

    /// Writes a line about `event`, unless the level leaves it out or there were too many.
    pub(crate) fn note(&self, level: LogLevel, event: &str, fields: &[(&str, Field<'_>)]) {
        if level > self.level {
            return;
        }
        let unix_ms = self.clock.unix_ms();
        let (is_written, left_out) = self.admit(unix_ms / 1000);
        let mut lines = String::new();
        if left_out > 0 {
            let fields = [("lines", Field::Number(left_out))];
            lines.push_str(&line(self.format, unix_ms, LogLevel::Warn, "log_left_out", &fields));
        }
        if is_written {
            lines.push_str(&line(self.format, unix_ms, level, event, fields));
        }
        // There is nowhere left to report a failure.
        let _ = std::io::stderr().write_all(lines.as_bytes());
    }

    /// Tells of a command that took `us` microseconds: one line for each command in ten seconds.
    /// The others are counted, and told by [`note_more_slow`](Self::note_more_slow).
    pub(crate) fn note_slow(&self, command: &str, us: u64, client: &str) {
        if self.level >= LogLevel::Warn && self.slow.note(command, us, self.clock.unix_ms() / 1000) {
            let fields = [
                ("command", Field::Text(command)),
                ("us", Field::Number(us)),
                ("client", Field::Text(client)),
            ];
            self.note(LogLevel::Warn, "slow_command", &fields);
        }
    }

    /// Tells how many more commands were slow than had a line, ten seconds after that; of a server
    /// that `is_ending` at once.
    pub(crate) fn note_more_slow(&self, is_ending: bool) {
        let second = self.clock.unix_ms() / 1000;
        let more = if is_ending { self.slow.take_all(second) } else { self.slow.take_due(second) };
        for more in more {
            let fields = [
                ("command", Field::Text(&more.command)),
                ("more", Field::Number(more.count)),
                ("seconds", Field::Number(more.seconds)),
                ("us_max", Field::Number(more.us_max)),
            ];
            self.note(LogLevel::Warn, "slow_commands", &fields);
        }
    }

    /// Raises `flag`, and tells of `event` unless it was up.
    pub(crate) fn note_once(&self, flag: &AtomicBool, event: &str) {
        if !flag.swap(true, Ordering::AcqRel) {
            self.note(LogLevel::Info, event, &[]);
        }
    }

    /// Tells that no connection is accepted for now: one line in [`ACCEPT_LINE_S`] seconds,
    /// whatever the thread.
    pub(crate) fn note_accept_failure(&self, why: &dyn Display) {
        let second = self.clock.unix_ms() / 1000;
        let due = self.accept_due_s.load(Ordering::Relaxed);
        // A clock that was set back tells once more.
        let is_due = second >= due || due - second > ACCEPT_LINE_S;
        let next = second + ACCEPT_LINE_S;
        let order = Ordering::Relaxed;
        if is_due && self.accept_due_s.compare_exchange(due, next, order, order).is_ok() {
            let why = format!("no connection is accepted for now: {why}");
            self.note(LogLevel::Warn, "accept_failed", &[("why", Field::Text(&why))]);
        }
    }

    /// Looks at the engine once a second, and tells when writers begin and cease to stand still,
    /// and when nothing is written any more.
    pub(crate) fn note_engine(&self, stats: impl FnOnce() -> Stats) {
        let second = self.clock.unix_ms() / 1000;
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if self.level < LogLevel::Error || engine.second == second {
            return;
        }
        engine.second = second;
        let stats = stats();
        let stopped_us = stats.stop_us_total.saturating_sub(engine.stop_us);
        engine.stop_us = stats.stop_us_total;
        let is_stopped = stopped_us > 0;
        if is_stopped != std::mem::replace(&mut engine.is_stopped, is_stopped) {
            let fields =
                [("stopped_us", Field::Number(stopped_us)), ("debt_bytes", Field::Number(stats.debt_bytes))];
            self.note(LogLevel::Warn, if is_stopped { "writers_stopped" } else { "writers_go_on" }, &fields);
        }
        if let Some(why) = &stats.write_failure
            && !std::mem::replace(&mut engine.has_failed, true)
        {
            self.note(LogLevel::Error, "writes_failed", &[("why", Field::Text(why))]);
        }
        let is_full = stats.write_refusal.is_some();
        if is_full != std::mem::replace(&mut engine.is_full, is_full) {
            match &stats.write_refusal {
                Some(why) => self.note(LogLevel::Warn, "writes_refused", &[("why", Field::Text(why))]),
                None => self.note(LogLevel::Warn, "writes_taken_again", &[]),
            }
        }
        let damaged = std::mem::replace(&mut engine.damaged_file_count, stats.damaged_file_count);
        if let Some(why) = &stats.damage
            && stats.damaged_file_count > damaged
        {
            let fields = [("files", Field::Number(stats.damaged_file_count)), ("why", Field::Text(why))];
            self.note(LogLevel::Error, "file_damaged", &fields);
        }
        let set_aside = std::mem::replace(&mut engine.set_aside_file_count, stats.set_aside_file_count);
        if let Some(why) = &stats.set_aside
            && stats.set_aside_file_count > set_aside
        {
            let fields = [("files", Field::Number(stats.set_aside_file_count)), ("why", Field::Text(why))];
            self.note(LogLevel::Error, "file_set_aside", &fields);
        }
        let is_refused = stats.background_refusal.is_some();
        if is_refused != std::mem::replace(&mut engine.is_refused, is_refused) {
            match &stats.background_refusal {
                Some(why) => self.note(LogLevel::Warn, "background_refused", &[("why", Field::Text(why))]),
                None => self.note(LogLevel::Warn, "background_goes_on", &[]),
            }
        }
    }

    /// Whether one more line may be written in this second, and how many were left out in the last
    /// one.
    fn admit(&self, second: u64) -> (bool, u64) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left_out = 0;
        if window.0 != second {
            left_out = window.1.saturating_sub(LINES_PER_SECOND_MAX);
            *window = (second, 0);
        }
        window.1 += 1;
        (window.1 <= LINES_PER_SECOND_MAX, left_out)
    }
}

fn line(
    format: LogFormat,
    unix_ms: u64,
    level: LogLevel,
    event: &str,
    fields: &[(&str, Field<'_>)],
) -> String {
    let (time, level) = (time(unix_ms), level.word());
    let mut line = match format {
        LogFormat::Text => format!("{time} {level:<5} {event}"),
        LogFormat::Json => format!("{{\"time\":\"{time}\",\"level\":\"{level}\",\"event\":\"{event}\""),
    };
    for (name, value) in fields {
        line.push_str(&match (format, value) {
            (LogFormat::Text, Field::Number(number)) => format!(" {name}={number}"),
            (LogFormat::Text, Field::Text(text)) if is_plain(text) => format!(" {name}={text}"),
            (LogFormat::Text, Field::Text(text)) => format!(" {name}={}", quoted(text)),
            (LogFormat::Json, Field::Number(number)) => format!(",\"{name}\":{number}"),
            (LogFormat::Json, Field::Text(text)) => format!(",\"{name}\":{}", quoted(text)),
        });
    }
    line.push_str(if format == LogFormat::Json { "}\n" } else { "\n" });
    line
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|letter| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\' | '='))
}

/// As a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control < ' ' || control == '\u{7f}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The time in UTC as RFC 3339 writes it.
fn time(unix_ms: u64) -> String {
    let (day, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let [hour, minute, second] = [ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60];
    let (year, month, day) = date(day);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// Year, month and day of a day since 1970. Years begin in March here, so that the leap day is
/// their last.
fn date(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_what_happened_in_either_format() {
        let fields =
            [("n", Field::Number(7)), ("word", Field::Text("a:1")), ("why", Field::Text("a \"b\"\n"))];
        let of = |format| line(format, 1_700_000_000_123, LogLevel::Warn, "happened", &fields);
        let text = "2023-11-14T22:13:20.123Z warn  happened n=7 word=a:1 why=\"a \\\"b\\\"\\u000a\"\n";
        assert_eq!(of(LogFormat::Text), text);
        let json = "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warn\",\"event\":\"happened\",\"n\":7,\
                    \"word\":\"a:1\",\"why\":\"a \\\"b\\\"\\u000a\"}\n";
        assert_eq!(of(LogFormat::Json), json);
    }

    #[test]
    fn days_have_dates() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(day), expected, "{day}");
        }
    }

    #[test]
    fn too_many_lines_are_left_out_and_counted() {
        let log = Log::new(LogFormat::Text, LogLevel::Off, Arc::new(firn::storage::SystemClock::new()));
        let written = (0..LINES_PER_SECOND_MAX + 7).filter(|_| log.admit(5).0).count() as u64;
        assert_eq!(written, LINES_PER_SECOND_MAX);
        assert_eq!(log.admit(6), (true, 7));
        assert_eq!(log.admit(7), (true, 0));
    }
}
