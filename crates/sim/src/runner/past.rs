//! What engines that were let go leave behind.

use std::sync::Arc;

use firn_storage::Storage;

use super::Stop;
use crate::elsewhere::Elsewhere;
use crate::gc_counts::GcCounts;

/// Of all engines of a run that were let go.
#[derive(Default)]
pub(super) struct Past {
    /// Their GCs of blob segments.
    pub(super) gcs: GcCounts,
    /// What they believed that is wrong, if something was.
    believed: Option<String>,
    /// Their workers, which may not know that they were let go.
    workers: Vec<Arc<Elsewhere>>,
}

impl Past {
    /// Workers that stand still may go on; where none does they are forgotten.
    pub(super) fn go_on(&mut self) {
        self.workers.iter().for_each(|workers| workers.go_on());
        self.workers.retain(|workers| !workers.is_done());
    }

    /// An engine's workers stay behind.
    pub(super) fn keep(&mut self, workers: Option<Arc<Elsewhere>>) {
        self.workers.extend(workers);
    }

    /// An engine whose jobs `workers` did has looked at all of their answers.
    pub(super) fn note_believed(&mut self, workers: Option<&Elsewhere>) {
        let believed = workers.and_then(Elsewhere::believed);
        self.believed = self.believed.take().or(believed);
    }

    /// The machine has another memory now, and workers elsewhere live on.
    pub(super) fn move_to(&self, storage: impl Storage + Clone + 'static) {
        self.workers.iter().for_each(|workers| workers.move_to(Arc::new(storage.clone())));
    }

    /// All workers have gone, too.
    pub(super) fn forget_workers(&mut self) {
        self.workers.clear();
    }

    /// Whether nothing wrong was believed.
    pub(super) fn check(&self) -> Result<(), Stop> {
        self.believed.clone().map_or(Ok(()), |what| Err(Stop::Violation(what)))
    }
}
