//! Outputs that no job waits for: `background/orphans.rs`, `submit/output_names.rs` of `jobs`.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::database::{Database, Mistake};
use super::homes::{FileName, lock};
use crate::model::sync::{locked, pause};

/// `OutputNames`.
#[derive(Default)]
pub(crate) struct OutputNames(Mutex<Drawn>);

#[derive(Clone, Default)]
struct Drawn {
    next: u32,
    in_use: BTreeSet<u32>,
}

impl OutputNames {
    pub(super) fn draw(&self) -> u32 {
        let mut drawn = lock(&self.0);
        let stem = drawn.next;
        drawn.next += 1;
        drawn.in_use.insert(stem);
        stem
    }

    /// `HeldNames::drop`.
    pub(super) fn let_go(&self, stem: u32) {
        pause();
        lock(&self.0).in_use.remove(&stem);
    }
}

impl Database {
    /// `remove_orphans` of `background/orphans.rs`.
    pub(crate) fn remove_orphans(&self) {
        let files = self.files.list();
        pause();
        let drawn = lock(&self.output_names.0).clone();
        pause();
        let held = self.files.held();
        let manifest = locked(&self.manifest);
        let is_given_up = |stem: u32| {
            stem < drawn.next && (self.is_wrong(Mistake::RemoveInUse) || !drawn.in_use.contains(&stem))
        };
        let is_named = |name: &FileName| manifest.segments.values().any(|known| known.file == *name);
        let is_orphan = |name: &FileName| match name {
            FileName::Output { stem, .. } => is_given_up(*stem) && !is_named(name),
            FileName::Written(_) => false,
        };
        let is_held = |name: &FileName| held.contains(name) && !self.is_wrong(Mistake::RemoveUnlisted);
        let orphans: Vec<FileName> =
            files.into_iter().filter(|name| is_orphan(name) && !is_held(name)).collect();
        drop(manifest);
        for name in orphans {
            pause();
            self.files.remove(name);
        }
    }
}
