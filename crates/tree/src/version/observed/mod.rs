//! What reads, flushes and compactions of a keyspace have observed, for later ones.

mod reclaim_checks;
mod overwriting;
mod probe;
mod seeks;

pub(crate) use overwriting::Overwriting;
pub(crate) use probe::{Probe, Probed};
pub(crate) use reclaim_checks::{PartlyHidden, ReclaimChecks};
pub(crate) use seeks::{READS_FOR_EACH_LOOK, Seeks, priced};

/// What is known of one keyspace. Shared by all its versions; estimates that nothing is ordered by.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) seeks: Seeks,
    pub(crate) reclaim_checks: ReclaimChecks,
    pub(crate) overwriting: Overwriting,
    pub(crate) probe: Probe,
}
