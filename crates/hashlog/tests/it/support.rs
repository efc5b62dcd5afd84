//! Databases for tests.

use std::sync::Arc;

use firn_engine::conformance::semantics;
use firn_engine::settings::MIB;
use firn_engine::{Durability, Engine, Result};
use firn_hashlog::{Background, HashLog, HashOptions, Settings};
use firn_storage::{Clock, Storage, ThreadSpawn};

/// Settings with which little data passes every stage.
pub(crate) fn tiny() -> Settings {
    Settings { memory_bytes: 16 * MIB, ..Settings::default() }.with_engine(|hash| {
        hash.index_bytes_max = 8 * MIB;
        hash.read_cache_bytes = MIB;
        hash.page_bytes = MIB / 2;
        hash.segment_bytes = MIB;
        hash.redo_bytes_max = 64 << 10;
    })
}

/// Opens a database.
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    has_threads: bool,
    settings: Settings,
) -> Result<Arc<HashLog>> {
    let background = match has_threads {
        true => Background::Threads(Arc::new(ThreadSpawn::new())),
        false => Background::Manual,
    };
    HashLog::open(&HashOptions {
        storage,
        settings,
        semantics: semantics(),
        clock,
        background,
        seed: 7,
        create: true,
    })
}

/// As an engine, with `durability`.
pub(crate) fn engine(
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    has_threads: bool,
    durability: Durability,
    is_tiny: bool,
) -> Result<Arc<dyn Engine>> {
    let settings = if is_tiny { tiny() } else { Settings::for_memory(64 * MIB) };
    Ok(open(storage, clock, has_threads, Settings { durability, ..settings })?)
}
