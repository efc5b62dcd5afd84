//! Ports that are taken before anything else is done: a start that finds one in use has made and
//! opened nothing.

use std::io;
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
    http: Option<OwnedFd>,
    pub(crate) network: Network,
}

impl Ports {
    /// Takes the ports that `settings` name. Does not block.
    ///
    /// # Errors
    /// `AddrInUse` if another process listens on one of them; what else the system says of an
    /// address. `Unsupported` where the system does not give the network that `settings` ask for.
    pub fn take(settings: &ServeSettings) -> io::Result<Self> {
        let network = net::choose(settings.network)?;
        let clients = bind(SocketAddr::new(settings.bind, settings.port))?;
        let http = settings.http.map(bind).transpose()?;
        Ok(Self { clients, http, network })
    }

    /// Listens from now on: for clients, and by HTTP.
    pub(crate) fn listen(self) -> io::Result<(TcpListener, Option<TcpListener>)> {
        Ok((listen(self.clients)?, self.http.map(listen).transpose()?))
    }
}

/// A socket that has `address`.
fn bind(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // What an earlier process had at this port may still be on its way to the end.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

fn listen(socket: OwnedFd) -> io::Result<TcpListener> {
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}
