//! One thread's share of the connections.

mod owners;
mod threads;
mod mailbox;
mod engine;
mod client_table;
mod sending;
mod waiting;
mod survey;
mod clients;
mod denied;
mod upkeep;
mod peaks;
mod placing;
mod turns;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use self::client_table::ClientTable;
use self::peaks::Peaks;
use self::sending::lose;
use crate::access::Login;
use crate::address::ClientAddress;
use crate::client::{Client, Description};
use crate::net::{Event, Sockets, keep_alive};
use crate::statistics::{Counters, Measure};
use crate::subscriptions::{Addressee, Published};
use crate::task::{Task, Tasks};

pub(crate) use clients::{ClientFilter, ClientKind};
pub(crate) use denied::DeniedScan;
pub(crate) use engine::EngineSession;
pub(crate) use mailbox::{Mailbox, Message};
pub(crate) use owners::Shared;
pub(crate) use survey::Question;
pub(crate) use threads::Threads;
pub(crate) use turns::Turns;
pub(crate) use waiting::WaitOutcome;

/// Numbers of tasks below this are the server's own; a connection has its socket's.
pub(super) const BACKGROUND_TASKS: u32 = 2;

/// What serves a client, as a task: given by the layer above, which knows what requests are.
pub(crate) type Serve = Box<dyn Fn(&Rc<ServerThread>, &Rc<Client>) -> Task>;

/// A thread with its sockets, its session of the engine and its tasks.
pub(crate) struct ServerThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
    pub(crate) engine: EngineSession,
    sockets: RefCell<Sockets>,
    tasks: Rc<Tasks>,
    clients: ClientTable,
    serve: Serve,
    /// Clients whose output waits to be sent.
    dirty: RefCell<Vec<Rc<Client>>>,
    /// Clients that are shown every command.
    monitors: RefCell<Vec<Rc<Client>>>,
    peaks: Peaks,
    /// The time, asked for once a round.
    now_ms: Cell<u64>,
    /// When connections are looked at next that say nothing; milliseconds since the Unix epoch.
    upkeep_due_ms: Cell<u64>,
    random: RefCell<fastrand::Rng>,
    /// For keys and values of commands that keep nothing.
    buffers: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    is_stopping: Cell<bool>,
}

impl ServerThread {
    /// The thread `index`, which gets a listener by [`listen`](Self::listen) and has its clients
    /// served by `serve`.
    pub(crate) fn new(shared: Arc<Shared>, index: usize, serve: Serve) -> io::Result<Rc<Self>> {
        let mailbox = shared.threads.mailboxes.get(index).ok_or(io::ErrorKind::InvalidInput)?;
        let sockets = Sockets::new(shared.settings.network, Arc::clone(mailbox.wakes.alarm()))?;
        let tasks = Rc::new(Tasks::default());
        let engine = EngineSession::new(shared.store.engines.session(), Rc::clone(&tasks));
        let now_ms = shared.store.clock.unix_ms();
        Ok(Rc::new(Self {
            shared,
            index,
            engine,
            sockets: RefCell::new(sockets),
            tasks,
            clients: ClientTable::new(),
            serve,
            dirty: RefCell::default(),
            monitors: RefCell::default(),
            peaks: Peaks::default(),
            now_ms: Cell::new(now_ms),
            upkeep_due_ms: Cell::new(0),
            random: RefCell::new(fastrand::Rng::with_seed(now_ms.rotate_left(32) ^ index as u64)),
            buffers: RefCell::default(),
            is_stopping: Cell::new(false),
        }))
    }

    /// Takes connections from `listener`, as every thread does, and gives each to the thread that
    /// has fewest.
    pub(crate) fn listen(&self, listener: std::net::TcpListener) -> io::Result<()> {
        self.sockets.borrow_mut().listen(listener)
    }

    /// Serves until told to stop, and runs the server's own tasks `background` beside it.
    pub(crate) fn run(self: &Rc<Self>, background: Vec<Task>) -> io::Result<()> {
        debug_assert!(background.len() <= BACKGROUND_TASKS as usize, "these have no numbers");
        (0..).zip(background).for_each(|(id, task)| self.tasks.add(id, task));
        let waker = Waker::from(Arc::clone(self.shared.threads.mailboxes[self.index].wakes.alarm()));
        while !self.is_stopping.get() {
            self.now_ms.set(self.shared.store.clock.unix_ms());
            self.tasks.run_timers(|| self.monotonic_ms());
            self.upkeep();
            self.tasks.run_ready(|id| self.forget(id));
            self.flush();
            let timeout = match self.engine.deliver() || self.tasks.is_ready() {
                true => Some(Duration::ZERO),
                false => {
                    self.engine.register(&waker);
                    // The tasks that ran may have set timers.
                    let next = self.tasks.next_timer(|| self.monotonic_ms());
                    Some(next.map_or(upkeep::INTERVAL, |next| next.min(upkeep::INTERVAL)))
                }
            };
            let mut events = Vec::new();
            self.sockets.borrow_mut().wait(timeout, &mut |event| events.push(event))?;
            events.into_iter().for_each(|event| self.take(event));
        }
        // Tasks hold the thread, and the thread holds them.
        self.tasks.clear();
        self.engine.end();
        self.flush();
        self.clients.clear();
        self.monitors.borrow_mut().clear();
        Ok(())
    }

    fn take(self: &Rc<Self>, event: Event) {
        match event {
            Event::Readable(id) => self.tasks.wake(id),
            Event::Writable(id) => {
                if let Some(client) = self.clients.get(id).filter(|client| client.outbox.is_blocked.get()) {
                    self.mark_dirty(&client);
                }
            }
            Event::Knock => {
                while let Some(stream) = self.accept() {
                    self.place(stream);
                }
            }
            Event::Woken => {
                let mailbox = &self.shared.threads.mailboxes[self.index];
                mailbox.wakes.take().into_iter().for_each(|task| self.tasks.wake(task));
                for message in mailbox.take() {
                    match message {
                        Message::Serve { stream, number } => self.begin(stream, number),
                        Message::Publish { message, addressees } => {
                            self.deliver_message(&message, &addressees)
                        }
                        Message::Look { id, number } => {
                            if let Some(client) = self.clients.get_numbered(id, number) {
                                client.waiting.is_notified.set(true);
                                self.tasks.wake(id);
                            }
                        }
                        Message::Hand { id, number, handed } => {
                            let client = self.clients.get_numbered(id, number);
                            // It does not wait any more, or locks for itself: dropped, that passes
                            // on.
                            if let Some(client) = client.filter(|client| client.waiting.takes_hands.get()) {
                                client.waiting.hands.borrow_mut().push_back(handed);
                                self.tasks.wake(id);
                            }
                        }
                        Message::Ask(question) => question.answer(self),
                        Message::Show(line) => self.show_own_monitors(&line),
                        Message::Stop => self.is_stopping.set(true),
                    }
                }
            }
        }
    }

    /// How others name `client`, which is this thread's.
    pub(crate) fn address_of(&self, client: &Client) -> ClientAddress {
        ClientAddress { thread: self.index, id: client.id, number: client.number }
    }

    /// Sends a message to these subscribers.
    pub(crate) fn publish(&self, message: Published, addressees: Vec<Addressee>) {
        let mut by_thread: Vec<Vec<Addressee>> = Vec::new();
        by_thread.resize_with(self.shared.threads.mailboxes.len(), Vec::new);
        for addressee in addressees {
            by_thread[addressee.0.thread].push(addressee);
        }
        let message = Arc::new(message);
        for (index, addressees) in by_thread.into_iter().enumerate().filter(|(_, them)| !them.is_empty()) {
            match index == self.index {
                true => self.deliver_message(&message, &addressees),
                false => {
                    let message = Arc::clone(&message);
                    self.shared.threads.mailboxes[index].send(Message::Publish { message, addressees });
                }
            }
        }
    }

    fn deliver_message(&self, message: &Published, addressees: &[Addressee]) {
        for (address, pattern) in addressees {
            let client = self.clients.get_numbered(address.id, address.number);
            let is_subscribed = |client: &Rc<Client>| {
                let name = pattern.as_deref().unwrap_or(message.channel());
                client.subscriptions.borrow().has(message.topic(pattern.is_some()), name)
            };
            // It may have said otherwise since the message was on its way.
            let Some(client) = client.filter(is_subscribed) else { continue };
            if self.has_room(&client, message.bytes()) {
                client.append_message(|protocol, out| message.encode(pattern.as_deref(), protocol, out));
                self.mark_dirty(&client);
            }
        }
    }

    /// What this thread counts.
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        self.shared.diagnostics.statistics.of_thread(self.index)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn random(&self, end: u64) -> u64 {
        self.random.borrow_mut().u64(0..end)
    }

    /// Two empty buffers, to be given back.
    pub(crate) fn take_buffers(&self) -> (Vec<u8>, Vec<u8>) {
        self.buffers.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps buffers for others, unless they are large.
    pub(crate) fn give_buffers(&self, mut first: Vec<u8>, mut second: Vec<u8>) {
        first.clear();
        second.clear();
        if first.capacity() + second.capacity() <= BUFFER_BYTES_KEPT {
            self.buffers.borrow_mut().push((first, second));
        }
    }

    fn begin(self: &Rc<Self>, stream: TcpStream, number: u64) {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let peer = stream.peer_addr().unwrap_or(unknown);
        let local = stream.local_addr().unwrap_or(unknown);
        let description = Description::new(peer, local, stream.as_raw_fd(), self.monotonic_ms());
        // A connection that is over already says so when it is adopted.
        let _ = keep_alive(&stream, self.shared.parameters.keepalive_s());
        let login = Login::new(&self.shared.users);
        let client = self.clients.add(|id| Client::new(id, number, description, login));
        self.counters().add(Measure::Connections, 1);
        if self.sockets.borrow_mut().adopt(client.id, stream).is_err() {
            return self.forget(client.id);
        }
        self.tasks.add(client.id, (self.serve)(self, &client));
    }

    /// The connection is over.
    fn forget(&self, id: u32) {
        if let Some(client) = self.clients.get(id) {
            // What can be sent at once is: it may say why the connection ends.
            if !client.outbox.output.borrow().is_empty()
                && let Err(error) = self.engine.settle()
            {
                lose(&client, error);
            }
            client.outbox.output.borrow_mut().send(&mut self.sockets.borrow_mut(), id);
        }
        self.sockets.borrow_mut().close(id);
        if let Some(client) = self.clients.get(id) {
            self.leave(&client);
            self.unmonitor(&client);
        }
        self.clients.remove(id);
        self.shared.threads.give_room();
        self.shared.threads.mailboxes[self.index].client_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// What the client watched and was subscribed to is so no more: of a connection that ends
    /// without its task.
    fn leave(&self, client: &Client) {
        if let Some(watch) = client.watch.borrow_mut().take() {
            let (flag, keys) = watch.into_parts();
            keys.for_each(|key| self.shared.observers.unwatch(&key, &flag));
        }
        let subscriptions = std::mem::take(&mut *client.subscriptions.borrow_mut());
        self.shared.subscriptions.remove_all(&subscriptions, self.address_of(client));
    }

    /// The client's output, if there is any, is sent at the end of this round.
    pub(crate) fn mark_dirty(&self, client: &Rc<Client>) {
        if !client.outbox.output.borrow().is_empty() && !client.outbox.is_dirty.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(client));
        }
    }
}

/// Memory that two unused buffers keep.
const BUFFER_BYTES_KEPT: usize = 256 << 10;
