//! What a server thread knows of one connection.

mod description;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use firn_protocol::command::Command;
use firn_protocol::resp::{OwnedArguments, Protocol, Reply};

use crate::access::Login;
use crate::bounds::name_memory_bytes;
use crate::handover::Handed;
use crate::observers::WatchFlag;
use crate::output::Output;
use crate::subscriptions::ClientSubscriptions;

pub(crate) use description::{Description, check_name};

/// One connection. Its task reads and answers requests; others may add messages to its output.
#[derive(Debug)]
pub(crate) struct Client {
    /// Number of its socket and its task.
    pub(crate) id: u32,
    /// Number told to people; never given twice.
    pub(crate) number: u64,
    /// What CLIENT LIST and the like say of it.
    pub(crate) description: Description,
    /// The user that it has logged in as.
    pub(crate) login: Login,
    /// Which of its replies are kept from it.
    pub(crate) silence: Cell<Silence>,
    /// It is shown every command.
    pub(crate) is_monitor: Cell<bool>,
    /// The version of the protocol it speaks.
    pub(crate) protocol: Cell<Protocol>,
    /// Index of the database it has selected.
    pub(crate) database: Cell<u32>,
    /// Requests since MULTI.
    pub(crate) queue: RefCell<Option<Queue>>,
    /// Keys it watches.
    pub(crate) watch: RefCell<Option<Watch>>,
    /// What it is subscribed to.
    pub(crate) subscriptions: RefCell<ClientSubscriptions>,
    pub(crate) outbox: Outbox,
    pub(crate) waiting: Waiting,
    /// The unit that it runs.
    pub(crate) unit: Unit,
    /// The connection ends once its output is sent.
    pub(crate) is_closing: Cell<bool>,
}

/// What a client has not been sent, and what holds it up.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// What it has not been sent yet.
    pub(crate) output: RefCell<Output>,
    /// Messages that wait until a reply, of which a part is sent, is whole.
    pub(crate) held: RefCell<Output>,
    /// A part of a reply is sent, and the rest follows.
    pub(crate) is_replying: Cell<bool>,
    /// Output is waiting to be sent at the end of this round.
    pub(crate) is_dirty: Cell<bool>,
    /// Some of the output did not go: the socket says when more does.
    pub(crate) is_blocked: Cell<bool>,
    /// It is sent nothing more: what would come first is lost.
    pub(crate) is_cut_off: Cell<bool>,
}

/// How a command of a client waits for other clients.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// It does.
    pub(crate) is_waiting: Cell<bool>,
    /// Memory of the keys at which it stands in line.
    pub(crate) names_bytes: Cell<usize>,
    /// A key that it waits for has changed.
    pub(crate) is_notified: Cell<bool>,
    /// It takes what it is handed at keys that it waits for.
    pub(crate) takes_hands: Cell<bool>,
    /// What it was handed, and has not looked at.
    pub(crate) hands: RefCell<VecDeque<Handed>>,
    /// A CLIENT UNBLOCK has ended its waiting.
    pub(crate) is_unblocked: Cell<Option<Unblock>>,
    /// Nanoseconds for which the command that runs has waited for other clients, or for this one to
    /// read.
    pub(crate) idle_ns: Cell<u64>,
}

/// EXEC or a script that a client runs.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    /// Its commands, in this try.
    pub(crate) commands: Cell<u64>,
    /// How many of them monitors were shown before.
    pub(crate) shown: Cell<u64>,
}

/// Which replies a client does not want.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It wants all.
    #[default]
    None,
    /// It wants none.
    All,
    /// It does not want the next request's.
    Next,
    /// It does not want this request's.
    This,
}

/// How CLIENT UNBLOCK ends a client's waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unblock {
    /// As if its time were over.
    Timeout,
    /// With an error.
    Error,
}

/// Requests that wait for EXEC.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) requests: Vec<(&'static Command, OwnedArguments)>,
    /// Memory that they take.
    memory_bytes: usize,
    /// One was refused when it came: EXEC runs none.
    pub(crate) is_refused: bool,
}

impl Queue {
    /// Adds a request, if all of them together take at most `memory_bytes_max` with it; whether it
    /// did.
    pub(crate) fn push(
        &mut self,
        command: &'static Command,
        arguments: OwnedArguments,
        memory_bytes_max: usize,
    ) -> bool {
        let bytes = size_of::<&Command>() + arguments.memory_bytes();
        let is_room = self.memory_bytes.saturating_add(bytes) <= memory_bytes_max;
        if is_room {
            self.memory_bytes += bytes;
            self.requests.push((command, arguments));
        }
        is_room
    }

    /// Memory that the requests take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// What a client watches.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) flag: Arc<WatchFlag>,
    /// The engine's keys, and when what stood there expires, in milliseconds since the Unix epoch;
    /// 0 = never.
    keys: BTreeMap<Vec<u8>, u64>,
    /// Memory that they take, here and with the observers.
    memory_bytes: usize,
}

impl Watch {
    /// Watches the engine's key `key`, unless it is watched already.
    pub(crate) fn add(&mut self, key: &[u8], expires_at_ms: u64) {
        if let Entry::Vacant(place) = self.keys.entry(key.to_vec()) {
            place.insert(expires_at_ms);
            self.memory_bytes += name_memory_bytes(key);
        }
    }

    /// Memory that what is watched takes, with what is watched instead since databases were
    /// flushed.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes + self.flag.moved_bytes()
    }

    /// The engine's keys that the client has named.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.keys.keys()
    }

    /// The flag and all of the engine's keys that were watched; the client watches no more.
    pub(crate) fn into_parts(self) -> (Arc<WatchFlag>, impl Iterator<Item = Vec<u8>>) {
        let moved = self.flag.end();
        (self.flag, self.keys.into_keys().chain(moved))
    }

    /// Whether a key has changed or expired since it was watched.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.flag.is_raised() || self.keys.values().any(|expires_at_ms| (1..=now_ms).contains(expires_at_ms))
    }
}

impl Client {
    pub(crate) fn new(id: u32, number: u64, description: Description, login: Login) -> Self {
        Self {
            id,
            number,
            description,
            login,
            silence: Cell::default(),
            is_monitor: Cell::new(false),
            protocol: Cell::default(),
            database: Cell::new(0),
            queue: RefCell::default(),
            watch: RefCell::default(),
            subscriptions: RefCell::default(),
            outbox: Outbox::default(),
            waiting: Waiting::default(),
            unit: Unit::default(),
            is_closing: Cell::new(false),
        }
    }

    /// The name of its user.
    pub(crate) fn user_name(&self) -> Vec<u8> {
        self.login.name()
    }

    /// Where it comes from, as people are told.
    pub(crate) fn address(&self) -> String {
        self.description.peer.to_string()
    }

    /// Appends a reply.
    #[inline]
    pub(crate) fn reply<T>(&self, write: impl FnOnce(&mut Reply<'_>) -> T) -> T {
        if self.is_silent() {
            return write(&mut Reply::new(&mut Vec::new(), self.protocol.get()));
        }
        let mut output = self.outbox.output.borrow_mut();
        write(&mut Reply::new(output.own(), self.protocol.get()))
    }

    /// Appends replies that are written already.
    pub(crate) fn append(&self, replies: &mut Vec<u8>) {
        if self.is_silent() {
            return replies.clear();
        }
        self.outbox.output.borrow_mut().append_own(replies);
    }

    /// Whether what is answered now is kept from it.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.silence.get(), Silence::All | Silence::This) || self.outbox.is_cut_off.get()
    }

    /// The connection ends, and what it was not sent is lost: a later reply would be taken for the
    /// one before it.
    pub(crate) fn cut_off(&self) {
        self.outbox.is_cut_off.set(true);
        self.is_closing.set(true);
        self.outbox.output.borrow_mut().clear();
        self.outbox.held.borrow_mut().clear();
    }

    /// A request is answered: silence for one request goes on to the next, or ends.
    pub(crate) fn end_request(&self) {
        self.silence.set(match self.silence.get() {
            Silence::Next => Silence::This,
            Silence::This => Silence::None,
            other => other,
        });
    }

    /// Appends a message that answers no request: at once, or once the reply that is being sent is
    /// whole.
    pub(crate) fn append_message(&self, write: impl FnOnce(Protocol, &mut Output)) {
        if self.outbox.is_cut_off.get() {
            return;
        }
        let place = if self.outbox.is_replying.get() { &self.outbox.held } else { &self.outbox.output };
        write(self.protocol.get(), &mut place.borrow_mut());
    }

    /// The reply that was being sent is whole.
    pub(crate) fn end_reply(&self) {
        if self.outbox.is_replying.replace(false) {
            self.outbox.output.borrow_mut().append(&mut self.outbox.held.borrow_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_watched_once_as_it_was_first() {
        let mut watch = Watch::default();
        for expires_at_ms in [50, 0, 70] {
            watch.add(b"k", expires_at_ms);
            watch.add(b"m", 0);
        }
        assert_eq!(watch.keys().count(), 2);
        assert!(!watch.is_over(49));
        assert!(watch.is_over(50));
    }
}
