//! What the policy knows of a job from its spec.

use super::trust::{Need, need_of};
use crate::spec::JobSpec;

/// What is known of a job from its spec.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// Whether it takes runs out of level 0; see [`JobSpec::is_l0`].
    pub(super) is_l0: bool,
    /// Of its inputs.
    pub(super) bytes: u64,
    /// Entries that a compaction goes over; `None` = it is blob GC.
    pub(super) entries: Option<u64>,
    pub(super) need: Need,
}

impl About {
    pub(super) fn of(spec: &JobSpec) -> Self {
        let entries = match spec {
            JobSpec::Compact(spec) => {
                Some(spec.inputs.iter().map(|input| input.table.entry_count).sum::<u64>())
            }
            JobSpec::BlobGc(_) => None,
        };
        Self { is_l0: spec.is_l0(), bytes: spec.input_bytes(), entries, need: need_of(spec) }
    }
}
