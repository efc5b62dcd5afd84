//! What is done with a thread's clients from outside of their tasks.

use std::collections::HashSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::ServerThread;
use crate::client::{Client, Unblock};

/// Selects clients: those that meet all conditions here.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientFilter {
    /// With one of these numbers.
    pub(crate) numbers: Option<HashSet<u64>>,
    pub(crate) kind: Option<ClientKind>,
    pub(crate) peer: Option<Vec<u8>>,
    pub(crate) local: Option<Vec<u8>>,
    pub(crate) user: Option<Vec<u8>>,
    /// Not the one with this number.
    pub(crate) except: Option<u64>,
}

/// Kinds of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    Normal,
    /// Subscribed to something.
    Subscriber,
    /// Replicas and masters: there are none.
    Replication,
}

impl ClientKind {
    /// The kind that clients call so, in any case.
    pub(crate) fn from_word(word: &[u8]) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_slice() {
            b"normal" => ClientKind::Normal,
            b"pubsub" => ClientKind::Subscriber,
            b"master" | b"replica" | b"slave" => ClientKind::Replication,
            _ => return None,
        })
    }
}

impl ClientFilter {
    fn includes(&self, client: &Client) -> bool {
        let is = |wanted: &Option<Vec<u8>>, found: &dyn Fn() -> Vec<u8>| {
            wanted.as_ref().is_none_or(|wanted| *wanted == found())
        };
        let kind = if client.is_subscriber() { ClientKind::Subscriber } else { ClientKind::Normal };
        self.numbers.as_ref().is_none_or(|numbers| numbers.contains(&client.number))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && is(&self.peer, &|| client.description.peer.to_string().into_bytes())
            && is(&self.local, &|| client.description.local.to_string().into_bytes())
            && is(&self.user, &|| client.user_name())
            && self.except != Some(client.number)
    }
}

impl ServerThread {
    /// This thread's selected clients, without the ones that are closing.
    pub(super) fn clients_of(&self, filter: &ClientFilter) -> Vec<Rc<Client>> {
        self.clients.some(|client| !client.is_closing.get() && filter.includes(client))
    }

    /// Numbers and lines of this thread's clients that are meant.
    pub(crate) fn describe(&self, filter: &ClientFilter) -> Vec<(u64, String)> {
        let now_ms = self.monotonic_ms();
        self.clients_of(filter).iter().map(|client| (client.number, client.line(now_ms))).collect()
    }

    /// Closes this thread's clients that are meant; how many.
    pub(crate) fn close_all(&self, filter: &ClientFilter) -> usize {
        let clients = self.clients_of(filter);
        clients.iter().for_each(|client| self.close_soon(client));
        clients.len()
    }

    /// The connection ends, whatever it waits for. What it was not sent is lost.
    pub(crate) fn close_soon(&self, client: &Client) {
        client.is_closing.set(true);
        self.tasks.wake(client.id);
    }

    /// Ends the waiting of this thread's client `number`; whether it waited.
    pub(crate) fn unblock(&self, number: u64, how: Unblock) -> bool {
        let filter = ClientFilter { numbers: Some(HashSet::from([number])), ..ClientFilter::default() };
        let waiting = self.clients_of(&filter).into_iter().find(|client| client.waiting.is_waiting.get());
        if let Some(client) = &waiting {
            client.waiting.is_unblocked.set(Some(how));
            self.tasks.wake(client.id);
        }
        waiting.is_some()
    }

    /// Lets every task look again at what it waits for.
    pub(crate) fn wake_everybody(&self) {
        self.clients.for_each(|client| self.tasks.wake(client.id));
    }

    /// Whether a client may be sent `bytes` more that it has not asked for. Beyond what it may
    /// leave unread it is closed instead, and nothing is copied for it. Replies wait for their
    /// reader by themselves.
    pub(super) fn has_room(&self, client: &Client, bytes: usize) -> bool {
        let unread = client.outbox.output.borrow().len() + client.outbox.held.borrow().len();
        let is_over = unread.saturating_add(bytes) > self.shared.settings.output_bytes_max;
        if is_over && !client.is_closing.get() {
            client.cut_off();
            self.tasks.wake(client.id);
        }
        !is_over
    }

    /// Waits while CLIENT PAUSE concerns a request that may write or not. It counts among the
    /// clients that wait meanwhile.
    pub(crate) async fn paused(&self, client: &Rc<Client>, may_write: bool) {
        if self.shared.pause.until_ms(may_write, self.monotonic_ms()).is_none() {
            return;
        }
        self.counters().block();
        self.pause_over(client, may_write).await;
        self.counters().unblock();
    }

    /// Waits until no pause concerns the request.
    async fn pause_over(&self, client: &Rc<Client>, may_write: bool) {
        let pause = &self.shared.pause;
        while let Some(until_ms) = pause.until_ms(may_write, self.monotonic_ms()) {
            self.mark_dirty(client);
            let timer = self.tasks.set_timer(until_ms);
            let is_gone = || client.is_closing.get() || self.sockets.borrow().is_hung_up(client.id);
            let is_gone = poll_fn(|_| match pause.until_ms(may_write, self.monotonic_ms()) {
                _ if is_gone() => Poll::Ready(true),
                still if still == Some(until_ms) => Poll::Pending,
                _ => Poll::Ready(false),
            })
            .await;
            self.tasks.clear_timer(timer);
            if is_gone {
                return client.is_closing.set(true);
            }
        }
    }
}
