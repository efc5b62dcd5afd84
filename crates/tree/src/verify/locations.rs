//! Each (keyspace, key, sequence) is in one place, and newer places hold newer versions and newer
//! range tombstones. A read that found a version or a range tombstone looks no further, so that it
//! would miss what is newer in an older place.
//!
//! Between log and tables a position decides (`flushed_through`), so only tables can cross. Two of
//! them cross if their keys overlap and the newer place has sequences at or below the older one's
//! greatest. That is rare, and only then are entries compared: one merge over all sorted runs of
//! the keyspace. Entries are compared too where references are obsolete: no key's newest version
//! may have an obsolete reference, whose value is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_format::blob::{Reference, SegmentNumber};
use firn_format::manifest::TableMeta;
use firn_format::table::ReferenceSet;
use firn_format::tombstone::FragmentList;
use firn_format::{Kind, Sequence};
use firn_storage::Result;
use firn_storage::Storage;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{CursorOptions, ReaderOptions, TableCursor, TableReader};

use super::Verifier;
use super::tables::{CACHE_BYTES, sorted_runs};
use crate::version::state::State;

/// Sorted runs of keyspaces in which tables cross, newest first.
pub(super) type Crossing = BTreeMap<u32, Vec<Vec<TableMeta>>>;

/// The keyspaces whose tables' bounds do not already show that each entry is in one place, and
/// those with obsolete references.
pub(super) fn crossing(state: &State) -> Crossing {
    let mut keyspaces: BTreeMap<u32, Vec<Vec<TableMeta>>> = BTreeMap::new();
    for ((keyspace, ..), run) in sorted_runs(state) {
        keyspaces.entry(keyspace).or_default().push(run.into_iter().cloned().collect());
    }
    keyspaces.retain(|keyspace, runs| {
        let mut newer: Vec<&TableMeta> = Vec::new();
        let has_obsolete = state.blobs.obsolete_count(*keyspace) > 0;
        has_obsolete
            || runs.iter().any(|run| {
                let crosses = run.iter().any(|older| newer.iter().any(|newer| cross(newer, older)));
                newer.extend(run);
                crosses
            })
    });
    keyspaces
}

fn cross(newer: &TableMeta, older: &TableMeta) -> bool {
    newer.smallest <= older.largest
        && older.smallest <= newer.largest
        && newer.sequence_min <= older.sequence_max
}

impl Verifier<'_> {
    /// Compares the entries of tables that cross, or that have `obsolete` references, except in
    /// keyspaces with a `damaged` table.
    pub(super) fn check_locations(
        &mut self,
        crossing: &Crossing,
        obsolete: &BTreeMap<u32, Arc<ReferenceSet>>,
        damaged: &BTreeSet<u32>,
    ) {
        for (keyspace, runs) in crossing {
            let bytes = runs.iter().flatten().map(|meta| meta.bytes).sum();
            if !damaged.contains(keyspace) {
                self.check_runs(*keyspace, runs, obsolete.get(keyspace).map(|obsolete| &**obsolete));
            }
            self.advance(bytes);
        }
    }

    fn check_runs(&mut self, keyspace: u32, runs: &[Vec<TableMeta>], obsolete: Option<&ReferenceSet>) {
        let mut faults = Vec::new();
        let walked = walk(&*self.storage, runs, obsolete, &mut |fault| faults.push(fault));
        for fault in faults {
            match fault {
                Fault::Order { what, newer, older, key, least, greatest } => {
                    let message = format!(
                        "expected {what} of \"{}\" in keyspace {keyspace} older than sequence {least}, which {newer} holds, found \
                         {greatest}",
                        key.escape_ascii()
                    );
                    self.damage(&older, None, message);
                }
                Fault::Obsolete { file, key } => {
                    let message = format!(
                        "expected a version of \"{}\" in keyspace {keyspace} that is newer than the one whose reference is obsolete, \
                         found none",
                        key.escape_ascii()
                    );
                    self.damage(&file, None, message);
                }
            }
        }
        if let Err(error) = walked {
            let file = error.file.clone();
            self.refused(&file, &error);
        }
    }
}

enum Fault {
    /// An entry or a range tombstone that is in two places, or newer in the older one.
    Order {
        what: &'static str,
        newer: String,
        older: String,
        key: Vec<u8>,
        /// Least sequence of the key in the newer places, greatest in the older one.
        least: Sequence,
        greatest: Sequence,
    },
    /// A key whose newest version has an obsolete reference.
    Obsolete { file: String, key: Vec<u8> },
}

/// Versions of a key in a sorted run.
struct Versions {
    file: String,
    greatest: Sequence,
    least: Sequence,
    /// What the newest of them refers to.
    reference: Option<(SegmentNumber, u32)>,
}

/// Most faults of one keyspace that are named.
const FAULTS_MAX: usize = 100;

/// Merges `runs` and reports to `fault` every key whose versions do not get older from place to
/// place, or whose newest reference is `obsolete`.
fn walk(
    storage: &dyn Storage,
    runs: &[Vec<TableMeta>],
    obsolete: Option<&ReferenceSet>,
    fault: &mut dyn FnMut(Fault),
) -> Result<()> {
    let cache = Arc::new(BlockCache::new(CACHE_BYTES));
    let mut cursors = Vec::new();
    for tables in runs {
        let mut cursor =
            RunCursor { storage, cache: &cache, tables, next: 0, table: None, tombstones: Vec::new() };
        cursor.load_tombstones()?;
        cursor.settle()?;
        cursors.push(cursor);
    }
    let mut fault_count = 0;
    while fault_count < FAULTS_MAX {
        let Some(key) = cursors.iter().filter_map(RunCursor::key).min().map(<[u8]>::to_vec) else { break };
        // The least sequence that decides about the key in the places so far, and where it is.
        let mut newer: Option<(String, Sequence)> = None;
        for cursor in &mut cursors {
            let covering = cursor.covering(&key).map(|(file, sequence)| (file.to_owned(), sequence));
            let versions = cursor.take(&key)?;
            let greatest = [
                ("range tombstones", covering.clone()),
                ("versions", versions.as_ref().map(|it| (it.file.clone(), it.greatest))),
            ];
            for (what, found) in greatest {
                if let (Some((name, above)), Some((older, greatest))) = (&newer, found)
                    && greatest >= *above
                {
                    fault_count += 1;
                    let (newer, key, least) = (name.clone(), key.clone(), *above);
                    fault(Fault::Order { what, newer, older, key, least, greatest });
                }
            }
            if let (None, Some(Versions { file, greatest, reference: Some((segment, ordinal)), .. })) =
                (&newer, &versions)
                && covering.as_ref().is_none_or(|(_, above)| above < greatest)
                && obsolete.is_some_and(|obsolete| obsolete.contains(*segment, *ordinal))
            {
                fault_count += 1;
                fault(Fault::Obsolete { file: file.clone(), key: key.clone() });
            }
            let least = versions.map(|it| (it.file, it.least));
            newer = [newer, covering, least].into_iter().flatten().min_by_key(|(_, sequence)| *sequence);
        }
    }
    Ok(())
}

/// All entries of a sorted run in order.
struct RunCursor<'r> {
    storage: &'r dyn Storage,
    cache: &'r Arc<BlockCache>,
    tables: &'r [TableMeta],
    /// Index of the table after the one being read.
    next: usize,
    table: Option<TableCursor>,
    /// Range tombstones of all its tables that have any.
    tombstones: Vec<(&'r str, FragmentList)>,
}

impl RunCursor<'_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.table.as_ref()?.entry()?.key)
    }

    fn load_tombstones(&mut self) -> Result<()> {
        for meta in self.tables.iter().filter(|meta| meta.range_tombstone_count > 0) {
            let reader = TableReader::open(self.storage, meta, self.cache, ReaderOptions::default())?;
            self.tombstones.push((&meta.file, reader.tombstones().clone()));
        }
        Ok(())
    }

    /// The newest range tombstone over `key` and its file.
    fn covering(&self, key: &[u8]) -> Option<(&'_ str, Sequence)> {
        // Tables of a run are disjoint and in order of keys, and so are their tombstones.
        let first = self.tombstones.partition_point(|(_, list)| list.end().is_none_or(|end| end <= key));
        let (file, list) = self.tombstones.get(first)?;
        Some((file, list.newest_covering(key, Sequence::MAX)?))
    }

    /// Goes on to the next table that has an entry, where this one has none left.
    fn settle(&mut self) -> Result<()> {
        while self.key().is_none() {
            let Some(meta) = self.tables.get(self.next) else {
                self.table = None;
                return Ok(());
            };
            self.next += 1;
            let reader = TableReader::open(self.storage, meta, self.cache, ReaderOptions::default())?;
            let mut cursor = TableCursor::new(Arc::new(reader), CursorOptions::JOB);
            cursor.seek_first()?;
            self.table = Some(cursor);
        }
        Ok(())
    }

    /// Passes all versions of `key`. `None` if it has none.
    fn take(&mut self, key: &[u8]) -> Result<Option<Versions>> {
        let mut taken: Option<Versions> = None;
        while let Some(table) = &mut self.table {
            let Some(entry) = table.entry().filter(|entry| entry.key == key) else { break };
            let sequence = entry.sequence;
            match &mut taken {
                Some(versions) => versions.least = sequence,
                None => {
                    let reference =
                        (entry.kind == Kind::PutReference).then(|| Reference::decode(entry.value));
                    let reference = reference.and_then(std::result::Result::ok);
                    taken = Some(Versions {
                        file: table.table().name().to_owned(),
                        greatest: sequence,
                        least: sequence,
                        reference: reference.map(|it| (it.segment, it.ordinal)),
                    });
                }
            }
            table.next()?;
            self.settle()?;
        }
        Ok(taken)
    }
}
