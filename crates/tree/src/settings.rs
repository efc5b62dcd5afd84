//! Settings and components that the ordered engine is opened with.

use std::sync::Arc;

use firn_engine::Semantics;
use firn_engine::settings::MIB;
use firn_format::key::GRANULE_BYTES;
use firn_jobs::Executor;
use firn_storage::{Clock, Spawn, Storage};

use crate::buffer::MERGE_INPUTS_MAX;

firn_engine::engine_settings! {
    /// What an ordered engine alone is told: sizes and limits of log, buffer, tables and values.
    pub struct TreeSettings in "tree";

    /// Bytes from which on values are separated, in keyspaces that do not say. Such values
    /// are written once, compactions do not copy them, and unreferenced ones are collected. 0 =
    /// none do.
    separate_bytes: u32, Everyone,
        "0", |_| 0,
        "0, or at least 32",
        |s| s.engine.separate_bytes == 0 || s.engine.separate_bytes >= 32,
        "raise it, or set it to 0";

    /// Bytes of log above which the keyspace that holds the oldest segment is frozen and flushed,
    /// whatever its size. Bounds the disk space of the log and the time of a replay.
    log_bytes_max: u64, Everyone,
        "memory_bytes", |memory_bytes| memory_bytes,
        "at least two log segments",
        |s| s.engine.log_bytes_max >= 2 * s.engine.log_segment_bytes,
        "raise it, or lower log_segment_bytes";

    /// Sorted runs in level 0 over one key that reads may have to ask. Compaction keeps them to
    /// half as many on average; fewer mean faster reads and more writing.
    level0_runs_max: usize, Everyone,
        "12", |_| 12,
        "2 to 256",
        |s| (2..=256).contains(&s.engine.level0_runs_max),
        "choose a number in that range";

    /// Record bytes at which a keyspace's memtable is frozen into a run. Larger memtables mean
    /// fewer, longer runs and a longer replay after a crash.
    memtable_bytes: u64, Expert,
        "a sixteenth of memory_bytes, 1 MiB to 32 MiB", |memory_bytes| (memory_bytes / 16).clamp(MIB, 32 * MIB),
        "64 KiB to half of memory_bytes",
        |s| (64 << 10..=s.memory_bytes / 2).contains(&s.engine.memtable_bytes),
        "lower it, or raise memory_bytes",
        tests "at least 4 KiB", |s| s.engine.memtable_bytes >= 4096;

    /// Bytes of one log segment. A batch beyond a quarter of it gets a segment of its own.
    // Where values are separated segments of the log end early, and their files are as long
    // as was set aside.
    log_segment_bytes: u64, Expert,
        "a thirty-second of memory_bytes, 4 MiB to 32 MiB", |memory_bytes| (memory_bytes / 32 / (4 * MIB) * (4 * MIB)).clamp(4 * MIB, 32 * MIB),
        "a multiple of 4 MiB, at most 4 GiB",
        |s| (GRANULE_BYTES..=4096 * MIB).contains(&s.engine.log_segment_bytes)
            && s.engine.log_segment_bytes.is_multiple_of(GRANULE_BYTES),
        "round it to whole 4 MiB";

    /// Bytes of log segments and run indexes above which the oldest runs are flushed into tables.
    buffer_bytes: u64, Expert,
        "a quarter of memory_bytes", |memory_bytes| memory_bytes / 4,
        "at least 1 MiB and at most buffer_bytes_max",
        |s| (MIB..=s.engine.buffer_bytes_max).contains(&s.engine.buffer_bytes),
        "lower it, or raise buffer_bytes_max",
        tests "at most buffer_bytes_max", |s| s.engine.buffer_bytes <= s.engine.buffer_bytes_max;

    /// Buffer bytes at which writers stop; from buffer_bytes on they are slowed in proportion.
    buffer_bytes_max: u64, Expert,
        "half of memory_bytes", |memory_bytes| memory_bytes / 2,
        "at least two log segments and at most memory_bytes",
        |s| (2 * s.engine.log_segment_bytes..=s.memory_bytes).contains(&s.engine.buffer_bytes_max),
        "raise it, or lower log_segment_bytes",
        tests "at least two log segments", |s| s.engine.buffer_bytes_max >= 2 * s.engine.log_segment_bytes;

    /// Adjacent runs of one buffer level that are merged into one of the next. More means less
    /// merging and more runs to ask for each read.
    merge_fan_in: usize, Expert,
        "4", |_| 4,
        "2 to 16",
        |s| (2..=MERGE_INPUTS_MAX).contains(&s.engine.merge_fan_in),
        "choose a number in that range";

    /// Bytes of a table's data block before compression. Larger blocks compress better and cost
    /// more for a read that misses memory.
    block_bytes: u32, Expert,
        "4 KiB", |_| 4096,
        "256 to 1 MiB",
        |s| (256..=1 << 20).contains(&s.engine.block_bytes),
        "choose a size in that range";

    /// Bytes at which a flush or compaction begins the next table.
    table_bytes: u64, Expert,
        "64 MiB", |_| 64 * MIB,
        "64 KiB to 16 GiB",
        |s| (64 << 10..=16384 * MIB).contains(&s.engine.table_bytes),
        "choose a size in that range";

    /// Bytes at which a blob segment takes no more values.
    // What is collected together: small data would be collected in few large pieces.
    blob_segment_bytes: u64, Expert,
        "64 MiB", |memory_bytes| (memory_bytes / 8).clamp(4 * MIB, 64 * MIB),
        "4 KiB to 512 MiB",
        |s| (4096..=512 * MIB).contains(&s.engine.blob_segment_bytes),
        "choose a size in that range";

    /// Bits of filter for each key, in runs and tables. With 10, about one in a hundred reads of a
    /// missing key reads a block that it need not see; 0 turns filters off.
    filter_bits_per_key: u32, Expert,
        "10", |_| 10,
        "0 to 64",
        |s| s.engine.filter_bits_per_key <= 64,
        "choose a number in that range";

    /// Price of compactions that reads ask for. Sorted runs of level 0 must have cost reads this
    /// many times what rewriting them takes before that is done for reads alone. More means less
    /// writing beside scans, and slower scans.
    read_compaction_price: f64, Expert,
        "4.0", |_| 4.0,
        "0.01 to 1000000000.0",
        |s| (0.01..=1e9).contains(&s.engine.read_compaction_price),
        "choose a number in that range; 1 is as cheap as it is in time alone";
}

/// Everything an ordered engine is told, as data.
pub type Settings = firn_engine::settings::Settings<TreeSettings>;

impl TreeSettings {
    /// Largest frame an ordinary segment takes; a larger batch gets a segment of its own.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        (self.log_segment_bytes / 4) as usize
    }
}

/// Bytes that tables may hide for each byte that lives, above which they are compacted away; at
/// rest half of it. The buffer may hide half of it, too.
///
/// Half of the space that is allowed beside what lives. The other half is for garbage not found
/// yet, files kept for new ones, and outputs beside their inputs.
pub(crate) fn garbage_share_max(settings: &Settings) -> f64 {
    (settings.space_amplification_max - 1.0) / 2.0
}

/// Bytes of files that the system can be expected to keep in memory beside the engine's own; no
/// limit if it is not told.
pub(crate) fn page_cache_bytes(settings: &Settings) -> u64 {
    match settings.page_cache_bytes {
        0 => u64::MAX,
        bytes => bytes,
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
    pub settings: Settings,
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

#[cfg(test)]
mod tests;
