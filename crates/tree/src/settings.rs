//! Settings and components that the ordered engine is opened with.

use std::sync::Arc;

use firn_engine::{Compression, Durability, Error, Result, Semantics};
use firn_format::key::GRANULE_BYTES;
use firn_jobs::Executor;
use firn_storage::{Clock, Spawn, Storage};

/// Sizes and limits; plain data, validated once by [`TreeSettings::validate`].
#[derive(Clone, Debug, PartialEq)]
pub struct TreeSettings {
    /// Everything the engine may hold in memory: arenas, indexes, filters, cache. Bytes. The cache
    /// has what the others leave, moment by moment.
    pub memory_bytes: u64,
    /// Bytes of files that the system can be expected to keep in memory beside `memory_bytes`.
    /// While all tables fit, they are read where they lie; once they do not, what reads find is
    /// kept in the cache.
    pub page_cache_bytes: u64,
    /// Record bytes at which a keyspace's memtable is frozen at the next segment boundary.
    pub memtable_bytes: u64,
    /// Bytes of one log segment; a multiple of 4 MiB. A frame is at most a quarter of it.
    pub segment_bytes: u64,
    /// Buffer bytes (segments held and run indexes) above which the oldest runs drain.
    pub buffer_bytes: u64,
    /// Buffer bytes at which writers stop; between the two they are slowed smoothly.
    pub buffer_bytes_max: u64,
    /// Log bytes above which the keyspace that holds the oldest segment is frozen and drained.
    pub log_bytes_max: u64,
    /// How many adjacent runs of one buffer level are merged into one of the next.
    pub merge_fan_in: usize,
    /// What an acknowledgement promises where the write does not say.
    pub durability: Durability,
    /// Target size of a table's data blocks.
    pub block_bytes: u32,
    /// Target size of a table.
    pub table_bytes: u64,
    /// Bytes from which on values lie beside the tree, in keyspaces that do not say; `u32::MAX` =
    /// none do.
    pub separate_bytes: u32,
    /// Bytes at which a value segment takes no more values.
    pub value_segment_bytes: u64,
    /// Bytes of all files for each byte of keys and values that lives, as far as values beside the
    /// tree are concerned. At about that, segments are collected, and writers slowed where they
    /// overwrite faster. Files have a little more then, up to 0.1.
    pub space_amplification_max: f64,
    /// Bits of filter for each key, in runs and tables.
    pub filter_bits_per_key: u32,
    /// Sorted runs in level 0 over one key that reads may have to ask; compaction keeps half as
    /// many on average.
    pub level0_runs_max: usize,
    /// Bytes that tables may hide for each byte that lives, above which they are compacted away; at
    /// rest half of it. The buffer may hide half of it, too. An owner with one setting for space
    /// sets this to half of the space it allows beside what lives. The other half is for garbage
    /// not found yet, files kept for new ones, and outputs beside their inputs.
    pub garbage_share_max: f64,
    /// Bytes of compaction that reads must have lost to sorted runs of level 0 before one byte is
    /// rewritten for their sake. At 1 that is when the runs have cost reads as much time as
    /// rewriting takes.
    pub read_compaction_price: f64,
    /// Compression in keyspaces that do not say: of the last level's tables, and of values beside
    /// the tree.
    pub compression: Compression,
    /// Threads for background work, and the most collections of value segments at once. Beside an
    /// executor that the owner gives there are as many again, which wait for it.
    pub background_threads: usize,
    /// Bytes of inputs of bulk jobs that are begun here in a second while an executor that the
    /// owner gave is away.
    pub local_bytes_per_second: u64,
    /// Share of the jobs done by such an executor that are done here too before their results are
    /// accepted.
    pub reexecuted_share: f64,
    /// Threads of the lowest priority that do what waits for such an executor while processors
    /// idle; 0 = it waits.
    pub idle_threads: usize,
    /// Threads for reads that missed memory, for sessions that do not block.
    pub read_threads: usize,
    /// Longest key.
    pub key_bytes_max: usize,
    /// Longest value.
    pub value_bytes_max: u64,
    /// Manifest edits after which the whole state is restated.
    pub manifest_edits_max: u64,
}

impl Default for TreeSettings {
    fn default() -> Self {
        let memory_bytes = 512 << 20;
        Self {
            memory_bytes,
            page_cache_bytes: u64::MAX,
            memtable_bytes: 32 << 20,
            segment_bytes: 16 << 20,
            buffer_bytes: memory_bytes / 4,
            buffer_bytes_max: memory_bytes / 2,
            log_bytes_max: memory_bytes,
            merge_fan_in: 4,
            durability: Durability::Process,
            block_bytes: 4096,
            table_bytes: 64 << 20,
            separate_bytes: u32::MAX,
            value_segment_bytes: 64 << 20,
            space_amplification_max: 1.5,
            filter_bits_per_key: 10,
            level0_runs_max: 12,
            garbage_share_max: 0.25,
            read_compaction_price: 4.0,
            compression: Compression::None,
            background_threads: 2,
            local_bytes_per_second: 16 << 20,
            reexecuted_share: 0.01,
            idle_threads: 2,
            read_threads: 4,
            key_bytes_max: u16::MAX as usize,
            value_bytes_max: 1 << 30,
            manifest_edits_max: 64,
        }
    }
}

impl TreeSettings {
    /// `Invalid`, naming the setting, its value and its range, if one is out of range.
    pub fn validate(&self) -> Result<()> {
        let granule = GRANULE_BYTES;
        check(
            self.segment_bytes >= granule
                && self.segment_bytes.is_multiple_of(granule)
                && self.segment_bytes <= 1 << 32,
            "segment_bytes",
            self.segment_bytes,
            "a multiple of 4 MiB, at most 4 GiB",
        )?;
        check(self.memtable_bytes >= 4096, "memtable_bytes", self.memtable_bytes, "at least 4096")?;
        check(self.memory_bytes >= 16 << 20, "memory_bytes", self.memory_bytes, "at least 16 MiB")?;
        check(
            self.buffer_bytes_max >= 2 * self.segment_bytes,
            "buffer_bytes_max",
            self.buffer_bytes_max,
            "at least two segments (segment_bytes)",
        )?;
        check(
            self.buffer_bytes <= self.buffer_bytes_max,
            "buffer_bytes",
            self.buffer_bytes,
            "at most buffer_bytes_max",
        )?;
        check(
            self.log_bytes_max >= 2 * self.segment_bytes,
            "log_bytes_max",
            self.log_bytes_max,
            "at least two segments (segment_bytes)",
        )?;
        self.validate_counts()
    }

    /// The part of [`validate`](Self::validate) that is not about memory and the log.
    fn validate_counts(&self) -> Result<()> {
        check(
            (2..=crate::buffer::MERGE_INPUTS_MAX).contains(&self.merge_fan_in),
            "merge_fan_in",
            self.merge_fan_in as u64,
            "2 to 16",
        )?;
        check(
            (256..=1 << 20).contains(&self.block_bytes),
            "block_bytes",
            self.block_bytes,
            "256 to 1048576",
        )?;
        check(self.table_bytes >= 64 << 10, "table_bytes", self.table_bytes, "at least 64 KiB")?;
        check(
            (4 << 10..=512 << 20).contains(&self.value_segment_bytes),
            "value_segment_bytes",
            self.value_segment_bytes,
            "4 KiB to 512 MiB",
        )?;
        if !(1.05..=100.0).contains(&self.space_amplification_max) {
            return Err(Error::invalid(format!(
                "setting space_amplification_max = {} must be 1.05 to 100",
                self.space_amplification_max
            )));
        }
        if !(0.01..=1e9).contains(&self.read_compaction_price) {
            return Err(Error::invalid(format!(
                "setting read_compaction_price = {} must be 0.01 to 1e9",
                self.read_compaction_price
            )));
        }
        check(self.filter_bits_per_key <= 64, "filter_bits_per_key", self.filter_bits_per_key, "at most 64")?;
        check(self.level0_runs_max >= 2, "level0_runs_max", self.level0_runs_max as u64, "at least 2")?;
        check(
            self.background_threads >= 1,
            "background_threads",
            self.background_threads as u64,
            "at least 1",
        )?;
        check(
            self.local_bytes_per_second >= 1,
            "local_bytes_per_second",
            self.local_bytes_per_second,
            "at least 1",
        )?;
        check(
            (0.0..=1.0).contains(&self.reexecuted_share),
            "reexecuted_share",
            self.reexecuted_share,
            "0 to 1",
        )?;
        check(self.idle_threads <= 256, "idle_threads", self.idle_threads as u64, "at most 256")?;
        check(self.read_threads >= 1, "read_threads", self.read_threads as u64, "at least 1")?;
        check(
            (1..=usize::from(u16::MAX)).contains(&self.key_bytes_max),
            "key_bytes_max",
            self.key_bytes_max as u64,
            "1 to 65535",
        )?;
        check(self.value_bytes_max <= 1 << 30, "value_bytes_max", self.value_bytes_max, "at most 1 GiB")?;
        check(self.manifest_edits_max >= 1, "manifest_edits_max", self.manifest_edits_max, "at least 1")
    }

    /// Largest frame an ordinary segment takes; a larger batch gets a segment of its own.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        (self.segment_bytes / 4) as usize
    }
}

/// Where background work is done.
#[derive(Clone, Debug)]
pub enum Background {
    /// Threads of the given spawner.
    Threads(Arc<dyn Spawn>),
    /// On no thread of its own: the owner calls [`crate::Tree::step`] (deterministic tests).
    Manual,
}

/// Everything a tree is opened with: settings are data, the rest are components.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Where the files live.
    pub storage: Arc<dyn Storage>,
    /// Sizes and limits.
    pub settings: TreeSettings,
    /// Operators, filters and extractors by name.
    pub semantics: Semantics,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where background work is done.
    pub background: Background,
    /// Where compactions run; `None` = here, on threads as `background` says. It MUST reach the
    /// same files and know the same operators. What it refuses, fails at, answers wrongly or keeps
    /// for too long ([`firn_jobs::Patience`]) is done here instead; the statistics say how often
    /// and why.
    pub executor: Option<Arc<dyn Executor>>,
    /// Seed of the database id of a new database, and of which jobs are done again; nothing else is
    /// random.
    pub seed: u64,
    /// Whether a missing database is created (otherwise `Invalid`).
    pub create: bool,
    /// Opens without writing anything, beside other readers; excludes a writer.
    pub read_only: bool,
    /// Opens a database on shared storage whose log lies on another machine (otherwise `Conflict`).
    /// What was written there and is in no table is given up, and the process that has it open
    /// there writes nothing any more.
    pub take_over: bool,
}

impl TreeOptions {
    /// What starts threads; `None` where the owner does all work.
    pub(crate) fn spawn(&self) -> Option<&Arc<dyn Spawn>> {
        match &self.background {
            Background::Threads(spawn) => Some(spawn),
            Background::Manual => None,
        }
    }
}

/// `Invalid`, naming the setting, its value and its range, unless it is `good`.
fn check(good: bool, name: &str, value: impl std::fmt::Display, range: &str) -> Result<()> {
    if good {
        return Ok(());
    }
    Err(Error::invalid(format!("setting {name} = {value} must be {range}")))
}
