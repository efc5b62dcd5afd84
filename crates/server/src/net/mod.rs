//! Sockets of one server thread: never blocks but in [`Sockets::wait`].

mod alarm;
mod epoll; // a call for each thing received or sent
#[expect(unsafe_code, reason = "the kernel reads and writes memory between calls")]
mod ring; // one call for everything of a round: the only unsafe code of this crate

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use alarm::Alarm;

use rustix::io::Errno;
use rustix::net::sockopt;

use crate::settings::Network;

/// How long no connection is accepted after accepting failed: descriptors or memory were short, and
/// trying again at once is no use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Notes one more failure to accept.
fn note_failure(failures: &mut Option<(u64, Errno)>, why: Errno) {
    let count = failures.map_or(0, |(count, _)| count);
    *failures = Some((count + 1, why));
}

/// What happened, as [`Sockets::wait`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A connection waits to be accepted.
    Knock,
    /// There is something to receive, an end of the stream included.
    Readable(u32),
    /// More can be sent.
    Writable(u32),
    /// The server thread's alarm was rung.
    Woken,
}

/// The outcome of [`Sockets::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes were appended.
    Bytes(usize),
    /// Nothing is there yet: an [`Event::Readable`] will come.
    Nothing,
    /// The other side has closed, or the connection broke.
    End,
}

/// The outcome of [`Sockets::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The buffer is empty.
    All,
    /// What is left waits for an [`Event::Writable`].
    Some,
    /// The connection is gone.
    End,
}

/// What `wish` comes to on this machine: never [`Network::Auto`].
///
/// # Errors
/// `Unsupported` where a ring is wished for and the kernel does not give it, with its reason.
pub(crate) fn choose(wish: Network) -> io::Result<Network> {
    match wish {
        // A ring costs as much where it was measured, and needs more of the kernel:
        // docs/decisions/0022-server-threads.md.
        Network::Auto | Network::Epoll => Ok(Network::Epoll),
        Network::Ring => ring::trial().map(|()| Network::Ring),
    }
}

/// After `silence_s` of silence the system asks whether the other side of `socket` is there; 0 =
/// never. When several questions stay unanswered for about as long again, the connection is over.
///
/// # Errors
/// What the system says.
pub(crate) fn keep_alive(socket: &TcpStream, silence_s: u32) -> io::Result<()> {
    const QUESTIONS: u32 = 3;
    if silence_s == 0 {
        return Ok(());
    }
    let silence = Duration::from_secs(u64::from(silence_s));
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, silence)?;
    sockopt::set_tcp_keepintvl(socket, (silence / QUESTIONS).max(Duration::from_secs(1)))?;
    sockopt::set_tcp_keepcnt(socket, QUESTIONS)?;
    Ok(())
}

/// The sockets of one server thread, by numbers that the caller chooses.
pub(crate) enum Sockets {
    Epoll(epoll::Sockets),
    Ring(Box<ring::Sockets>),
}

impl Sockets {
    /// No sockets yet, and an alarm, by a network that was [chosen](choose). For the thread that
    /// calls, and no other.
    pub(crate) fn new(network: Network, alarm: Arc<Alarm>) -> io::Result<Self> {
        Ok(match network {
            Network::Epoll => Self::Epoll(epoll::Sockets::new(alarm)?),
            Network::Ring | Network::Auto => Self::Ring(Box::new(ring::Sockets::new(alarm)?)),
        })
    }

    /// Tells of connections to `listener` from now on.
    pub(crate) fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        match self {
            Self::Epoll(sockets) => sockets.listen(listener),
            Self::Ring(sockets) => {
                sockets.listen(listener);
                Ok(())
            }
        }
    }

    /// The next connection that waits at the listener, if one does.
    pub(crate) fn accept(&mut self) -> Option<TcpStream> {
        match self {
            Self::Epoll(sockets) => sockets.accept(),
            Self::Ring(sockets) => sockets.accept(),
        }
    }

    /// How often accepting has failed since this was last asked, and how the last time.
    pub(crate) fn take_accept_failures(&mut self) -> Option<(u64, Errno)> {
        match self {
            Self::Epoll(sockets) => sockets.accept_failures.take(),
            Self::Ring(sockets) => sockets.accept_failures.take(),
        }
    }

    /// Takes `socket` in under `id`, which must be free.
    pub(crate) fn adopt(&mut self, id: u32, socket: TcpStream) -> io::Result<()> {
        match self {
            Self::Epoll(sockets) => sockets.adopt(id, socket),
            Self::Ring(sockets) => sockets.adopt(id, socket),
        }
    }

    /// Closes the socket and forgets it; what was taken to be sent and goes at once is sent.
    pub(crate) fn close(&mut self, id: u32) {
        match self {
            Self::Epoll(sockets) => sockets.close(id),
            Self::Ring(sockets) => sockets.close(id),
        }
    }

    /// Whether something may be there to receive.
    #[inline]
    pub(crate) fn is_readable(&self, id: u32) -> bool {
        match self {
            Self::Epoll(sockets) => sockets.is_readable(id),
            Self::Ring(sockets) => sockets.is_readable(id),
        }
    }

    /// Whether the other side has said that it sends no more, or is gone.
    pub(crate) fn is_hung_up(&self, id: u32) -> bool {
        match self {
            Self::Epoll(sockets) => sockets.is_hung_up(id),
            Self::Ring(sockets) => sockets.is_hung_up(id),
        }
    }

    /// Appends what has come to `input`.
    #[inline]
    pub(crate) fn receive(&mut self, id: u32, input: &mut Vec<u8>) -> Received {
        match self {
            Self::Epoll(sockets) => sockets.receive(id, input),
            Self::Ring(sockets) => sockets.receive(id, input),
        }
    }

    /// Takes from the front of `output` what can be sent, or all of it if nothing taken before
    /// waits to go.
    #[inline]
    pub(crate) fn send(&mut self, id: u32, output: &mut Vec<u8>) -> Sent {
        match self {
            Self::Epoll(sockets) => sockets.send(id, output),
            Self::Ring(sockets) => sockets.send(id, output),
        }
    }

    /// The same of bytes that others follow soon.
    pub(crate) fn send_more(&mut self, id: u32, output: &mut Vec<u8>) -> Sent {
        match self {
            Self::Epoll(sockets) => sockets.send_more(id, output),
            Self::Ring(sockets) => sockets.send(id, output),
        }
    }

    /// The same of bytes that others are sent too, of which `sent` are gone: raises it by what was
    /// taken.
    pub(crate) fn send_shared(&mut self, id: u32, shared: &[u8], sent: &mut usize) -> Sent {
        match self {
            Self::Epoll(sockets) => sockets.send_shared(id, shared, sent),
            Self::Ring(sockets) => sockets.send_shared(id, shared, sent),
        }
    }

    /// Waits until something happens, or `timeout` (`None` = for ever), and tells `sink` of it.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, sink: &mut dyn FnMut(Event)) -> io::Result<()> {
        match self {
            Self::Epoll(sockets) => sockets.wait(timeout, sink),
            Self::Ring(sockets) => sockets.wait(timeout, sink),
        }
    }
}

#[cfg(test)]
mod tests;
