//! What wakes a server thread that waits for its sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes a server thread that waits for its sockets, from any thread.
#[derive(Debug)]
pub(crate) struct Alarm {
    event: OwnedFd,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? }))
    }

    pub(crate) fn ring(&self) {
        // It fails only where it rings already.
        let _ = rustix::io::write(&self.event, &1_u64.to_le_bytes());
    }

    /// Makes it ready to ring again.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
