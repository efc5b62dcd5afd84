//! Sockets by epoll, edge by edge.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::{Event, Received, Sent};

/// What numbers in the kernel's answers mean; others are sockets.
const LISTENER: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;

/// Events taken at a time.
const EVENTS_MAX: usize = 256;

/// Room made for what is received.
const RECEIVE_BYTES: usize = 16 << 10;

/// Wakes a worker that waits for its sockets, from any thread.
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

    fn silence(&self) {
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
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

/// The sockets of one worker, by numbers that the caller chooses.
pub(crate) struct Sockets {
    epoll: OwnedFd,
    alarm: Arc<Alarm>,
    listener: Option<TcpListener>,
    streams: Vec<Option<Stream>>,
    events: Vec<epoll::Event>,
}

#[derive(Debug)]
struct Stream {
    socket: TcpStream,
    /// The other side sends no more: what it sent before may still be there.
    is_hung_up: bool,
    /// Something may be there: the edge was seen, and not everything taken since.
    is_readable: bool,
}

impl Sockets {
    /// No sockets yet, and an alarm.
    pub(crate) fn new(alarm: Arc<Alarm>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &alarm.event, epoll::EventData::new_u64(ALARM), epoll::EventFlags::IN)?;
        Ok(Self { epoll, alarm, listener: None, streams: Vec::new(), events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Tells of connections to `listener` from now on.
    pub(crate) fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        epoll::add(&self.epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// The next connection that waits at the listener, if one does.
    pub(crate) fn accept(&self) -> Option<TcpStream> {
        // What fails here is one connection's, or passes: whoever is still there knocks again.
        Some(self.listener.as_ref()?.accept().ok()?.0)
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
        self.streams[index] = Some(Stream { socket, is_hung_up: false, is_readable: true });
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
        !matches!(self.streams.get(id as usize), Some(Some(stream)) if !stream.is_hung_up)
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
                    stream.is_readable = bytes == room;
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
        let Some(Some(stream)) = self.streams.get_mut(id as usize) else { return Sent::End };
        let mut sent = 0;
        while let Some(rest) = output.get(sent..).filter(|rest| !rest.is_empty()) {
            match rustix::net::send(&stream.socket, rest, SendFlags::NOSIGNAL) {
                Ok(bytes) => sent += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    output.drain(..sent);
                    return Sent::Some;
                }
                Err(_) => return Sent::End,
            }
        }
        output.clear();
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
                number => {
                    let id = number as u32;
                    let Some(Some(stream)) = self.streams.get_mut(id as usize) else { continue };
                    let flags = event.flags;
                    let readable = epoll::EventFlags::IN
                        | epoll::EventFlags::RDHUP
                        | epoll::EventFlags::HUP
                        | epoll::EventFlags::ERR;
                    if flags.intersects(readable) {
                        stream.is_readable = true;
                        stream.is_hung_up |= !flags.intersection(readable - epoll::EventFlags::IN).is_empty();
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
