//! Sockets by io_uring: one system call for all that a round sends, receives and waits for.
//!
//! Receiving is asked for once for each connection and goes on by itself, into buffers that belong
//! to the ring. What came is moved to its connection's inbox at once, so that a slow connection
//! does not keep the buffers from others. [`Sockets::receive`] takes it from there. An inbox that
//! is not emptied grows to [`INBOX_BYTES_MAX`] and by what had come already, at most all buffers of
//! the ring. Then receiving ends until the inbox is taken, and TCP holds the other side back.
//!
//! A send takes the whole output: the caller gets an empty one. It is first tried without waiting,
//! which the kernel answers within the call that hands it over. The rest is sent by an operation
//! that waits; until that is over the next output waits at its owner.

mod buffers; // memory that the kernel receives into
mod kernel; // operations in flight and what they need
mod trial; // whether this kernel can do all that

use std::collections::VecDeque;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::{Alarm, Event, Received, Sent, note_failure};
use kernel::{Answer, Kernel, Patience};

pub(super) use trial::trial;

/// Bytes that may wait in an inbox when a round ends without receiving having to end.
const INBOX_BYTES_MAX: usize = 64 << 10;

/// Memory that an empty inbox and an output that is kept for the next one hold.
const BYTES_KEPT: usize = 64 << 10;

/// Outputs kept for the next sends.
const RECYCLED_MAX: usize = 64;

/// Bytes of a shared message that are copied to be sent at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The sockets of one server thread, by numbers that the caller chooses.
pub(crate) struct Sockets {
    kernel: Kernel,
    alarm: Arc<Alarm>,
    listener: Option<TcpListener>,
    /// How often accepting has failed since that was last asked, and how the last time.
    pub(super) accept_failures: Option<(u64, Errno)>,
    accepted: VecDeque<TcpStream>,
    /// Seats by the caller's numbers.
    seats: Vec<Option<u32>>,
    /// By seat. A connection that left is not here any more, though the kernel may keep the seat.
    connections: Vec<Option<Connection>>,
    /// Seats whose inboxes were too full when something came.
    swollen: Vec<u32>,
    recycled: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Connection {
    /// The caller's number.
    id: u32,
    inbox: Vec<u8>,
    is_receiving: bool,
    /// Receiving was told to end.
    is_stopping: bool,
    /// Nothing comes any more.
    is_over: bool,
    is_sending: bool,
    /// The caller waits for the end of a send.
    is_awaited: bool,
    /// Nothing goes any more.
    is_broken: bool,
}

impl Sockets {
    /// No sockets yet, and an alarm. For the thread that calls, and no other.
    pub(crate) fn new(alarm: Arc<Alarm>) -> io::Result<Self> {
        let mut kernel = Kernel::new()?;
        kernel.watch(&*alarm);
        Ok(Self {
            kernel,
            alarm,
            listener: None,
            accept_failures: None,
            accepted: VecDeque::new(),
            seats: Vec::new(),
            connections: Vec::new(),
            swollen: Vec::new(),
            recycled: Vec::new(),
        })
    }

    /// Tells of connections to `listener` from now on.
    pub(crate) fn listen(&mut self, listener: TcpListener) {
        self.kernel.accept(self.listener.insert(listener));
    }

    /// The next connection that waits, if one does.
    pub(crate) fn accept(&mut self) -> Option<TcpStream> {
        self.accepted.pop_front()
    }

    /// Takes `socket` in under `id`, which must be free.
    pub(crate) fn adopt(&mut self, id: u32, socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let seat = self.kernel.sit(socket.into());
        self.kernel.receive(seat);
        *place(&mut self.seats, id) = Some(seat);
        *place(&mut self.connections, seat) = Some(Connection {
            id,
            inbox: Vec::new(),
            is_receiving: true,
            is_stopping: false,
            is_over: false,
            is_sending: false,
            is_awaited: false,
            is_broken: false,
        });
        Ok(())
    }

    /// Closes the socket and forgets it; `id` is free at once.
    pub(crate) fn close(&mut self, id: u32) {
        if let Some(seat) = self.seats.get_mut(id as usize).and_then(Option::take) {
            self.connections[seat as usize] = None;
            self.kernel.leave(seat);
        }
    }

    fn connection(&mut self, id: u32) -> Option<(u32, &mut Connection)> {
        let seat = (*self.seats.get(id as usize)?)?;
        Some((seat, self.connections.get_mut(seat as usize)?.as_mut()?))
    }

    /// Whether something is there to receive.
    pub(crate) fn is_readable(&self, id: u32) -> bool {
        let seat = self.seats.get(id as usize).copied().flatten();
        let connection = seat.and_then(|seat| self.connections.get(seat as usize)?.as_ref());
        connection.is_some_and(|connection| connection.is_over || !connection.inbox.is_empty())
    }

    /// Whether the other side has said that it sends no more, or is gone.
    pub(crate) fn is_hung_up(&self, id: u32) -> bool {
        let seat = self.seats.get(id as usize).copied().flatten();
        let connection = seat.and_then(|seat| self.connections.get(seat as usize)?.as_ref());
        connection.is_none_or(|connection| connection.is_over)
    }

    /// Appends what has come to `input`.
    pub(crate) fn receive(&mut self, id: u32, input: &mut Vec<u8>) -> Received {
        let Some((seat, connection)) = self.connection(id) else { return Received::End };
        let bytes = connection.inbox.len();
        match bytes {
            0 if connection.is_over => return Received::End,
            0 => return Received::Nothing,
            _ if input.is_empty() => std::mem::swap(input, &mut connection.inbox),
            _ => {
                input.extend_from_slice(&connection.inbox);
                connection.inbox.clear();
            }
        }
        connection.inbox.shrink_to(BYTES_KEPT);
        if !connection.is_receiving && !connection.is_over {
            connection.is_receiving = true;
            self.kernel.receive(seat);
        }
        Received::Bytes(bytes)
    }

    /// Takes `output` to be sent, unless what was taken before has not gone.
    pub(crate) fn send(&mut self, id: u32, output: &mut Vec<u8>) -> Sent {
        let Some((seat, connection)) = self.connection(id) else { return Sent::End };
        if connection.is_broken {
            return Sent::End;
        }
        if output.is_empty() {
            return Sent::All;
        }
        if connection.is_sending {
            connection.is_awaited = true;
            return Sent::Some;
        }
        connection.is_sending = true;
        let bytes = std::mem::replace(output, self.recycled.pop().unwrap_or_default());
        self.kernel.send(seat, bytes, 0, Patience::None);
        Sent::All
    }

    /// Takes the next piece of `shared` from `sent` on to be sent, which is copied: the kernel
    /// reads memory of the ring's own.
    pub(crate) fn send_shared(&mut self, id: u32, shared: &[u8], sent: &mut usize) -> Sent {
        if let Some((_, connection)) = self.connection(id)
            && connection.is_sending
            && !connection.is_broken
        {
            connection.is_awaited = true;
            return Sent::Some;
        }
        let end = shared.len().min(*sent + PIECE_BYTES);
        let mut piece = shared.get(*sent..end).unwrap_or_default().to_vec();
        let outcome = self.send(id, &mut piece);
        if outcome == Sent::All {
            *sent = end;
        }
        outcome
    }

    /// Waits until something happens, or `timeout` (`None` = for ever), and tells `sink` of it.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, sink: &mut dyn FnMut(Event)) -> io::Result<()> {
        self.hold_back();
        self.kernel.enter(timeout)?;
        while let Some(answer) = self.kernel.next() {
            match answer {
                Answer::Received { seat, bytes, goes_on } => {
                    let Some(Some(connection)) = self.connections.get_mut(seat as usize) else { continue };
                    if connection.inbox.is_empty() {
                        sink(Event::Readable(connection.id));
                    }
                    connection.inbox.extend_from_slice(bytes);
                    if connection.inbox.len() > INBOX_BYTES_MAX {
                        self.swollen.push(seat);
                    }
                    if !goes_on {
                        self.receiving_ended(seat, false, sink);
                    }
                }
                Answer::ReceivingEnded { seat, is_over } => self.receiving_ended(seat, is_over, sink),
                Answer::Sent { seat, bytes, from, sent } => self.sent(seat, bytes, from, sent, sink),
                Answer::Rang { goes_on } => {
                    self.alarm.silence();
                    if !goes_on {
                        self.kernel.watch(&*self.alarm);
                    }
                    sink(Event::Woken);
                }
                Answer::Accepted { socket, goes_on } => {
                    self.accepted.push_back(socket.into());
                    if !goes_on {
                        self.accept_again();
                    }
                    sink(Event::Knock);
                }
                Answer::PauseEnded
                | Answer::AcceptingEnded(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED) => {
                    self.accept_again();
                }
                // Something is short, descriptors for one.
                Answer::AcceptingEnded(error) => {
                    note_failure(&mut self.accept_failures, error);
                    self.kernel.pause_accepting();
                }
            }
        }
        Ok(())
    }

    /// Ends receiving where too much waits to be taken.
    fn hold_back(&mut self) {
        for seat in self.swollen.drain(..) {
            let Some(Some(connection)) = self.connections.get_mut(seat as usize) else { continue };
            let is_swollen = connection.inbox.len() > INBOX_BYTES_MAX;
            if is_swollen && connection.is_receiving && !connection.is_stopping {
                connection.is_stopping = true;
                self.kernel.stop_receiving(seat);
            }
        }
    }

    fn receiving_ended(&mut self, seat: u32, is_over: bool, sink: &mut dyn FnMut(Event)) {
        let Some(Some(connection)) = self.connections.get_mut(seat as usize) else { return };
        connection.is_stopping = false;
        connection.is_over = is_over;
        // What is too much waits for `receive`; else it ended for want of buffers, or by mistake.
        connection.is_receiving = !is_over && connection.inbox.len() <= INBOX_BYTES_MAX;
        if connection.is_receiving {
            self.kernel.receive(seat);
        }
        if is_over && connection.inbox.is_empty() {
            sink(Event::Readable(connection.id));
        }
    }

    fn sent(
        &mut self,
        seat: u32,
        mut bytes: Vec<u8>,
        from: usize,
        sent: Result<usize, Errno>,
        sink: &mut dyn FnMut(Event),
    ) {
        let connection = self.connections.get_mut(seat as usize).and_then(Option::as_mut);
        let gone = match sent {
            Ok(count) => Some(from + count),
            Err(Errno::AGAIN | Errno::INTR) => Some(from),
            Err(_) => None,
        };
        if let Some(connection) = connection {
            match gone {
                Some(gone) if gone < bytes.len() => {
                    return self.kernel.send(seat, bytes, gone, Patience::Endless);
                }
                Some(_) => {}
                None => connection.is_broken = true,
            }
            connection.is_sending = false;
            if std::mem::take(&mut connection.is_awaited) {
                sink(Event::Writable(connection.id));
            }
        }
        if self.recycled.len() < RECYCLED_MAX {
            bytes.clear();
            bytes.shrink_to(BYTES_KEPT);
            self.recycled.push(bytes);
        }
    }

    fn accept_again(&mut self) {
        if let Some(listener) = &self.listener {
            self.kernel.accept(listener);
        }
    }
}

/// The place of `index`, made if it is not there.
fn place<T>(places: &mut Vec<Option<T>>, index: u32) -> &mut Option<T> {
    let index = index as usize;
    if places.len() <= index {
        places.resize_with(index + 1, || None);
    }
    &mut places[index]
}
