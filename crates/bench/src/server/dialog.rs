//! A connection that says one thing at a time and waits for the answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use firn_engine::{Error, ErrorKind, Result};
use firn_protocol::resp::{Protocol, Reply, Value, decode};

use super::ServerAddress;

/// How long a server may keep one silent.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Bytes received at a time.
const RECEIVE_BYTES: usize = 16 << 10;

/// One blocking connection. A failure of the connection or of the protocol is final: drop it then.
#[derive(Debug)]
pub(crate) struct Dialog {
    socket: TcpStream,
    output: Vec<u8>,
    input: Vec<u8>,
    /// Bytes of `input` that were answers taken already.
    taken: usize,
    piece: Box<[u8]>,
    /// The server, for messages.
    name: String,
}

impl Dialog {
    /// A connection to `address`, in its database.
    ///
    /// # Errors
    /// `Retry` if no server answers there; `Invalid` if the server does not have the database.
    pub(crate) fn open(address: &ServerAddress) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Retry, format!("cannot connect to {address}")).because(error)
        };
        let socket = TcpStream::connect_timeout(&address.resolve()?, SILENCE_MAX).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(SILENCE_MAX)).map_err(failed)?;
        socket.set_write_timeout(Some(SILENCE_MAX)).map_err(failed)?;
        let mut dialog = Self {
            socket,
            output: Vec::new(),
            input: Vec::new(),
            taken: 0,
            piece: vec![0; RECEIVE_BYTES].into(),
            name: address.to_string(),
        };
        match dialog.call(&[b"PING"])? {
            Value::Simple(text) if text == "PONG" => {}
            Value::Error(text) => {
                return Err(Error::new(ErrorKind::Closed, format!("{address} refuses: {text}")));
            }
            other => {
                let what = format!("{address} does not speak RESP: it answers PING with {other:?}");
                return Err(Error::new(ErrorKind::Closed, what));
            }
        }
        if address.database > 0 {
            let answer = dialog.call(&[b"SELECT", address.database.to_string().as_bytes()])?;
            if let Value::Error(text) = answer {
                return Err(Error::invalid(format!("{address}: no such database: {text}")));
            }
        }
        Ok(dialog)
    }

    /// The socket, once everything that was asked is answered.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Says one request and returns the answer, which may be an error of the server.
    ///
    /// # Errors
    /// If the connection breaks, or nothing comes for [`SILENCE_MAX`], or what comes is no reply.
    pub(crate) fn call(&mut self, arguments: &[&[u8]]) -> Result<Value> {
        self.ask(arguments);
        self.send()?;
        self.answer()
    }

    /// Adds a request to what [`send`](Self::send) will send.
    pub(crate) fn ask(&mut self, arguments: &[&[u8]]) {
        append_request(&mut self.output, arguments);
    }

    /// Sends everything asked.
    ///
    /// # Errors
    /// If the connection breaks.
    pub(crate) fn send(&mut self) -> Result<()> {
        let sent = self.socket.write_all(&self.output);
        self.output.clear();
        sent.map_err(|error| self.broken(error))
    }

    /// The answer to the oldest request that has none yet.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(crate) fn answer(&mut self) -> Result<Value> {
        loop {
            let rest = self.input.get(self.taken..).unwrap_or_default();
            let decoded = decode(rest).map_err(|error| {
                Error::new(ErrorKind::Closed, format!("{} does not speak RESP", self.name)).because(error)
            })?;
            if let Some((value, bytes)) = decoded {
                self.taken += bytes;
                if self.taken == self.input.len() {
                    self.input.clear();
                    self.taken = 0;
                }
                return Ok(value);
            }
            match self.socket.read(&mut self.piece) {
                Ok(0) => return Err(self.broken(std::io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => self.input.extend_from_slice(self.piece.get(..bytes).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    fn broken(&self, error: std::io::Error) -> Error {
        Error::new(ErrorKind::Closed, format!("the connection to {} broke", self.name)).because(error)
    }
}

/// Appends the request that `arguments` make. It is an array of strings, as a reply of that shape
/// would be.
pub(crate) fn append_request(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    let mut request = Reply::new(out, Protocol::Resp2);
    request.array(arguments.len());
    arguments.iter().for_each(|argument| request.bulk(argument));
}
