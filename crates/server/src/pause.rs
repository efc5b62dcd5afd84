//! CLIENT PAUSE: clients wait until it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use firn_protocol::command::{Command, CommandId, Flag, Group, id_of};

/// Which commands wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Paused {
    /// Commands that may write.
    Writes,
    /// All commands.
    All,
}

/// A pause of all clients; shared by all server threads.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// Whose, and until when in milliseconds of the server threads' monotonic clock.
    state: Mutex<Option<(Paused, u64)>>,
    is_on: AtomicBool,
    /// What has expired is neither found nor removed by background work: for tests.
    is_expiry_paused: AtomicBool,
}

impl Pause {
    /// Whether there may be a pause: asked before every request.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Whether writes are paused: nothing is removed for having expired either.
    pub(crate) fn holds_writes(&self, now_ms: u64) -> bool {
        self.is_on() && self.until_ms(true, now_ms).is_some()
    }

    /// Whether what has expired is not to be removed now.
    pub(crate) fn holds_expiry(&self, now_ms: u64) -> bool {
        self.is_expiry_paused.load(Ordering::Relaxed) || self.holds_writes(now_ms)
    }

    /// Whether background work finds and removes what has expired.
    pub(crate) fn set_expiry(&self, is_on: bool) {
        self.is_expiry_paused.store(!is_on, Ordering::Relaxed);
    }

    /// Pauses clients. A pause that is on already is never made shorter or weaker.
    pub(crate) fn begin(&self, paused: Paused, until_ms: u64, now_ms: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let going_on = state.filter(|(_, until_ms)| *until_ms > now_ms);
        *state = Some(match going_on {
            Some((known, known_until_ms)) => (known.max(paused), known_until_ms.max(until_ms)),
            None => (paused, until_ms),
        });
        self.is_on.store(true, Ordering::Release);
    }

    /// Ends the pause.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = None;
        self.is_on.store(false, Ordering::Release);
    }

    /// Until when a command waits, if it does.
    pub(crate) fn until_ms(&self, may_write: bool, now_ms: u64) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (paused, until_ms) = (*state)?;
        if until_ms <= now_ms {
            *state = None;
            self.is_on.store(false, Ordering::Release);
            return None;
        }
        (may_write || paused == Paused::All).then_some(until_ms)
    }
}

/// Whether a command may change what others see, so that a pause of writes concerns it.
pub(crate) fn may_write(command: &'static Command) -> bool {
    const PFCOUNT: CommandId = id_of("pfcount");
    const PUBLISH: CommandId = id_of("publish");
    const SPUBLISH: CommandId = id_of("spublish");
    command.flags.has(Flag::Write)
        || matches!(command.id(), PFCOUNT | PUBLISH | SPUBLISH)
        || (command.group == Group::Scripting && command.has_keys() && !command.flags.has(Flag::ReadOnly))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_never_made_shorter_or_weaker() {
        let pause = Pause::default();
        assert!(!pause.is_on());
        pause.begin(Paused::All, 100, 0);
        pause.begin(Paused::Writes, 50, 0);
        assert_eq!(pause.until_ms(false, 60), Some(100));
        pause.begin(Paused::Writes, 200, 60);
        assert_eq!(pause.until_ms(false, 150), Some(200));
        assert_eq!(pause.until_ms(true, 200), None);
        assert!(!pause.is_on(), "it is over");
        pause.begin(Paused::Writes, 300, 250);
        assert_eq!(pause.until_ms(false, 260), None);
        assert_eq!(pause.until_ms(true, 260), Some(300));
        pause.end();
        assert_eq!(pause.until_ms(true, 260), None);
    }

    #[test]
    fn what_may_write_is_known() {
        let may = |name: &str| may_write(firn_protocol::command::find(name.as_bytes()).unwrap());
        assert!(["set", "publish", "eval", "pfcount"].into_iter().all(may));
        assert!(!["get", "eval_ro", "ping", "subscribe"].into_iter().any(may));
    }
}
