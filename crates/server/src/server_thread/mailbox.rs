//! How others reach a thread.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use super::Question;
use crate::handover::Handed;
use crate::scripts::Running;
use crate::subscriptions::{Addressee, Published};
use crate::wake::Wakes;

/// How others reach a thread.
#[derive(Debug)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    /// Tasks of the thread that others have woken.
    pub(super) wakes: Arc<Wakes>,
    /// Connections that the thread has or will get.
    pub(crate) client_count: AtomicUsize,
    /// The script that the thread runs right now: as long as it keeps the thread, new connections
    /// go to other threads.
    pub(crate) script: Running,
}

/// A message to a thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// Serve this connection. `number` is the client's number for people.
    Serve { stream: TcpStream, number: u64 },
    /// A key that this client waits for has changed: the client looks at it again.
    Look { id: u32, number: u64 },
    /// This client may look at a key that it waits for, while another client's command holds the
    /// key's lock. The client answers through `handed`.
    Hand { id: u32, number: u64, handed: Handed },
    /// A message for clients of this thread.
    Publish { message: Arc<Published>, addressees: Vec<Addressee> },
    /// Answer for this thread's clients.
    Ask(Question),
    /// Show this to the clients that are shown every command.
    Show(Arc<[u8]>),
    /// End: close every connection.
    Stop,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            messages: Mutex::default(),
            wakes: Wakes::new()?,
            client_count: AtomicUsize::new(0),
            script: Running::default(),
        })
    }

    pub(crate) fn send(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.wakes.alarm().ring();
    }

    pub(crate) fn take(&self) -> Vec<Message> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
