//! A link to another zone: a port of this machine that leads to another one, and everything takes a
//! while each way.
//!
//! ```text
//!   client ─► accept ─► read ─► line (bytes, when they are due) ─► write ─► target
//!                       write ◄─ line ◄─ read ◄───────────────────────────────┘
//! ```
//! Bytes that follow one another keep their distance, so that latency grows and bandwidth does not
//! suffer. A line holds 256 pieces of at most 64 KiB; a side that sends faster than they leave
//! waits.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use firn::storage::{Priority, Spawn, ThreadSpawn};
use firn_engine::{Error, Result};

use crate::measure::{now, sleep, sleep_until};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces under way in one direction of a connection.
const LINE_MAX: usize = 256;

/// A link that lasts until it is dropped; connections that it has then last until one side ends
/// them.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
}

impl Proxy {
    /// Listens on a free port, on loopback; connections to it reach `target`, each byte `delay`
    /// later.
    ///
    /// # Errors
    /// The port cannot be listened at, or there is no thread.
    pub(super) fn to(target: SocketAddr, delay: Duration) -> Result<Self> {
        let failed = |error: std::io::Error| Error::invalid("cannot listen on 127.0.0.1").because(error);
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let ended = Arc::new(AtomicBool::new(false));
        let (until, sent) = (Arc::clone(&ended), Arc::<AtomicU64>::default());
        let link = Link { target, delay, sent: Arc::clone(&sent) };
        begin(&ThreadSpawn::new(), "proxy-accept", move || accept(&listener, &link, &until))?;
        Ok(Self { address, ended, sent })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Pieces of bytes that clients have sent until now: one for each request at least.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// Where connections lead, and what is sent there.
#[derive(Debug)]
struct Link {
    target: SocketAddr,
    delay: Duration,
    sent: Arc<AtomicU64>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn begin(spawn: &ThreadSpawn, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = spawn.spawn(name.to_owned(), Priority::Normal, Box::new(body));
    started.map_err(|error| Error::invalid(format!("cannot start a thread: {error}")))
}

fn accept(listener: &TcpListener, link: &Link, ended: &AtomicBool) {
    let spawn = ThreadSpawn::new();
    while !ended.load(Ordering::Relaxed) {
        match listener.accept() {
            // A target that is not there is a connection that ends at once.
            Ok((near, _)) => drop(TcpStream::connect(link.target).map(|far| join(&spawn, near, far, link))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(1)),
            Err(_) => return,
        }
    }
}

/// Both directions of a connection; a connection that gets no thread is closed.
fn join(spawn: &ThreadSpawn, near: TcpStream, far: TcpStream, link: &Link) {
    let both = || {
        for stream in [&near, &far] {
            stream.set_nodelay(true)?;
            // Listeners that do not block give such streams on some systems.
            stream.set_nonblocking(false)?;
        }
        Ok::<_, std::io::Error>([
            (near.try_clone()?, far.try_clone()?, Some(Arc::clone(&link.sent))),
            (far.try_clone()?, near.try_clone()?, None),
        ])
    };
    let delay = link.delay;
    for (from, to, sent) in both().into_iter().flatten() {
        let (line, due) = sync_channel(LINE_MAX);
        let read = begin(spawn, "proxy-read", move || read(from, &line, delay, sent.as_deref()));
        if read.and_then(|()| begin(spawn, "proxy-write", move || write(to, &due))).is_err() {
            // Both ends notice; what cannot be shut down is gone.
            let _ = near.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn read(
    mut from: TcpStream,
    line: &SyncSender<(Instant, Vec<u8>)>,
    delay: Duration,
    counted: Option<&AtomicU64>,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count) = from.read(&mut piece) {
        if let Some(counted) = counted {
            counted.fetch_add(u64::from(count > 0), Ordering::Relaxed);
        }
        if count == 0 || line.send((now() + delay, piece[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn write(mut to: TcpStream, line: &Receiver<(Instant, Vec<u8>)>) {
    for (due, bytes) in line {
        sleep_until(due);
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // The other side has said everything.
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_arrives_later_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let delay = Duration::from_millis(30);
        let proxy = Proxy::to(listener.local_addr().unwrap(), delay).unwrap();
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let begun = now();
        client.write_all(b"ping").unwrap();
        let mut found = [0; 4];
        server.read_exact(&mut found).unwrap();
        assert!(&found == b"ping" && begun.elapsed() >= delay, "{:?}", begun.elapsed());
        server.write_all(b"pong").unwrap();
        client.read_exact(&mut found).unwrap();
        assert_eq!(proxy.sent(), 1, "what is answered does not count");
        assert!(&found == b"pong" && begun.elapsed() >= 2 * delay, "{:?}", begun.elapsed());
        // Many bytes are not later than few: they are under way together.
        let bytes: Vec<u8> = (0..16_000_000_u32).map(|at| at as u8).collect();
        let one_by_one = delay * (bytes.len() / PIECE_BYTES) as u32;
        let begun = now();
        client.write_all(&bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut found = Vec::new();
        server.read_to_end(&mut found).unwrap();
        assert!(found == bytes && begun.elapsed() < one_by_one / 3 * 2, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_link_that_is_gone_takes_no_connection_and_a_target_that_is_not_there_ends_one() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let proxy = Proxy::to(nobody, Duration::ZERO).unwrap();
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
        let address = proxy.address();
        drop(proxy);
        let is_gone = |_| {
            sleep(Duration::from_millis(5));
            TcpStream::connect(address).is_err()
        };
        assert!((0..1000).any(is_gone));
    }
}
