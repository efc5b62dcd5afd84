//! Units of background work, as data.

/// One unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Write out what never changes any more, and take it out of memory where that is needed.
    Flush,
    Checkpoint,
    /// Copy what lives of the log's oldest segment.
    Compact,
}

/// What is in progress.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) flush: bool,
    pub(crate) checkpoint: bool,
    pub(crate) compact: bool,
}

/// Kinds of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Flush,
    Checkpoint,
    Compact,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Flush, Self::Checkpoint, Self::Compact];
}

impl Claims {
    /// Whether `task` is in progress.
    pub(crate) fn of(&mut self, task: Task) -> &mut bool {
        match task {
            Task::Flush => &mut self.flush,
            Task::Checkpoint => &mut self.checkpoint,
            Task::Compact => &mut self.compact,
        }
    }
}
