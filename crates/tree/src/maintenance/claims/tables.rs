//! Which tables are being worked on, and which no task takes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use firn_maintenance::SetAside;

use crate::maintenance::{Choice, Moving, OfKeyspace};

/// What tasks in progress have claimed of tables.
#[derive(Debug, Default)]
pub(crate) struct TableClaims {
    /// By their names.
    pub(crate) taken: BTreeSet<String>,
    /// Keyspaces of which a task finds out which tables are hidden.
    pub(crate) reclaiming: BTreeSet<u32>,
    pub(crate) compacting: usize,
    pub(crate) is_repacking: bool,
    /// Compactions whose jobs the executor does not have yet, by one of their inputs; and whether
    /// they take runs out of level 0.
    unbegun: BTreeMap<String, bool>,
    /// Tables that could not be read whole, or on which work fails.
    pub(crate) set_aside: SetAside<String>,
}

impl TableClaims {
    pub(super) fn claim_compaction(&mut self, choice: &Choice) {
        self.compacting += 1;
        self.unbegun.extend(first_input(choice).map(|file| (file.to_owned(), choice.is_l0())));
        self.taken.extend(choice.inputs.iter().map(|(_, _, table)| table.meta().file.clone()));
    }

    pub(super) fn release_compaction(&mut self, choice: &Choice) {
        self.compacting -= 1;
        self.note_begun(choice);
        for (_, _, table) in &choice.inputs {
            self.taken.remove(&table.meta().file);
        }
    }

    pub(super) fn claim_small(&mut self, choices: &[OfKeyspace]) {
        self.compacting += 1;
        self.taken.extend(inputs(choices).cloned());
    }

    pub(super) fn release_small(&mut self, choices: &[OfKeyspace]) {
        self.compacting -= 1;
        for file in inputs(choices) {
            self.taken.remove(file);
        }
    }

    pub(super) fn claim_repack(&mut self, tables: &[Moving]) {
        self.is_repacking = true;
        self.taken.extend(tables.iter().map(|(.., table)| table.meta().file.clone()));
    }

    pub(super) fn release_repack(&mut self, tables: &[Moving]) {
        self.is_repacking = false;
        for (.., table) in tables {
            self.taken.remove(&table.meta().file);
        }
    }

    /// The jobs of `choice` were given to the executor, or there are none.
    pub(crate) fn note_begun(&mut self, choice: &Choice) {
        if let Some(file) = first_input(choice) {
            self.unbegun.remove(file);
        }
    }

    /// Compactions that were chosen and are no jobs yet: those that take runs out of level 0, and
    /// all.
    pub(crate) fn unbegun(&self) -> (usize, usize) {
        (self.unbegun.values().filter(|is_l0| **is_l0).count(), self.unbegun.len())
    }

    /// Tables that no compaction is to choose: a task works on them, or they are set aside.
    pub(crate) fn not_to_choose(&self) -> Cow<'_, BTreeSet<String>> {
        if self.set_aside.is_empty() {
            return Cow::Borrowed(&self.taken);
        }
        Cow::Owned(self.taken.iter().chain(self.set_aside.files()).cloned().collect())
    }
}

/// Tables that `choices` rewrite or move.
fn inputs(choices: &[OfKeyspace]) -> impl Iterator<Item = &String> {
    choices.iter().flat_map(|(_, choice)| &choice.inputs).map(|(_, _, table)| &table.meta().file)
}

/// An input of `choice`, which no other choice in progress has.
fn first_input(choice: &Choice) -> Option<&str> {
    choice.inputs.first().map(|(_, _, table)| table.meta().file.as_str())
}
