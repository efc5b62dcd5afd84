//! Sockets by epoll, edge-triggered.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use super::{ACCEPT_PAUSE, Alarm, Event, Received, Sent, note_failure};

/// What numbers in the kernel's answers mean; others are sockets.
const LISTENER: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;
const PAUSE: u64 = u64::MAX - 2;

/// Events taken at a time.
const EVENTS_MAX: usize = 256;

/// Room made for what is received.
const RECEIVE_BYTES: usize = 16 << 10;

/// The sockets of one server thread, by numbers that the caller chooses.
pub(crate) struct Sockets {
    epoll: OwnedFd,
    alarm: Arc<Alarm>,
    listener: Option<TcpListener>,
    /// How often accepting has failed since that was last asked, and how the last time.
    pub(super) accept_failures: Option<(u64, Errno)>,
    /// Ends a pause of accepting.
    pause: OwnedFd,
    streams: Vec<Option<Stream>>,
    events: Vec<epoll::Event>,
}

#[derive(Debug)]
struct Stream {
    socket: TcpStream,
    /// Something may be there: the edge was seen, and not everything taken since.
    is_readable: bool,
    /// The end was told, which is told once: it comes after everything else.
    is_ending: bool,
}

impl Sockets {
    /// No sockets yet, and an alarm.
    pub(crate) fn new(alarm: Arc<Alarm>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let pause = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&epoll, &alarm, epoll::EventData::new_u64(ALARM), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &pause, epoll::EventData::new_u64(PAUSE), epoll::EventFlags::IN)?;
        let events = Vec::with_capacity(EVENTS_MAX);
        Ok(Self { epoll, alarm, listener: None, accept_failures: None, pause, streams: Vec::new(), events })
    }

    /// Tells of connections to `listener` from now on.
    pub(crate) fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        epoll::add(&self.epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// The next connection that waits at the listener, if one does.
    pub(crate) fn accept(&mut self) -> Option<TcpStream> {
        loop {
            match rustix::net::accept_with(self.listener.as_ref()?, SocketFlags::CLOEXEC) {
                Ok(socket) => return Some(socket.into()),
                Err(Errno::AGAIN) => return None,
                // One connection's: the next may be well.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    note_failure(&mut self.accept_failures, error);
                    self.pause_accepting();
                    return None;
                }
            }
        }
    }

    /// Something is short, descriptors for one, and the listener would tell of that for ever: it is
    /// not asked for a while.
    fn pause_accepting(&self) {
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: 0, tv_nsec: i64::from(ACCEPT_PAUSE.subsec_nanos()) },
        };
        if rustix::time::timerfd_settime(&self.pause, TimerfdTimerFlags::empty(), &once).is_ok() {
            self.watch_listener(epoll::EventFlags::empty());
        }
    }

    fn watch_listener(&self, flags: epoll::EventFlags) {
        if let Some(listener) = &self.listener {
            // It fails for want of memory alone, and then the listener stays as it was.
            let _ = epoll::modify(&self.epoll, listener, epoll::EventData::new_u64(LISTENER), flags);
        }
    }

    /// Takes `socket` in under `id`, which must be free.
    pub(crate) fn adopt(&mut self, id: u32, socket: TcpStream) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(u64::from(id)), flags)?;
        let index = id as usize;
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, || None);
        }
        self.streams[index] = Some(Stream { socket, is_readable: true, is_ending: false });
        Ok(())
    }

    /// Closes the socket and forgets it.
    pub(crate) fn close(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id as usize) {
            *stream = None;
        }
    }

    /// Whether something may be there to receive.
    pub(crate) fn is_readable(&self, id: u32) -> bool {
        matches!(self.streams.get(id as usize), Some(Some(stream)) if stream.is_readable)
    }

    /// Whether the other side has said that it sends no more, or is gone.
    pub(crate) fn is_hung_up(&self, id: u32) -> bool {
        !matches!(self.streams.get(id as usize), Some(Some(stream)) if !stream.is_ending)
    }

    /// Appends what has come to `input`.
    pub(crate) fn receive(&mut self, id: u32, input: &mut Vec<u8>) -> Received {
        let Some(Some(stream)) = self.streams.get_mut(id as usize) else { return Received::End };
        if !stream.is_readable {
            return Received::Nothing;
        }
        input.reserve(RECEIVE_BYTES);
        let room = input.capacity() - input.len();
        loop {
            return match rustix::net::recv(&stream.socket, spare_capacity(input), RecvFlags::empty()) {
                Ok((0, _)) => Received::End,
                Ok((bytes, _)) => {
                    // Less than there was room for: that was all, and the next edge will be told.
                    stream.is_readable = bytes == room || stream.is_ending;
                    Received::Bytes(bytes)
                }
                Err(Errno::AGAIN) => {
                    stream.is_readable = false;
                    Received::Nothing
                }
                Err(Errno::INTR) => continue,
                Err(_) => Received::End,
            };
        }
    }

    /// Sends `output` from its front, as much as goes, and drops what went.
    pub(crate) fn send(&mut self, id: u32, output: &mut Vec<u8>) -> Sent {
        self.send_own(id, output, SendFlags::NOSIGNAL)
    }

    /// The same of bytes that others follow soon: the system may wait for those.
    pub(crate) fn send_more(&mut self, id: u32, output: &mut Vec<u8>) -> Sent {
        self.send_own(id, output, SendFlags::NOSIGNAL | SendFlags::MORE)
    }

    /// Sends `shared` from `sent` on, as much as goes, and raises `sent` by that. Others follow
    /// soon.
    pub(crate) fn send_shared(&mut self, id: u32, shared: &[u8], sent: &mut usize) -> Sent {
        self.send_from(id, shared, sent, SendFlags::NOSIGNAL | SendFlags::MORE)
    }

    fn send_own(&mut self, id: u32, output: &mut Vec<u8>, flags: SendFlags) -> Sent {
        let mut sent = 0;
        let outcome = self.send_from(id, output, &mut sent, flags);
        match outcome {
            Sent::All => output.clear(),
            Sent::Some => drop(output.drain(..sent)),
            Sent::End => {}
        }
        outcome
    }

    fn send_from(&mut self, id: u32, bytes: &[u8], sent: &mut usize, flags: SendFlags) -> Sent {
        let Some(Some(stream)) = self.streams.get_mut(id as usize) else { return Sent::End };
        while let Some(rest) = bytes.get(*sent..).filter(|rest| !rest.is_empty()) {
            match rustix::net::send(&stream.socket, rest, flags) {
                Ok(bytes) => *sent += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Sent::Some,
                Err(_) => return Sent::End,
            }
        }
        Sent::All
    }

    /// Waits until something happens, or `timeout` (`None` = for ever), and tells `sink` of it.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, sink: &mut dyn FnMut(Event)) -> io::Result<()> {
        self.events.clear();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            let number = event.data.u64();
            match number {
                LISTENER => sink(Event::Knock),
                ALARM => {
                    self.alarm.silence();
                    sink(Event::Woken);
                }
                PAUSE => {
                    let _ = rustix::io::read(&self.pause, &mut [0_u8; 8]);
                    self.watch_listener(epoll::EventFlags::IN);
                }
                number => {
                    let id = number as u32;
                    let Some(Some(stream)) = self.streams.get_mut(id as usize) else { continue };
                    let flags = event.flags;
                    let ending = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                    stream.is_ending |= flags.intersects(ending);
                    if flags.intersects(ending | epoll::EventFlags::IN) {
                        stream.is_readable = true;
                        sink(Event::Readable(id));
                    }
                    if flags.contains(epoll::EventFlags::OUT) {
                        sink(Event::Writable(id));
                    }
                }
            }
        }
        Ok(())
    }
}
