//! Opening: lock, manifest, tables, log, and the first segment of this process.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use firn_engine::{Durability, Error, ErrorKind, Result};
use firn_format::blob::SegmentNumber;
use firn_jobs::submit::{OutputNames, Submitter};
use firn_jobs::{Executor, ExecutorChain, Local, Patience};
use firn_maintenance::{OrphanGc, Schedule};
use firn_storage::backend::{ReadPool, Reusing};
use firn_storage::file::log::objects::SharedLog;
use firn_storage::file::manifest::load;
use firn_storage::file::obsolete::ObsoleteFiles;
use firn_storage::{ProcessLoad, Spawn, Storage, StorageLock};

use crate::background::start as start_background;
use crate::blobs::{BlobStore, BlobStoreStart};
use crate::commit::CommitPipeline;
use crate::commit::pipeline::Shares;
use crate::counters::Counters;
use crate::database::Database;
use crate::error::{from_job, from_storage};
use crate::files::Files;
use crate::log::{Log, LogStart, SegmentMap};
use crate::log::{MemtableSet, Segment};
use crate::maintenance::{Maintenance, Rest};
use crate::reads::Reads;
use crate::recovery::{Begun, RecoveredLog, begin};
use crate::settings::{Background, Settings, TreeOptions};
use crate::shared_log::not_shared;
use crate::version::catalog::Catalog;
use crate::version::state::State;
use crate::version::{Frozen, Keyspace, Manifest, Version};

/// Opens the database of `options`; the lock is held as long as the answer's second half.
pub(crate) fn open(options: &TreeOptions) -> Result<(Arc<Database>, Box<dyn StorageLock>)> {
    options.settings.validate_limits()?;
    if options.settings.durability == Durability::Shared && options.storage.shared_part().is_none() {
        return Err(not_shared(&options.storage.describe()));
    }
    let lock = options.storage.lock(!options.read_only).map_err(from_storage)?;
    let mut reached = 0;
    for _ in 0..RACES_MAX {
        let loaded = load(&*options.storage, reached).map_err(from_storage)?;
        if loaded.is_none() && (options.read_only || !options.create) {
            let backend = options.storage.describe();
            return Err(Error::invalid(format!(
                "{backend} holds no database; create one by opening it for writing"
            )));
        }
        let edits_max = options.settings.manifest_edits_max;
        let mut manifest =
            Manifest::new((Arc::clone(&options.storage), Arc::clone(&options.clock)), loaded, edits_max);
        match begin(options, &mut manifest) {
            Ok(begun) => return Ok((start(options, manifest, begun)?, lock)),
            // What was read may be gone since.
            Err(_) if manifest.is_overtaken() => reached = manifest.reached(),
            Err(error) => return Err(error),
        }
    }
    let backend = options.storage.describe();
    let message = format!(
        "{backend} is being opened, or written to, on other machines all the time: stop them, or try again"
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// How often an opening begins again because another machine was faster.
const RACES_MAX: usize = 10;

/// Makes a database of what was found.
fn start(options: &TreeOptions, manifest: Manifest, begun: Begun) -> Result<Arc<Database>> {
    let Begun { state, mut version, recovered, obsolete, cache, next_blobs, older, aborted, .. } = begun;
    let generation = state.generation + 1;
    let settings = Arc::new(options.settings.clone());
    let files = Arc::new(start_files(&options.storage, obsolete));
    let blobs = start_blobs(options, (&files, &settings), (&state, &version), next_blobs);
    let log = start_log(options, &state, generation, &recovered, &mut version, &files.obsolete)?;
    log.set_referred(&blobs);
    let next_run = state.tables.values().map(|table| table.run).max().unwrap_or(0) + 1;
    let is_shared = options.settings.durability == Durability::Shared && !options.read_only;
    let found_blobs = if recovered.segments.is_empty() { 0 } else { version.blobs.sealed_bytes() };
    let pools = (read_pool(options)?, share_pool(options)?);
    let jobs = start_jobs(options, &files.job_outputs)?;
    let counters = Counters { upload_abort_count: AtomicU64::new(aborted.count), ..Counters::default() };
    let shared_log = SharedLog::new(
        (state.database, generation),
        is_shared,
        older,
        (recovered.next_base, recovered.crossing),
    );
    let catalog =
        Arc::new(Catalog::new(version, manifest, (Arc::clone(&options.clock), state.tick_ms), next_run));
    let reads = Arc::new(Reads::new(&catalog, &blobs, (cache, begun.balance), pools));
    let schedule = Schedule::new(matches!(options.background, Background::Manual) || options.read_only);
    let shares = Shares {
        settings: Arc::clone(&settings),
        clock: Arc::clone(&options.clock),
        files: Arc::clone(&files),
        catalog: Arc::clone(&catalog),
        blobs: Arc::clone(&blobs),
        reads: Arc::clone(&reads),
        wake: schedule.waker(),
    };
    let database = Arc::new(Database {
        files,
        semantics: options.semantics.clone(),
        clock: Arc::clone(&options.clock),
        commit: CommitPipeline::new(log, shares),
        settings,
        blobs,
        catalog,
        reads,
        shared_log,
        maintenance: Maintenance {
            schedule,
            rest: Rest::new(found_blobs),
            jobs,
            output_names: OutputNames::new(generation),
            orphan_gc: OrphanGc::new(options.clock.now(), aborted, begun.may_follow),
            control: firn_jobs::Control::new(),
            compacting_range: Mutex::new(()),
            failure: OnceLock::new(),
            counters,
        },
        read_only: options.read_only,
        closed: AtomicBool::new(false),
        opened: options.clock.now(),
    });
    // What lies behind their ends is void since the last edit.
    recovered.segments.iter().for_each(|segment| segment.cut());
    database.commit.balance_memory();
    database.commit.keep_room();
    if let (Background::Threads(spawn), false) = (&options.background, options.read_only) {
        start_background(&database, &**spawn)?;
    }
    Ok(database)
}

/// Files on `storage`, of which `obsolete` knows those that nothing needs.
fn start_files(storage: &Arc<dyn Storage>, obsolete: Arc<ObsoleteFiles>) -> Files {
    let outputs = Arc::new(Reusing::new(Arc::clone(storage)));
    let job_outputs = Arc::new(outputs.beside());
    Files::new(Arc::clone(storage), outputs, job_outputs, obsolete)
}

/// Blobs of `version`, those of this process from segment `next` on.
fn start_blobs(
    options: &TreeOptions,
    (files, settings): (&Arc<Files>, &Arc<Settings>),
    (state, version): (&State, &Version),
    next: SegmentNumber,
) -> Arc<BlobStore> {
    let blobs = BlobStore::start(BlobStoreStart {
        files: Arc::clone(files),
        settings: Arc::clone(settings),
        clock: Arc::clone(&options.clock),
        database: state.database,
        generation: state.generation + 1,
        map: Arc::clone(&version.blobs),
        next,
    });
    let separates = |keyspace: &Arc<Keyspace>| keyspace.definition.settings.separate_bytes.is_some();
    if options.settings.engine.separate_bytes > 0 || version.live().any(separates) {
        blobs.want();
    }
    Arc::new(blobs)
}

/// Where compactions run. On the executor given, and here what it does not do; or here alone, on
/// threads of their own or the thread that chose them. And where what is done here is written to.
fn start_jobs(options: &TreeOptions, outputs: &Arc<Reusing>) -> Result<Submitter> {
    let storage: Arc<dyn Storage> = Arc::<Reusing>::clone(outputs);
    let semantics = Arc::new(options.semantics.clone());
    let spawn = match &options.background {
        Background::Threads(spawn) if !options.read_only => Some(&**spawn),
        _ => None,
    };
    let local = match spawn {
        Some(spawn) => {
            let threads = options.settings.background_threads;
            Local::threads(storage, semantics, spawn, threads).map_err(from_job)?
        }
        None => Local::inline(storage, semantics),
    };
    let local: Arc<dyn Executor> = Arc::new(local);
    let clock = Arc::clone(&options.clock);
    let Some(given) = &options.executor else { return Ok(Submitter::new(local, None, clock)) };
    let both = [Arc::clone(given), local];
    let storage = Arc::clone(&options.storage);
    let deep_bytes_per_second = options.settings.local_bytes_per_second;
    let reexecuted_share = options.settings.reexecuted_share;
    let patience = Patience { deep_bytes_per_second, reexecuted_share, ..Patience::default() };
    let chain = match spawn {
        Some(spawn) => {
            let seed = options.seed;
            let chain = ExecutorChain::threads(both, storage, Arc::clone(&clock), patience, seed, spawn);
            share_jobs(chain.map_err(from_job)?, options, outputs, spawn)?
        }
        None => ExecutorChain::inline(both, storage, Arc::clone(&clock), patience, options.seed),
    };
    let status = chain.status();
    Ok(Submitter::new(Arc::new(chain), Some(status), clock))
}

/// Has jobs that wait elsewhere done on threads that take no processor from others, if the settings
/// ask for any.
fn share_jobs(
    chain: ExecutorChain,
    options: &TreeOptions,
    outputs: &Arc<Reusing>,
    spawn: &dyn Spawn,
) -> Result<ExecutorChain> {
    let threads = options.settings.idle_threads;
    if threads == 0 {
        return Ok(chain);
    }
    let storage: Arc<dyn Storage> = Arc::<Reusing>::clone(outputs);
    let semantics = Arc::new(options.semantics.clone());
    let idle = Local::idle_threads(storage, semantics, spawn, threads).map_err(from_job)?;
    Ok(chain.with_idle(Arc::new(idle), Arc::new(ProcessLoad::new())))
}

/// Threads for reads that miss memory; `None` where the owner does all work.
fn read_pool(options: &TreeOptions) -> Result<Option<ReadPool>> {
    let Background::Threads(spawn) = &options.background else { return Ok(None) };
    let pool = ReadPool::new(options.settings.read_threads, READ_QUEUE_MAX, &**spawn);
    pool.map(Some).map_err(from_storage)
}

/// A thread that waits for shared storage, so that those for reads need not; `None` where nothing
/// is shared, or the owner does all work.
fn share_pool(options: &TreeOptions) -> Result<Option<ReadPool>> {
    let Background::Threads(spawn) = &options.background else { return Ok(None) };
    if options.storage.shared_part().is_none() || options.read_only {
        return Ok(None);
    }
    ReadPool::new(1, READ_QUEUE_MAX, &**spawn).map(Some).map_err(from_storage)
}

/// The log of this process, behind what was recovered; `version` then knows the segments and
/// memtables of both.
fn start_log(
    options: &TreeOptions,
    state: &State,
    generation: u64,
    recovered: &RecoveredLog,
    version: &mut Version,
    obsolete: &Arc<ObsoleteFiles>,
) -> Result<Log> {
    let first = attach_log(version, recovered);
    let start = LogStart {
        storage: Arc::clone(&options.storage),
        database: state.database,
        generation,
        segment_bytes: options.settings.engine.log_segment_bytes,
        recycled_max: recycled_max(&options.settings),
        obsolete: Arc::clone(obsolete),
        base: recovered.next_base,
        recovered_end: recovered.end,
        durable_through: recovered.durable_through,
        recovered: recovered.segments.clone(),
        writable: !options.read_only,
    };
    let log = Log::start(start, first).map_err(from_storage)?;
    let mut segments = recovered.segments.clone();
    segments.push(Arc::clone(&log.active()));
    version.segments = Arc::new(SegmentMap::new(segments));
    Ok(log)
}

/// Dead segments to keep for new ones: what a flush frees at once.
fn recycled_max(settings: &Settings) -> usize {
    (settings.engine.buffer_bytes / settings.engine.log_segment_bytes).clamp(1, RECYCLED_MAX) as usize
}

/// Most segments kept, however large the buffer is.
const RECYCLED_MAX: u64 = 8;

/// Reads waiting for a pool thread before the next one waits to be queued.
const READ_QUEUE_MAX: usize = 4096;

/// Gives recovered memtables to their keyspaces as frozen ones; answers the memtables of the first
/// new segment.
fn attach_log(version: &mut Version, recovered: &RecoveredLog) -> MemtableSet {
    let mut first = MemtableSet::default();
    for slot in version.keyspaces.iter_mut().flatten() {
        let keyspace = Arc::make_mut(slot);
        for (index, segment) in recovered.segments.iter().enumerate() {
            let Some(memtable) = segment.carried().get(keyspace.id()) else { continue };
            let next = recovered
                .segments
                .get(index + 1)
                .map_or(recovered.next_base, |next: &Arc<Segment>| next.base());
            keyspace.frozen.insert(0, Frozen { memtable: Arc::clone(memtable), span: segment.base()..next });
        }
        keyspace.memtable_start = recovered.next_base;
        first.insert(keyspace.id(), Arc::clone(&keyspace.memtable));
    }
    first
}
