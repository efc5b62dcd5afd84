//! Space in files that tables of several keyspaces share: what lives in one that is mostly dead
//! goes to a new one, byte for byte.
//!
//! ```text
//!   dropped keyspaces,   ─► less than half ─► its live tables, with those of others like it,
//!   compactions             of a file lives    are copied: one file, one sync, one edit
//! ```
//! For each byte that is copied at least one comes free, so all copying together writes no more
//! than what dies. Tables that are being compacted are left: they die by that.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::file_name::{self, part};
use firn_format::manifest::TableMeta;
use firn_format::table::ReferenceSet;
use firn_storage::Storage;
use firn_storage::backend::{PartsWriter, open_table};
use firn_storage::file::table::copy_table;

use super::choose::Choosing;
use crate::counters::count;
use crate::database::Database;
use crate::edits::BeingWritten;
use crate::edits::{Edit, Supersedes};
use crate::error::from_storage;
use crate::maintenance::{Moving, Task, TaskKind};

/// Bytes that are copied together, about.
const REPACK_BYTES: u64 = 16 << 20;

impl Choosing<'_> {
    /// Copying what lives in shared files that are mostly dead, the oldest first.
    pub(super) fn choose_repack(&self) -> Option<Task> {
        if self.busy.is_held()
            || self.busy.claims.tables.is_repacking
            || !self.busy.backoff.may_try((TaskKind::Repack, 0), self.now)
        {
            return None;
        }
        let sparse = self.database.files.obsolete.shared.sparse();
        if sparse.is_empty() {
            return None;
        }
        let taken = self.busy.claims.tables.not_to_choose();
        let mut found: BTreeMap<&str, Vec<Moving>> =
            sparse.iter().map(|name| (name.as_str(), Vec::new())).collect();
        for keyspace in self.version.live() {
            for (level, run, table) in keyspace.levels.placed() {
                let file = part(&table.meta().file).map(|part| part.file);
                let Some(moving) = file.and_then(|file| found.get_mut(file)) else { continue };
                if !taken.contains(&table.meta().file) {
                    moving.push((keyspace.id(), level, run, Arc::clone(table)));
                }
            }
        }
        let mut tables = Vec::new();
        let mut bytes = 0;
        for moving in found.into_values() {
            if bytes >= REPACK_BYTES {
                break;
            }
            bytes += moving.iter().map(|(.., table)| table.meta().bytes).sum::<u64>();
            tables.extend(moving);
        }
        (!tables.is_empty()).then_some(Task::Repack { tables })
    }
}

/// Copies `tables`, of which each is part of a file, to a new one.
///
/// # Errors
/// `Retry` when the disk is full: nothing changed. `Corrupt` with the table that is not what
/// was written.
pub(super) fn repack(database: &Database, tables: &[Moving]) -> Result<()> {
    let mut names = database.maintenance.output_names.hold();
    let stem = names.draw();
    let file = PartsWriter::create(&*database.files.storage, &stem).map_err(from_storage)?;
    let held = BeingWritten::new(&database.files, &database.maintenance.jobs, file.name());
    let copies = tables.iter().enumerate().map(|(index, moving)| {
        if database.maintenance.is_stopping() {
            return Err(Error::new(ErrorKind::Retry, "the database is being closed"));
        }
        copy_part(database, moving, &file_name::table(&stem, index as u32), &file)
    });
    let edits: Vec<Edit> = copies.collect::<Result<_>>()?;
    file.sync().map_err(from_storage)?;
    let bytes = file.len();
    let committed = database.edits().commit_together(&edits);
    held.after(&committed, bytes);
    committed?;
    count(&database.maintenance.counters.compaction_write_bytes, bytes);
    count(&database.maintenance.counters.compaction_read_bytes, bytes);
    Ok(())
}

/// Copies one table to the part `name` of `file`; what makes it the one that lives.
fn copy_part(database: &Database, moving: &Moving, name: &str, file: &PartsWriter<'_>) -> Result<Edit> {
    let (keyspace, level, run, table) = moving;
    let meta = table.meta();
    let from = open_table(&*database.files.storage, &meta.file, meta.bytes).map_err(from_storage)?;
    let to = file.create(name).map_err(from_storage)?;
    let found = copy_table(&*from, &*to).map_err(from_storage)?;
    if found != meta.file_checksum {
        let expected = meta.file_checksum;
        let message = format!("expected a table with checksum {expected:#018x}, found {found:#018x}");
        let location = Location { file: meta.file.clone(), offset: Some(0) };
        return Err(Error::new(ErrorKind::Corrupt, message).at(location));
    }
    let meta = TableMeta { file: file.part_name(name).map_err(from_storage)?, ..meta.clone() };
    Ok(Edit {
        keyspace: *keyspace,
        removed: vec![Arc::clone(table)],
        added: vec![(*level, *run, meta)],
        supersedes: Supersedes { share: table.overwrites(), bytes: vec![table.superseded_bytes()] },
        moved: Vec::new(),
        left: Vec::new(),
        flushed: None,
        // The copy refers to what the table did.
        going: ReferenceSet::default(),
        newly_obsolete: ReferenceSet::default(),
    })
}
