//! Slow commands in the log: the first of each command, and how many more there were.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Seconds between two lines about one command.
pub(super) const LINE_S: u64 = 10;

/// What was slow since the last line about each command.
#[derive(Debug, Default)]
pub(super) struct SlowCommands {
    by_name: Mutex<BTreeMap<String, Slow>>,
}

/// One command, since its last line.
#[derive(Debug)]
struct Slow {
    /// The second of that line.
    line_s: u64,
    more: u64,
    us_max: u64,
}

/// Slow commands that had no line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct More {
    pub(super) command: String,
    pub(super) count: u64,
    /// In so many seconds.
    pub(super) seconds: u64,
    /// How long the slowest took.
    pub(super) us_max: u64,
}

impl SlowCommands {
    /// `command` took `us` microseconds in the second `now_s`; whether it has a line of its own.
    pub(super) fn note(&self, command: &str, us: u64, now_s: u64) -> bool {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slow) = by_name.get_mut(command) {
            slow.more += 1;
            slow.us_max = slow.us_max.max(us);
            return false;
        }
        by_name.insert(command.to_owned(), Slow { line_s: now_s, more: 0, us_max: 0 });
        true
    }

    /// Commands whose last line is [`LINE_S`] seconds old at `now_s`, and that were slow again
    /// since. The next one that is slow has a line. A clock that was set back tells at once.
    pub(super) fn take_due(&self, now_s: u64) -> Vec<More> {
        self.take(|slow| now_s.checked_sub(slow.line_s).is_none_or(|age| age >= LINE_S), now_s)
    }

    /// The same of all commands, of a server that ends.
    pub(super) fn take_all(&self, now_s: u64) -> Vec<More> {
        self.take(|_| true, now_s)
    }

    fn take(&self, is_due: impl Fn(&Slow) -> bool, now_s: u64) -> Vec<More> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let due = by_name.extract_if(.., |_, slow| is_due(slow));
        let more = due.filter(|(_, slow)| slow.more > 0).map(|(command, slow)| More {
            command,
            count: slow.more,
            seconds: now_s.saturating_sub(slow.line_s).max(1),
            us_max: slow.us_max,
        });
        more.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_line_in_a_while_and_the_rest_is_counted() {
        let slow = SlowCommands::default();
        assert!(slow.note("get", 5, 100));
        assert!(slow.note("set", 5, 101));
        assert!((0..7).all(|us| !slow.note("get", us, 103)));
        assert_eq!(slow.take_due(109), []);
        let more = More { command: "get".to_owned(), count: 7, seconds: 10, us_max: 6 };
        assert_eq!(slow.take_due(110), [more]);
        assert_eq!(slow.take_due(115), [], "nothing more of set");
        assert!(slow.note("get", 5, 115) && slow.note("set", 5, 115) && !slow.note("set", 9, 116));
        let more = More { command: "set".to_owned(), count: 1, seconds: 2, us_max: 9 };
        assert_eq!(slow.take_all(117), [more]);
    }

    #[test]
    fn a_clock_that_was_set_back_keeps_nothing_waiting() {
        let slow = SlowCommands::default();
        assert!(slow.note("get", 5, 100) && !slow.note("get", 6, 100));
        assert_eq!(slow.take_due(50).len(), 1);
    }
}
