//! Tables: each by itself, then beside its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_format::file_name::{FileName, Part, file_of, part};
use firn_format::manifest::TableMeta;
use firn_format::table::{FOOTER_BYTES, Footer};
use firn_storage::backend::open_table;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};

use super::Verifier;
use crate::version::levels::LEVEL_MAX;
use crate::version::state::{State, TableState};

/// Blocks that lookups during a verification keep.
pub(super) const CACHE_BYTES: u64 = 8 << 20;

impl Verifier<'_> {
    /// Checks every table the manifest names; answers the keyspaces with a damaged one.
    pub(super) fn check_tables(&mut self, state: &State) -> BTreeSet<u32> {
        let cache = Arc::new(BlockCache::new(CACHE_BYTES));
        let mut damaged = BTreeSet::new();
        for table in state.tables.values() {
            self.report.totals.tables += 1;
            let sound = self.check_table(&table.meta, &cache);
            let placed = self.check_level(state, table);
            if sound {
                self.report.totals.table_entries += table.meta.entry_count;
            }
            if !sound || !placed {
                damaged.insert(table.keyspace);
            }
            self.advance(table.meta.bytes);
        }
        self.check_parts(state);
        for run in sorted_runs(state).values() {
            self.check_disjoint(run);
        }
        for (name, ()) in self.tables() {
            if !state.tables.contains_key(&name) {
                self.leftover(&name, None, "no manifest edit names it");
                self.advance(self.files.get(&name).copied().unwrap_or(0));
            }
        }
        damaged
    }

    /// Files of a database whose manifest is lost: checked by what each says of itself.
    pub(super) fn check_alone(&mut self) {
        self.check_segments_alone();
        let cache = Arc::new(BlockCache::new(CACHE_BYTES));
        let mut names: Vec<String> = self.tables().into_iter().map(|(name, ())| name).collect();
        for (name, ()) in self.shared_files() {
            names.extend(self.parts_alone(&name));
        }
        for name in names {
            let bytes =
                part(&name).map_or_else(|| self.files.get(&name).copied().unwrap_or(0), |part| part.bytes);
            let opened = open_table(&*self.storage, &name, bytes)
                .and_then(|file| TableReader::open_file(&name, file, &cache, ReaderOptions::default()));
            match opened {
                Ok(reader) => drop(self.check_blocks(&name, &reader)),
                Err(error) => self.refused(&name, &error),
            }
            self.advance(bytes);
        }
    }

    /// Whether parts of one file overlap, and which of its bytes belong to none.
    fn check_parts(&mut self, state: &State) {
        let mut files: BTreeMap<String, Vec<(u64, u64, String)>> = BTreeMap::new();
        for (name, ()) in self.shared_files() {
            files.insert(name, Vec::new());
        }
        for name in state.tables.keys() {
            let Some(part) = part(name) else { continue };
            files.entry(part.file.to_owned()).or_default().push((part.offset, part.end(), name.clone()));
        }
        for (file, mut parts) in files {
            parts.sort();
            let mut end = 0;
            let mut dead = 0;
            for (start, part_end, name) in &parts {
                if *start < end {
                    self.damage(
                        name,
                        Some(0),
                        format!("expected a part behind offset {end} of {file}, found {start}"),
                    );
                }
                dead += start.saturating_sub(end);
                end = end.max(*part_end);
            }
            let bytes = self.files.get(&file).copied().unwrap_or(0);
            dead += bytes.saturating_sub(end);
            if parts.is_empty() {
                self.leftover(&file, None, "no manifest edit names a part of it");
            }
            self.advance(dead);
        }
    }

    fn shared_files(&self) -> Vec<(String, ())> {
        self.named(|name| matches!(name, FileName::Tables { .. }).then_some(()))
    }

    /// Tables of the file `name`, found from its end, each as a name.
    fn parts_alone(&mut self, name: &str) -> Vec<String> {
        let (mut parts, mut end) = (Vec::new(), self.files.get(name).copied().unwrap_or(0));
        while end > 0 {
            let mut footer = vec![0; FOOTER_BYTES.min(usize::try_from(end).unwrap_or(FOOTER_BYTES))];
            let at = end - footer.len() as u64;
            let read = self.storage.open_read(name).and_then(|file| file.read_at(at, &mut footer));
            if let Err(error) = read {
                self.refused(name, &error);
                break;
            }
            match Footer::table_start(&footer, end) {
                Ok(start) => {
                    parts.push(Part { file: name, offset: start, bytes: end - start }.to_string());
                    end = start;
                }
                Err(error) => {
                    self.damage(name, Some(at + error.offset as u64), error.to_string());
                    break;
                }
            }
        }
        parts
    }

    fn tables(&self) -> Vec<(String, ())> {
        self.named(|name| matches!(name, FileName::Table { .. }).then_some(()))
    }

    /// Whether the file is there and is what the manifest says it is.
    fn check_table(&mut self, meta: &TableMeta, cache: &Arc<BlockCache>) -> bool {
        if !self.files.contains_key(file_of(&meta.file)) {
            self.damage(&meta.file, None, "expected a table that the manifest names, found no such file");
            return false;
        }
        let reader = match TableReader::open(&*self.storage, meta, cache, ReaderOptions::default()) {
            Ok(reader) => Arc::new(reader),
            Err(error) => {
                self.refused(&meta.file, &error);
                return false;
            }
        };
        if !self.check_blocks(&meta.file, &reader) {
            return false;
        }
        let prefix = match &reader.properties().prefix_extractor {
            None => None,
            Some(name) => self.semantics.prefix_extractor(name).or_else(|| {
                self.report.totals.prefix_filters_unchecked += 1;
                None
            }),
        };
        let prefix = prefix.map(|extractor| move |key: &[u8]| extractor.prefix_bytes(key));
        let prefix = prefix.as_ref().map(|prefix| prefix as &dyn Fn(&[u8]) -> Option<usize>);
        match reader.verify(meta, prefix) {
            Ok(()) => true,
            Err(error) => {
                self.refused(&meta.file, &error);
                false
            }
        }
    }

    /// Compares the checksum of every data block, so that each bad one is named.
    fn check_blocks(&mut self, name: &str, reader: &TableReader) -> bool {
        let mut faults = Vec::new();
        reader.verify_blocks(&mut |error| faults.push(error));
        faults.iter().for_each(|error| self.refused(name, error));
        faults.is_empty()
    }

    /// Whether the table may be where the manifest puts it.
    fn check_level(&mut self, state: &State, table: &TableState) -> bool {
        let meta = &table.meta;
        let mut is_good = true;
        if table.level as usize > LEVEL_MAX {
            let message = format!("expected a level of at most {LEVEL_MAX}, found {}", table.level);
            self.damage(&meta.file, None, message);
            is_good = false;
        }
        if meta.smallest > meta.largest || meta.sequence_min > meta.sequence_max {
            self.damage(
                &meta.file,
                None,
                "expected bounds in order, found a least key or sequence above the greatest",
            );
            is_good = false;
        }
        // Of what was ingested the log holds nothing.
        let known = state.keyspaces.get(&table.keyspace);
        let flushed = known.map(|keyspace| keyspace.flushed_through.max(keyspace.ingested_through));
        if let Some(flushed) = flushed.filter(|flushed| meta.sequence_max.position() >= *flushed) {
            let message = format!(
                "expected sequences below {}, through which the keyspace is flushed, found {}: the log holds them too",
                flushed.sequence(),
                meta.sequence_max
            );
            self.damage(&meta.file, None, message);
            is_good = false;
        }
        is_good
    }

    /// Tables of one sorted run may touch only where a range tombstone ends.
    fn check_disjoint(&mut self, run: &[&TableMeta]) {
        for pair in run.windows(2) {
            let [left, right] = pair else { continue };
            let touches = left.largest == right.smallest && left.range_tombstone_count > 0;
            if left.largest >= right.smallest && !touches {
                let message = format!(
                    "expected keys above \"{}\", the last of {} in the same sorted run, found \"{}\"",
                    left.largest.escape_ascii(),
                    left.file,
                    right.smallest.escape_ascii()
                );
                self.damage(&right.file, None, message);
            }
        }
    }
}

/// Where a sorted run stands among its keyspace's, newest first: level, then for level 0 the age.
pub(super) type RunKey = (u32, u32, std::cmp::Reverse<u64>);

/// Tables of each sorted run by (keyspace, level, run), in key order; newer runs of a keyspace come
/// first.
pub(super) fn sorted_runs(state: &State) -> BTreeMap<RunKey, Vec<&TableMeta>> {
    let mut runs: BTreeMap<RunKey, Vec<&TableMeta>> = BTreeMap::new();
    for table in state.tables.values() {
        let run = if table.level == 0 { table.run } else { 0 };
        runs.entry((table.keyspace, table.level, std::cmp::Reverse(run))).or_default().push(&table.meta);
    }
    for run in runs.values_mut() {
        run.sort_by(|a, b| (&a.smallest, &a.largest).cmp(&(&b.smallest, &b.largest)));
    }
    runs
}
