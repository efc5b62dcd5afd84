//! What an edit is about to change of the manifest's state, to go back to it if the edit comes to
//! nothing.
//!
//! An edit names a few keyspaces and tables of very many: these are kept, and not all of the state.

use std::collections::BTreeMap;

use firn_format::manifest::Change;

use super::blobs_state::BlobsState;
use super::state::{KeyspaceState, State, TableState};

/// The parts of a state that an edit changes, as they were before it.
#[derive(Debug)]
pub(crate) struct Before {
    /// All but keyspaces, tables and blobs.
    rest: State,
    /// By id; `None` = there was no such keyspace.
    keyspaces: BTreeMap<u32, Option<KeyspaceState>>,
    /// By name; `None` = there was no such table.
    tables: BTreeMap<String, Option<TableState>>,
    /// `None` = the edit says nothing of blobs.
    blobs: Option<BlobsState>,
}

impl Before {
    /// What `changes` are about to change of `state`, whether they fit it or not.
    ///
    /// Costs what they name; a dropped keyspace, a look at each table.
    pub(super) fn of(state: &State, changes: &[Change]) -> Self {
        let nothing = (BTreeMap::new(), BTreeMap::new(), BlobsState::default());
        let rest = State { keyspaces: nothing.0, tables: nothing.1, blobs: nothing.2, ..*state };
        let mut before = Self { rest, keyspaces: BTreeMap::new(), tables: BTreeMap::new(), blobs: None };
        changes.iter().for_each(|change| before.keep(state, change));
        before
    }

    fn keep(&mut self, state: &State, change: &Change) {
        match change {
            Change::Keyspace { id, .. }
            | Change::FlushedThrough { keyspace: id, .. }
            | Change::IngestedThrough { keyspace: id, .. } => {
                self.keep_keyspace(state, *id);
            }
            Change::DropKeyspace { id } => {
                self.keep_keyspace(state, *id);
                let of = state.tables.iter().filter(|(_, table)| table.keyspace == *id);
                of.for_each(|(file, _)| self.keep_table(state, file));
                if state.blobs.obsolete.contains_key(id) {
                    self.keep_values(state);
                }
            }
            Change::AddTable { table, .. } => self.keep_table(state, &table.file),
            Change::RemoveTable { file }
            | Change::MoveTable { file, .. }
            | Change::Superseded { file, .. }
            | Change::Hides { file, .. } => self.keep_table(state, file),
            Change::AddBlobSegment { .. }
            | Change::NextBlobSegment(_)
            | Change::RemoveBlobSegment { .. }
            | Change::DeadMap { .. }
            | Change::Relocation { .. }
            | Change::DropRelocation { .. }
            | Change::AddObsolete { .. }
            | Change::RemoveObsolete { .. } => self.keep_values(state),
            Change::Database { .. }
            | Change::LogCut { .. }
            | Change::DurableThrough { .. }
            | Change::CleanEnd { .. }
            | Change::LogHome { .. }
            | Change::LogObjects { .. }
            | Change::Boot { .. }
            | Change::TakeOver { .. }
            | Change::NextNumber(_)
            | Change::Hashed { .. }
            | Change::HybridCut { .. }
            | Change::HybridBegin { .. }
            | Change::PositionsGiven { .. }
            | Change::RedoBegun { .. }
            | Change::Checkpointed { .. }
            | Change::Cold(_)
            | Change::Extent(_)
            | Change::Tick { .. } => {} // the rest has it
        }
    }

    fn keep_keyspace(&mut self, state: &State, id: u32) {
        self.keyspaces.entry(id).or_insert_with(|| state.keyspaces.get(&id).cloned());
    }

    fn keep_table(&mut self, state: &State, file: &str) {
        if !self.tables.contains_key(file) {
            self.tables.insert(file.to_owned(), state.tables.get(file).cloned());
        }
    }

    fn keep_values(&mut self, state: &State) {
        self.blobs.get_or_insert_with(|| state.blobs.clone());
    }

    /// Makes `state`, to which any number of the changes were applied, what it was.
    pub(super) fn restore(self, state: &mut State) {
        let mut keyspaces = std::mem::take(&mut state.keyspaces);
        let mut tables = std::mem::take(&mut state.tables);
        let blobs = std::mem::take(&mut state.blobs);
        for (id, was) in self.keyspaces {
            match was {
                Some(was) => drop(keyspaces.insert(id, was)),
                None => drop(keyspaces.remove(&id)),
            }
        }
        for (file, was) in self.tables {
            match was {
                Some(was) => drop(tables.insert(file, was)),
                None => drop(tables.remove(&file)),
            }
        }
        let blobs = self.blobs.unwrap_or(blobs);
        *state = State { keyspaces, tables, blobs, ..self.rest };
    }
}

#[cfg(test)]
mod tests;
