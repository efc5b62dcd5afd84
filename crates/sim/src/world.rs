//! What is under test: an engine, opened on a storage with some settings.

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;
use firn_engine::conformance::semantics;
use firn_engine::{Compression, Durability, Engine, Error, ErrorKind, Ordered, Result};
use firn_hashlog::{HashLog, HashOptions};
use firn_jobs::{Executor, Local};
use firn_storage::{Clock, Storage, ThreadSpawn};
use firn_tree::{Background, Settings, Tree, TreeOptions, VerifyOptions, verify};

use crate::aside::{Aside, Ending};
use crate::elsewhere::Elsewhere;
use crate::interleaved::Interleaved;
use crate::reference::{Fault, Reference, ReferenceOptions};

/// Settings that must not change a single answer. Sizes in bytes; an engine rounds them to what it
/// can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    /// The seed these were drawn from; says all the rest.
    pub seed: u64,
    /// Default durability.
    pub durability: Durability,
    /// Size at which a memtable is frozen.
    pub memtable_bytes: u64,
    /// Size of a log segment.
    pub segment_bytes: u64,
    /// Size above which the buffer flushes.
    pub buffer_bytes: u64,
    /// Size of the log above which the oldest data is flushed.
    pub log_bytes_max: u64,
    /// Size of a table.
    pub table_bytes: u64,
    /// Size from which on values are separated.
    pub separate_bytes: u32,
    /// Size of a blob segment.
    pub blob_segment_bytes: u64,
    /// Bytes of blob segments for each live byte.
    pub space_amplification_max: f64,
    /// Bytes of tables above which they are read as where data is larger than memory.
    pub page_cache_bytes: u64,
    /// Size of a table's blocks.
    pub block_bytes: u32,
    /// Runs merged at once.
    pub merge_fan_in: usize,
    /// Runs in level 0 that make compaction urgent.
    pub level0_runs_max: usize,
    /// Bits of filter for a key.
    pub filter_bits_per_key: u32,
    /// Compression where a keyspace names none.
    pub compression: Compression,
    /// Manifest edits between restatements.
    pub manifest_edits_max: u64,
    /// Whether background work runs on threads; else only when stepped, which is deterministic.
    pub has_threads: bool,
    /// Steps of background work after each operation: 0 to this many, drawn anew each time.
    pub steps_max: u32,
    /// Whether other background work goes on in the middle of a job, which an executor does that
    /// the owner gave.
    pub interleaves: bool,
    /// Whether jobs are given to workers in another process, which may fail in every way; see
    /// [`Elsewhere`].
    pub elsewhere: bool,
    /// Share of what they did that is done again here.
    pub reexecuted_share: f64,
    /// Whether the script goes on in the middle of a job.
    pub goes_on: bool,
}

impl Knobs {
    /// Settings as the seed says. Seed 0 is the plainest choice: medium sizes, no threads, few
    /// steps.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6b6e_6f62);
        let plain = Self {
            seed,
            durability: Durability::Process,
            memtable_bytes: 64 << 10,
            segment_bytes: 4 << 20,
            buffer_bytes: 256 << 10,
            log_bytes_max: 16 << 20,
            table_bytes: 64 << 10,
            separate_bytes: 64,
            blob_segment_bytes: 4 << 10,
            space_amplification_max: 1.2,
            page_cache_bytes: 0,
            block_bytes: 4096,
            merge_fan_in: 2,
            level0_runs_max: 4,
            filter_bits_per_key: 10,
            compression: Compression::None,
            manifest_edits_max: 8,
            has_threads: false,
            steps_max: 2,
            interleaves: false,
            elsewhere: false,
            reexecuted_share: 0.01,
            goes_on: false,
        };
        if seed == 0 {
            return plain;
        }
        Self {
            durability: pick(&mut rng, &[Durability::Process, Durability::Process, Durability::Disk]),
            memtable_bytes: pick(&mut rng, &[4 << 10, 16 << 10, 64 << 10, 1 << 20, 64 << 20]),
            segment_bytes: pick(&mut rng, &[4 << 20, 4 << 20, 8 << 20]),
            buffer_bytes: pick(&mut rng, &[0, 64 << 10, 1 << 20, 8 << 20]),
            log_bytes_max: pick(&mut rng, &[16 << 20, 16 << 20, 64 << 20]),
            table_bytes: pick(&mut rng, &[64 << 10, 64 << 10, 256 << 10, 64 << 20]),
            block_bytes: pick(&mut rng, &[256, 512, 4096, 4096, 64 << 10]),
            merge_fan_in: rng.usize(2..=5),
            level0_runs_max: rng.usize(2..=12),
            filter_bits_per_key: pick(&mut rng, &[0, 1, 10, 20]),
            compression: pick(&mut rng, &[Compression::None, Compression::Lz4, Compression::Zstd]),
            manifest_edits_max: pick(&mut rng, &[1, 2, 8, 64]),
            has_threads: rng.u8(..4) == 0,
            steps_max: pick(&mut rng, &[0, 1, 4, 30]),
            // Drawn last, so that older seeds mean what they meant.
            page_cache_bytes: pick(&mut rng, &[1, 128 << 10, 0]),
            separate_bytes: pick(&mut rng, &[32, 200, 5000, u32::MAX]),
            blob_segment_bytes: pick(&mut rng, &[4 << 10, 16 << 10, 64 << 20]),
            space_amplification_max: pick(&mut rng, &[1.05, 1.5, 3.0]),
            interleaves: rng.u8(..3) == 0,
            elsewhere: rng.u8(..3) == 0,
            reexecuted_share: pick(&mut rng, &[0.01, 0.01, 0.5]),
            goes_on: rng.u8(..3) == 0,
            ..plain
        }
    }

    /// The same without threads, for runs that must repeat exactly.
    #[must_use]
    pub fn stepped(self) -> Self {
        Self { has_threads: false, ..self }
    }
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

/// An open engine and the handle of its background work.
pub struct Opened {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Runs one unit of background work; `false` if there was none (or it runs on threads).
    pub step: Box<dyn FnMut() -> Result<bool> + Send>,
    /// The workers that run its jobs in another process, if there are any.
    pub workers: Option<Arc<Elsewhere>>,
    /// What is in the middle of a job while others go on.
    pub(crate) aside: Option<Ending>,
}

impl Opened {
    /// The ordered half of its contract, which scripts need.
    ///
    /// # Errors
    /// `Bug` if the engine keeps no order.
    pub(crate) fn ordered(&self) -> Result<Arc<dyn Ordered>> {
        Arc::clone(&self.engine).ordered().ok_or_else(|| Error::bug("scripts need an ordered engine"))
    }

    /// Ends what is in the middle of a job.
    ///
    /// # Errors
    /// The background work's.
    pub(crate) fn finish(&self) -> Result<()> {
        self.aside.as_ref().map_or(Ok(()), |Ending(aside)| aside.finish())
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// A kind of engine, as scripts and crashes see it.
///
/// Implementers MUST register [`semantics`] and MUST behave the same for the same calls on the same
/// storage when `knobs.has_threads` is off.
pub trait World: Send + Sync + fmt::Debug {
    /// The word for it on command lines.
    fn name(&self) -> &'static str;

    /// Opens the database in `storage`, or begins one.
    fn open(&self, storage: Arc<dyn Storage>, knobs: &Knobs, clock: Arc<dyn Clock>) -> Result<Opened>;

    /// Reads all of the database in `storage`, which must not be open, by another reader than the
    /// engine. An engine that has none says nothing.
    ///
    /// # Errors
    /// The first damage, in words.
    fn check(&self, _storage: Arc<dyn Storage>) -> std::result::Result<(), String> {
        Ok(())
    }
}

/// Writes that the world `broken` loses when killed: more than its writers have under way, so that
/// each kill shows.
const WRITES_LOST: usize = 16;

/// The reference engine, whole or with one promise broken.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceWorld {
    /// The promise to break.
    pub fault: Option<Fault>,
}

impl World for ReferenceWorld {
    fn name(&self) -> &'static str {
        if matches!(self.fault, Some(Fault::LateJournal(_))) { "broken" } else { "reference" }
    }

    fn open(&self, storage: Arc<dyn Storage>, knobs: &Knobs, clock: Arc<dyn Clock>) -> Result<Opened> {
        let options = ReferenceOptions {
            storage,
            semantics: semantics(),
            clock,
            durability: knobs.durability,
            pending_every: u64::from(knobs.steps_max),
            is_ordered: true,
            fault: self.fault,
        };
        let engine = Arc::new(Reference::open(options)?);
        Ok(Opened { engine, step: Box::new(|| Ok(false)), workers: None, aside: None })
    }
}

/// The ordered engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeWorld;

impl World for TreeWorld {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn open(&self, storage: Arc<dyn Storage>, knobs: &Knobs, clock: Arc<dyn Clock>) -> Result<Opened> {
        let workers = knobs
            .elsewhere
            .then(|| Elsewhere::new(Arc::clone(&storage), Arc::clone(&clock), knobs.seed, knobs.has_threads));
        self.open_with(storage, knobs, clock, workers)
    }

    fn check(&self, storage: Arc<dyn Storage>) -> std::result::Result<(), String> {
        let options = VerifyOptions { storage, semantics: semantics() };
        match verify(options, &mut |_| {}) {
            Ok(report) => report.damage().next().map_or(Ok(()), |damage| Err(damage.to_string())),
            // The machine went before there was a database.
            Err(error) if error.kind() == ErrorKind::Invalid => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The hashed engine. Scripts leave out what needs order.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashWorld;

impl World for HashWorld {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn open(&self, storage: Arc<dyn Storage>, knobs: &Knobs, clock: Arc<dyn Clock>) -> Result<Opened> {
        let background = match knobs.has_threads {
            true => firn_hashlog::Background::Threads(Arc::new(ThreadSpawn::new())),
            false => firn_hashlog::Background::Manual,
        };
        let settings = firn_hashlog::Settings {
            durability: knobs.durability,
            memory_bytes: 8 << 20,
            ..firn_hashlog::Settings::default()
        };
        let settings = settings.with_engine(|hash| {
            hash.index_bytes_max = 4 << 20;
            hash.read_cache_bytes = 1 << 20;
            hash.page_bytes = 512 << 10;
            hash.segment_bytes = 1 << 20;
            hash.redo_bytes_max = knobs.memtable_bytes;
        });
        let hash = HashLog::open(&HashOptions {
            storage,
            settings,
            semantics: semantics(),
            clock,
            background,
            seed: 7,
            create: true,
            take_over: false,
        })?;
        let (stepped, is_manual) = (Arc::downgrade(&hash), !knobs.has_threads);
        let step = Box::new(move || match stepped.upgrade() {
            Some(hash) if is_manual => hash.step(),
            _ => Ok(false),
        });
        Ok(Opened { engine: hash, step, workers: None, aside: None })
    }
}

impl TreeWorld {
    /// Opens the database, whose jobs `workers` are to do, if there are any.
    pub(crate) fn open_with(
        self,
        storage: Arc<dyn Storage>,
        knobs: &Knobs,
        clock: Arc<dyn Clock>,
        workers: Option<Arc<Elsewhere>>,
    ) -> Result<Opened> {
        let background = match knobs.has_threads {
            true => Background::Threads(Arc::new(ThreadSpawn::new())),
            false => Background::Manual,
        };
        let clock = workers.as_ref().map_or(clock, |workers| workers.clock());
        let Executors { executor, interleaved, aside } = Executors::new(&storage, knobs, workers.as_ref());
        let options = TreeOptions {
            storage,
            settings: tree_settings(knobs),
            semantics: semantics(),
            clock,
            background,
            executor,
            seed: 7,
            create: true,
            read_only: false,
            take_over: false,
        };
        let tree = Tree::open(options)?;
        if let Some(interleaved) = interleaved {
            interleaved.belong_to(&tree);
        }
        if let Some(aside) = &aside {
            aside.belong_to(&tree, &ThreadSpawn::new())?;
        }
        let aside = aside.map(Ending);
        let stepped = Arc::downgrade(&tree);
        let (is_eager, is_manual) = (knobs.memtable_bytes <= 16 << 10, !knobs.has_threads);
        let (mut count, passing) = (0_u32, workers.clone());
        let stops = aside.as_ref().map(|Ending(aside)| Arc::clone(aside));
        let step = Box::new(move || {
            let Some(tree) = stepped.upgrade() else { return Ok(false) };
            passing.iter().for_each(|workers| workers.go_on());
            count += 1;
            if is_eager && count.is_multiple_of(4) {
                // Scripts are too short to fill a segment; small memtables are frozen by hand.
                tree.freeze()?;
            }
            match &stops {
                Some(aside) => aside.step(&tree),
                None if is_manual => tree.step(),
                None => Ok(false),
            }
        });
        Ok(Opened { engine: tree, step, workers, aside })
    }
}

/// What runs a tree's jobs, if not the tree itself alone.
#[derive(Default)]
struct Executors {
    executor: Option<Arc<dyn Executor>>,
    /// Parts of it that have to know the tree.
    interleaved: Option<Arc<Interleaved>>,
    aside: Option<Arc<Aside>>,
}

impl Executors {
    /// Each around the one before: workers elsewhere or this thread, other work meanwhile, the
    /// script meanwhile.
    fn new(storage: &Arc<dyn Storage>, knobs: &Knobs, workers: Option<&Arc<Elsewhere>>) -> Self {
        let here =
            || Arc::new(Local::inline(Arc::clone(storage), Arc::new(semantics()))) as Arc<dyn Executor>;
        let elsewhere = workers.map(|workers| Arc::clone(workers) as Arc<dyn Executor>);
        let mut all = Self { executor: elsewhere, ..Self::default() };
        if knobs.has_threads {
            return all;
        }
        // While others do a job the database goes on.
        if knobs.interleaves || workers.is_some() {
            let interleaved = Interleaved::new(all.executor.take().unwrap_or_else(here), knobs.seed);
            all.executor = Some(Arc::clone(&interleaved) as _);
            all.interleaved = Some(interleaved);
        }
        if knobs.goes_on {
            let aside = Aside::new(all.executor.take().unwrap_or_else(here), knobs.seed);
            all.executor = Some(Arc::clone(&aside) as _);
            all.aside = Some(aside);
        }
        all
    }
}

fn tree_settings(knobs: &Knobs) -> Settings {
    let buffer_bytes_max = (knobs.buffer_bytes * 4).max(4 * knobs.segment_bytes);
    Settings {
        memory_bytes: 64 << 20,
        durability: knobs.durability,
        page_cache_bytes: knobs.page_cache_bytes,
        space_amplification_max: knobs.space_amplification_max,
        compression: knobs.compression,
        manifest_edits_max: knobs.manifest_edits_max,
        reexecuted_share: knobs.reexecuted_share,
        ..Settings::default()
    }
    .with_engine(|tree| {
        tree.memtable_bytes = knobs.memtable_bytes;
        tree.log_segment_bytes = knobs.segment_bytes;
        tree.buffer_bytes = knobs.buffer_bytes;
        tree.buffer_bytes_max = buffer_bytes_max;
        tree.log_bytes_max = knobs.log_bytes_max;
        tree.merge_fan_in = knobs.merge_fan_in;
        tree.block_bytes = knobs.block_bytes;
        tree.table_bytes = knobs.table_bytes;
        tree.separate_bytes = knobs.separate_bytes;
        tree.blob_segment_bytes = knobs.blob_segment_bytes;
        tree.filter_bits_per_key = knobs.filter_bits_per_key;
        tree.level0_runs_max = knobs.level0_runs_max;
    })
}

/// The world called `name`: `tree`, `reference`, or `broken` (a canary that loses the newest writes
/// when killed).
pub fn world(name: &str) -> Option<Box<dyn World>> {
    match name {
        "tree" => Some(Box::new(TreeWorld)),
        "hash" => Some(Box::new(HashWorld)),
        "reference" => Some(Box::new(ReferenceWorld::default())),
        "broken" => Some(Box::new(ReferenceWorld { fault: Some(Fault::LateJournal(WRITES_LOST)) })),
        _ => None,
    }
}
