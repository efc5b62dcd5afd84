//! What goes over the socket.
//!
//! ```text
//! offset size  field    meaning
//!      0    4  length   u32 LE, bytes that follow
//!      4    1  tag      0 = hello, 1 = job, 2 = cancel, 3 = done, 4 = failed
//!      5    8  number   u64 LE, the job's; of a hello, the version of these messages
//!     13       body     hello: the directory; job: the spec; done: the result; failed: a byte for the kind, then a text
//! ```
//! Jobs' numbers begin at 1: what has failed with the number 0 is the hello, and with it the talk.
//! A database that does not know number 0 sees the talk end.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// Version of the messages. Both sides are of one program, but one may have been started long
/// before the other.
pub(super) const VERSION: u64 = 3;
/// The number of a hello that has failed.
pub(super) const HELLO: u64 = 0;
/// No message is longer.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Bytes before the body, length not included.
const HEAD_BYTES: usize = 9;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Hello { version: u64, directory: Vec<u8> },
    Job { number: u64, spec: Vec<u8> },
    Cancel { number: u64 },
    Done { number: u64, result: Vec<u8> },
    Failed { number: u64, kind: u8, message: String },
}

impl Message {
    fn parts(&self) -> (u8, u64, &[u8]) {
        match self {
            Self::Hello { version, directory } => (0, *version, directory),
            Self::Job { number, spec } => (1, *number, spec),
            Self::Cancel { number } => (2, *number, &[]),
            Self::Done { number, result } => (3, *number, result),
            Self::Failed { number, message, .. } => (4, *number, message.as_bytes()),
        }
    }

    /// Writes it; blocks while the other side does not read, as long as the stream's timeout
    /// allows.
    pub(super) fn send(&self, mut stream: &UnixStream) -> std::io::Result<()> {
        let (tag, number, body) = self.parts();
        let kind = if let Self::Failed { kind, .. } = self { vec![*kind] } else { Vec::new() };
        let length = HEAD_BYTES + kind.len() + body.len();
        if length > MESSAGE_BYTES_MAX {
            return Err(std::io::Error::new(ErrorKind::InvalidInput, "a job of more than 256 MiB"));
        }
        let mut bytes = Vec::with_capacity(4 + length);
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
        bytes.push(tag);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&kind);
        bytes.extend_from_slice(body);
        stream.write_all(&bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        let (number, body) = rest.split_first_chunk::<8>()?;
        let number = u64::from_le_bytes(*number);
        Some(match tag {
            0 => Self::Hello { version: number, directory: body.to_vec() },
            1 => Self::Job { number, spec: body.to_vec() },
            2 if body.is_empty() => Self::Cancel { number },
            3 => Self::Done { number, result: body.to_vec() },
            4 => {
                let (kind, text) = body.split_first()?;
                Self::Failed { number, kind: *kind, message: String::from_utf8_lossy(text).into_owned() }
            }
            _ => return None,
        })
    }
}

/// Messages as they come in.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
}

/// What a look at the stream found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Message(Message),
    /// Nothing came in the stream's timeout.
    Nothing,
    /// The other side is gone, or speaks something else.
    End,
}

impl Incoming {
    /// The next message; blocks for as long as the stream's timeout says.
    pub(super) fn next(&mut self, mut stream: &UnixStream) -> Found {
        loop {
            if let Some((length, rest)) = self.bytes.split_first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if !(HEAD_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
                    return Found::End;
                }
                if let Some(message) = rest.get(..length) {
                    let decoded = Message::decode(message);
                    self.bytes.drain(..4 + length);
                    return decoded.map_or(Found::End, Found::Message);
                }
            }
            let mut piece = [0; 64 << 10];
            match stream.read(&mut piece) {
                Ok(0) => return Found::End,
                Ok(count) => self.bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Found::Nothing,
                    ErrorKind::Interrupted => {}
                    _ => return Found::End,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_in_order_and_others_end_the_talk() {
        let (one, two) = UnixStream::pair().unwrap();
        let messages = [
            Message::Hello { version: 1, directory: b"/a".to_vec() },
            Message::Job { number: 7, spec: vec![3; 200_000] },
            Message::Cancel { number: 7 },
            Message::Done { number: 8, result: Vec::new() },
            Message::Failed { number: 9, kind: 2, message: "no".to_owned() },
        ];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                messages.iter().for_each(|message| message.send(&one).unwrap());
                (&one).write_all(&[9, 0, 0, 0, 77]).unwrap();
                (&one).write_all(&[0; 8]).unwrap();
            });
            let mut incoming = Incoming::default();
            for message in &messages {
                assert_eq!(incoming.next(&two), Found::Message(message.clone()));
            }
            assert_eq!(incoming.next(&two), Found::End, "there is no tag 77");
        });
        let (one, two) = UnixStream::pair().unwrap();
        two.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
        assert_eq!(Incoming::default().next(&two), Found::Nothing);
        (&one).write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(Incoming::default().next(&two), Found::End, "too long");
        drop(one);
        assert_eq!(Incoming::default().next(&two), Found::End);
    }
}
