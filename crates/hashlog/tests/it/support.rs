//! Databases for tests, and how long they go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_engine::conformance::semantics;
use firn_engine::settings::MIB;
use firn_engine::{Durability, Engine, Result};
use firn_hashlog::{Background, HashLog, HashOptions, Settings};
use firn_storage::{Clock, Storage, SystemClock, ThreadSpawn};

/// Settings with which little data passes every stage.
pub(crate) fn tiny() -> Settings {
    Settings { memory_bytes: 8 * MIB, ..Settings::default() }.with_engine(|hash| {
        hash.index_bytes_max = 4 * MIB;
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
        take_over: true,
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

/// Says that it is over when it is dropped, by a panic too.
pub(crate) struct Over<'o>(pub(crate) &'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does rounds of `work`, at least one, until as many seconds have passed as the environment's
/// variable `name` says, or `seconds`.
#[expect(clippy::disallowed_methods, reason = "the soak says how long")]
pub(crate) fn repeated_for(name: &str, seconds: u64, mut work: impl FnMut(u64)) {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (clock, end) = (SystemClock::new(), Duration::from_secs(given.unwrap_or(seconds)));
    let (mut rounds, mut reported_at) = (0, Duration::ZERO);
    while rounds == 0 || clock.now() < end {
        work(rounds);
        rounds += 1;
        if clock.now() >= reported_at + Duration::from_secs(20) {
            reported_at = clock.now();
            eprintln!("{rounds} rounds, {} of {} s", reported_at.as_secs(), end.as_secs());
        }
    }
}
