//! One thread's share of the connections.

mod mailbox;
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
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use firn_engine::{Completion, OrderedSession, Ticket};

use self::sending::lose;
use crate::access::Login;
use crate::client::{Client, ClientAddress, Description};
use crate::damaged_records::DamagedRecords;
use crate::duty;
use crate::execute::{Interpreters, PrefetchKeys, Scripts, unsubscribe_at_once, unwatch_at_once};
use crate::key_counts::{self, KeyCounts};
use crate::large_writes::LargeWrites;
use crate::latency::Latency;
use crate::log::Log;
use crate::monitors::Monitors;
use crate::net::{Event, Sockets, keep_alive};
use crate::observers::Observers;
use crate::parameters::Parameters;
use crate::pause::Pause;
use crate::processors::Processors;
use crate::purge_queue::PurgeQueue;
use crate::saver::Saver;
use crate::serve::serve;
use crate::settings::ServeSettings;
use crate::slow_log::SlowLog;
use crate::statistics::{Counters, Measure, Statistics};
use crate::store::Store;
use crate::subscriptions::{Addressee, Published, Subscriptions};
use crate::task::Tasks;

pub(crate) use clients::{ClientFilter, ClientKind};
pub(crate) use denied::DeniedPlace;
pub(crate) use mailbox::{Mailbox, Message};
pub(crate) use survey::Question;
pub(crate) use turns::Turns;
pub(crate) use waiting::Told;

/// What all workers of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) observers: Observers,
    pub(crate) purges: PurgeQueue,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) pause: Pause,
    pub(crate) scripts: Scripts,
    pub(crate) settings: ServeSettings,
    pub(crate) processors: Processors,
    pub(crate) parameters: Parameters,
    pub(crate) statistics: Statistics,
    pub(crate) slow_log: SlowLog,
    pub(crate) latency: Latency,
    pub(crate) monitors: Monitors,
    pub(crate) saver: Saver,
    pub(crate) large_writes: LargeWrites,
    pub(crate) key_counts: KeyCounts,
    pub(crate) damaged_records: DamagedRecords,
    /// What has expired is neither found nor removed by background work: for tests.
    pub(crate) is_expiry_paused: AtomicBool,
    /// Tells this run of the server from any other.
    pub(crate) run: u128,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) client_count: AtomicUsize,
    /// Held while a worker is found for a connection: each worker takes connections.
    pub(crate) placing: Mutex<()>,
    /// Clients that stand in line for keys.
    pub(crate) waiting_count: AtomicUsize,
    pub(crate) next_client: AtomicU64,
    /// The server stops, or has.
    pub(crate) is_ending: AtomicBool,
    pub(crate) log: Log,
}

impl Shared {
    /// Whether any client is to be told when keys change. Exact for a key whose lock the caller
    /// holds.
    #[inline]
    pub(crate) fn is_any_key_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// Whether what has expired is not to be removed now, since that would be a write.
    pub(crate) fn is_expiry_held(&self) -> bool {
        let now_ms = self.store.clock.now().as_millis() as u64;
        self.is_expiry_paused.load(Ordering::Relaxed) || self.pause.holds_writes(now_ms)
    }

    /// Forty digits that no other run of a server has.
    pub(crate) fn run_id(&self) -> String {
        format!("{:040x}", self.run)
    }

    /// Ends every worker.
    pub(crate) fn end(&self) {
        self.log.note_once(&self.is_ending, "stopping");
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(Message::Stop));
    }

    /// Lets a client that waits look at its keys.
    pub(crate) fn look(&self, waiter: ClientAddress) {
        self.mailboxes[waiter.worker].send(Message::Look { id: waiter.id, number: waiter.number });
    }
}

/// Number of the task that does what is to be done between requests.
const DUTY: u32 = 0;

/// Number of the task that counts keys.
const COUNTING: u32 = 1;

/// A thread with its sockets, its session of the engine and its tasks.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
    session: RefCell<Box<dyn OrderedSession>>,
    sockets: RefCell<Sockets>,
    tasks: Tasks,
    /// By number; the first two are never clients'.
    clients: RefCell<Vec<Option<Rc<Client>>>>,
    /// Numbers that no client has.
    free: RefCell<Vec<u32>>,
    /// Clients whose output waits to be sent.
    dirty: RefCell<Vec<Rc<Client>>>,
    /// Which task waits for which ticket; `None` where it does no more.
    waiting: RefCell<HashMap<Ticket, Option<u32>>>,
    arrived: RefCell<HashMap<Ticket, Completion>>,
    /// When which task is run although nothing came for it; milliseconds of the clock's `now`.
    timers: RefCell<BTreeSet<(u64, u32)>>,
    /// The time, asked for once a round.
    now_ms: Cell<u64>,
    random: RefCell<fastrand::Rng>,
    /// For keys and values of commands that keep nothing.
    buffers: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    pub(crate) prefetch_keys: PrefetchKeys,
    /// Clients that are shown every command.
    monitors: RefCell<Vec<Rc<Client>>>,
    /// How often a task has waited for the engine.
    waits: Cell<u64>,
    /// When connections are looked at next that say nothing; milliseconds since the Unix epoch.
    upkeep_due_ms: Cell<u64>,
    peaks: peaks::Peaks,
    is_stopping: Cell<bool>,
    /// See [`wait_in_place`](Self::wait_in_place).
    is_in_place: Cell<bool>,
    /// For scripts; none before the first one.
    pub(crate) interpreters: Interpreters,
}

impl Worker {
    /// The worker `index`, which gets a listener by [`listen`](Self::listen).
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> io::Result<Rc<Self>> {
        let mailbox = shared.mailboxes.get(index).ok_or(io::ErrorKind::InvalidInput)?;
        let sockets = Sockets::new(shared.settings.network, Arc::clone(&mailbox.alarm))?;
        let mut session = shared.store.engine.ordered_session();
        session.set_deferred(true);
        let now_ms = shared.store.clock.unix_ms();
        Ok(Rc::new(Self {
            shared,
            index,
            session: RefCell::new(session),
            sockets: RefCell::new(sockets),
            tasks: Tasks::default(),
            clients: RefCell::new(vec![None; 2]),
            free: RefCell::default(),
            dirty: RefCell::default(),
            waiting: RefCell::default(),
            arrived: RefCell::default(),
            timers: RefCell::default(),
            now_ms: Cell::new(now_ms),
            random: RefCell::new(fastrand::Rng::with_seed(now_ms.rotate_left(32) ^ index as u64)),
            buffers: RefCell::default(),
            prefetch_keys: PrefetchKeys::default(),
            monitors: RefCell::default(),
            waits: Cell::new(0),
            upkeep_due_ms: Cell::new(0),
            peaks: peaks::Peaks::default(),
            is_stopping: Cell::new(false),
            is_in_place: Cell::new(false),
            interpreters: Interpreters::default(),
        }))
    }

    /// Takes connections from `listener`, as every worker does, and gives each to the worker that
    /// has fewest.
    pub(crate) fn listen(&self, listener: std::net::TcpListener) -> io::Result<()> {
        self.sockets.borrow_mut().listen(listener)
    }

    /// Serves until told to stop.
    pub(crate) fn run(self: &Rc<Self>) -> io::Result<()> {
        if self.index == 0 {
            self.tasks.add(DUTY, Box::pin(duty::run(Rc::clone(self))));
            self.tasks.add(COUNTING, Box::pin(key_counts::run(Rc::clone(self))));
        }
        let mailbox = &self.shared.mailboxes[self.index];
        let waker = Waker::from(Arc::clone(&mailbox.alarm));
        while !self.is_stopping.get() {
            self.now_ms.set(self.shared.store.clock.unix_ms());
            self.run_timers();
            self.upkeep();
            self.tasks.run_ready(|id| self.forget(id));
            self.flush();
            let timeout = match self.deliver() || self.tasks.is_ready() {
                true => Some(Duration::ZERO),
                false => {
                    if !self.waiting.borrow().is_empty() {
                        self.session.borrow().notifier().register(&waker);
                    }
                    // The tasks that ran may have set timers.
                    Some(self.next_timer().map_or(upkeep::INTERVAL, |next| next.min(upkeep::INTERVAL)))
                }
            };
            let mut events = Vec::new();
            self.sockets.borrow_mut().wait(timeout, &mut |event| events.push(event))?;
            events.into_iter().for_each(|event| self.take(event));
        }
        // Tasks hold the worker, and the worker holds them.
        self.tasks.clear();
        debug_assert!(self.waiting.borrow().values().all(Option::is_none), "a task that is gone waits");
        debug_assert!(self.arrived.borrow().is_empty(), "something came for a task that is gone");
        self.flush();
        self.clients.borrow_mut().clear();
        self.monitors.borrow_mut().clear();
        Ok(())
    }

    /// Wakes the tasks whose time has come.
    fn run_timers(&self) {
        let mut timers = self.timers.borrow_mut();
        if timers.is_empty() {
            return;
        }
        let now_ms = self.monotonic_ms();
        while let Some((_, task)) = timers.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms) {
            timers.pop_first();
            self.tasks.wake(task);
        }
    }

    /// How long until the next task's time comes.
    fn next_timer(&self) -> Option<Duration> {
        let (due_ms, _) = *self.timers.borrow().first()?;
        Some(Duration::from_millis(due_ms.saturating_sub(self.monotonic_ms())))
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
            // What no task waits for any more goes here, locks with it.
            if let Some(Some(task)) = self.waiting.borrow_mut().remove(&ticket) {
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
                        Message::Serve { stream, number } => self.begin(stream, number),
                        Message::Publish { message, addressees } => {
                            self.deliver_message(&message, &addressees)
                        }
                        Message::Look { id, number } => {
                            if let Some(client) = self.client(id).filter(|client| client.number == number) {
                                client.is_told_to_look.set(true);
                                self.tasks.wake(id);
                            }
                        }
                        Message::Hand { id, number, handed } => {
                            let client = self.client(id).filter(|client| client.number == number);
                            // It does not wait any more, or locks for itself: dropped, that passes
                            // on.
                            if let Some(client) = client.filter(|client| client.takes_hands.get()) {
                                client.hands.borrow_mut().push_back(handed);
                                self.tasks.wake(id);
                            }
                        }
                        Message::Ask(question) => question.answer(self),
                        Message::Wake { task } => self.tasks.wake(task),
                        Message::Show(line) => self.show_own_monitors(&line),
                        Message::Stop => self.is_stopping.set(true),
                    }
                }
            }
        }
    }

    /// How others name `client`, which is this worker's.
    pub(crate) fn address_of(&self, client: &Client) -> ClientAddress {
        ClientAddress { worker: self.index, id: client.id, number: client.number }
    }

    /// Sends a message to these subscribers.
    pub(crate) fn publish(&self, message: Published, addressees: Vec<Addressee>) {
        let mut by_worker: Vec<Vec<Addressee>> = Vec::new();
        by_worker.resize_with(self.shared.mailboxes.len(), Vec::new);
        for addressee in addressees {
            by_worker[addressee.0.worker].push(addressee);
        }
        let message = Arc::new(message);
        for (index, addressees) in by_worker.into_iter().enumerate().filter(|(_, them)| !them.is_empty()) {
            match index == self.index {
                true => self.deliver_message(&message, &addressees),
                false => {
                    let message = Arc::clone(&message);
                    self.shared.mailboxes[index].send(Message::Publish { message, addressees });
                }
            }
        }
    }

    fn deliver_message(&self, message: &Published, addressees: &[Addressee]) {
        for (address, pattern) in addressees {
            let client = self.client(address.id).filter(|client| client.number == address.number);
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

    /// What this worker counts.
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        self.shared.statistics.of_worker(self.index)
    }

    /// How often a task has waited for the engine.
    #[inline]
    pub(crate) fn waits(&self) -> u64 {
        self.waits.get()
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
        let login = Login::new(&self.shared.store.users);
        let id = {
            let mut clients = self.clients.borrow_mut();
            let free = self.free.borrow_mut().pop().unwrap_or_else(|| {
                clients.push(None);
                clients.len() as u32 - 1
            });
            clients[free as usize] = Some(Rc::new(Client::new(free, number, description, login)));
            free
        };
        self.counters().add(Measure::Connections, 1);
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
            if !client.output.borrow().is_empty()
                && let Err(error) = self.settle()
            {
                lose(&client, error);
            }
            client.output.borrow_mut().send(&mut self.sockets.borrow_mut(), id);
        }
        self.sockets.borrow_mut().close(id);
        if let Some(client) = self.client(id) {
            unwatch_at_once(self, &client);
            unsubscribe_at_once(self, &client);
            self.unmonitor(&client);
        }
        self.clients.borrow_mut()[id as usize] = None;
        self.free.borrow_mut().push(id);
        self.shared.client_count.fetch_sub(1, Ordering::Relaxed);
        self.shared.mailboxes[self.index].client_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The client's output, if there is any, is sent at the end of this round.
    pub(crate) fn mark_dirty(&self, client: &Rc<Client>) {
        if !client.output.borrow().is_empty() && !client.is_dirty.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(client));
        }
    }
}

/// Memory that two unused buffers keep.
const BUFFER_BYTES_KEPT: usize = 256 << 10;
