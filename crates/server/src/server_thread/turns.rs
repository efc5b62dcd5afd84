//! Turns of others amid long work.
//!
//! A command that goes over what a client has sized (arguments, members, bytes) says so step by
//! step. As long as it is short it does not look at the clock.

use super::ServerThread;

/// What a step costs beside its bytes, in bytes copied.
const STEP_BYTES: usize = 128;

/// Between two looks at the clock, in bytes copied: some microseconds.
const LOOK_BYTES: usize = 32 << 10;

/// Long work of the task that runs, and since when others have had no turn.
pub(crate) struct Turns<'w> {
    thread: &'w ServerThread,
    /// `None` until the clock was looked at.
    since_ns: Option<u64>,
    unseen_bytes: usize,
}

impl<'w> Turns<'w> {
    /// Work that begins, or may soon.
    pub(crate) fn new(thread: &'w ServerThread) -> Self {
        Self { thread, since_ns: None, unseen_bytes: 0 }
    }

    /// A step is done that has gone over `bytes`: others have a turn if it is time. Goes on at once
    /// where the work must not be suspended.
    #[inline]
    pub(crate) async fn step(&mut self, bytes: usize) {
        self.unseen_bytes = self.unseen_bytes.saturating_add(bytes + STEP_BYTES);
        if self.unseen_bytes > LOOK_BYTES {
            self.look().await;
        }
    }

    async fn look(&mut self) {
        self.unseen_bytes = 0;
        let now_ns = self.thread.monotonic_ns();
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        if now_ns - since_ns >= self.thread.shared.settings.turn_us * 1000 {
            self.thread.breathe().await;
            self.since_ns = Some(self.thread.monotonic_ns());
        }
    }

    /// Gives back what `things` take, a few at a time.
    pub(crate) async fn discard<T>(&mut self, things: impl IntoIterator<Item = T>) {
        for thing in things {
            drop(thing);
            self.step(0).await;
        }
    }
}
