//! Native libraries that `peers/setup` puts beside this workspace.

use std::path::{Path, PathBuf};

/// Where `peers/setup` puts them.
fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("native")
}

/// RocksDB itself.
pub fn rocksdb() -> PathBuf {
    dir().join("librocksdb.so")
}

/// What every engine's process loads first: one allocator for all, and a CRC32C for this processor
/// instead of the portable one in RocksDB's library. Only those that are there.
pub fn preloads() -> Vec<PathBuf> {
    ["libjemalloc.so", "libcrc32c.so"]
        .iter()
        .map(|name| dir().join(name))
        .filter(|path| path.exists())
        .collect()
}
