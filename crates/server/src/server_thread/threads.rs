//! The threads of a server, as they see one another.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Mailbox, Message};
use crate::address::ClientAddress;
use crate::processors::Processors;

/// The threads of a server: how they are reached, and which of them serves which connections.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) processors: Arc<Processors>,
    /// Connections that are served, or will be.
    pub(crate) client_count: AtomicUsize,
    /// Held while a thread is found for a connection: each thread takes connections.
    placing: Mutex<()>,
    next_client: AtomicU64,
    /// The server stops, or has.
    pub(crate) is_ending: AtomicBool,
}

impl Threads {
    /// So many threads, none of which runs yet.
    ///
    /// # Errors
    /// What the system says of descriptors.
    pub(crate) fn new(count: usize, processors: Processors) -> io::Result<Self> {
        Ok(Self {
            mailboxes: (0..count).map(|_| Mailbox::new()).collect::<io::Result<_>>()?,
            processors: Arc::new(processors),
            client_count: AtomicUsize::new(0),
            placing: Mutex::default(),
            next_client: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        })
    }

    /// Counts one connection more, unless there are `most`; whether it did.
    pub(super) fn take_room(&self, most: usize) -> bool {
        let is_room = self.client_count.fetch_add(1, Ordering::Relaxed) < most;
        if !is_room {
            self.give_room();
        }
        is_room
    }

    /// Counts one connection less.
    pub(super) fn give_room(&self) {
        self.client_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Chooses the thread of a new connection, and counts the connection there. A thread that a
    /// script has kept since `kept_ns` comes last. Of the others the one with the fewest
    /// connections is chosen. Returns its mailbox, and the client's number for people.
    pub(super) fn place(&self, kept_ns: u64) -> Option<(&Mailbox, u64)> {
        let load = |mailbox: &&Mailbox| {
            (mailbox.script.is_kept_since(kept_ns), mailbox.client_count.load(Ordering::Relaxed))
        };
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let mailbox = self.mailboxes.iter().min_by_key(load)?;
        mailbox.client_count.fetch_add(1, Ordering::Relaxed);
        // Given here, so that numbers tell in which order connections came.
        let number = self.next_client.fetch_add(1, Ordering::Relaxed) + 1;
        Some((mailbox, number))
    }

    /// Lets a client that waits look at its keys.
    pub(crate) fn look(&self, waiter: ClientAddress) {
        self.mailboxes[waiter.thread].send(Message::Look { id: waiter.id, number: waiter.number });
    }
}
