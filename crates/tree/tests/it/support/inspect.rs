//! What the files of a database say: findings, edits of the manifest, tables.

use std::sync::Arc;

use firn_engine::conformance::semantics;
use firn_engine::{KEYSPACE_DEFAULT, KeyspaceId};
use firn_format::manifest::{Change, ManifestEdit, TableMeta};
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_tree::{VerifyOptions, VerifyReport, verify};

use crate::support::sample::Files;

pub(crate) fn report(storage: &Memory) -> VerifyReport {
    let storage = Arc::new(storage.clone()) as Arc<dyn Storage>;
    verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}).unwrap()
}

/// The manifest's edits, oldest first.
pub(crate) fn edits(files: &Files) -> Vec<ManifestEdit> {
    let edits = files.iter().filter(|(name, _)| name.starts_with("manifest-"));
    edits.map(|(_, content)| ManifestEdit::decode(content).unwrap()).collect()
}

/// Live tables of the default keyspace: level, run, what they are. Deepest last.
pub(crate) fn tables(files: &Files) -> Vec<(u32, u64, TableMeta)> {
    tables_of(files, KEYSPACE_DEFAULT)
}

/// The same of another keyspace.
pub(crate) fn tables_of(files: &Files, of: KeyspaceId) -> Vec<(u32, u64, TableMeta)> {
    let mut tables = Vec::new();
    for change in edits(files).into_iter().flat_map(|edit| edit.changes) {
        match change {
            Change::AddTable { keyspace, level, run, table } if keyspace == of.0 => {
                tables.push((level, run, table));
            }
            Change::RemoveTable { file } => tables.retain(|(_, _, table)| table.file != file),
            Change::MoveTable { file, level, run } => {
                for table in tables.iter_mut().filter(|table| table.2.file == file) {
                    (table.0, table.1) = (level, run);
                }
            }
            _ => {}
        }
    }
    tables.sort_by_key(|(level, run, _)| (*level, std::cmp::Reverse(*run)));
    tables
}
