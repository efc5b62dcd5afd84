//! Which connections are let in: so many at a time, each to the server that shows the newest
//! certificate.
//!
//! ```text
//!   listener ─► Entrance::admit ─► room? first byte? ─► Guests ─► a server, with its certificate
//!                                   │                     ▲
//!                                   └─► closed            └── Entrance::turn: later connections are another server's
//! ```
//! A server keeps the connections that it has when another one takes its place, and ends with the
//! last of them. Each connection has a number, which requests know ([`Line`]), and its end is told.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::Stream;
use tonic::Request;
use tonic::transport::server::{Connected, TlsConnectInfo};

use crate::control::pool::ConnectionId;

/// A connection that says nothing for so long gives its place up.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// How long no connection is accepted after that failed: descriptors are short, as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections of a control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that are there.
    pub open: usize,
    /// So many may be there.
    pub max: usize,
    /// Connections closed as they came since the start, because so many were there.
    pub refused: u64,
}

/// Counts connections, and leads them to the server that serves now.
#[derive(Debug)]
pub(crate) struct Entrance {
    room: Arc<Room>,
    /// No more than there is room for lie in it.
    server: Mutex<UnboundedSender<Guest>>,
}

#[derive(Debug)]
struct Room {
    max: usize,
    open: AtomicUsize,
    refused: AtomicU64,
    /// The next connection's number.
    next: AtomicU64,
    /// Gets the number of each connection that has ended.
    ends: UnboundedSender<ConnectionId>,
}

impl Entrance {
    /// Room for `max`, the connections for the first server, and those that have ended.
    pub(crate) fn new(max: usize) -> (Arc<Self>, Guests, UnboundedReceiver<ConnectionId>) {
        let ((server, guests), (ends, ended)) = (unbounded_channel(), unbounded_channel());
        let (open, refused, next) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let room = Arc::new(Room { max, open, refused, next, ends });
        (Arc::new(Self { room, server: Mutex::new(server) }), Guests(guests), ended)
    }

    /// The connections from now on.
    pub(crate) fn turn(&self) -> Guests {
        let (server, guests) = unbounded_channel();
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
        Guests(guests)
    }

    pub(crate) fn connections(&self) -> Connections {
        Connections {
            open: self.room.open.load(Ordering::Relaxed),
            max: self.room.max,
            refused: self.room.refused.load(Ordering::Relaxed),
        }
    }

    /// Accepts for ever.
    pub(crate) async fn admit(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if let Some(guest) = Room::enter(&self.room, stream) {
                drop(tokio::spawn(Arc::clone(&self).lead(guest)));
            }
        }
    }

    /// Passes `guest` on once it has said something, as clients of all kinds do first.
    async fn lead(self: Arc<Self>, guest: Guest) {
        let mut first = [0];
        let spoken = tokio::time::timeout(SILENT_MAX, guest.stream.peek(&mut first)).await;
        if let Ok(Ok(1..)) = spoken {
            // Where no server serves any more, all ends.
            let _led = self.server.lock().unwrap_or_else(PoisonError::into_inner).send(guest);
        }
    }
}

impl Room {
    /// `stream`, if there is room.
    fn enter(room: &Arc<Self>, stream: TcpStream) -> Option<Guest> {
        let open = room.open.fetch_add(1, Ordering::Relaxed);
        // From here on it leaves when it is dropped.
        let id = ConnectionId(room.next.fetch_add(1, Ordering::Relaxed));
        let line = Line(Arc::new((id, AtomicBool::new(true))));
        let guest = Guest { stream, line, room: Arc::clone(room) };
        if open >= room.max {
            room.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // What is said is short; a connection without this option is slower.
        let _slower = guest.stream.set_nodelay(true);
        Some(guest)
    }
}

/// A connection that was let in; it leaves when it is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    stream: TcpStream,
    line: Line,
    room: Arc<Room>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.room.open.fetch_sub(1, Ordering::Relaxed);
        let (id, is_open) = &*self.line.0;
        is_open.store(false, Ordering::Release);
        // Where no task hears of it, all ends.
        let _heard = self.room.ends.send(*id);
    }
}

/// What requests know of the connection that they came on.
#[derive(Clone, Debug)]
pub(crate) struct Line(Arc<(ConnectionId, AtomicBool)>);

impl Line {
    /// The connection of `request`, while it is open: a request may be looked at after the end of
    /// its connection was told.
    pub(crate) fn of<T>(request: &Request<T>) -> Option<ConnectionId> {
        let extensions = request.extensions();
        let encrypted = || extensions.get::<TlsConnectInfo<Self>>().map(TlsConnectInfo::get_ref);
        let (id, is_open) = &*extensions.get::<Self>().or_else(encrypted)?.0;
        is_open.load(Ordering::Acquire).then_some(*id)
    }
}

/// Connections for one server, as they come.
#[derive(Debug)]
pub(crate) struct Guests(UnboundedReceiver<Guest>);

impl Stream for Guests {
    type Item = Result<Guest, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|guest| guest.map(Ok))
    }
}

impl Connected for Guest {
    type ConnectInfo = Line;

    fn connect_info(&self) -> Line {
        self.line.clone()
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
