//! Settings and components that the hashed engine is opened with.

use std::sync::Arc;

use firn_engine::Semantics;
use firn_engine::settings::MIB;
use firn_storage::{Clock, Spawn, Storage};

firn_engine::engine_settings! {
    /// What a hashed engine alone is told: sizes of its index, its log and its redo log.
    pub struct HashSettings in "hash";

    /// Bytes of changes in the redo log at which a checkpoint is taken. More means fewer
    /// checkpoints, and a longer replay after a crash: some seconds for 1 GiB.
    redo_bytes_max: u64, Everyone,
        "512 MiB", |_| 512 * MIB,
        "1 MiB to 1 TiB",
        |s| (MIB..=MIB << 20).contains(&s.engine.redo_bytes_max),
        "choose a size in that range",
        tests "at least 4 KiB", |s| s.engine.redo_bytes_max >= 4096;

    /// Milliseconds after which a checkpoint is taken of what was written at "checkpoint". More
    /// means fewer copies of what is changed in place, and more that a crash may take.
    checkpoint_interval_ms: u64, Everyone,
        "10000", |_| 10_000,
        "100 to 86400000",
        |s| (100..=86_400_000).contains(&s.engine.checkpoint_interval_ms),
        "choose a time in that range";

    /// Bytes of memory_bytes that the index may take: 9 to 18 for each key. Keys that it has no
    /// room for become cold, those that were written longest ago first.
    index_bytes_max: u64, Expert,
        "three eighths of memory_bytes", |memory_bytes| memory_bytes / 8 * 3,
        "2 MiB to three quarters of memory_bytes",
        |s| (2 * MIB..=s.memory_bytes / 4 * 3).contains(&s.engine.index_bytes_max),
        "lower it, or raise memory_bytes",
        tests "at least 64 KiB", |s| s.engine.index_bytes_max >= 64 << 10;

    /// Keys that the index has room for from the start, so that it need not grow as they are
    /// written. Each slot takes its part with its first key; where index_bytes_max has not so much,
    /// slots begin small.
    index_keys_min: u64, Expert,
        "0", |_| 0,
        "0 to 10^12",
        |s| s.engine.index_keys_min <= 1_000_000_000_000,
        "choose a number in that range";

    /// Bytes of memory_bytes that copies of records may take which were read from the device; 0 for
    /// none. The index comes first, and the log always has an eighth. Of the rest the oldest page
    /// goes first, the log's or that of the copies.
    read_cache_bytes: u64, Expert,
        "memory_bytes: all that is left", |memory_bytes| memory_bytes,
        "0 to memory_bytes",
        |s| s.engine.read_cache_bytes <= s.memory_bytes,
        "lower it, or raise memory_bytes";

    /// Bytes of a page of the log: a power of two. A record takes a quarter of one at most; longer
    /// values have files of their own.
    page_bytes: u64, Expert,
        "a 128th of memory_bytes, 512 KiB to 4 MiB", |memory_bytes| (memory_bytes / 128).next_power_of_two().clamp(MIB / 2, 4 * MIB),
        "512 KiB to 64 MiB, a power of two",
        |s| (MIB / 2..=64 * MIB).contains(&s.engine.page_bytes) && s.engine.page_bytes.is_power_of_two(),
        "choose a power of two in that range";

    /// Bytes of the local directory that sealed segments and long values of a database on shared
    /// storage may take, the newest ones. Others are read from shared storage.
    local_bytes_max: u64, Everyone,
        "16 times memory_bytes", |memory_bytes| 16 * memory_bytes,
        "any size",
        |_| true,
        "";

    /// Bytes of a segment of the log on the device: a power of two. Space is given back by whole
    /// segments.
    segment_bytes: u64, Expert,
        "a sixteenth of memory_bytes, 4 to 64 MiB", |memory_bytes| (memory_bytes / 16).next_power_of_two().clamp(4 * MIB, 64 * MIB),
        "a page to 4 GiB, a power of two",
        |s| (s.engine.page_bytes..=4096 * MIB).contains(&s.engine.segment_bytes) && s.engine.segment_bytes.is_power_of_two(),
        "choose a power of two in that range";
}

/// Everything a hashed engine is told, as data.
pub type Settings = firn_engine::settings::Settings<HashSettings>;

/// Where background work is done.
#[derive(Clone, Debug)]
pub enum Background {
    /// Threads of the given spawner.
    Threads(Arc<dyn Spawn>),
    /// On no thread of its own: the owner calls [`crate::HashLog::step`] (deterministic tests).
    Manual,
}

/// Everything a hashed engine is opened with: settings are data, the rest are components.
#[derive(Clone, Debug)]
pub struct HashOptions {
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
    /// Seed of the database id of a new database; nothing else is random.
    pub seed: u64,
    /// Whether a missing database is created (otherwise `Invalid`).
    pub create: bool,
    /// Whether a database on shared storage is opened although another machine has it (otherwise
    /// `Conflict`). Writes of that machine are given up that are in no checkpoint.
    pub take_over: bool,
}
