//! From files to a database.
//!
//! ```text
//!   manifest ─► begin, cut, first redo generation               (owner.rs: whose database it is)
//!   segments, begin to cut ─► index: the newest record of each chain    (rebuild.rs, threads)
//!   redo logs ─► newest change of each key ─► records behind the cut    (reapply.rs, threads)
//!   needless files go ─► older redo logs are ended ─► the next generation of them ─► edit ─► open
//! ```
//! Until all was read nothing is changed, so an opening that fails for damage leaves what it found.
//! What lies behind the cut in a segment is of a process that died, and is written over. A crash
//! amid a recovery leaves what was there: the redo logs stay until the next checkpoint.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use firn_engine::{Error, ErrorKind, KeyspaceId, KeyspaceSettings, LockTable, Result};
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::LogKind;
use firn_format::manifest::Change;
use firn_maintenance::{Schedule, start_threads};
use firn_storage::backend::ReadPool;
use firn_storage::{Storage, StorageLock};

use crate::cold::{Run, open_cold};
use crate::database::{Counters, Database, Environment, Maintenance, Moments};
use crate::division::Division;
use crate::epoch::Epochs;
use crate::error::{from_storage, no_memory};
use crate::index::Index;
use crate::keyspaces::{Keyspace, Keyspaces, with_slots_of};
use crate::log::Log;
use crate::ops::{Access, Key, Store};
use crate::owner::{Owned, own};
use crate::parallel::Threads;
use crate::read_cache::ReadCache;
use crate::reapply::Again;
use crate::rebuild::{Found, Rebuild};
use crate::reclaim::Reclaim;
use crate::redo::{NextGeneration, Redo};
use crate::settings::{Background, HashOptions, HashSettings};
use crate::snapshots::Snapshots;
use crate::state::State;
use crate::stripes::Stripes;
use crate::tier::{Tier, open_segments};
use crate::values::Values;
use crate::waits::Waits;

/// Reads that wait for a thread, at most.
const QUEUED_READS_MAX: usize = 1 << 16;

/// Opens the database of `options`; the lock is held as long as the answer's second half.
pub(crate) fn open(options: &HashOptions) -> Result<(Arc<Database>, Box<dyn StorageLock>)> {
    options.settings.validate_limits()?;
    let lock = options.storage.lock(true).map_err(from_storage)?;
    let mut owned = own(options, &|state| open_keyspaces(options, state).map(|_| ()))?;
    let state = owned.state.clone();
    let found = read(options, &owned)?;
    let (tier, local) = (owned.tier.clone(), Arc::clone(&owned.local));
    // All is there and as it should be: only now anything is changed.
    found.needless.iter().try_for_each(|name| local.remove(name)).map_err(from_storage)?;
    let Rebuild { storage, store, device, values, begun, .. } = found.rebuild;
    let found = found.files;
    let threads = Threads::of(options);
    store.divide_memory();
    let Again { store, device, .. } = Again { storage, store, device }.reapply(&threads, &found.logs)?;
    let mut store = Arc::try_unwrap(store).map_err(|_| Error::bug("a store that only recovery has"))?;
    let here = values.recover(&found.of_redo, &found.of_log)?;
    let next = NextGeneration::make(&local, state.database, begun.next())?;
    let snapshots = Snapshots::new(state.given);
    store.redo = Some(Redo::new(&local, state.database, next, &found.logs)?);
    let mut changes = vec![Change::PositionsGiven { position: snapshots.given_ahead() }];
    changes.extend(owned.changes());
    owned.manifest.commit(&changes).map_err(from_storage)?;
    if let Some(tier) = &tier {
        let live = found.of_redo.union(&found.of_log).copied().collect();
        tier.remove_orphans(&mut owned.manifest, &live, &here);
    }
    let store = Arc::new(store);
    let access = Access::new(&store).ok_or_else(|| Error::bug("the first session finds no place"))?;
    let database = Arc::new(Database {
        env: environment(options, local),
        store,
        reclaim: Reclaim::new((state.begin, state.cold.begin), access),
        device,
        values,
        tier,
        keyspaces: open_keyspaces(options, &state)?,
        manifest: Mutex::new(owned.manifest),
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

/// What an opening has read.
struct Read {
    rebuild: Rebuild,
    files: Found,
    /// Files that nothing needs.
    needless: Vec<String>,
}

/// Reads all files of the database that is `owned`.
fn read(options: &HashOptions, owned: &Owned) -> Result<Read> {
    let (state, local, tier) = (&owned.state, &owned.local, owned.tier.as_ref());
    let Some((page_bits, segment_bits)) = state.sizes else {
        return Err(Error::new(ErrorKind::Corrupt, "the manifest names no sizes of a hashed database"));
    };
    let epochs = Epochs::new(Some(&options.clock));
    let division = Division::of(&options.settings);
    let index = empty_index(options, &epochs)?;
    let log = Log::new((state.begin, state.cut), division.log_words_max(), page_bits).map_err(no_memory)?;
    let Segments { bases, cold_bases, needless } = segments(&**local, state, segment_bits)?;
    let parts = (local, tier.map(|tier| &**tier));
    let device = open_segments(parts, state, LogKind::Hybrid, bases)?;
    let cold_device = open_segments(parts, state, LogKind::Cold, cold_bases)?;
    let runs = open_runs(parts, state)?;
    let (cold, cold_values) = open_cold(cold_device, runs, state, &|record| {
        Key::new(record.keyspace(), record.key()).hash.order()
    })?;
    index.set_reserved(division.reserved_bytes(cold.memory_bytes()));
    let values = Values::new(local, tier)?;
    let cache = ReadCache::new(division.copy_bytes_max()).map_err(no_memory)?;
    let (stripes, replaced_values) = (Stripes::new(), crate::sync::Mutex::default());
    let has_unlogged = false.into();
    let store = Store {
        index,
        log,
        cache,
        division,
        cold,
        redo: None,
        has_unlogged,
        epochs,
        stripes,
        replaced_values,
    };
    let (storage, next_keyspace) = (Arc::clone(local), state.next_number);
    let begun = owned.begun();
    let rebuild = Rebuild { storage, store: Arc::new(store), device, values, begun, next_keyspace };
    let (rebuild, mut files) = rebuild.read(&Threads::of(options), (state.begin, state.cut))?;
    files.of_log.extend(cold_values);
    Ok(Read { rebuild, files, needless })
}

/// The runs of the cold log, newest first.
fn open_runs((local, tier): (&Arc<dyn Storage>, Option<&Tier>), state: &State) -> Result<Vec<Arc<Run>>> {
    let open = |number: &u64| {
        let name = file_name::cold_run(*number);
        let file = match tier {
            Some(tier) => tier.open_anywhere(&name),
            None => local.open_read(&name),
        };
        Run::open(file.map_err(from_storage)?, state.database, *number).map(Arc::new)
    };
    state.cold.runs.iter().rev().map(open).collect()
}

fn environment(options: &HashOptions, storage: Arc<dyn Storage>) -> Environment {
    Environment {
        storage,
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

fn segments(storage: &dyn Storage, state: &State, segment_bits: u32) -> Result<Segments> {
    let Segments { mut bases, mut cold_bases, mut needless } = Segments::default();
    let words = 1 << segment_bits;
    let is_needed = |base: u64, from: u64, to: u64| base.max(from) < to.min(base + words);
    for (name, _) in storage.list().map_err(from_storage)? {
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
