//! How a database was filled, and what it takes then.

use std::time::Duration;

use firn::PointDb;
use firn_engine::Result;
use serde::Serialize;

use super::args::PointsArgs;
use super::phase::{timed, write_all};
use super::source::Source;

/// Figures of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// Keys that were written, each once.
    pub keys: u64,
    /// How long that took.
    pub seconds: f64,
    /// Bytes of the database's memory for each key, once all are there.
    pub memory_bytes_per_key: f64,
    /// Slots of the index that began to grow; 0 where it does not.
    pub growths: u64,
    /// Waits of operations for that.
    pub growth_waits: u64,
    /// Microseconds of the longest one.
    pub growth_wait_us_max: u64,
}

impl Loaded {
    /// Writes all keys that are to be loaded.
    ///
    /// # Errors
    /// What the store failed with.
    pub(super) fn by_writing(db: &PointDb, source: &Source, args: &PointsArgs) -> Result<Self> {
        let took = timed(|| write_all(db, source.loaded(), args))?;
        Ok(Self::new(db, source.key_count(), took))
    }

    fn new(db: &PointDb, keys: u64, took: Duration) -> Self {
        let stats = db.stats();
        let hash = stats.hash.unwrap_or_default();
        Self {
            keys,
            seconds: took.as_secs_f64(),
            memory_bytes_per_key: stats.memory_bytes as f64 / keys as f64,
            growths: hash.growth_count,
            growth_waits: hash.growth_wait_count,
            growth_wait_us_max: hash.growth_wait_us_max,
        }
    }

    /// It as a line for people.
    pub(super) fn line(&self) -> String {
        let rate = self.keys as f64 / self.seconds / 1e6;
        let memory = self.memory_bytes_per_key;
        let growth = match self.growths {
            0 => String::new(),
            growths => format!(
                "; {growths} growths of slots, {} waits for them, the longest {:.2} ms",
                self.growth_waits,
                self.growth_wait_us_max as f64 / 1e3
            ),
        };
        format!("loaded {} keys at {rate:.2} M/s; {memory:.1} bytes of memory a key{growth}", self.keys)
    }
}
