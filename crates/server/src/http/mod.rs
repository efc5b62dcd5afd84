//! A small HTTP server beside the Redis protocol: metrics, health and a page for people.
//!
//! ```text
//!   knock ─► connection (head, answer, linger) ─► request (what is asked for)
//!         ─► a site (by path) ─► answer: metrics, page
//! ```
//! What is answered is a [`Site`]'s: `database_site` is that of a server, and programs of other
//! kinds have their own.
//!
//! One thread waits for all its sockets and answers at once: nothing here waits for the engine.
//! Everything is bounded: a head has 8 KiB, there are 64 connections, and each is over after some
//! seconds. A connection has one request. A new connection replaces the oldest one without a
//! request, so that silent connections keep no other out.
//!
//! # Not here
//! - Users' data: any client of the port sees counters and names of commands, never keys or values.

mod request;
mod connection;
mod answer;
mod page;
mod exposition;
mod database_site;
mod disk;
mod status;
mod database_metrics;
mod backup;

pub use answer::{Answer, Reply, Site};
pub(crate) use database_site::DatabaseSite;
pub use exposition::{Exposition, Kind};
pub use request::Request;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn::storage::{Clock, Priority, Spawn, ThreadSpawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bounds::HTTP_CONNECTIONS_MAX;
use crate::net::Alarm;
use connection::Connection;

/// Connections that are accepted before the present ones go on.
const ACCEPTED_AT_ONCE: usize = HTTP_CONNECTIONS_MAX / 2;

/// How long it is waited without looking at what has become late.
const ROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// How long no connection is accepted after that failed: descriptors were short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Answers by HTTP what a [`Site`] says. Ends when it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    end: Arc<End>,
    threads: ThreadSpawn,
}

/// How the thread is told that it is over.
#[derive(Debug)]
struct End {
    is_wanted: AtomicBool,
    alarm: Arc<Alarm>,
}

impl HttpServer {
    /// Answers on `listener` from now on. One thread of its own answers what `site` says.
    ///
    /// # Errors
    /// What the system says of the listener or of threads.
    pub fn start(listener: TcpListener, clock: Arc<dyn Clock>, site: Box<dyn Site>) -> io::Result<Self> {
        Self::start_with(listener, clock, |_| site)
    }

    /// As `start`, on `listener`, with a site that may promise answers: the alarm is to be rung
    /// when one is there.
    pub(crate) fn start_with(
        listener: TcpListener,
        clock: Arc<dyn Clock>,
        site: impl FnOnce(Arc<Alarm>) -> Box<dyn Site>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let end = Arc::new(End { is_wanted: AtomicBool::new(false), alarm: Alarm::new()? });
        let threads = ThreadSpawn::new();
        let mut rounds = Rounds {
            site: site(Arc::clone(&end.alarm)),
            clock,
            end: Arc::clone(&end),
            listener,
            connections: Vec::new(),
            accept_from: Duration::ZERO,
        };
        let body = Box::new(move || rounds.run());
        threads.spawn("firn-http".to_owned(), Priority::Normal, body).map_err(io::Error::other)?;
        Ok(Self { address, end, threads })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes every connection, and waits for that.
    pub fn stop(&self) {
        self.end.is_wanted.store(true, Ordering::Release);
        self.end.alarm.ring();
        self.threads.join_all();
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread has.
struct Rounds {
    site: Box<dyn Site>,
    clock: Arc<dyn Clock>,
    end: Arc<End>,
    listener: TcpListener,
    connections: Vec<Connection>,
    /// No connection is accepted before.
    accept_from: Duration,
}

impl Rounds {
    fn run(&mut self) {
        while !self.end.is_wanted.load(Ordering::Acquire) {
            let is_open = self.wait();
            self.end.alarm.silence();
            let now = self.clock.now();
            if is_open {
                self.accept(now);
            }
            let site = &*self.site;
            self.connections.retain_mut(|connection| connection.go_on(site, now));
        }
    }

    /// Until there is something to do; whether a connection may be accepted.
    fn wait(&self) -> bool {
        let is_open = self.clock.now() >= self.accept_from;
        let mut wanted = vec![PollFd::new(&*self.end.alarm, PollFlags::IN)];
        if is_open {
            wanted.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        // Connections that wait for a backup are woken by the alarm.
        for connection in self.connections.iter().filter(|connection| !connection.is_waiting()) {
            let flags = if connection.is_sending() { PollFlags::OUT } else { PollFlags::IN };
            wanted.push(PollFd::new(connection.stream(), flags));
        }
        let is_idle = self.connections.is_empty() && is_open;
        // A signal ends it as well: then there is nothing to do.
        let _ = poll(&mut wanted, if is_idle { None } else { Some(&ROUND) });
        is_open
    }

    /// Whether there is room for one more: the oldest that has not asked yet goes for it, else the
    /// oldest that was answered.
    fn make_room(&mut self) -> bool {
        if self.connections.len() < HTTP_CONNECTIONS_MAX {
            return true;
        }
        let silent = self.connections.iter().position(Connection::is_asking);
        let place = silent.or_else(|| self.connections.iter().position(Connection::is_answered));
        place.map(|place| self.connections.remove(place)).is_some()
    }

    fn accept(&mut self, now: Duration) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    if let Some(connection) = Connection::new(stream, peer, now)
                        && self.make_room()
                    {
                        self.connections.push(connection);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.accept_from = now + ACCEPT_PAUSE;
                    return;
                }
            }
        }
    }
}
