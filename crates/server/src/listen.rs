//! A server: its server threads, and how it begins and ends.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use firn::PointDb;
use firn::storage::{Clock, Priority, Spawn, SystemClock, ThreadSpawn};

use crate::access::Users;
use crate::count_keys;
use crate::diagnostics::Diagnostics;
use crate::duty;
use crate::execute::Tools;
use crate::http::{DatabaseSite, HttpServer};
use crate::log::{Field, Log, LogLevel};
use crate::ports::Ports;
use crate::processors::Processors;
use crate::serve::serve;
use crate::server_thread::{Serve, ServerThread, Shared, Threads};
use crate::settings::{Network, ServeSettings};
use crate::store::Store;
use crate::task::Task;

/// A server that listens.
///
/// Owned by its starter; [`stop`](Self::stop) ends it, dropping it does too.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Arc<ThreadSpawn>,
    /// The first failure of a server thread.
    failure: Arc<Mutex<Option<io::Error>>>,
    http: Option<HttpServer>,
    /// It was told that the server threads have ended.
    was_stopped: AtomicBool,
}

impl Server {
    /// Serves `db` from now on, on threads of its own.
    ///
    /// # Errors
    /// What the system says of the address or of threads; `Unsupported` where a network is wished
    /// for that it does not give.
    pub fn start(db: &PointDb, settings: ServeSettings) -> io::Result<Self> {
        Self::start_with(db, settings, Arc::new(SystemClock::new()))
    }

    /// The same, with a clock of the caller's, which says when keys expire.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(db: &PointDb, settings: ServeSettings, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let ports = Ports::take(&settings)?;
        Self::start_on(ports, db, settings, clock)
    }

    /// The same, on ports that were taken before, by what `settings` say.
    ///
    /// # Errors
    /// What the system says of threads; `AddrInUse` if another process has begun to listen on one
    /// of the ports since.
    pub fn start_on(
        ports: Ports,
        db: &PointDb,
        settings: ServeSettings,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let settings = ServeSettings { network: ports.network, ..settings };
        let (store, recorded) = Store::open(db.clone(), clock).map_err(io::Error::other)?;
        let mut unreadable = Vec::new();
        let users = Users::new(&recorded, &mut unreadable);
        if let Some(password) = &settings.password {
            users.set_default_password(Some(password.bytes()));
        }
        let (listener, http) = ports.listen()?;
        let address = listener.local_addr()?;
        let threads = settings.threads.max(1);
        let log = Log::new(settings.log_format, settings.log_level, Arc::clone(&store.clock));
        let diagnostics = Diagnostics::new(log, &store.clock, threads, address.port());
        let processors = Processors::share_out(threads, settings.pins_threads);
        let threads = Threads::new(threads, processors)?;
        let shared = Shared::new(store, users, settings, threads, diagnostics, address.port());
        let http = http.map(|listener| {
            let (clock, shared) = (Arc::clone(&shared.store.clock), Arc::clone(&shared));
            HttpServer::start_with(listener, clock, |alarm| Box::new(DatabaseSite::new(shared, alarm)))
        });
        let http = http.transpose()?;
        let server = Self {
            address,
            shared,
            threads: Arc::default(),
            failure: Arc::default(),
            http,
            was_stopped: AtomicBool::new(false),
        };
        // Each takes connections, so that none depends on one thread. Connections that come before
        // all of them have started wait for those that have not.
        for index in (0..server.shared.threads.mailboxes.len()).rev() {
            server.start_thread(index, listener.try_clone()?)?;
        }
        server.note_start(&unreadable);
        Ok(server)
    }

    fn note_start(&self, unreadable_users: &[String]) {
        let (address, network) = (self.address.to_string(), self.network().to_string());
        let http = self.http_address().map_or_else(|| "none".to_owned(), |at| at.to_string());
        let dir = self.shared.settings.dir.display().to_string();
        let fields = [
            ("address", Field::Text(&address)),
            ("http", Field::Text(&http)),
            ("network", Field::Text(&network)),
            ("threads", Field::Number(self.shared.threads.mailboxes.len() as u64)),
            ("pinned", Field::Text(if self.shared.threads.processors.are_pinned() { "yes" } else { "no" })),
            ("dir", Field::Text(&dir)),
            ("process", Field::Number(u64::from(std::process::id()))),
        ];
        self.shared.diagnostics.log.note(LogLevel::Info, "started", &fields);
        self.note_dangers();
        for why in unreadable_users {
            self.shared.diagnostics.log.note(
                LogLevel::Error,
                "user_unreadable",
                &[("why", Field::Text(why))],
            );
        }
    }

    /// Warns of settings that are not granted, and of access that is open to all.
    fn note_dangers(&self) {
        let (log, settings) = (&self.shared.diagnostics.log, &self.shared.settings);
        if settings.clients_max > settings.clients_room {
            let fields = [
                ("wanted", Field::Number(settings.clients_max as u64)),
                ("clients_max", Field::Number(settings.clients_room as u64)),
                ("why", Field::Text("the process may have too few descriptors: raise ulimit -Hn")),
            ];
            log.note(LogLevel::Warn, "clients_max_lowered", &fields);
        }
        let is_far = |ip: IpAddr| !ip.to_canonical().is_loopback();
        if is_far(settings.bind) && !settings.is_protected && self.shared.users.is_open_to_all() {
            let address = self.address.to_string();
            let fields = [
                ("address", Field::Text(&address)),
                (
                    "why",
                    Field::Text(
                        "other machines may do anything without a password: set one, or protected mode",
                    ),
                ),
            ];
            log.note(LogLevel::Warn, "open_to_all", &fields);
        }
    }

    /// Starts a server thread, which takes connections from `listener`; waits until it is about to
    /// serve.
    ///
    /// # Errors
    /// What the system says of its thread, its descriptors and its memory.
    fn start_thread(&self, index: usize, listener: TcpListener) -> io::Result<()> {
        let (shared, failure) = (Arc::clone(&self.shared), Arc::clone(&self.failure));
        let (ready, is_ready) = mpsc::channel();
        let body = move || {
            let mut end = ThreadEnd { shared: Arc::clone(&shared), failure, index, is_regular: false };
            if let Err(error) = shared.threads.processors.pin(index) {
                let why = [("why", Field::Text(&error.to_string()))];
                shared.diagnostics.log.note(LogLevel::Warn, "thread_not_pinned", &why);
            }
            let ran = ServerThread::new(shared, index, serving()).and_then(|thread| {
                thread.listen(listener)?;
                // If the receiver is gone, the server is not wanted any more.
                let _ = ready.send(());
                thread.run(background(&thread))
            });
            match ran {
                Ok(()) => end.is_regular = true,
                Err(error) => end.note(error),
            }
        };
        let body = Box::new(body);
        self.threads
            .spawn(format!("firn-server-{index}"), Priority::Normal, body)
            .map_err(io::Error::other)?;
        if is_ready.recv().is_err() {
            self.shared.end();
            self.threads.join_all();
            let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            return Err(
                failure.unwrap_or_else(|| io::Error::other(format!("server thread {index} has ended")))
            );
        }
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it answers by HTTP, if it does: until it is stopped or dropped, so that the end can be
    /// watched.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// By what it speaks to its connections: never [`Network::Auto`].
    pub fn network(&self) -> Network {
        self.shared.settings.network
    }

    /// How many clients wait for something to stand at one of their keys.
    pub fn waiting_count(&self) -> usize {
        self.shared.observers.lines.client_count()
    }

    /// Waits until every server thread has ended: because of [`end`](Self::end), because a client
    /// said `SHUTDOWN`, or because one has failed.
    ///
    /// # Errors
    /// The first failure of a server thread.
    pub fn wait(&self) -> io::Result<()> {
        // A server thread that panicked has said so in its `ThreadEnd`.
        self.threads.join_all();
        self.shared.large_writes.finish();
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let log = &self.shared.diagnostics.log;
        if let Some(error) = &failure {
            log.note(LogLevel::Error, "thread_failed", &[("why", Field::Text(&error.to_string()))]);
        }
        log.note_more_slow(true);
        log.note_once(&self.was_stopped, "stopped");
        failure.map_or(Ok(()), Err)
    }

    /// Closes every connection and ends the server threads; does not wait for that.
    pub fn end(&self) {
        self.shared.end();
    }

    /// Closes every connection, ends the server threads and waits for that.
    ///
    /// # Errors
    /// The first failure of a server thread.
    pub fn stop(&self) -> io::Result<()> {
        self.end();
        let ended = self.wait();
        self.http.iter().for_each(HttpServer::stop);
        // Connections that a server thread was given when it did not look any more.
        self.shared.threads.mailboxes.iter().for_each(|mailbox| drop(mailbox.take()));
        ended
    }
}

/// What serves the clients of one thread.
fn serving() -> Serve {
    let tools = Rc::new(Tools::default());
    Box::new(move |thread, client| Box::pin(serve(Rc::clone(thread), Rc::clone(client), Rc::clone(&tools))))
}

/// What the server does by itself, all of it on its first thread.
fn background(thread: &Rc<ServerThread>) -> Vec<Task> {
    match thread.index {
        0 => vec![Box::pin(duty::run(Rc::clone(thread))), Box::pin(count_keys::run(Rc::clone(thread)))],
        _ => Vec::new(),
    }
}

/// The end of a server thread, however it comes: the others do not go on without it.
struct ThreadEnd {
    shared: Arc<Shared>,
    failure: Arc<Mutex<Option<io::Error>>>,
    index: usize,
    is_regular: bool,
}

impl ThreadEnd {
    fn note(&self, error: io::Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        if self.is_regular {
            return;
        }
        // Kept only where the server thread has said nothing itself.
        self.note(io::Error::other(format!("server thread {} has panicked", self.index)));
        self.shared.end();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A caller that needs the result has called `stop`.
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;

    use super::*;
    use crate::server_thread::{Message, Question};

    #[test]
    fn a_thread_that_panics_ends_the_server_with_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let db = firn::Db::open(dir.path()).unwrap();
        let settings = ServeSettings { port: 0, threads: 3, ..ServeSettings::default() };
        let server = Server::start(&db, settings).unwrap();
        let mut client = TcpStream::connect(server.address()).unwrap();
        server.shared.threads.mailboxes[1].send(Message::Ask(Question::deadly()));
        let error = server.wait().expect_err("it has failed");
        assert!(error.to_string().contains("server thread 1 has panicked"), "{error}");
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)), "nobody serves any more");
    }
}
