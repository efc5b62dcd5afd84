//! The script that a thread runs right now, as other threads see it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Says that it is to be killed.
const KILLED: u64 = 1;

/// Since when a thread runs a script without a turn of others, and whether that is to be killed.
///
/// Zero where none runs; else the nanoseconds of the clock that never goes back, times two, and
/// [`KILLED`].
#[derive(Debug, Default)]
pub(crate) struct Running(AtomicU64);

/// What killing has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No script, or one that began later.
    Nothing,
    /// A script that runs for so short a time that it may be over in a moment, and was left alone.
    Young,
    /// A script that was killed.
    Old,
}

impl Running {
    /// The thread goes on with a script.
    pub(crate) fn begin(&self, now_ns: u64) {
        self.0.store(now_ns.max(1) << 1, Ordering::Release);
    }

    /// Others have their turn, or it has ended: whether it was killed.
    pub(crate) fn end(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) & KILLED != 0
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.0.load(Ordering::Acquire) & KILLED != 0
    }

    /// Kills the script that runs since `old_ns` or longer; one that began until `asked_ns` is
    /// told.
    pub(crate) fn kill(&self, old_ns: u64, asked_ns: u64) -> Found {
        let seen = self.0.load(Ordering::Acquire);
        let since_ns = seen >> 1;
        if since_ns == 0 || since_ns > asked_ns {
            return Found::Nothing;
        }
        if since_ns > old_ns {
            return Found::Young;
        }
        // What is another one by now was not meant.
        match self.0.compare_exchange(seen, seen | KILLED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Found::Old,
            Err(_) => Found::Young,
        }
    }

    /// Whether a script keeps the thread since `since_ns` or longer.
    pub(crate) fn is_kept_since(&self, since_ns: u64) -> bool {
        let began_ns = self.0.load(Ordering::Relaxed) >> 1;
        began_ns != 0 && began_ns <= since_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_for_a_while_is_killed_and_what_began_later_is_not() {
        let running = Running::default();
        assert_eq!(running.kill(100, 100), Found::Nothing);
        running.begin(50);
        assert_eq!((running.kill(40, 100), running.is_killed()), (Found::Young, false));
        assert_eq!((running.kill(10, 40), running.is_killed()), (Found::Nothing, false));
        assert!(running.is_kept_since(50) && !running.is_kept_since(49));
        assert_eq!((running.kill(50, 100), running.is_killed()), (Found::Old, true));
        assert_eq!(running.kill(50, 100), Found::Old, "a second time it is killed as well");
        assert!(running.end());
        running.begin(60);
        assert!(!running.is_killed() && !running.end());
        assert!(!running.is_kept_since(u64::MAX));
    }
}
