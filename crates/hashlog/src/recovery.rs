//! From files to a database.
//!
//! ```text
//!   manifest ─► begin, cut, first redo generation
//!   segments, begin to cut ─► index: the newest record of each chain    (rebuild.rs, threads)
//!   redo logs ─► newest change of each key ─► records behind the cut    (reapply.rs, threads)
//!   needless files go ─► older redo logs are ended ─► the next generation of them ─► edit ─► open
//! ```
//! Until all was read nothing is changed, so an opening that fails for damage leaves what it found.
//! What lies behind the cut in a segment is of a process that died, and is written over. A crash
//! amid a recovery leaves what was there: the redo logs stay until the next checkpoint.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use firn_engine::{Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, LockTable, Result};
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::ADDRESS_MIN;
use firn_format::manifest::Change;
use firn_maintenance::{Schedule, start_threads};
use firn_storage::StorageLock;
use firn_storage::backend::ReadPool;
use firn_storage::file::manifest::load;

use crate::cold::open_cold;
use crate::database::{Counters, Database, Environment, Maintenance, Moments};
use crate::device::Device;
use crate::division::Division;
use crate::epoch::Epochs;
use crate::error::{from_storage, no_memory};
use crate::index::Index;
use crate::keyspaces::{Keyspace, Keyspaces, with_slots_of};
use crate::log::Log;
use crate::ops::{Access, Key, Store};
use crate::parallel::Threads;
use crate::read_cache::ReadCache;
use crate::reapply::Again;
use crate::rebuild::Rebuild;
use crate::reclaim::Reclaim;
use crate::redo::{Begun, NextGeneration, Redo};
use crate::settings::{Background, HashOptions, HashSettings};
use crate::snapshots::Snapshots;
use crate::state::{Manifest, State};
use crate::stripes::Stripes;
use crate::values::Values;
use crate::waits::Waits;

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
    let epochs = Epochs::new(Some(&options.clock));
    let division = Division::of(&options.settings);
    let index = empty_index(options, &epochs)?;
    let log = Log::new((state.begin, state.cut), division.log_words_max(), page_bits).map_err(no_memory)?;
    let keyspaces = open_keyspaces(options, &state)?;
    let Segments { bases, cold_bases, needless } = segments(options, &state, segment_bits)?;
    let named: fn(u64) -> String = file_name::hybrid_segment;
    let identity = (state.database, state.redo);
    let device = Device::open(&options.storage, identity, segment_bits, (named, bases))?;
    let (cold, cold_values) = open_cold(&options.storage, &state, cold_bases, &|record| {
        Key::new(record.keyspace(), record.key()).hash.order()
    })?;
    index.set_reserved(division.reserved_bytes(cold.memory_bytes()));
    let values = Values::new(&options.storage)?;
    let cache = ReadCache::new(division.copy_bytes_max()).map_err(no_memory)?;
    let (stripes, replaced_values) = (Stripes::new(), crate::sync::Mutex::default());
    let store = Store { index, log, cache, division, cold, redo: None, epochs, stripes, replaced_values };
    let begun = Begun { database: state.database, first: state.redo, through: state.redo_through };
    let (storage, next_keyspace) = (Arc::clone(&options.storage), state.next_number);
    let rebuild = Rebuild { storage, store: Arc::new(store), device, values, begun, next_keyspace };
    let threads = Threads::of(options);
    let (rebuild, mut found) = rebuild.read(&threads, (state.begin, state.cut))?;
    found.of_log.extend(cold_values);
    // All is there and as it should be: only now anything is changed.
    needless.iter().try_for_each(|name| options.storage.remove(name)).map_err(from_storage)?;
    let Rebuild { storage, store, device, values, .. } = rebuild;
    store.divide_memory();
    let Again { store, device, .. } = Again { storage, store, device }.reapply(&threads, &found.logs)?;
    let mut store = Arc::try_unwrap(store).map_err(|_| Error::bug("a store that only recovery has"))?;
    values.recover(&found.of_redo, &found.of_log)?;
    let next = NextGeneration::make(&options.storage, state.database, begun.next())?;
    let snapshots = Snapshots::new(state.given);
    let changes = [
        Change::PositionsGiven { position: snapshots.given_ahead() },
        Change::RedoBegun { redo: begun.next() },
    ];
    store.redo = Some(Redo::new(&options.storage, state.database, next, &found.logs)?);
    manifest.commit(&changes).map_err(from_storage)?;
    let store = Arc::new(store);
    let access = Access::new(&store).ok_or_else(|| Error::bug("the first session finds no place"))?;
    let database = Arc::new(Database {
        env: environment(options),
        store,
        reclaim: Reclaim::new((state.begin, state.cold.begin), access),
        device,
        values,
        keyspaces,
        manifest: Mutex::new(manifest),
        snapshots,
        moments: Moments { batches: RwLock::new(()), checkpointing: Mutex::new(()) },
        locks: LockTable::new(),
        maintenance: maintenance(options)?,
        is_closed: AtomicBool::new(false),
        tick_ms: state.tick_ms,
        counters: Counters::checkpointed_to(state.checkpointed),
    });
    if let Background::Threads(spawn) = &options.background {
        start_threads(&database, options.settings.background_threads.max(2), &**spawn)?;
    }
    Ok((database, lock))
}

fn empty_index(options: &HashOptions, epochs: &Arc<Epochs>) -> Result<Index> {
    let HashSettings { index_bytes_max, index_keys_min, .. } = options.settings.engine;
    let buckets = usize::try_from(index_bytes_max / 64).unwrap_or(usize::MAX >> 8);
    let waits = Waits::timed_by(Some(&options.clock));
    let index = Index::new(buckets, Arc::clone(epochs), waits).map_err(no_memory)?;
    Ok(index.sized_for(index_keys_min))
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

/// Files of the log and the cold log.
#[derive(Default)]
struct Segments {
    /// The first addresses of the log's segments that count.
    bases: Vec<u64>,
    /// Those of the cold log's.
    cold_bases: Vec<u64>,
    /// What a process has begun behind the cuts, or has not removed any more.
    needless: Vec<String>,
}

fn segments(options: &HashOptions, state: &State, segment_bits: u32) -> Result<Segments> {
    let Segments { mut bases, mut cold_bases, mut needless } = Segments::default();
    let words = 1 << segment_bits;
    let is_needed = |base: u64, from: u64, to: u64| base.max(from) < to.min(base + words);
    for (name, _) in options.storage.list().map_err(from_storage)? {
        match file_name::parse(&name) {
            Some(FileName::HybridSegment(base)) if is_needed(base, state.begin, state.cut) => {
                bases.push(base)
            }
            Some(FileName::ColdSegment(base)) if is_needed(base, state.cold.begin, state.cold.cut) => {
                cold_bases.push(base);
            }
            Some(FileName::ColdRun(number)) if state.cold.runs.contains(&number) => {}
            Some(FileName::HybridSegment(_) | FileName::ColdSegment(_) | FileName::ColdRun(_)) => {
                needless.push(name);
            }
            _ => {}
        }
    }
    cold_bases.sort_unstable();
    Ok(Segments { bases, cold_bases, needless })
}

fn open_keyspaces(options: &HashOptions, state: &State) -> Result<Keyspaces> {
    let keyspaces = Keyspaces::default();
    for (id, (name, settings)) in &state.keyspaces {
        let settings = with_slots_of(*id, KeyspaceSettings::from_text(settings)?);
        keyspaces.put(Keyspace::new(KeyspaceId(*id), name, settings, &options.semantics)?);
    }
    Ok(keyspaces)
}
