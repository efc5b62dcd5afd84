//! A connection as CLIENT LIST and the log describe it.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::net::SocketAddr;

use firn_protocol::command::Command;
use firn_protocol::resp::Protocol;

use super::{Client, Queue, Watch};
use crate::bounds::{CLIENT_NAME_BYTES_MAX, cut_text};
use crate::failure::{Failure, Result};
use crate::subscriptions::Topic;

/// What is known of a connection apart from what it does.
#[derive(Debug)]
pub(crate) struct Description {
    /// The other side.
    pub(crate) peer: SocketAddr,
    /// This side.
    pub(crate) local: SocketAddr,
    /// The system's number of its socket.
    pub(crate) socket: i32,
    /// When it came, in milliseconds of the server thread's monotonic clock.
    since_ms: u64,
    /// When something was received last.
    pub(crate) active_ms: Cell<u64>,
    /// The name it gave itself.
    pub(crate) name: RefCell<Vec<u8>>,
    /// Name and version of its library.
    pub(crate) library: RefCell<Vec<u8>>,
    pub(crate) library_version: RefCell<Vec<u8>>,
    pub(crate) last_command: Cell<Option<&'static Command>>,
    /// Bytes of the request that runs.
    pub(crate) request_bytes: Cell<usize>,
    /// Bytes received that no command has taken, and the room for more.
    pub(crate) input_bytes: Cell<usize>,
    pub(crate) input_room_bytes: Cell<usize>,
    /// It asked not to be closed when memory is short.
    pub(crate) is_kept: Cell<bool>,
    /// It asked that its reads do not make keys younger.
    pub(crate) is_untouching: Cell<bool>,
}

impl Description {
    /// A connection that came at `now_ms`.
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr, socket: i32, now_ms: u64) -> Self {
        Self {
            peer,
            local,
            socket,
            since_ms: now_ms,
            active_ms: Cell::new(now_ms),
            name: RefCell::default(),
            library: RefCell::default(),
            library_version: RefCell::default(),
            last_command: Cell::default(),
            request_bytes: Cell::new(0),
            input_bytes: Cell::new(0),
            input_room_bytes: Cell::new(0),
            is_kept: Cell::new(false),
            is_untouching: Cell::new(false),
        }
    }

    /// For how many milliseconds nothing was received.
    pub(crate) fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.active_ms.get())
    }
}

/// Whether `text` may be a name, which is shown between blanks; `what` says whose.
///
/// # Errors
/// What is wrong with it, for the client.
pub(crate) fn check_name(what: &str, text: &[u8]) -> Result<()> {
    if !text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(Failure::of(format!(
            "ERR {what} cannot contain spaces, newlines or special characters."
        )));
    }
    if text.len() > CLIENT_NAME_BYTES_MAX {
        return Err(Failure::of(format!(
            "ERR {what} of {} bytes: at most {CLIENT_NAME_BYTES_MAX} bytes are kept of it",
            text.len()
        )));
    }
    Ok(())
}

impl Client {
    /// Memory of what the client has left with the server: names that it watches, is subscribed to,
    /// or waits for.
    pub(crate) fn left_bytes(&self) -> usize {
        let watch_bytes = self.watch.borrow().as_ref().map_or(0, Watch::memory_bytes);
        watch_bytes + self.subscriptions.borrow().memory_bytes() + self.waiting.names_bytes.get()
    }

    /// Memory of the connection: its input and output, the request that runs, those since MULTI,
    /// and what it has left.
    pub(crate) fn memory_bytes(&self) -> usize {
        let it = &self.description;
        let queued_bytes = self.queue.borrow().as_ref().map_or(0, Queue::memory_bytes);
        let input_bytes = it.request_bytes.get() + it.input_bytes.get() + it.input_room_bytes.get();
        let output_bytes =
            self.outbox.output.borrow().own_capacity() + self.outbox.held.borrow().own_capacity();
        size_of::<Self>() + input_bytes + queued_bytes + output_bytes + self.left_bytes()
    }

    /// The line that CLIENT LIST has for it. What costs memory elsewhere and is not counted here is
    /// 0; `omem`, of messages that others are sent too, is not in `tot-mem`.
    pub(crate) fn line(&self, now_ms: u64) -> String {
        let it = &self.description;
        let subscriptions = self.subscriptions.borrow();
        let queue = self.queue.borrow();
        let queued_bytes = queue.as_ref().map_or(0, Queue::memory_bytes);
        let (unsent, room, shared) = {
            let output = self.outbox.output.borrow();
            (output.len(), output.own_capacity(), output.shared_bytes())
        };
        let (input, input_room) = (it.request_bytes.get() + it.input_bytes.get(), it.input_room_bytes.get());
        let total = self.memory_bytes();
        let command = it.last_command.get().map_or("NULL".to_owned(), ToString::to_string);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut line = format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={}",
            self.number,
            it.peer,
            it.local,
            it.socket,
            text(&it.name.borrow()),
            now_ms.saturating_sub(it.since_ms) / 1000,
            it.idle_ms(now_ms) / 1000,
            self.flags(),
            self.database.get(),
            subscriptions.count_of(Topic::Channel),
            subscriptions.count_of(Topic::Pattern),
            subscriptions.count_of(Topic::Shard),
            queue.as_ref().map_or(-1, |queue| queue.requests.len() as i64),
        );
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            " qbuf={input} qbuf-free={input_room} argv-mem={} multi-mem={queued_bytes} rbs={room} rbp={room} \
             obl={unsent} oll=0 omem={shared} tot-mem={total} events={} cmd={command} user={} redir=-1 resp={}",
            it.request_bytes.get(),
            if self.outbox.is_blocked.get() { "rw" } else { "r" },
            cut_text(&self.user_name()),
            if self.protocol.get() == Protocol::Resp3 { 3 } else { 2 },
        );
        // Fields of later releases, where there is something to say.
        for (word, value) in [("lib-name", &it.library), ("lib-ver", &it.library_version)] {
            if !value.borrow().is_empty() {
                let _ = write!(line, " {word}={}", text(&value.borrow()));
            }
        }
        line
    }

    /// A letter for each thing that sets it apart.
    fn flags(&self) -> String {
        let is_changed = self.watch.borrow().as_ref().is_some_and(|watch| watch.flag.is_raised());
        let letters = [
            ('O', self.is_monitor.get()),
            ('P', self.is_subscriber()),
            ('x', self.queue.borrow().is_some()),
            ('b', self.waiting.is_waiting.get()),
            ('d', is_changed),
            ('c', self.is_closing.get()),
            ('e', self.description.is_kept.get()),
            ('T', self.description.is_untouching.get()),
        ];
        let flags: String = letters.iter().filter(|(_, is_so)| *is_so).map(|(letter, _)| letter).collect();
        if flags.is_empty() { "N".to_owned() } else { flags }
    }

    /// Whether it is subscribed to anything.
    pub(crate) fn is_subscriber(&self) -> bool {
        !self.subscriptions.borrow().is_empty()
    }
}
