//! Lookups that are about to come, all at once: their cache misses overlap instead of following one
//! another.
//!
//! ```text
//!              memtables          runs                   tables
//!   step 1     bucket             filter line            bounds of the tables ─► filter line
//!   step 2     entry              entries                fences
//!   step 3     record             record                 where the block lies
//!   step 4                                               tail of the block
//!   step 5                                               its keys
//! ```
//! A lookup of one key waits for memory at each step. Here each step is taken for all keys before
//! the next one, so that the processor waits for many lines together. The lookups that follow find
//! those lines in the cache; no answer depends on what is done here.

use std::ops::Range;

use firn_format::key::key_hash;
use firn_storage::file::table::TableReader;

use crate::buffer::Run;
use crate::version::{Keyspace, Version};

/// Keys that go step by step together: enough to keep a processor's line buffers busy.
pub(crate) const TOGETHER: usize = 16;

/// A key and how far its lookup has been prepared.
#[derive(Clone, Copy)]
struct Wanted<'k> {
    key: &'k [u8],
    hash: u32,
    /// Its newest version was found on the way: older places are not asked.
    is_found: bool,
}

impl Version {
    /// Loads what lookups of `keys` will touch, as far as it lies in memory.
    pub(crate) fn prefetch(&self, keyspace: &Keyspace, keys: &[&[u8]]) {
        for keys in keys.chunks(TOGETHER) {
            let mut wanted: Vec<Wanted<'_>> = Vec::with_capacity(TOGETHER);
            wanted.extend(keys.iter().map(|key| Wanted {
                key,
                hash: (key_hash(key) >> 32) as u32,
                is_found: false,
            }));
            let tables = begin(keyspace, &wanted);
            in_memtables(self, keyspace, &mut wanted);
            in_runs(self, keyspace, &mut wanted);
            in_tables(tables, &wanted);
        }
    }
}

/// Step 1; returns which tables may have which keys, newest first for each key.
fn begin<'v>(keyspace: &'v Keyspace, wanted: &[Wanted<'_>]) -> Vec<(usize, &'v TableReader)> {
    for Wanted { hash, .. } in wanted {
        keyspace.memtables().for_each(|memtable| memtable.prefetch_bucket(*hash));
        keyspace.runs.iter().for_each(|run| run.prefetch_filter(*hash));
    }
    let mut tables = Vec::with_capacity(4 * wanted.len());
    for (index, Wanted { key, hash, .. }) in wanted.iter().enumerate() {
        for table in keyspace.levels.sorted_runs().flat_map(|run| run.spanning(key)) {
            table.reader().prefetch_filter(*hash);
            tables.push((index, &**table.reader()));
        }
    }
    tables
}

fn in_memtables(version: &Version, keyspace: &Keyspace, wanted: &mut [Wanted<'_>]) {
    for memtable in keyspace.memtables() {
        wanted.iter().for_each(|wanted| memtable.prefetch_entry(wanted.hash));
    }
    for wanted in wanted {
        if let Some(position) =
            keyspace.memtables().find_map(|memtable| memtable.likely_position(wanted.hash))
        {
            version.segments.prefetch(position);
            wanted.is_found = true;
        }
    }
}

fn in_runs(version: &Version, keyspace: &Keyspace, wanted: &mut [Wanted<'_>]) {
    if keyspace.runs.is_empty() {
        return;
    }
    let mut places: Vec<(usize, &Run, Range<usize>)> = Vec::with_capacity(wanted.len());
    for (index, wanted) in wanted.iter().enumerate().filter(|(_, wanted)| !wanted.is_found) {
        places.extend(keyspace.runs.iter().find_map(|run| {
            let group = run.prefetch_entries(wanted.hash, wanted.key)?;
            Some((index, &**run, group))
        }));
    }
    for (index, run, group) in places {
        let Some(wanted) = wanted.get_mut(index) else { continue };
        if let Some(position) = run.likely_position(wanted.key, group) {
            version.segments.prefetch(position);
            wanted.is_found = true;
        }
    }
}

fn in_tables(mut tables: Vec<(usize, &TableReader)>, wanted: &[Wanted<'_>]) {
    let mut last = None;
    tables.retain(|(index, table)| {
        let Wanted { key, hash, is_found } = wanted[*index];
        // Nearly always the newest table that may have the key does have it.
        let is_next = !is_found && last != Some(*index) && table.may_contain(hash);
        if is_next {
            last = Some(*index);
        }
        is_next && table.prefetch_fences(key)
    });
    let place = |(index, table): (usize, _)| (table, TableReader::prefetch_place(table, wanted[index].key));
    let blocks: Vec<(&TableReader, usize)> = tables.into_iter().map(place).collect();
    blocks.iter().for_each(|(table, block)| table.prefetch_block(*block));
    blocks.iter().for_each(|(table, block)| table.prefetch_keys(*block));
}
