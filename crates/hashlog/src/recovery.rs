//! From files to a database.
//!
//! ```text
//!   manifest ─► begin, cut, first redo generation
//!   segments, begin to cut ─► index: the newest record of each chain
//!   redo logs ─► newest change of each key ─► records behind the cut
//!   needless files go ─► older redo logs are ended ─► the next generation of them ─► edit ─► open
//! ```
//! Until all was read nothing is changed, so an opening that fails for damage leaves what it found.
//! What lies behind the cut in a segment is of a process that died, and is written over. A crash
//! amid a recovery leaves what was there: the redo logs stay until the next checkpoint.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use firn_engine::{
    Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Location, LockTable, Result,
};
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::ADDRESS_MIN;
use firn_format::hybrid::redo::RedoChange;
use firn_format::manifest::Change;
use firn_maintenance::{Schedule, start_threads};
use firn_storage::StorageLock;
use firn_storage::backend::ReadPool;
use firn_storage::file::manifest::load;

use crate::database::{Counters, Database, Environment, Maintenance, Moments};
use crate::device::{Contents, Device};
use crate::epoch::Epochs;
use crate::error::from_storage;
use crate::index::{Index, Inserted};
use crate::keyspaces::{Keyspace, Keyspaces, ONE_SLOT, number_of_keyspace};
use crate::log::Log;
use crate::ops::{Access, Key, Store};
use crate::read_cache::ReadCache;
use crate::reapply::Reapply;
use crate::reclaim::Reclaim;
use crate::redo::{Begun, Look, NextGeneration, Recovered, Redo, find, replay};
use crate::settings::{Background, HashOptions, HashSettings};
use crate::snapshots::Snapshots;
use crate::state::{Manifest, State};
use crate::stripes::Stripes;
use crate::values::{Values, number_of};

/// Edits after which one restates everything.
const EDITS_MAX: u64 = 64;

/// Reads that wait for a thread, at most.
const QUEUED_READS_MAX: usize = 1 << 16;

/// Opens the database of `options`; the lock is held as long as the answer's second half.
pub(crate) fn open(options: &HashOptions) -> Result<(Arc<Database>, Box<dyn StorageLock>)> {
    options.settings.validate_limits()?;
    let lock = options.storage.lock(true).map_err(from_storage)?;
    let mut manifest = load_manifest(options)?;
    let state = manifest.state().clone();
    let Some((page_bits, segment_bits)) = state.sizes else {
        return Err(Error::new(ErrorKind::Corrupt, "the manifest names no sizes of a hashed database"));
    };
    let epochs = Epochs::new();
    let HashSettings { index_bytes_max, read_cache_bytes, .. } = options.settings.engine;
    let log_bytes = options.settings.memory_bytes.saturating_sub(index_bytes_max + read_cache_bytes);
    let buckets = usize::try_from(index_bytes_max / 64).unwrap_or(usize::MAX >> 8);
    let index = Index::new(buckets, Arc::clone(&epochs)).map_err(no_memory)?;
    let log = Log::new((state.begin, state.cut), log_bytes / 8, page_bits).map_err(no_memory)?;
    let keyspaces = open_keyspaces(options, &state)?;
    let (bases, needless) = segments(options, &state, segment_bits)?;
    let device = Device::open(&options.storage, (state.database, state.redo), segment_bits, bases)?;
    let values = Values::new(&options.storage)?;
    let mut needed = Needed { values: &values, next_keyspace: state.next_number, live: BTreeSet::new() };
    let zeros = device.scan((state.begin, state.cut), page_bits, &mut |address, record| {
        needed.check_keyspace(record.keyspace(), || device.location(address))?;
        needed.note(record.content().is_reference, record.value());
        let mut contents = Contents::default();
        contents.add_record(record.keyspace(), record.content(), record.words());
        device.count(address, &contents);
        put(&index, Key::new(record.keyspace(), record.key()), address)
    })?;
    // A checkpoint is cut where a record ends.
    zeros.map_or(Ok(()), |zeros| Err(device.zeros_at(zeros)))?;
    let begun = Begun { database: state.database, first: state.redo, through: state.redo_through };
    let of_log = std::mem::take(&mut needed.live);
    let logs = find(&*options.storage, begun, &mut needed)?;
    // All is there and as it should be: only now anything is changed.
    needless.iter().try_for_each(|name| options.storage.remove(name)).map_err(from_storage)?;
    let replaced_values = crate::sync::Mutex::default();
    let cache = ReadCache::new(read_cache_bytes).map_err(no_memory)?;
    let store = Store { index, log, cache, redo: None, epochs, replaced_values };
    let mut store = replay_into(options, &logs, store, &device)?;
    values.recover(&needed.live, &of_log)?;
    let next = NextGeneration::make(&options.storage, state.database, begun.next())?;
    let snapshots = Snapshots::new(state.given);
    let changes = [
        Change::PositionsGiven { position: snapshots.given_ahead() },
        Change::RedoBegun { redo: begun.next() },
    ];
    store.redo = Some(Redo::new(&options.storage, state.database, next, &logs)?);
    manifest.commit(&changes).map_err(from_storage)?;
    let store = Arc::new(store);
    let access = Access::new(&store).ok_or_else(|| Error::bug("the first session finds no place"))?;
    let database = Arc::new(Database {
        env: environment(options),
        store,
        reclaim: Reclaim::new(state.begin, access),
        device,
        values,
        keyspaces,
        manifest: Mutex::new(manifest),
        snapshots,
        moments: Moments { stripes: Stripes::new(), batches: RwLock::new(()), checkpointing: Mutex::new(()) },
        locks: LockTable::new(),
        maintenance: maintenance(options)?,
        is_closed: AtomicBool::new(false),
        tick_ms: state.tick_ms,
        counters: Counters::default(),
    });
    if let Background::Threads(spawn) = &options.background {
        start_threads(&database, options.settings.background_threads.max(2), &**spawn)?;
    }
    Ok((database, lock))
}

fn environment(options: &HashOptions) -> Environment {
    Environment {
        storage: Arc::clone(&options.storage),
        settings: options.settings.clone(),
        semantics: options.semantics.clone(),
        clock: Arc::clone(&options.clock),
    }
}

fn maintenance(options: &HashOptions) -> Result<Maintenance> {
    let pool = match &options.background {
        Background::Threads(spawn) => {
            let threads = options.settings.read_threads;
            Some(ReadPool::new(threads, QUEUED_READS_MAX, &**spawn).map_err(from_storage)?)
        }
        Background::Manual => None,
    };
    Ok(Maintenance {
        schedule: Schedule::new(matches!(options.background, Background::Manual)),
        pool,
        flushing: Mutex::new(()),
        failure: OnceLock::new(),
    })
}

fn load_manifest(options: &HashOptions) -> Result<Manifest> {
    let loaded = load::<State>(&*options.storage, 0).map_err(from_storage)?;
    let is_new = loaded.is_none();
    if is_new && !options.create {
        let backend = options.storage.describe();
        let message = format!("{backend} holds no database; create one by opening it for writing");
        return Err(Error::invalid(message));
    }
    let components = (Arc::clone(&options.storage), Arc::clone(&options.clock));
    let mut manifest = Manifest::new(components, loaded, EDITS_MAX);
    if is_new {
        let bits = |bytes: u64| (bytes / 8).ilog2();
        let engine = &options.settings.engine;
        let default = KeyspaceSettings::default().to_text();
        let changes = [
            Change::Database { id: fastrand::Rng::with_seed(options.seed).u128(..) },
            Change::Hashed { page_bits: bits(engine.page_bytes), segment_bits: bits(engine.segment_bytes) },
            Change::Keyspace { id: KEYSPACE_DEFAULT.0, name: "default".to_owned(), settings: default },
            Change::HybridCut { address: ADDRESS_MIN, redo: 1 },
        ];
        manifest.commit(&changes).map_err(from_storage)?;
    }
    Ok(manifest)
}

/// What recovery finds in records and changes besides keys and values.
struct Needed<'v> {
    values: &'v Values,
    /// Keyspaces from this number on were never made.
    next_keyspace: u64,
    /// Values that lie alone and are referred to.
    live: BTreeSet<u64>,
}

impl Needed<'_> {
    fn note(&mut self, is_reference: bool, value: &[u8]) {
        if is_reference && let Some(number) = number_of(value) {
            self.live.insert(number);
        }
    }

    fn check_keyspace(&self, id: u32, location: impl FnOnce() -> Location) -> Result<()> {
        if number_of_keyspace(id) < self.next_keyspace {
            return Ok(());
        }
        let message = format!(
            "a record of keyspace {id}, which the manifest does not know: is its newest edit missing?"
        );
        Err(Error::new(ErrorKind::Corrupt, message).at(location()))
    }
}

impl Look for Needed<'_> {
    fn look(&mut self, change: &RedoChange<'_>, name: &str, is_same_run: bool) -> Result<bool> {
        self.check_keyspace(change.keyspace, || Location { file: name.to_owned(), offset: None })?;
        self.note(change.shape.is_reference, change.value);
        if is_same_run || !change.shape.is_reference {
            return Ok(true);
        }
        // It was written before the change, and may not have been synced.
        match self.values.read(change.value) {
            Ok(value) => Ok(value.is_some()),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The first addresses of the segments that count, and the files of those that a process has begun
/// behind the cut.
fn segments(options: &HashOptions, state: &State, segment_bits: u32) -> Result<(Vec<u64>, Vec<String>)> {
    let (mut bases, mut needless) = (Vec::new(), Vec::new());
    for (name, _) in options.storage.list().map_err(from_storage)? {
        if let Some(FileName::HybridSegment(base)) = file_name::parse(&name) {
            match base.max(state.begin) < state.cut.min(base + (1 << segment_bits)) {
                true => bases.push(base),
                false => needless.push(name),
            }
        }
    }
    Ok((bases, needless))
}

fn open_keyspaces(options: &HashOptions, state: &State) -> Result<Keyspaces> {
    let keyspaces = Keyspaces::default();
    for (id, (name, settings)) in &state.keyspaces {
        let settings =
            KeyspaceSettings { in_one_slot: *id & ONE_SLOT != 0, ..KeyspaceSettings::from_text(settings)? };
        keyspaces.put(Keyspace::new(KeyspaceId(*id), name, settings, &options.semantics)?);
    }
    Ok(keyspaces)
}

/// Has the chain of `key` begin at `address`, which is newer than all before.
fn put(index: &Index, key: Key<'_>, address: u64) -> Result<()> {
    match index.insert(key.hash, address) {
        Inserted::New => Ok(()),
        Inserted::Existing(place, entry) if index.lead_to(place, entry, address) => Ok(()),
        Inserted::Existing(..) => Err(Error::bug("an index that changes during recovery")),
        Inserted::Full => {
            Err(Error::invalid("the index needs more memory than index_bytes_max: raise it, or memory_bytes"))
        }
    }
}

/// Puts what redo logs have behind the cut.
fn replay_into(options: &HashOptions, logs: &[Recovered], store: Store, device: &Device) -> Result<Store> {
    let store = Arc::new(store);
    let mut access = Access::new(&store).ok_or_else(|| Error::bug("the first session finds no place"))?;
    let mut again = Reapply::new(&mut access, device);
    replay(&*options.storage, logs, &mut |generation, change| again.take(generation, change))?;
    again.end()?;
    drop(access);
    Arc::try_unwrap(store).map_err(|_| Error::bug("a store that only recovery has"))
}

fn no_memory(error: std::io::Error) -> Error {
    let message = "the system gives no memory for index and log: lower memory_bytes";
    Error::new(ErrorKind::Retry, message).because(Error::invalid(error.to_string()))
}
