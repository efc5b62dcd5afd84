//! Counts of GCs: that they ran at all, where, and how often that went wrong.

use std::fmt;
use std::ops::AddAssign;

use firn_engine::Stats;

use crate::elsewhere::Elsewhere;

/// GCs of blob segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcCounts {
    /// GCs that were committed.
    pub count: u64,
    /// GCs that workers elsewhere did, and that were believed.
    pub elsewhere_count: u64,
    /// GCs that were to be done elsewhere and were done here.
    pub passed_on_count: u64,
    /// GCs that workers elsewhere did or answered wrongly.
    pub spoiled_count: u64,
}

impl GcCounts {
    /// Those of an engine whose jobs `workers` were to do.
    pub(crate) fn of(stats: &Stats, workers: Option<&Elsewhere>) -> Self {
        let count = stats.tree.as_ref().map_or(0, |tree| tree.blobs.gc_count);
        let Some(workers) = workers else { return Self { count, ..Self::default() } };
        let kind = stats.jobs.kinds.iter().find(|kind| kind.kind == "blob_gc");
        let (elsewhere_count, passed_on_count) =
            kind.map_or((0, 0), |kind| (kind.elsewhere_count, kind.here_count));
        Self { count, elsewhere_count, passed_on_count, spoiled_count: workers.spoiled_count() }
    }
}

impl AddAssign for GcCounts {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.elsewhere_count += other.elsewhere_count;
        self.passed_on_count += other.passed_on_count;
        self.spoiled_count += other.spoiled_count;
    }
}

impl fmt::Display for GcCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, elsewhere_count, passed_on_count, spoiled_count } = self;
        write!(
            f,
            "{count} GCs ({elsewhere_count} elsewhere, {passed_on_count} passed on, {spoiled_count} spoiled)"
        )
    }
}
