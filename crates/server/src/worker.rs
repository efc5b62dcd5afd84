//! One thread's share of the connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use firn_engine::{
    Batch, Completion, Error, KeyLocks, KeyspaceId, Outcome, ReadAt, Session, Ticket, Values, WriteOptions,
};

use crate::client::Client;
use crate::database::Database;
use crate::failure::{Failure, Result};
use crate::net::{Alarm, Event, Received, Sent, Sockets};
use crate::serve::serve;
use crate::settings::ServeSettings;
use crate::task::Tasks;

/// What all workers of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) settings: ServeSettings,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) client_count: AtomicUsize,
    pub(crate) next_client: AtomicU64,
}

/// How others reach a worker.
#[derive(Debug)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    alarm: Arc<Alarm>,
    /// Connections that the worker has or will get.
    pub(crate) client_count: AtomicUsize,
}

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Serve this connection.
    Serve(TcpStream),
    /// End: close every connection.
    Stop,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let alarm = Alarm::new()?;
        Ok(Self { messages: Mutex::default(), alarm, client_count: AtomicUsize::new(0) })
    }

    pub(crate) fn send(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.alarm.ring();
    }

    fn take(&self) -> Vec<Message> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A thread with its sockets, its session of the engine and its tasks.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    index: usize,
    session: RefCell<Box<dyn Session>>,
    sockets: RefCell<Sockets>,
    tasks: Tasks,
    clients: RefCell<Vec<Option<Rc<Client>>>>,
    /// Clients whose output waits to be sent.
    dirty: RefCell<Vec<Rc<Client>>>,
    /// Which task waits for which ticket.
    waiting: RefCell<HashMap<Ticket, u32>>,
    arrived: RefCell<HashMap<Ticket, Completion>>,
    is_stopping: Cell<bool>,
}

impl Worker {
    /// The worker `index`; the first one gets a listener by [`listen`](Self::listen).
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> io::Result<Rc<Self>> {
        let mailbox = shared.mailboxes.get(index).ok_or(io::ErrorKind::InvalidInput)?;
        let sockets = Sockets::new(Arc::clone(&mailbox.alarm))?;
        let session = shared.database.db.engine().session();
        Ok(Rc::new(Self {
            shared,
            index,
            session: RefCell::new(session),
            sockets: RefCell::new(sockets),
            tasks: Tasks::default(),
            clients: RefCell::default(),
            dirty: RefCell::default(),
            waiting: RefCell::default(),
            arrived: RefCell::default(),
            is_stopping: Cell::new(false),
        }))
    }

    /// Takes connections from `listener` and gives each to the worker that has fewest.
    pub(crate) fn listen(&self, listener: std::net::TcpListener) -> io::Result<()> {
        self.sockets.borrow_mut().listen(listener)
    }

    /// Serves until told to stop.
    pub(crate) fn run(self: &Rc<Self>) -> io::Result<()> {
        let mailbox = &self.shared.mailboxes[self.index];
        let waker = Waker::from(Arc::clone(&mailbox.alarm));
        while !self.is_stopping.get() {
            self.tasks.run_ready(|id| self.forget(id));
            self.flush();
            let timeout = match self.deliver() || self.tasks.is_ready() {
                true => Some(Duration::ZERO),
                false => {
                    if !self.waiting.borrow().is_empty() {
                        self.session.borrow().notifier().register(&waker);
                    }
                    None
                }
            };
            let mut events = Vec::new();
            self.sockets.borrow_mut().wait(timeout, &mut |event| events.push(event))?;
            events.into_iter().for_each(|event| self.take(event));
        }
        // Tasks hold the worker, and the worker holds them.
        self.tasks.clear();
        self.flush();
        self.clients.borrow_mut().clear();
        Ok(())
    }

    /// Hands completions to the tasks that wait for them; whether there were any.
    fn deliver(&self) -> bool {
        if self.waiting.borrow().is_empty() {
            return false;
        }
        let mut arrived = Vec::new();
        self.session.borrow_mut().poll(&mut |ticket, completion| arrived.push((ticket, completion)));
        let is_any = !arrived.is_empty();
        for (ticket, completion) in arrived {
            // What nobody waits for belonged to a connection that is gone.
            if let Some(task) = self.waiting.borrow_mut().remove(&ticket) {
                self.arrived.borrow_mut().insert(ticket, completion);
                self.tasks.wake(task);
            }
        }
        is_any
    }

    fn take(self: &Rc<Self>, event: Event) {
        match event {
            Event::Readable(id) => self.tasks.wake(id),
            Event::Writable(id) => {
                if let Some(client) = self.client(id).filter(|client| client.is_blocked.get()) {
                    self.mark_dirty(&client);
                }
            }
            Event::Knock => {
                while let Some(stream) = self.accept() {
                    self.place(stream);
                }
            }
            Event::Woken => {
                for message in self.shared.mailboxes[self.index].take() {
                    match message {
                        Message::Serve(stream) => self.begin(stream),
                        Message::Stop => self.is_stopping.set(true),
                    }
                }
            }
        }
    }

    fn accept(&self) -> Option<TcpStream> {
        self.sockets.borrow().accept()
    }

    /// Gives a new connection to the worker with the fewest.
    fn place(self: &Rc<Self>, stream: TcpStream) {
        if self.shared.client_count.fetch_add(1, Ordering::Relaxed) >= self.shared.settings.clients_max {
            self.shared.client_count.fetch_sub(1, Ordering::Relaxed);
            // Best effort: whoever does not read it sees the end of the connection.
            let _ = stream.set_nonblocking(true);
            let _ = io::Write::write(&mut &stream, b"-ERR max number of clients reached\r\n");
            return;
        }
        let count = |mailbox: &&Mailbox| mailbox.client_count.load(Ordering::Relaxed);
        let Some(mailbox) = self.shared.mailboxes.iter().min_by_key(count) else { return };
        mailbox.client_count.fetch_add(1, Ordering::Relaxed);
        match std::ptr::eq(mailbox, &self.shared.mailboxes[self.index]) {
            true => self.begin(stream),
            false => mailbox.send(Message::Serve(stream)),
        }
    }

    fn begin(self: &Rc<Self>, stream: TcpStream) {
        let id = {
            let mut clients = self.clients.borrow_mut();
            let free = clients.iter().position(Option::is_none).unwrap_or_else(|| {
                clients.push(None);
                clients.len() - 1
            });
            let number = self.shared.next_client.fetch_add(1, Ordering::Relaxed) + 1;
            clients[free] = Some(Rc::new(Client::new(free as u32, number)));
            free as u32
        };
        if self.sockets.borrow_mut().adopt(id, stream).is_err() {
            return self.forget(id);
        }
        if let Some(client) = self.client(id) {
            self.tasks.add(id, Box::pin(serve(Rc::clone(self), client)));
        }
    }

    fn client(&self, id: u32) -> Option<Rc<Client>> {
        self.clients.borrow().get(id as usize)?.clone()
    }

    /// The connection is over.
    fn forget(&self, id: u32) {
        if let Some(client) = self.client(id) {
            // What can be sent at once is: it may say why the connection ends.
            self.sockets.borrow_mut().send(id, &mut client.output.borrow_mut());
        }
        self.sockets.borrow_mut().close(id);
        self.clients.borrow_mut()[id as usize] = None;
        self.shared.client_count.fetch_sub(1, Ordering::Relaxed);
        self.shared.mailboxes[self.index].client_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The client's output, if there is any, is sent at the end of this round.
    pub(crate) fn mark_dirty(&self, client: &Rc<Client>) {
        if !client.output.borrow().is_empty() && !client.is_dirty.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(client));
        }
    }

    fn flush(&self) {
        let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        for client in dirty {
            client.is_dirty.set(false);
            let mut output = client.output.borrow_mut();
            let sent = self.sockets.borrow_mut().send(client.id, &mut output);
            if sent == Sent::All && output.capacity() > OUTPUT_BYTES_KEPT {
                output.shrink_to(OUTPUT_BYTES_KEPT);
            }
            drop(output);
            // Its task may have waited for the output to become less.
            if client.is_blocked.replace(sent == Sent::Some) {
                self.tasks.wake(client.id);
            }
        }
    }
}

/// Memory that an empty output keeps.
const OUTPUT_BYTES_KEPT: usize = 64 << 10;

/// What tasks wait for.
impl Worker {
    /// Appends what the client sends next to `input`; `false` when it sends no more.
    pub(crate) async fn receive(&self, client: &Rc<Client>, input: &mut Vec<u8>) -> bool {
        self.mark_dirty(client);
        if self.sockets.borrow().is_readable(client.id) {
            // More than was read at once: others come first.
            self.turn(client).await;
        }
        poll_fn(|_| match self.sockets.borrow_mut().receive(client.id, input) {
            Received::Bytes(_) => Poll::Ready(true),
            Received::Nothing => Poll::Pending,
            Received::End => Poll::Ready(false),
        })
        .await
    }

    /// Sends what the client has not been sent, and waits until it has read most of it.
    pub(crate) async fn drained(&self, client: &Rc<Client>) {
        let unread_bytes_max = self.shared.settings.unread_bytes_max;
        self.turn(client).await;
        poll_fn(|_| match client.output.borrow().len() <= unread_bytes_max {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Sends what the client has not been sent, and lets everybody else have a turn.
    pub(crate) async fn turn(&self, client: &Rc<Client>) {
        self.mark_dirty(client);
        self.tasks.wake(client.id);
        let mut had_turn = false;
        poll_fn(|_| match std::mem::replace(&mut had_turn, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Waits for the completion of `ticket`.
    async fn completion(&self, ticket: Ticket) -> Completion {
        self.waiting.borrow_mut().insert(ticket, self.tasks.current());
        poll_fn(|_| match self.arrived.borrow_mut().remove(&ticket) {
            Some(completion) => Poll::Ready(completion),
            None => Poll::Pending,
        })
        .await
    }

    /// Whether `key` has a value, which is in `out` then.
    #[inline]
    pub(crate) async fn get(&self, keyspace: KeyspaceId, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let outcome = self.session.borrow_mut().get(ReadAt::Latest, keyspace, key, out)?;
        match outcome {
            Outcome::Done(found) => Ok(found),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Value(Some(value)) => {
                    *out = value;
                    Ok(true)
                }
                Completion::Value(None) => Ok(false),
                other => Err(unexpected(other)),
            },
        }
    }

    /// Values of `keys` as of one moment.
    pub(crate) async fn multi_get(&self, keyspace: KeyspaceId, keys: &[&[u8]]) -> Result<Values> {
        let mut values = Values::new();
        let outcome = self.session.borrow_mut().multi_get(ReadAt::Latest, keyspace, keys, &mut values)?;
        match outcome {
            Outcome::Done(()) => Ok(values),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Values(values) => Ok(values),
                other => Err(unexpected(other)),
            },
        }
    }

    /// Writes `batch`, which may be empty.
    pub(crate) async fn write(&self, batch: &Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let outcome = self.session.borrow_mut().write(batch, WriteOptions::default())?;
        match outcome {
            Outcome::Done(_) => Ok(()),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Written(_) => Ok(()),
                other => Err(unexpected(other)),
            },
        }
    }

    /// Locks `keys` against every other command that may write them.
    pub(crate) async fn lock(&self, keys: &[(KeyspaceId, &[u8])]) -> Result<KeyLocks> {
        let outcome = self.session.borrow_mut().lock(keys);
        match outcome {
            Outcome::Done(locks) => Ok(locks),
            Outcome::Pending(ticket) => match self.completion(ticket).await {
                Completion::Locked(locks) => Ok(locks),
                other => Err(unexpected(other)),
            },
        }
    }
}

fn unexpected(completion: Completion) -> Failure {
    match completion {
        Completion::Failed(error) => error.into(),
        other => Error::bug(format!("an operation completed as {other:?}")).into(),
    }
}
