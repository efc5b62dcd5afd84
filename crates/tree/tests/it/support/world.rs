//! A database whose machine the test owns: its storage, its clock, its crashes.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::blocking::{Blocking, OrderedBlocking};
use firn_engine::conformance::{ADD, APPEND, PREFIX_4, semantics};
use firn_engine::{
    Durability, Error, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered, Position, ReadAt, Result,
    ScanRange, WriteOptions,
};
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{Clock, ManualClock, Storage, SystemClock, ThreadSpawn};
use firn_tree::{Background, Settings, Tree, TreeOptions};

/// The smallest segments there are, so that rolls, freezes and flushes happen all the time.
pub(crate) fn tiny() -> Settings {
    Settings { memory_bytes: 64 << 20, ..Settings::default() }.with_engine(|tree| {
        tree.log_segment_bytes = 4 << 20;
        tree.memtable_bytes = 4 << 20;
        tree.buffer_bytes = 12 << 20;
        tree.buffer_bytes_max = 32 << 20;
        tree.log_bytes_max = 64 << 20;
        tree.table_bytes = 1 << 20;
        tree.merge_fan_in = 2;
        tree.level0_runs_max = 4;
    })
}

/// Storage, clock and settings of one database; trees come and go.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) storage: Memory,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) settings: Settings,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { storage: Memory::new(), clock: Arc::new(ManualClock::new(1_000_000)), settings }
    }

    /// The same database as found after a crash.
    pub(crate) fn crash(&self, crash: Crash) -> Self {
        Self { storage: self.storage.crash(crash), ..self.clone() }
    }

    /// The same, as found after a loss of power, on a file system that keeps the names of files in
    /// no order.
    pub(crate) fn crash_without_order(&self, seed: u64) -> Self {
        Self { storage: self.storage.crash_without_order(seed), ..self.clone() }
    }

    /// Names of its files that end so.
    pub(crate) fn storage_names(&self, ending: &str) -> Vec<String> {
        let names = self.storage.list().unwrap().into_iter().map(|(name, _)| name);
        names.filter(|name| name.ends_with(ending)).collect()
    }

    pub(crate) fn options(&self) -> TreeOptions {
        TreeOptions {
            storage: Arc::new(self.storage.clone()) as Arc<dyn Storage>,
            settings: self.settings.clone(),
            semantics: semantics(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            background: Background::Manual,
            executor: None,
            seed: 7,
            create: true,
            read_only: false,
            take_over: false,
        }
    }

    /// Opens it; background work happens when `step` is called.
    pub(crate) fn open(&self) -> Result<Arc<Tree>> {
        Tree::open(self.options())
    }

    /// Opens it with background threads.
    pub(crate) fn open_threads(&self) -> Arc<Tree> {
        self.open_on(Arc::new(self.storage.clone()), threads())
    }

    /// Opens what lies on `storage` with background threads and the machine's clock, so that delays
    /// pass by themselves.
    pub(crate) fn open_timed(&self, storage: Arc<dyn Storage>) -> Arc<Tree> {
        let clock = Arc::new(SystemClock::new()) as Arc<dyn Clock>;
        Tree::open(TreeOptions { storage, clock, background: threads(), ..self.options() }).unwrap()
    }

    /// Opens what lies on `storage`, some wrapper of this world's.
    pub(crate) fn open_on(&self, storage: Arc<dyn Storage>, background: Background) -> Arc<Tree> {
        Tree::open(TreeOptions { storage, background, ..self.options() }).unwrap()
    }
}

pub(crate) fn threads() -> Background {
    Background::Threads(Arc::new(ThreadSpawn::new()))
}

pub(crate) fn session(tree: &Tree) -> OrderedBlocking {
    Blocking::new(tree.ordered_session())
}

/// Removes every key of `start..end`, by a session of its own.
pub(crate) fn delete_range(tree: &Tree, keyspace: KeyspaceId, start: &[u8], end: &[u8]) -> Result<Position> {
    session(tree).delete_range(keyspace, start, end, WriteOptions::default())
}

pub(crate) fn put(session: &mut OrderedBlocking, key: &[u8], value: &[u8]) -> Position {
    session.put(KEYSPACE_DEFAULT, key, value, WriteOptions::default()).unwrap()
}

/// Puts and waits for the device.
pub(crate) fn put_disk(session: &mut OrderedBlocking, key: &[u8], value: &[u8]) -> Result<Position> {
    session.put(KEYSPACE_DEFAULT, key, value, DISK)
}

/// Options of a write that survives loss of power.
pub(crate) const DISK: WriteOptions = WriteOptions { durability: Some(Durability::Disk), expires_at_ms: 0 };

pub(crate) fn get(session: &mut OrderedBlocking, key: &[u8]) -> Option<Vec<u8>> {
    get_in(session, KEYSPACE_DEFAULT, key)
}

pub(crate) fn get_in(session: &mut OrderedBlocking, keyspace: KeyspaceId, key: &[u8]) -> Option<Vec<u8>> {
    session.get(ReadAt::Latest, keyspace, key).unwrap()
}

/// A keyspace with the suite's appending operator.
pub(crate) fn appending() -> KeyspaceSettings {
    KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..KeyspaceSettings::default() }
}

/// A keyspace with the suite's adding operator.
pub(crate) fn adding() -> KeyspaceSettings {
    KeyspaceSettings { merge_operator: Some(ADD.to_owned()), ..KeyspaceSettings::default() }
}

/// A keyspace whose filters know the first four bytes of keys.
pub(crate) fn prefixed() -> KeyspaceSettings {
    KeyspaceSettings { prefix_extractor: Some(PREFIX_4.to_owned()), ..appending() }
}

/// Keys and values of a scan.
pub(crate) fn rows(
    session: &mut OrderedBlocking,
    at: ReadAt<'_>,
    keyspace: KeyspaceId,
    range: ScanRange,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    session.scan(at, keyspace, range).unwrap().collect::<Result<_>>().unwrap()
}

/// Does background work until there is none.
pub(crate) fn settle(tree: &Tree) {
    while tree.step().unwrap() {}
}

/// Something that happens where a backend is slow: the clock of a faulty backend's delays.
#[derive(Default)]
pub(crate) struct Hook(Mutex<Option<Box<dyn FnMut() + Send>>>);

impl Hook {
    pub(crate) fn set(&self, happens: impl FnMut() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(happens));
    }

    /// A backend where it happens before each such operation on the files.
    pub(crate) fn before(self: &Arc<Self>, inner: &Memory, on: Operation, file: &str) -> Faulty {
        let faulty = Faulty::with_clock(Arc::new(inner.clone()), Arc::clone(self) as _);
        let (effect, when) = (Effect::Delay(Duration::from_millis(1)), When::Always { after: 0 });
        faulty.inject(Fault { on, file: file.to_owned(), when, effect });
        faulty
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl Clock for Hook {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, _time: Duration) {
        // What has failed has been reported.
        if std::thread::panicking() {
            return;
        }
        // Not again while it happens.
        let taken = self.0.lock().unwrap().take();
        if let Some(mut happens) = taken {
            happens();
            *self.0.lock().unwrap() = Some(happens);
        }
    }
}

/// The seed of a random test: from `FIRN_SEED` if it is there, else `seed`. Printed, so that a
/// failure can be repeated.
pub(crate) fn seed(seed: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test's seed comes from its caller")]
    let given = std::env::var("FIRN_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(seed);
    println!("FIRN_SEED={seed}");
    seed
}

/// Says what an error is, with its causes, for assertions about it.
pub(crate) fn describe(error: &Error) -> String {
    format!("{:?}: {error}", error.kind())
}

/// A backend that takes `delay` longer for each such operation on the files.
pub(crate) fn slow(world: &World, file: &str, on: Operation, delay: Duration) -> Faulty {
    let faulty = Faulty::with_clock(Arc::new(world.storage.clone()), Arc::new(SystemClock::new()));
    let (file, when) = (file.to_owned(), When::Always { after: 0 });
    faulty.inject(Fault { on, file, when, effect: Effect::Delay(delay) });
    faulty
}
