//! Keyspaces of the manifest, their names turned into code and their tables open.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{KeyspaceSettings, Result};
use firn_format::Position;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::obsolete::ObsoleteFiles;

use crate::memtable::{GapBudget, Gaps, Memtable};
use crate::settings::TreeOptions;
use crate::version::open_tables::open_tables;
use crate::version::state::{KeyspaceState, State, TableState};
use crate::version::{Definition, Keyspace, Levels, Table, Version};

/// Share of a table that is taken to supersede older ones where no estimate is known.
const OVERWRITES_UNKNOWN: f64 = 0.5;

/// Keyspaces with their tables open and nothing else.
pub(super) fn tables_version(
    options: &TreeOptions,
    state: &State,
    cache: &Arc<BlockCache>,
    (obsolete, gap_budget): (&Arc<ObsoleteFiles>, &Arc<GapBudget>),
) -> Result<Version> {
    let mut version = Version::default();
    let mut tables: BTreeMap<u32, Vec<&TableState>> = BTreeMap::new();
    state.tables.values().for_each(|table| tables.entry(table.keyspace).or_default().push(table));
    let (buffer_bytes, keyspace_count) = (options.settings.engine.buffer_bytes, state.keyspaces.len());
    for (id, keyspace) in &state.keyspaces {
        let definition = Arc::new(definition(options, *id, keyspace)?);
        let mut levels = Levels::default();
        let tables = tables.remove(id).unwrap_or_default();
        let opened = open_tables(&options.storage, tables.iter().map(|table| &table.meta), cache);
        for (table, reader) in tables.iter().zip(opened) {
            let reader = reader?;
            let known = table.superseded_thousandths.map(|share| f64::from(share) / 1000.0);
            let overwrites = known.unwrap_or(OVERWRITES_UNKNOWN);
            let hidden = table.hidden_bytes.unwrap_or((table.meta.bytes as f64 * overwrites) as u64);
            let supersedes = (overwrites, hidden);
            let opened = Table::new(table.meta.clone(), reader, supersedes, Arc::clone(obsolete));
            levels.add(table.level, table.run, Arc::new(opened));
        }
        let has_none = levels.tables().next().is_none();
        let gaps = Arc::new(Gaps::new(gap_budget));
        let keyspace = Keyspace {
            definition,
            memtable: Arc::new(Memtable::with_part_of(buffer_bytes, keyspace_count, gaps)),
            memtable_start: Position::default(),
            frozen: Vec::new(),
            runs: Vec::new(),
            levels: if has_none { Levels::none() } else { Arc::new(levels) },
            obsolete_count: state.blobs.obsolete_count(*id),
            flushed_through: keyspace.flushed_through,
            ingested_through: keyspace.ingested_through,
            observed: Arc::default(),
        };
        let index = *id as usize;
        if version.keyspaces.len() <= index {
            version.keyspaces.resize(index + 1, None);
        }
        version.keyspaces[index] = Some(Arc::new(keyspace));
    }
    Ok(version)
}

/// What the keyspace `id` is, its names turned into code.
///
/// # Errors
/// `Invalid` if a name has no code registered.
pub(super) fn definition(options: &TreeOptions, id: u32, keyspace: &KeyspaceState) -> Result<Definition> {
    Definition::new(
        id,
        &keyspace.name,
        KeyspaceSettings::from_text(&keyspace.settings())?,
        (options.settings.compression, &options.semantics),
    )
}
