//! The immutable set that readers hold.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use firn_engine::{Compression, Error, KeyspaceSettings, MergeOperator, PrefixExtractor, Result, Semantics};
use firn_format::Position;
use firn_format::compression::Compression as Codec;
use firn_storage::StorageLock;

use super::Levels;
use crate::blobs::BlobMap;
use crate::buffer::Run;
use crate::log::SegmentMap;
use crate::memtable::Memtable;
use crate::settings::Settings;
use crate::version::observed::Observed;

/// Everything the database consists of at one moment. Readers hold it for one operation.
///
/// 1. Every record with a position below the watermark read *after* the version is in exactly one
///    live place of it, or superseded by one that is.
/// 2. Places are ordered by age: memtable, frozen memtables, runs, level 0, deeper levels.
/// 3. The directory stays locked until the last reader is gone that found a version with a lock.
///    `Tree::close` stores one without, once it is said that the database is closed. Readers load
///    the version first, and ask then whether it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    /// By id; `None` = dropped or never there.
    pub(crate) keyspaces: Vec<Option<Arc<Keyspace>>>,
    pub(crate) segments: Arc<SegmentMap>,
    /// Blob segments that its records may refer to, but for those that were begun since.
    pub(crate) blobs: Arc<BlobMap>,
    /// The directory's, so that it is held as long as a reader uses the version: files that others
    /// may write over are mapped. `None` = the database is closed.
    pub(crate) lock: Option<Arc<dyn StorageLock>>,
}

impl Version {
    /// What a reader of one keyspace needs beside that, for longer than one operation: without the
    /// directory's lock.
    pub(crate) fn records(&self) -> Self {
        let (segments, blobs) = (Arc::clone(&self.segments), Arc::clone(&self.blobs));
        Self { keyspaces: Vec::new(), segments, blobs, lock: None }
    }

    #[inline]
    pub(crate) fn keyspace(&self, id: u32) -> Result<&Arc<Keyspace>> {
        match self.keyspaces.get(id as usize) {
            Some(Some(keyspace)) => Ok(keyspace),
            _ => Err(Error::invalid(format!(
                "there is no keyspace with id {id}; create it or look up its id by name"
            ))),
        }
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Arc<Keyspace>> {
        self.keyspaces.iter().flatten()
    }

    /// Those of live keyspaces.
    pub(crate) fn ids(&self) -> BTreeSet<u32> {
        self.live().map(|keyspace| keyspace.id()).collect()
    }

    /// Bytes of all tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        let tables = self.live().flat_map(|keyspace| keyspace.levels.tables());
        tables.map(|(_, table)| table.meta().bytes).sum()
    }

    /// First log position some keyspace still needs; everything below is in tables.
    pub(crate) fn log_needed_from(&self) -> Position {
        let end = self.segments.segments().last().map_or(Position(0), |segment| segment.base());
        self.live().map(|keyspace| keyspace.unflushed_from(end)).min().unwrap_or(end)
    }
}

/// One keyspace at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    pub(crate) definition: Arc<Definition>,
    pub(crate) memtable: Arc<Memtable>,
    /// Base of the segment in which the memtable began.
    pub(crate) memtable_start: Position,
    /// Newest first.
    pub(crate) frozen: Vec<Frozen>,
    /// Newest first.
    pub(crate) runs: Vec<Arc<Run>>,
    pub(crate) levels: Arc<Levels>,
    /// References of its tables that no reader follows any more.
    pub(crate) obsolete_count: u64,
    /// Records below are in tables.
    pub(crate) flushed_through: Position,
    /// Sequences that ingestions gave are of positions below; it grows with each.
    pub(crate) ingested_through: Position,
    /// Shared by all versions.
    pub(crate) observed: Arc<Observed>,
}

/// A memtable that takes no more records and is about to become a run.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    pub(crate) memtable: Arc<Memtable>,
    /// From the base of its first segment to the base of the segment after its last.
    pub(crate) span: Range<Position>,
}

impl Keyspace {
    pub(crate) fn id(&self) -> u32 {
        self.definition.id
    }

    /// How its tables of the last level, and its separated values, are compressed.
    pub(crate) fn codec(&self) -> Codec {
        match self.definition.compression {
            Compression::None => Codec::None,
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd => Codec::Zstd,
        }
    }

    /// The memtables that its newest records are in, newest first.
    #[inline]
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(self.frozen.iter().map(|frozen| &frozen.memtable))
    }

    /// First position of a record that is not in a table, or `end` if there is none.
    pub(crate) fn unflushed_from(&self, end: Position) -> Position {
        self.unflushed_without(&[], end)
    }

    /// The same once the runs whose spans begin at `starts` are tables.
    pub(crate) fn unflushed_without(&self, starts: &[Position], end: Position) -> Position {
        let is_left = |run: &&Arc<Run>| !starts.contains(&run.span().start);
        if let Some(run) = self.runs.iter().rev().find(is_left) {
            return run.span().start;
        }
        if let Some(frozen) = self.frozen.last() {
            return frozen.span.start;
        }
        if self.memtable.is_empty() { end } else { self.memtable_start }
    }
}

/// What a keyspace is, its names turned into code.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) settings: KeyspaceSettings,
    /// As the keyspace's settings say, else the database's.
    pub(crate) compression: Compression,
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// What its jobs name, so that no executor does them with other parameters than this process
    /// has: the settings say names alone.
    pub(crate) merge_operator_identity: Option<String>,
    /// As that of the merge operator.
    pub(crate) compaction_filter_identity: Option<String>,
}

impl Definition {
    /// For a database with `compression` and `semantics`.
    ///
    /// # Errors
    /// `Invalid` if a name has no code registered.
    pub(crate) fn new(
        id: u32,
        name: &str,
        settings: KeyspaceSettings,
        (compression, semantics): (Compression, &Semantics),
    ) -> Result<Self> {
        let missing = |what: &str, code: &str| {
            Error::invalid(format!(
                "keyspace {name:?} uses the {what} {code:?}: register it before opening the database"
            ))
        };
        let (merge_operator, merge_operator_identity) = match &settings.merge_operator {
            None => (None, None),
            Some(code) => {
                let missing = || missing("merge operator", code);
                let operator = semantics.merge_operator(code).ok_or_else(missing)?;
                let identity = semantics.merge_operator_identity(code).ok_or_else(missing)?;
                (Some(operator), Some(identity.to_owned()))
            }
        };
        // Jobs find the filter by its identity; here it only has to be there.
        let compaction_filter_identity = match &settings.compaction_filter {
            None => None,
            Some(code) => {
                let identity = semantics.compaction_filter_identity(code);
                Some(identity.ok_or_else(|| missing("compaction filter", code))?.to_owned())
            }
        };
        let prefix_extractor = match &settings.prefix_extractor {
            None => None,
            Some(code) => {
                Some(semantics.prefix_extractor(code).ok_or_else(|| missing("prefix extractor", code))?)
            }
        };
        Ok(Self {
            id,
            name: name.to_owned(),
            compression: settings.compression.unwrap_or(compression),
            settings,
            merge_operator,
            prefix_extractor,
            merge_operator_identity,
            compaction_filter_identity,
        })
    }
}

/// Of smaller values a reference and a record's head take more than they do.
const SEPARATE_BYTES_MIN: u32 = 32;

/// Whether a keyspace may have `bytes` as its threshold.
///
/// # Errors
/// `Invalid`: it is too little.
pub(crate) fn check_separate_bytes(bytes: Option<u32>) -> Result<()> {
    match bytes.filter(|bytes| *bytes < SEPARATE_BYTES_MIN) {
        None => Ok(()),
        Some(bytes) => {
            let message = format!("separate_bytes is at least {SEPARATE_BYTES_MIN}, not {bytes}");
            Err(Error::invalid(message))
        }
    }
}

/// Bytes of value from which on puts of `keyspace` are separated, in a database with `settings`;
/// `u32::MAX` if none are.
#[inline]
pub(crate) fn separate_bytes(keyspace: &Keyspace, settings: &Settings) -> u32 {
    let of_database = match settings.engine.separate_bytes {
        0 => u32::MAX,
        bytes => bytes,
    };
    keyspace.definition.settings.separate_bytes.unwrap_or(of_database)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::Gaps;
    use crate::version::state::KeyspaceState;

    /// What an allocator adds, and the counts of an `Arc`.
    const BESIDE_BYTES: usize = 32;

    #[test]
    fn an_empty_keyspace_takes_at_most_a_kibibyte() {
        let own = [
            size_of::<Keyspace>(),
            size_of::<Definition>(),
            size_of::<Memtable>(),
            size_of::<Gaps>(),
            size_of::<Observed>(),
        ];
        let own: usize = own.iter().map(|bytes| bytes + BESIDE_BYTES).sum();
        // Nodes of the state's map are half full where ids only grow.
        let in_state = 2 * (size_of::<u32>() + size_of::<KeyspaceState>());
        // A name of 16 bytes, twice; a pointer in the version; at most two places in the segment.
        let beside = 2 * (16 + BESIDE_BYTES) + 8 + 32;
        let bytes = own + in_state + beside;
        assert!(bytes <= 1024, "{bytes} bytes");
        // No tables and no gaps are the same ones for all.
        assert!(Arc::ptr_eq(&Levels::none(), &Levels::none()));
    }
}
