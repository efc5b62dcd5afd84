//! One connection of many: sends and receives what it can, never waits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use firn_protocol::resp::{DecodeError, measure};

use super::schedule::Outstanding;

/// What came of answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// How many.
    pub(super) count: u64,
    /// Answers that were null.
    pub(super) nulls: u64,
    /// Answers that were errors.
    pub(super) errors: u64,
    /// The text of the first error.
    pub(super) first_error: Option<String>,
}

/// A nonblocking socket with what is to be sent, what was received and not understood yet, and what
/// is outstanding.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: TcpStream,
    /// Requests; what is before `sent` is on its way.
    pub(super) output: Vec<u8>,
    sent: usize,
    /// The beginning of an answer.
    input: Vec<u8>,
    pub(super) outstanding: Outstanding,
}

impl Connection {
    /// `socket` is nonblocking, and nothing is outstanding on it.
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { socket, output: Vec::new(), sent: 0, input: Vec::new(), outstanding: Outstanding::default() }
    }

    /// Sends as much of the output as goes.
    ///
    /// # Errors
    /// What the system says of the connection.
    pub(super) fn send(&mut self) -> std::io::Result<()> {
        while let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Bytes received into `piece`; `None` if nothing is there.
    ///
    /// # Errors
    /// What the system says of the connection; its end is one.
    pub(super) fn receive(&mut self, piece: &mut [u8]) -> std::io::Result<Option<usize>> {
        loop {
            return match self.socket.read(piece) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(error),
            };
        }
    }

    /// The answers that `received` completes; the rest is kept.
    ///
    /// # Errors
    /// If that is no answer.
    pub(super) fn read(&mut self, received: &[u8]) -> Result<Answers, DecodeError> {
        let mut answers = Answers::default();
        if self.input.is_empty() {
            let taken = answers.read(received)?;
            self.input.extend_from_slice(received.get(taken..).unwrap_or_default());
        } else {
            self.input.extend_from_slice(received);
            let taken = answers.read(&self.input)?;
            self.input.drain(..taken);
        }
        Ok(answers)
    }
}

impl Answers {
    /// Bytes of the whole answers at the front of `input`.
    fn read(&mut self, input: &[u8]) -> Result<usize, DecodeError> {
        let mut at = 0;
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(bytes) = measure(rest)? else { break };
            match rest {
                [b'-' | b'!', ..] => {
                    self.errors += 1;
                    let text = rest.get(1..bytes).unwrap_or_default();
                    self.first_error
                        .get_or_insert_with(|| String::from_utf8_lossy(text).trim_end().to_owned());
                }
                [b'_', ..] | [b'$' | b'*', b'-', ..] => self.nulls += 1,
                _ => {}
            }
            self.count += 1;
            at += bytes;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        Connection::new(TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection"))
    }

    #[test]
    fn answers_are_counted_however_they_are_cut() {
        let input = b"+OK\r\n$-1\r\n$3\r\n-no\r\n-ERR first\r\n:5\r\n-ERR second\r\n_\r\n*2\r\n:1\r\n-x\r\n";
        let expected = Answers { count: 8, nulls: 2, errors: 2, first_error: Some("ERR first".to_owned()) };
        for piece in [1, 2, 3, 7, input.len()] {
            let (mut connection, mut found) = (connection(), Answers::default());
            for received in input.chunks(piece) {
                let answers = connection.read(received).unwrap();
                found.count += answers.count;
                found.nulls += answers.nulls;
                found.errors += answers.errors;
                found.first_error = found.first_error.or(answers.first_error);
            }
            assert_eq!(found, expected, "in pieces of {piece}");
            assert!(connection.input.is_empty());
        }
        assert!(connection().read(b"$x\r\n").is_err());
    }
}
