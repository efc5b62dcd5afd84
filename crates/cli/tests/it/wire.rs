//! A connection to a server, as plain as tests want it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use firn_protocol::resp::{Value, decode};

/// One connection. What breaks it is `None`: a server that is killed does that.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        Some(Self { stream, input: Vec::new() })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut piece = vec![0; 64 << 10];
        loop {
            if let Some((reply, length)) = decode(&self.input).expect("a reply") {
                self.input.drain(..length);
                return Some(reply);
            }
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return None,
                Ok(length) => self.input.extend_from_slice(&piece[..length]),
            }
        }
    }

    /// The reply to a request of words that are divided by spaces.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> Value {
        let mut bytes = Vec::new();
        encode(&mut bytes, &line.split(' ').collect::<Vec<_>>());
        self.send(&bytes).unwrap_or_else(|| panic!("{line}: not sent"));
        self.receive().unwrap_or_else(|| panic!("{line}: no reply"))
    }
}

/// Appends a request to `bytes`.
pub(crate) fn encode<W: AsRef<[u8]>>(bytes: &mut Vec<u8>, words: &[W]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
        bytes.extend_from_slice(word.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
}
