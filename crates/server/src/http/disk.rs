//! What a database's directory takes on disk, and what that consists of.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firn_engine::Stats;
use firn_format::file_name::{FileName, parse};

/// How often the directory is looked at, at most.
const EVERY: Duration = Duration::from_secs(5);

/// Files that are looked at; what lies beyond is not counted.
const FILES_MAX: usize = 200_000;

/// A unit of `st_blocks`.
const BLOCK: u64 = 512;

/// The files of a directory, as `du` counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Files {
    /// Tables and blob segments.
    data_bytes: u64,
    log_bytes: u64,
    /// Room that log segments have behind what is written.
    log_room_bytes: u64,
    other_bytes: u64,
}

/// What the space consists of, in bytes. All together are what `du` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    /// Tables and separated values that reads find.
    pub(super) live: u64,
    /// Overwritten or deleted, and files that wait for their removal.
    pub(super) obsolete: u64,
    /// Log segments, as far as they are written.
    pub(super) log: u64,
    /// Set aside: the rest of log segments, and files that are kept to be written over.
    pub(super) preallocated: u64,
    /// The manifest and the like.
    pub(super) other: u64,
}

/// Looks at a directory now and then.
#[derive(Debug, Default)]
pub(super) struct Disk {
    last: Mutex<Option<(Duration, Option<Files>)>>,
}

impl Disk {
    /// What `dir` takes at `now`, or a few seconds ago, by what the engine says of its files;
    /// `None` where it cannot be looked at. Costs a `stat` of each file.
    pub(super) fn space(&self, dir: &Path, stats: &Stats, now: Duration) -> Option<Space> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let files = match *last {
            Some((at, files)) if now.saturating_sub(at) < EVERY => files,
            _ => {
                let files = Files::of(dir);
                *last = Some((now, files));
                files
            }
        };
        files.map(|files| Space::of(files, stats))
    }
}

impl Files {
    fn of(dir: &Path) -> Option<Self> {
        let mut files = Self::default();
        for entry in std::fs::read_dir(dir).ok()?.take(FILES_MAX) {
            // What goes while it is looked at takes nothing.
            let Ok((entry, metadata)) = entry.and_then(|entry| entry.metadata().map(|about| (entry, about)))
            else {
                continue;
            };
            let bytes = metadata.blocks() * BLOCK;
            match parse(&entry.file_name().to_string_lossy()) {
                Some(FileName::LogSegment(_)) => {
                    let room = bytes.saturating_sub(metadata.len());
                    files.log_bytes += bytes;
                    files.log_room_bytes += room;
                }
                Some(
                    FileName::Table { .. }
                    | FileName::Tables { .. }
                    | FileName::BlobSegment(_)
                    | FileName::CollectedBlobs { .. },
                ) => files.data_bytes += bytes,
                _ => files.other_bytes += bytes,
            }
        }
        Some(files)
    }
}

impl Space {
    fn of(files: Files, stats: &Stats) -> Self {
        let Files { data_bytes, log_bytes, log_room_bytes, other_bytes } = files;
        let (tables, blobs) = stats.tree.as_ref().map(|tree| (tree.table_bytes, &tree.blobs)).unzip();
        let separated = blobs.map_or(0, |blobs| blobs.segment_bytes.saturating_sub(blobs.dead_bytes));
        // Where tables lie on shared storage this disk has none of them.
        let live = (tables.unwrap_or_default() + separated).min(data_bytes);
        let recycled_logs = stats.recycled_bytes.min(log_bytes.saturating_sub(stats.log_bytes));
        let recycled_data = (stats.recycled_bytes - recycled_logs).min(data_bytes - live);
        let log = log_bytes.saturating_sub(recycled_logs + log_room_bytes);
        Self {
            live,
            obsolete: data_bytes - live - recycled_data,
            log,
            preallocated: log_bytes - log + recycled_data,
            other: other_bytes,
        }
    }

    /// Each part with its label.
    pub(super) fn parts(&self) -> [(&'static str, u64); 5] {
        let Self { live, obsolete, log, preallocated, other } = *self;
        [
            ("live", live),
            ("obsolete", obsolete),
            ("log", log),
            ("preallocated", preallocated),
            ("other", other),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_engine::TreeStats;

    #[test]
    fn the_parts_are_all_of_what_du_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: usize| std::fs::write(dir.path().join(name), vec![7; bytes]).unwrap();
        write("0000000000000000.log", 64 << 10);
        write("0000000000010000.log", 32 << 10);
        write("a-000000.table", 100 << 10);
        write("LOCK", 0);
        write("manifest-0000000000000001", 4 << 10);
        let tree = TreeStats { table_bytes: 60 << 10, ..TreeStats::default() };
        let stats =
            Stats { log_bytes: 64 << 10, recycled_bytes: 40 << 10, tree: Some(tree), ..Stats::default() };
        let disk = Disk::default();
        let space = disk.space(dir.path(), &stats, Duration::ZERO).unwrap();
        // 32 KiB of what is kept for later were log segments, 8 KiB tables.
        let wanted = Space {
            live: 60 << 10,
            obsolete: 32 << 10,
            log: 64 << 10,
            preallocated: 40 << 10,
            other: 4 << 10,
        };
        assert_eq!(space, wanted);
        write("b-000000.table", 100 << 10);
        assert_eq!(disk.space(dir.path(), &stats, EVERY - Duration::from_millis(1)), Some(wanted));
        let later = disk.space(dir.path(), &stats, EVERY).unwrap();
        assert_eq!(later.obsolete, wanted.obsolete + (100 << 10));
        let all: u64 = later.parts().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(all, (64 + 32 + 100 + 100 + 4) << 10);
        assert_eq!(disk.space(&dir.path().join("none"), &stats, 2 * EVERY), None);
    }
}
