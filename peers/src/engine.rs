//! The engines, each behind the bench's target trait.

use firn_bench::target::{FirnFactory, MemoryFactory, TargetFactory};
use firn_engine::{Error, ErrorKind, Result};

use crate::args::CompareArgs;

mod fjall;
mod lmdb;
mod redb;
mod rocksdb;

/// Names of the engines there are.
pub const NAMES: [&str; 10] = [
    "firn",
    "hashlog",
    "firn-values",
    "firn-values-2x",
    "rocksdb",
    "rocksdb-blob",
    "fjall",
    "fjall-kvsep",
    "lmdb",
    "redb",
];

/// The engine called `name`.
///
/// # Errors
/// `Invalid` for a name that is none and for RocksDB if its library cannot be loaded.
pub fn factory(name: &str, args: &CompareArgs) -> Result<Box<dyn TargetFactory>> {
    Ok(match name {
        "firn" => Box::new(FirnFactory::new()),
        "hashlog" => Box::new(FirnFactory::of(name.parse()?)),
        "firn-values" => Box::new(FirnFactory::separated(name, SEPARATED_VALUE_BYTES_MIN as u32)),
        // The space of stores that collect less eagerly: others are at two to four times the data
        // while they are written to.
        "firn-values-2x" => {
            Box::new(FirnFactory::separated(name, SEPARATED_VALUE_BYTES_MIN as u32).within(2.0))
        }
        "rocksdb" => Box::new(rocksdb::RocksFactory::new(&args.rocksdb_library, false)?),
        "rocksdb-blob" => Box::new(rocksdb::RocksFactory::new(&args.rocksdb_library, true)?),
        "fjall" => Box::new(fjall::FjallFactory::new(false)),
        "fjall-kvsep" => Box::new(fjall::FjallFactory::new(true)),
        "lmdb" => Box::new(lmdb::LmdbFactory),
        "redb" => Box::new(redb::RedbFactory),
        // Not offered: checks the harness itself.
        "memory" => Box::new(MemoryFactory),
        _ => return Err(Error::invalid(format!("no engine `{name}`; there are {}", NAMES.join(", ")))),
    })
}

/// Bytes of values of this size and more that the key-value separating engines keep apart.
const SEPARATED_VALUE_BYTES_MIN: u64 = 512;

/// How an engine's memory is divided: a third for memtables, the rest for the cache.
struct MemoryShares {
    memtable: u64,
    cache: u64,
}

/// Memtables an engine may hold, the one being written included.
const MEMTABLES: u64 = 4;

impl MemoryShares {
    fn of(memory_bytes: Option<u64>) -> Self {
        let memory = memory_bytes.unwrap_or(768 << 20);
        let memtable = (memory / 3 / MEMTABLES).max(1 << 20);
        Self { memtable, cache: memory.saturating_sub(memtable * MEMTABLES).max(8 << 20) }
    }
}

/// An engine's error as ours.
fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("{what}: {error}"))
}

/// Settings from pairs of words.
fn settings<const N: usize>(pairs: [(&str, String); N]) -> firn_bench::target::Settings {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests;
