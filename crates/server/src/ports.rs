//! Ports that are taken before anything else is done: a start that finds one in use has made and
//! opened nothing.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::net;
use crate::settings::{Network, ServeSettings};

/// Connections that wait to be accepted, each port for itself; the system may allow fewer.
const BACKLOG: i32 = 511;

/// The ports of a server that is yet to start. Connections are refused until it listens.
#[derive(Debug)]
pub struct Ports {
    clients: OwnedFd,
    http: Option<HttpPort>,
    pub(crate) network: Network,
}

/// A port for HTTP.
#[derive(Debug)]
struct HttpPort {
    socket: OwnedFd,
    /// The same address with a free port: for the case that another process has this one.
    otherwise: Option<SocketAddr>,
}

impl Ports {
    /// Takes the ports that `settings` name. Does not block.
    ///
    /// # Errors
    /// `AddrInUse` if another process listens on one of them; what else the system says of an
    /// address. `Unsupported` where the system does not give the network that `settings` ask for.
    /// Each but the last with the address that it is about.
    pub fn take(settings: &ServeSettings) -> io::Result<Self> {
        let network = net::choose(settings.network)?;
        let clients = bind(SocketAddr::new(settings.bind, settings.port))?;
        let http = settings.http.map(|address| HttpPort::take(address, settings.http_takes_any));
        Ok(Self { clients, http: http.transpose()?, network })
    }

    /// Listens from now on: for clients, and by HTTP.
    pub(crate) fn listen(self) -> io::Result<(TcpListener, Option<TcpListener>)> {
        Ok((listen(self.clients)?, self.http.map(HttpPort::listen).transpose()?))
    }
}

impl HttpPort {
    fn take(address: SocketAddr, takes_any: bool) -> io::Result<Self> {
        let free = SocketAddr::new(address.ip(), 0);
        match bind(address) {
            Err(error) if takes_any && error.kind() == ErrorKind::AddrInUse => {
                Ok(Self { socket: bind(free)?, otherwise: None })
            }
            bound => Ok(Self { socket: bound?, otherwise: takes_any.then_some(free) }),
        }
    }

    /// Between taking and this another process may have begun to listen.
    fn listen(self) -> io::Result<TcpListener> {
        match (listen(self.socket), self.otherwise) {
            (Err(error), Some(free)) if error.kind() == ErrorKind::AddrInUse => listen(bind(free)?),
            (listener, _) => listener,
        }
    }
}

/// A socket that has `address`.
///
/// # Errors
/// What the system says, with the address.
fn bind(address: SocketAddr) -> io::Result<OwnedFd> {
    open(address).map_err(|error| about(address, &error))
}

fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // What an earlier process had at this port may still be on its way to the end.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

fn listen(socket: OwnedFd) -> io::Result<TcpListener> {
    let listens = rustix::net::listen(&socket, BACKLOG);
    let listener = TcpListener::from(socket);
    match listens {
        Ok(()) => Ok(listener),
        Err(errno) => Err(about(listener.local_addr()?, &errno.into())),
    }
}

/// `error` with the address that it is about.
fn about(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}
