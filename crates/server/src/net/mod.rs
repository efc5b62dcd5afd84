//! Sockets of one worker: never blocks but in [`Sockets::wait`].

mod epoll;

pub(crate) use epoll::{Alarm, Sockets};

/// What happened, told by [`Sockets::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Somebody wants a connection.
    Knock,
    /// There is something to receive, an end of the stream included.
    Readable(u32),
    /// More can be sent.
    Writable(u32),
    /// The worker's alarm was rung.
    Woken,
}

/// What [`Sockets::receive`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes were appended.
    Bytes(usize),
    /// Nothing is there yet: an [`Event::Readable`] will come.
    Nothing,
    /// The other side has closed, or the connection broke.
    End,
}

/// What [`Sockets::send`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The buffer is empty.
    All,
    /// What is left waits for an [`Event::Writable`].
    Some,
    /// Nobody is there any more.
    End,
}
