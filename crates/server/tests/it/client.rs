//! A server of a test's own, and a client that believes nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use firn::{EngineKind, PointDb};
use firn_engine::blocking::Blocking;
use firn_engine::{BatchLimit, HashBatch, HashCursor, HashScan, ReadAt};
use firn_format::datatype::KEYSPACES;
use firn_protocol::resp::{Value, decode};
use firn_server::{Network, ServeSettings, Server};
use tempfile::TempDir;

use super::{ENGINE, NETWORK};

/// A server on a free port with a database in a folder that goes with it.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) db: PointDb,
    dir: TempDir,
}

/// Whether keys are in order, as hashes, lists, sets and sorted sets need it.
pub(crate) const IS_ORDERED: bool = matches!(ENGINE, EngineKind::Tree);

/// Shared tests that run on the ordered engine alone, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    ("a_flood_of_deletions_is_purged", "it deletes collections"),
    (
        "large_messages_come_whole_and_in_order_to_clients_of_all_kinds",
        "it ends with a hash whose fields make a long reply",
    ),
    ("a_script_that_cannot_be_suspended_walks_far", "its scripts walk over a list"),
];

/// Says that a shared test is left out on an engine without order: one of the list.
pub(crate) fn leave_out(test: &str) {
    let (_, why) = LEFT_OUT.iter().find(|(name, _)| *name == test).expect("it is in LEFT_OUT");
    // Of what macros print the harness keeps to itself what a test that passes has said.
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {test}, on the engine hashlog: {why}");
}

impl Served {
    pub(crate) fn start(threads: usize) -> Self {
        Self::with(ServeSettings { threads, ..ServeSettings::default() })
    }

    pub(crate) fn with(settings: ServeSettings) -> Self {
        Self::of(ENGINE, settings)
    }

    /// A server of a database of this engine.
    pub(crate) fn of(engine: EngineKind, settings: ServeSettings) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let db = firn::Db::builder(dir.path()).engine(engine).open_points().expect("a database");
        Self::on(dir, db, settings)
    }

    /// A server of this database, whose folder goes with it.
    pub(crate) fn on(dir: TempDir, db: PointDb, settings: ServeSettings) -> Self {
        let server = serve(&db, settings);
        Self { server, db, dir }
    }

    /// The database, whose keys are in order.
    fn ordered(&self) -> firn::Db {
        self.db.ordered().expect("keys are in order")
    }

    /// How many records a keyspace of the engine has.
    pub(crate) fn records(&self, keyspace: &str) -> usize {
        let id = self.db.keyspace(keyspace).expect("it is there");
        match self.db.engine().hashed() {
            None => self.ordered().in_keyspace(id).range(..).expect("a scan").count(),
            Some(engine) => {
                let mut session = Blocking::new(engine.hashed_session());
                let (mut batch, mut next, mut count) = (HashBatch::new(), Some(HashCursor::START), 0);
                while let Some(from) = next {
                    let limit = BatchLimit::default();
                    let scan = HashScan { keyspace: id, from, limit, has_values: false };
                    session.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("a scan");
                    count += batch.records().len();
                    next = batch.next();
                }
                count
            }
        }
    }

    /// Puts a record beside the server.
    pub(crate) fn put_record(&self, keyspace: &str, key: &[u8], value: &[u8]) {
        let id = self.db.keyspace(keyspace).expect("it is there");
        self.db.in_keyspace(id).put(key, value).expect("it is put");
    }

    /// Deletes a keyspace's first record beside the server.
    pub(crate) fn lose_record(&self, keyspace: &str) {
        let records = self.ordered().in_keyspace(self.db.keyspace(keyspace).expect("it is there"));
        let first = records.range(..).expect("a scan").next().expect("a record").expect("it is read");
        records.delete(&first.0).expect("it is deleted");
    }

    /// Dead records that the engine's scans have passed.
    pub(crate) fn dead_passed(&self) -> u64 {
        self.db.stats().tree.expect("a tree").scan_dead_passed_count
    }

    /// Has the engine write all that is buffered to tables, and compact them if `compact` says so.
    pub(crate) fn flush(&self, compact: bool) {
        self.db.flush().expect("it flushes");
        for name in KEYSPACES.iter().filter(|_| compact) {
            let id = self.db.keyspace(name).expect("it is there");
            self.ordered().in_keyspace(id).compact_range(b"", None).expect("it compacts");
        }
    }

    /// The same, of all of them.
    pub(crate) fn counts(&self) -> Vec<(&'static str, usize)> {
        KEYSPACES.iter().map(|name| (*name, self.records(name))).collect()
    }

    /// What the files of the database take on disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.dir.path()).expect("a folder");
        let blocks = files.map(|file| file.and_then(|file| file.metadata()).map_or(0, |data| data.blocks()));
        blocks.sum::<u64>() * 512
    }

    /// Ends it, lets `change` loose on the folder, and serves it again.
    pub(crate) fn restart_after(self, change: impl FnOnce(&Path)) -> Self {
        self.server.stop().expect("it ends");
        self.db.close().expect("it closes");
        drop(self.db);
        change(self.dir.path());
        let db = PointDb::open(self.dir.path()).expect("a database");
        Self::on(self.dir, db, ServeSettings::default())
    }

    /// Ends it, and serves the same folder again.
    pub(crate) fn restart(self) -> Self {
        self.restart_with(ServeSettings::default())
    }

    /// The same, with other settings.
    pub(crate) fn restart_with(self, settings: ServeSettings) -> Self {
        self.server.stop().expect("it ends");
        self.db.close().expect("it closes");
        drop(self.db);
        let db = PointDb::open(self.dir.path()).expect("a database");
        Self::on(self.dir, db, settings)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.server.address())
    }
}

/// A server of `db` on a free port, by the network that is tested.
pub(crate) fn serve(db: &PointDb, settings: ServeSettings) -> Server {
    let start = |network| Server::start(db, ServeSettings { port: 0, network, ..settings.clone() });
    let server = start(NETWORK).or_else(|error| match error.kind() {
        ErrorKind::Unsupported => {
            // Past the capture of what tests print: a skipped test must not look like a passed one.
            let _ = writeln!(std::io::stderr(), "skipped: {error}; epoll is tested instead");
            start(Network::Epoll)
        }
        _ => Err(error),
    });
    server.expect("a server")
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
    /// The last reply as it came.
    pub(crate) raw: Vec<u8>,
}

/// A request's bytes.
pub(crate) fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        // Long: under sanitizers, beside other tests, a script may take a minute.
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("an option");
        Self { stream, input: Vec::new(), raw: Vec::new() }
    }

    /// Sends the words of `line` and returns the reply.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) -> Value {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.call(&words)
    }

    #[track_caller]
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        self.stream.write_all(&request(arguments)).expect("it is sent");
        self.reply().expect("a reply")
    }

    /// The next reply; `None` at the end of the connection.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Option<Value> {
        loop {
            if let Some((value, bytes)) = decode(&self.input).expect("a reply") {
                self.raw = self.input.drain(..bytes).collect();
                return Some(value);
            }
            let mut piece = [0; 64 << 10];
            match self.stream.read(&mut piece) {
                // A client that is turned away while it sends may lose the connection before it has
                // read why.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("nothing comes: {error}"),
                Ok(0) => {
                    assert!(self.input.is_empty(), "half a reply: {:?}", self.input);
                    return None;
                }
                Ok(bytes) => self.input.extend_from_slice(&piece[..bytes]),
            }
        }
    }
}

pub(crate) fn ok() -> Value {
    Value::Simple("OK".into())
}

pub(crate) fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

pub(crate) fn error(text: &str) -> Value {
    Value::Error(text.into())
}
