//! From a memtable to tables: freezing makes a run of it, a flush writes the oldest runs out.

pub(crate) mod run;
mod small; // of many keyspaces at once
pub(crate) mod freeze;
pub(crate) mod met;
pub(crate) mod pick;

use firn_engine::Semantics;
use firn_storage::Clock;

use crate::edits::Edits;
use crate::maintenance::Maintenance;
use crate::settings::Settings;

/// What freezes, merges and flushes work with.
#[derive(Clone, Copy)]
pub(crate) struct Flushing<'d> {
    pub(crate) edits: Edits<'d>,
    pub(crate) maintenance: &'d Maintenance,
    pub(crate) settings: &'d Settings,
    pub(crate) clock: &'d dyn Clock,
    /// Operators and filters that keyspaces name.
    pub(crate) semantics: &'d Semantics,
}
