//! A connection for questions that may be asked twice: a signal that interrupts one says nothing
//! about the server.

use redis::{ConnectionLike, RedisError, RedisResult, Value};

use super::clients::reach;

/// Asks again, on a new connection, what a signal has interrupted.
pub(super) struct Reader {
    address: String,
    connection: redis::Connection,
}

impl Reader {
    /// A reader of a server that may be about to start.
    pub(super) fn reach(address: &str) -> Self {
        Self { address: address.to_owned(), connection: reach(address) }
    }

    fn again<T>(&mut self, mut ask: impl FnMut(&mut redis::Connection) -> RedisResult<T>) -> RedisResult<T> {
        loop {
            match ask(&mut self.connection) {
                // Half of an answer may have come.
                Err(error) if is_interrupted(&error) => self.connection = reach(&self.address),
                answer => return answer,
            }
        }
    }
}

/// Whether it is EINTR, which the client tells by its text alone.
fn is_interrupted(error: &RedisError) -> bool {
    error.is_io_error() && error.to_string().contains("(os error 4)")
}

impl ConnectionLike for Reader {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.again(|connection| connection.req_packed_command(command))
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.again(|connection| connection.req_packed_commands(commands, offset, count))
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }

    fn check_connection(&mut self) -> bool {
        self.connection.check_connection()
    }

    fn is_open(&self) -> bool {
        self.connection.is_open()
    }
}

#[test]
fn what_is_interrupted_is_told_from_what_fails() {
    let of = |number| RedisError::from(std::io::Error::from_raw_os_error(number));
    assert!(is_interrupted(&of(4)), "{}", of(4));
    // EAGAIN (a timeout), ECONNRESET.
    assert!(!is_interrupted(&of(11)) && !is_interrupted(&of(104)));
}
