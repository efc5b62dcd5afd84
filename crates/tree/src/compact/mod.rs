//! Which tables are rewritten, and the commit of what a job made of them.
//!
//! [`pick`] is a pure function from levels to a choice. So are [`seeks`] for what reads have lost,
//! [`hiding`] for what tables hide, and [`expired`] and [`kept`] for what has expired and what
//! snapshots kept. [`run`](mod@run) turns a choice into jobs, checks their results and commits them
//! in one edit. [`firn_jobs::submit`] gives jobs to the executor, and has the names of outputs and
//! what statistics tell of jobs. [`blobs`] says where separated values are that a job may
//! need. [`plain`] does once more what failed. [`small`] does many small compactions together.
//! [`range`] does all of a key range, piece by piece. [`reclaim`] finds the tables that need no
//! rewriting: range tombstones hide all of them.

pub(crate) mod pick;
pub(crate) mod seeks;
pub(crate) mod hiding;
pub(crate) mod expired;
pub(crate) mod kept;
pub(crate) mod reclaim;
mod blobs;
pub(crate) mod run;
mod plain;
pub(crate) mod small;
mod range;

use firn_engine::Semantics;
use firn_storage::Clock;

use crate::edits::Edits;
use crate::maintenance::Maintenance;
use crate::settings::Settings;

pub(crate) use run::{output_form, pick_rules, rules};

/// What compactions work with.
#[derive(Clone, Copy)]
pub(crate) struct Compacting<'d> {
    pub(crate) edits: Edits<'d>,
    pub(crate) maintenance: &'d Maintenance,
    pub(crate) settings: &'d Settings,
    pub(crate) clock: &'d dyn Clock,
    /// Operators and filters that keyspaces name.
    pub(crate) semantics: &'d Semantics,
}
