//! One connection: a request comes, its answer goes, and that is all.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::PoisonError;
use std::time::Duration;

use super::answer::{Answer, Pending, Site, When};
use super::request::{HEAD_BYTES_MAX, Head};

/// How long a request may take to come.
const RECEIVE: Duration = Duration::from_secs(5);

/// How long an answer may take to go.
const SEND: Duration = Duration::from_secs(10);

/// How long it is waited, after the answer, until the other side closes: closing first could cost
/// it the answer.
const LINGER: Duration = Duration::from_secs(1);

/// A connection, which does not block.
pub(super) struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    stage: Stage,
    /// When the stage is over, come what may.
    deadline: Duration,
}

enum Stage {
    /// What came of the request so far.
    Head(Vec<u8>),
    /// The answer is being made.
    Waiting(Pending),
    /// The answer, and how much of it has gone.
    Answer(Vec<u8>, usize),
    /// Nothing more is said.
    Linger,
}

impl Connection {
    /// `None` if the connection is of no use.
    pub(super) fn new(stream: TcpStream, peer: SocketAddr, now: Duration) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, peer, stage: Stage::Head(Vec::new()), deadline: now + RECEIVE })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether it waits until it can send, not until something comes.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.stage, Stage::Answer(..))
    }

    /// Whether it has not said yet what it asks for.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Head(_))
    }

    /// Whether it has its answer.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.stage, Stage::Linger)
    }

    /// Whether only the alarm tells when it can go on.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    /// Does what can be done without waiting; `false` when it is over.
    pub(super) fn go_on(&mut self, site: &dyn Site, now: Duration) -> bool {
        now < self.deadline && self.step(site, now).is_ok()
    }

    fn answer(&mut self, answer: &Answer, now: Duration) {
        self.stage = Stage::Answer(answer.encode(), 0);
        self.deadline = now + SEND;
    }

    /// As far as it goes; `Err` is the end.
    fn step(&mut self, site: &dyn Site, now: Duration) -> io::Result<()> {
        if let Stage::Head(bytes) = &mut self.stage {
            let head = receive_head(&mut self.stream, bytes)?;
            let answer = match head {
                Head::Incomplete => return Ok(()),
                Head::TooLong => Answer::text(431, "the head is too long\n"),
                Head::Malformed => Answer::text(400, "this is no request\n"),
                Head::Complete(request) => match site.answer(self.peer, &request).0 {
                    When::Now(answer) => answer,
                    When::Later(pending) => {
                        self.stage = Stage::Waiting(pending);
                        // However long it takes.
                        self.deadline = Duration::MAX;
                        return Ok(());
                    }
                },
            };
            self.answer(&answer, now);
        }
        if let Stage::Waiting(pending) = &self.stage {
            let answer = pending.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(answer) = answer else { return Ok(()) };
            self.answer(&answer, now);
        }
        if let Stage::Answer(bytes, sent) = &mut self.stage {
            while let Some(rest) = bytes.get(*sent..).filter(|rest| !rest.is_empty()) {
                match self.stream.write(rest) {
                    Ok(count) => *sent += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            self.stream.shutdown(Shutdown::Write)?;
            self.stage = Stage::Linger;
            self.deadline = now + LINGER;
        }
        let mut rest = [0; 4096];
        match self.stream.read(&mut rest) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Ok(0) | Err(_) => Err(ErrorKind::UnexpectedEof.into()),
            // More is looked at in the next round: no connection keeps the thread.
            Ok(_) => Ok(()),
        }
    }
}

/// Appends what has come to `bytes`, and says what they are.
fn receive_head(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Head> {
    let mut piece = [0; HEAD_BYTES_MAX];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Head::Incomplete),
            Err(error) => return Err(error),
        }
        match Head::parse(bytes) {
            Head::Incomplete => {}
            head => return Ok(head),
        }
    }
}
