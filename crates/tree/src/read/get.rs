//! One key: places newest first, each asked through its filter.

use std::sync::Arc;

use firn_engine::{Completion, KeyspaceId, Result};
use firn_format::key::{Trailer, key_hash};
use firn_format::{Position, Sequence, log::Record};
use firn_storage::file::table::{CursorOptions, Lookup as TableLookup, ReadMode, TableCursor, TableReader};

use super::resolve::{Hit, Resolution, Resolved, Wants};
use crate::commit::CommitPipeline;
use crate::error::from_storage;
use crate::reads::Reads;
use crate::version::{Keyspace, Table, Version};

/// What to look up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'k> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'k [u8],
    /// Records with a smaller position are seen.
    pub(crate) before: Position,
    pub(crate) mode: ReadMode,
    pub(crate) wants: Wants,
}

impl<'k> Lookup<'k> {
    /// Blocking, for the point `before`, of the whole value.
    pub(crate) fn latest(keyspace: KeyspaceId, key: &'k [u8], before: Position) -> Self {
        Self { keyspace, key, before, mode: ReadMode::Blocking, wants: Wants::ALL }
    }
}

/// What a lookup found; sequences are those of the newest version, tombstones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The value is in the caller's buffer; so many bytes of it, or of what it was made of, were
    /// read from blobs. It expires then, or 0.
    Value { newest: Option<Sequence>, beside: Option<u64>, expires_at_ms: u64 },
    /// The value was asked for; its reference is in the caller's buffer. Only for [`Wants::Ahead`].
    Asked { newest: Option<Sequence>, expires_at_ms: u64 },
    /// The key has no value; an expired one may be stored.
    Absent { newest: Option<Sequence>, is_stored: bool },
    /// A table's bytes, or the blob's, are not in memory and the mode forbids
    /// reading them.
    Miss,
}

impl Found {
    pub(crate) fn newest(self) -> Option<Sequence> {
        match self {
            Found::Value { newest, .. } | Found::Asked { newest, .. } | Found::Absent { newest, .. } => {
                newest
            }
            Found::Miss => None,
        }
    }
}

impl CommitPipeline {
    /// The point that a read of everything sees with `version`.
    ///
    /// Read after the version: every record below was indexed in a place the version knows, and
    /// what merges dropped was superseded below it.
    #[inline]
    pub(crate) fn read_position(&self, version: &Version) -> Position {
        self.log.watermark().min(version.segments.end())
    }
}

impl Reads {
    /// Looks a key up; the value goes to `out`.
    pub(crate) fn lookup(&self, version: &Version, lookup: &Lookup<'_>, out: &mut Vec<u8>) -> Result<Found> {
        let keyspace = version.keyspace(lookup.keyspace.0)?;
        let operator = keyspace.definition.merge_operator.as_deref();
        let mut resolution =
            Resolution::new(lookup.key, (self, version), (lookup.wants, lookup.mode), operator);
        let resolved = self.resolve(version, keyspace, lookup, &mut resolution, out)?;
        let (newest, expires_at_ms) = (resolution.newest(), resolution.expires_at_ms());
        Ok(match resolved {
            None | Some(Resolved::Miss) => Found::Miss,
            Some(Resolved::Value) => Found::Value { newest, beside: resolution.beside(), expires_at_ms },
            Some(Resolved::Asked) => Found::Asked { newest, expires_at_ms },
            Some(absent) => Found::Absent { newest, is_stored: absent == Resolved::Expired },
        })
    }

    fn resolve(
        &self,
        version: &Version,
        keyspace: &Keyspace,
        lookup: &Lookup<'_>,
        resolution: &mut Resolution<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Resolved>> {
        let hash = (key_hash(lookup.key) >> 32) as u32;
        let before = lookup.before.sequence();
        let records = &*version.segments;
        let key = lookup.key;
        for memtable in keyspace.memtables() {
            resolution.cover(memtable.newest_covering_range_delete(key, before));
            let newest = memtable.newest(hash, key, before, records);
            let older = |before| Ok(memtable.versions((hash, key), before, records));
            let resolved = in_place(newest, older, resolution, out)?;
            if resolved != Resolved::Older {
                return Ok(Some(resolved));
            }
        }
        for run in &keyspace.runs {
            resolution.cover(run.newest_covering_range_delete(key, before));
            let newest = run.newest(hash, key, before, records);
            let older = |before| run.versions(key, before, records).map_err(from_storage);
            let resolved = in_place(newest, older, resolution, out)?;
            if resolved != Resolved::Older {
                return Ok(Some(resolved));
            }
        }
        for table in keyspace.levels.sorted_runs().flat_map(|run| run.spanning(key)) {
            let reader = table.reader();
            resolution.cover(reader.tombstones().newest_covering(key, before));
            let resolved = match in_table(reader, (key, hash, before), lookup.mode, resolution, out)? {
                Some(Resolved::Older) => resolution.end_place(out)?,
                Some(resolved) => resolved,
                None => return Ok(None),
            };
            if resolved != Resolved::Older {
                return Ok(Some(resolved));
            }
        }
        resolution.end(out).map(Some)
    }

    /// What `lookup` finds, as a completion: for the pool, after a lookup that missed.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn read_missed(&self, version: &Version, lookup: &Lookup<'_>) -> Result<Completion> {
        let mut value = Vec::new();
        let found = self.lookup(version, lookup, &mut value)?;
        self.counters.count_read(found);
        Ok(Completion::Value(matches!(found, Found::Value { .. }).then_some(value)))
    }

    /// Sequence of the newest version of `key`, or of the range tombstone over it, below `before`.
    pub(crate) fn newest_version(
        &self,
        version: &Version,
        keyspace: KeyspaceId,
        key: &[u8],
        before: Position,
    ) -> Result<Option<Sequence>> {
        let lookup = Lookup { wants: Wants::Newest, ..Lookup::latest(keyspace, key, before) };
        self.lookup(version, &lookup, &mut Vec::new()).map(Found::newest)
    }
}

/// Counts the sorted runs of level 0 that a lookup asked in vain, standing for lookups that are not
/// sampled. In vain are runs whose bounds hold the key and all of whose records are newer than what
/// was found. A lookup that the buffer answered asked none, and what a miss asked is not known yet.
pub(crate) fn note_lookup(version: &Version, lookup: &Lookup<'_>, found: Found) {
    let Ok(keyspace) = version.keyspace(lookup.keyspace.0) else { return };
    if found == Found::Miss {
        return;
    }
    let is_newer = |table: &Arc<Table>| found.newest().is_none_or(|it| table.meta().sequence_min > it);
    let runs = keyspace.levels.level0.iter();
    let asked = runs.filter(|run| run.spanning(lookup.key).any(is_newer)).count();
    keyspace.observed.seeks.add_point_read(asked);
}

/// Takes a memtable's or a run's versions of the key, newest first: `newest`, and if that does not
/// decide, those `older` than it. A lookup for each would walk over all newer ones again.
#[inline]
fn in_place<'r, V: Iterator<Item = (Trailer, Record<'r>)>>(
    newest: Option<(Trailer, Record<'r>)>,
    older: impl FnOnce(Sequence) -> Result<V>,
    resolution: &mut Resolution<'_>,
    out: &mut Vec<u8>,
) -> Result<Resolved> {
    if let Some((trailer, record)) = newest {
        let resolved = resolution.take(hit(trailer, &record), out)?;
        if resolved != Resolved::Older {
            return Ok(resolved);
        }
        for (trailer, record) in older(trailer.sequence())? {
            let resolved = resolution.take(hit(trailer, &record), out)?;
            if resolved != Resolved::Older {
                return Ok(resolved);
            }
        }
    }
    resolution.end_place(out)
}

#[inline]
fn hit<'r>(trailer: Trailer, record: &Record<'r>) -> Hit<'r> {
    Hit {
        sequence: trailer.sequence(),
        kind: record.kind,
        expires_at_ms: record.expires_at_ms,
        value: record.value,
    }
}

/// Takes a table's versions of the key below `before`, newest first; `None` if `mode` forbids to go
/// on.
///
/// The first few are looked up one by one. Behind more of them a cursor walks on, which may wait
/// for the device.
#[inline]
fn in_table(
    reader: &Arc<TableReader>,
    (key, hash, mut before): (&[u8], u32, Sequence),
    mode: ReadMode,
    resolution: &mut Resolution<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Resolved>> {
    for _ in 0..TABLE_LOOKUPS_MAX {
        let hit = match reader.newest(key, hash, before, mode).map_err(from_storage)? {
            TableLookup::Miss => return Ok(None),
            TableLookup::Absent => return Ok(Some(Resolved::Older)),
            TableLookup::Found(hit) => hit,
        };
        before = hit.sequence();
        let (sequence, kind, expires_at_ms) = (hit.sequence(), hit.kind(), hit.expires_at_ms());
        let resolved = resolution.take(Hit { sequence, kind, expires_at_ms, value: hit.value() }, out)?;
        if resolved != Resolved::Older {
            return Ok(Some(resolved));
        }
    }
    match mode {
        ReadMode::ResidentOnly => Ok(None),
        ReadMode::Blocking => walk_table(reader, (key, before), resolution, out).map(Some),
    }
}

/// Versions of a key that are looked up in one table before a cursor walks over the others.
const TABLE_LOOKUPS_MAX: usize = 16;

/// Takes a table's versions of `key` below `before` with one walk. Waits for the device.
#[inline(never)]
fn walk_table(
    reader: &Arc<TableReader>,
    (key, before): (&[u8], Sequence),
    resolution: &mut Resolution<'_>,
    out: &mut Vec<u8>,
) -> Result<Resolved> {
    let mut cursor = TableCursor::new(Arc::clone(reader), CursorOptions::SCAN);
    cursor.seek(key).map_err(from_storage)?;
    while let Some(entry) = cursor.entry().filter(|entry| entry.key == key) {
        if entry.sequence < before {
            let (sequence, kind, expires_at_ms) = (entry.sequence, entry.kind, entry.expires_at_ms);
            let resolved = resolution.take(Hit { sequence, kind, expires_at_ms, value: entry.value }, out)?;
            if resolved != Resolved::Older {
                return Ok(resolved);
            }
        }
        cursor.next().map_err(from_storage)?;
    }
    Ok(Resolved::Older)
}
