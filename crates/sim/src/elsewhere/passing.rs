//! Time that passes while no worker answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_storage::Clock;

/// A clock ahead of another one by what has passed for waiting databases; the calendar is the
/// other's, so that nothing expires sooner.
#[derive(Debug)]
pub(super) struct Passing {
    inner: Arc<dyn Clock>,
    ahead: Mutex<Duration>,
    /// What passes from one look to the next.
    look: Duration,
}

/// Threads that look at the clock until something happens must see it go on.
const LOOK: Duration = Duration::from_millis(50);

impl Passing {
    pub(super) fn new(inner: Arc<dyn Clock>, passes_by_itself: bool) -> Self {
        let look = if passes_by_itself { LOOK } else { Duration::ZERO };
        Self { inner, ahead: Mutex::default(), look }
    }

    /// `time` passes.
    pub(super) fn pass(&self, time: Duration) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead = ahead.saturating_add(time);
    }
}

impl Clock for Passing {
    fn now(&self) -> Duration {
        self.pass(self.look);
        let ahead = *self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.now().saturating_add(ahead)
    }

    fn unix_ms(&self) -> u64 {
        self.inner.unix_ms()
    }

    fn sleep(&self, time: Duration) {
        self.inner.sleep(time);
    }
}
