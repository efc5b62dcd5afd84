//! The edits, and the state they add up to.

use std::collections::BTreeMap;

use firn_engine::{KEYSPACE_DEFAULT, KeyspaceSettings, Result, Severity};
use firn_format::Position;
use firn_format::file_name::{FileName, manifest_edit};
use firn_format::manifest::{Change, ManifestEdit};

use super::{Verifier, no_database};
use crate::error::from_format;
use crate::version::state::State;

/// What the manifest says.
pub(super) struct Known {
    pub(super) state: State,
    /// Where the log ends exactly, if the database was closed and not opened since.
    pub(super) clean_end: Option<Position>,
    /// Name of the last edit.
    pub(super) last: String,
}

impl Verifier<'_> {
    /// Reads all edits; `None` if what they add up to cannot be known.
    ///
    /// # Errors
    /// `Invalid` if there is no database, or if it was written by a newer release.
    pub(super) fn check_manifest(&mut self) -> Result<Option<Known>> {
        let names = self.named(|name| match name {
            FileName::ManifestEdit(number) => Some(number),
            _ => None,
        });
        if names.is_empty() {
            let others = self.named(|name| (name != FileName::Lock).then_some(()));
            if others.is_empty() {
                return Err(no_database(&*self.storage));
            }
            self.damage(
                &manifest_edit(1),
                None,
                "expected a manifest, found none beside log segments or tables",
            );
            return Ok(None);
        }
        let mut edits = BTreeMap::new();
        for (name, number) in names {
            self.report.totals.manifest_edits += 1;
            let bytes = self.files.get(&name).copied().unwrap_or(0);
            let edit = self.read_edit(&name, number)?;
            edits.insert(number, edit);
            self.advance(bytes);
        }
        Ok(self.add_up(&edits))
    }

    /// The edit `number`, or why it is none.
    ///
    /// # Errors
    /// Only that a newer release wrote it.
    fn read_edit(&mut self, name: &str, number: u64) -> Result<std::result::Result<ManifestEdit, Fault>> {
        let bytes = match super::read_all(&*self.storage, name) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(Fault { offset: error.offset, message: error.message })),
        };
        match ManifestEdit::decode(&bytes) {
            Err(error) if error.is_newer => Err(from_format(name, 0, &error)),
            Err(error) => Ok(Err(Fault { offset: Some(error.offset as u64), message: error.to_string() })),
            Ok(edit) if edit.number != number => {
                let message = format!("expected edit number {number}, found {}", edit.number);
                Ok(Err(Fault { offset: Some(16), message }))
            }
            Ok(edit) => Ok(Ok(edit)),
        }
    }

    /// The state after the last edit, from the newest base on.
    fn add_up(&mut self, edits: &BTreeMap<u64, std::result::Result<ManifestEdit, Fault>>) -> Option<Known> {
        let newest_base = edits.iter().rev().find(|(_, edit)| edit.as_ref().is_ok_and(|edit| edit.base));
        let base = newest_base.map_or(0, |(number, _)| *number);
        let mut is_whole = newest_base.is_some();
        for (number, edit) in edits {
            let severity = if *number < base { Severity::Leftover } else { Severity::Damage };
            match edit {
                Err(fault) => {
                    self.note(severity, &manifest_edit(*number), fault.offset, fault.message.clone());
                    is_whole &= *number < base;
                }
                Ok(_) if *number < base => {
                    let message = format!("edit {base} restates everything before it");
                    self.leftover(&manifest_edit(*number), None, message);
                }
                Ok(_) => {}
            }
        }
        let last = edits.keys().next_back().copied().unwrap_or(0);
        let first = if newest_base.is_some() { base } else { edits.keys().next().copied().unwrap_or(0) };
        // The loop runs over edits in the directory, so that no number in a name bounds it.
        let mut expected = first;
        for number in edits.range(first..).map(|(number, _)| *number) {
            if number != expected {
                let message =
                    format!("expected edits {expected} to {last} without a gap, found none of this number");
                self.damage(&manifest_edit(expected), None, message);
                is_whole = false;
            }
            expected = number.saturating_add(1);
        }
        if newest_base.is_none() {
            let name = manifest_edit(first.saturating_sub(1));
            self.damage(
                &name,
                None,
                "expected edits back to one that restates everything, found none of this number",
            );
        }
        if !is_whole {
            return None;
        }
        let edits: Vec<&ManifestEdit> =
            edits.range(base..).filter_map(|(_, edit)| edit.as_ref().ok()).collect();
        self.apply(&edits)
    }

    fn apply(&mut self, edits: &[&ManifestEdit]) -> Option<Known> {
        let mut known = Known { state: State::default(), clean_end: None, last: String::new() };
        let mut epoch = 0;
        for edit in edits {
            let name = manifest_edit(edit.number);
            if edit.base && !matches!(edit.changes.first(), Some(Change::Database { .. })) {
                self.damage(
                    &name,
                    None,
                    "expected the database's id as the first change of a base edit, found none",
                );
            }
            // A process that takes over may write its first edit before it has read all edits
            // before.
            let is_fence = matches!(edit.changes[..], [Change::TakeOver { .. }]);
            if edit.epoch < epoch && !is_fence {
                let message = format!("expected an epoch of at least {epoch}, found {}", edit.epoch);
                self.damage(&name, Some(24), message);
            }
            epoch = epoch.max(edit.epoch);
            for change in &edit.changes {
                match change {
                    Change::CleanEnd { position } => known.clean_end = Some(*position),
                    Change::LogCut { .. } => known.clean_end = None,
                    _ => {}
                }
                if let Err(unfit) = known.state.apply(change) {
                    self.damage(&name, None, unfit);
                    return None;
                }
            }
        }
        known.last = edits.last().map_or_else(String::new, |edit| manifest_edit(edit.number));
        self.check_keyspaces(&known.state, &known.last);
        Some(known)
    }

    fn check_keyspaces(&mut self, state: &State, file: &str) {
        if !state.keyspaces.contains_key(&KEYSPACE_DEFAULT.0) {
            self.damage(file, None, "expected the default keyspace, found none");
        }
        let mut names = BTreeMap::new();
        for (id, keyspace) in &state.keyspaces {
            if let Some(other) = names.insert(&keyspace.name, id) {
                let message = format!(
                    "expected names of one keyspace each, found {:?} for {other} and {id}",
                    keyspace.name
                );
                self.damage(file, None, message);
            }
            if let Err(error) = KeyspaceSettings::from_text(&keyspace.settings()) {
                self.damage(file, None, format!("keyspace {:?}: {}", keyspace.name, error.message()));
            }
        }
    }
}

/// Why a file is no edit.
pub(super) struct Fault {
    offset: Option<u64>,
    message: String,
}
