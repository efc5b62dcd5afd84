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
    /// Where the outputs of compactions in progress will lie, at most.
    targets: Vec<Target>,
    pub(crate) is_repacking: bool,
    /// Compactions whose jobs the executor does not have yet, by one of their inputs; and whether
    /// they take runs out of level 0.
    unbegun: BTreeMap<String, bool>,
    /// Tables that could not be read whole, or on which work fails.
    pub(crate) set_aside: SetAside<String>,
}

/// Keys of one level of a keyspace that outputs of a compaction may have.
#[derive(Debug)]
struct Target {
    /// An input of that compaction.
    first: String,
    keyspace: u32,
    level: u32,
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl Target {
    fn of(keyspace: u32, choice: &Choice) -> Option<Self> {
        let metas = || choice.inputs.iter().map(|(_, _, table)| table.meta());
        Some(Self {
            first: first_input(choice)?.to_owned(),
            keyspace,
            level: choice.output_level,
            smallest: metas().map(|meta| &meta.smallest).min()?.clone(),
            largest: metas().map(|meta| &meta.largest).max()?.clone(),
        })
    }
}

impl TableClaims {
    pub(super) fn claim_compaction(&mut self, keyspace: u32, choice: &Choice) {
        self.compacting += 1;
        self.targets.extend(Target::of(keyspace, choice));
        self.unbegun.extend(first_input(choice).map(|file| (file.to_owned(), choice.is_l0())));
        self.taken.extend(choice.inputs.iter().map(|(_, _, table)| table.meta().file.clone()));
    }

    pub(super) fn release_compaction(&mut self, choice: &Choice) {
        self.compacting -= 1;
        self.leave_target(choice);
        self.note_begun(choice);
        for (_, _, table) in &choice.inputs {
            self.taken.remove(&table.meta().file);
        }
    }

    pub(super) fn claim_small(&mut self, choices: &[OfKeyspace]) {
        self.compacting += 1;
        self.targets.extend(choices.iter().filter_map(|(keyspace, choice)| Target::of(*keyspace, choice)));
        self.taken.extend(inputs(choices).cloned());
    }

    pub(super) fn release_small(&mut self, choices: &[OfKeyspace]) {
        self.compacting -= 1;
        choices.iter().for_each(|(_, choice)| self.leave_target(choice));
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

    fn leave_target(&mut self, choice: &Choice) {
        let first = first_input(choice);
        self.targets.retain(|target| Some(target.first.as_str()) != first);
    }

    /// Whether outputs of a compaction in progress may come to lie in `level` of `keyspace` with
    /// keys from `smallest` to `largest`.
    pub(crate) fn is_target(&self, keyspace: u32, level: u32, (smallest, largest): (&[u8], &[u8])) -> bool {
        self.targets.iter().any(|target| {
            (target.keyspace, target.level) == (keyspace, level)
                && target.smallest.as_slice() <= largest
                && smallest <= target.largest.as_slice()
        })
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
