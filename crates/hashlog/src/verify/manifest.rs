//! The edits, and the state they add up to.

use std::collections::BTreeMap;

use firn_engine::{KEYSPACE_DEFAULT, KeyspaceSettings, Result, Severity};
use firn_format::file_name::{FileName, manifest_edit};
use firn_format::manifest::ManifestEdit;
use firn_storage::file::manifest::Content;

use super::{Verifier, no_database, read_all};
use crate::error::from_format;
use crate::state::State;

/// An edit, or offset and reason why a file is none.
type Found = std::result::Result<ManifestEdit, (Option<u64>, String)>;

impl Verifier<'_> {
    /// Reads all edits; `None` if what they add up to cannot be known.
    ///
    /// # Errors
    /// `Invalid` if there is no database, or if it was written by a newer release.
    pub(super) fn check_manifest(&mut self) -> Result<Option<State>> {
        let names = self.named(|name| match name {
            FileName::ManifestEdit(number) => Some(number),
            _ => None,
        });
        if names.is_empty() {
            if self.named(|name| (name != FileName::Lock).then_some(())).is_empty() {
                return Err(no_database(&*self.storage));
            }
            let message = "expected a manifest, found none beside segments or redo logs";
            self.damage(&manifest_edit(1), None, message);
            return Ok(None);
        }
        let mut edits = BTreeMap::new();
        for (name, number) in names {
            self.report.totals.manifest_edits += 1;
            edits.insert(number, self.read_edit(&name, number)?);
            self.advance(&name);
        }
        Ok(self.add_up(&edits))
    }

    /// The edit `number`.
    ///
    /// # Errors
    /// Only that a newer release wrote it.
    fn read_edit(&mut self, name: &str, number: u64) -> Result<Found> {
        let bytes = match read_all(&*self.storage, name) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err((error.offset, error.message))),
        };
        match ManifestEdit::decode(&bytes) {
            Err(error) if error.is_newer => Err(from_format(name, error)),
            Err(error) => Ok(Err((Some(error.offset as u64), error.to_string()))),
            Ok(edit) if edit.number != number => {
                Ok(Err((Some(16), format!("expected edit number {number}, found {}", edit.number))))
            }
            Ok(edit) => Ok(Ok(edit)),
        }
    }

    /// The state after the last edit, from the newest one that restates everything on.
    fn add_up(&mut self, edits: &BTreeMap<u64, Found>) -> Option<State> {
        let newest = edits.iter().rev().find(|(_, edit)| edit.as_ref().is_ok_and(|edit| edit.base));
        let Some((base, _)) = newest else {
            for (number, edit) in edits {
                if let Err((offset, message)) = edit {
                    self.damage(&manifest_edit(*number), *offset, message.clone());
                }
            }
            let first = edits.keys().next().copied().unwrap_or(1);
            let message = "expected edits back to one that restates everything, found none of this number";
            self.damage(&manifest_edit(first.saturating_sub(1)), None, message);
            return None;
        };
        let (mut is_whole, mut state, mut expected) = (true, State::default(), *base);
        for (number, edit) in edits {
            let name = manifest_edit(*number);
            let is_restated = number < base;
            if !is_restated && *number != expected {
                let message = format!("expected an edit before number {number}, found none of this number");
                self.damage(&manifest_edit(expected), None, message);
                is_whole = false;
            }
            expected = expected.max(number.saturating_add(1));
            match edit {
                Err((offset, message)) => {
                    let severity = if is_restated { Severity::Leftover } else { Severity::Damage };
                    self.report.note(severity, &name, *offset, message.clone());
                    is_whole &= is_restated;
                }
                Ok(_) if is_restated => {
                    self.leftover(&name, None, format!("edit {base} restates everything before it"));
                }
                Ok(edit) if is_whole => {
                    let applied = edit.changes.iter().try_for_each(|change| state.apply(change));
                    if let Err(unfit) = applied {
                        self.damage(&name, None, unfit);
                        is_whole = false;
                    }
                }
                Ok(_) => {}
            }
        }
        let last = manifest_edit(edits.keys().next_back().copied().unwrap_or(*base));
        is_whole.then(|| self.check_state(&state, &last)).flatten().map(|()| state)
    }

    /// Whether the state is one of this engine; what is wrong with it is noted at `file`.
    fn check_state(&mut self, state: &State, file: &str) -> Option<()> {
        if !state.keyspaces.contains_key(&KEYSPACE_DEFAULT.0) {
            self.damage(file, None, "expected the default keyspace, found none");
        }
        for (name, settings) in state.keyspaces.values() {
            if let Err(error) = KeyspaceSettings::from_text(settings) {
                self.damage(file, None, format!("keyspace {name:?}: {}", error.message()));
            }
        }
        if state.sizes.is_none() {
            self.damage(file, None, "expected the sizes of a hashed database, found none");
        }
        state.sizes.map(drop)
    }
}
