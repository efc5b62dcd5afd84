//! Kinds of units of background work, and which of them rest after a failure.

use std::time::Duration;

use firn_engine::Error;

use super::busy::Refused;
use super::{Busy, Schedule, Task};
use crate::database::Database;
use crate::version::Keyspace;

/// Kinds of units, as far as one kind of a keyspace may rest while all others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Freeze,
    Merge,
    Drain,
    /// Drains of several keyspaces at once, for all of them.
    DrainSmall,
    Compact,
    /// Compactions of several keyspaces at once, for all of them.
    CompactSmall,
    /// Of all keyspaces whose tables lie in the files.
    Repack,
    Reclaim,
    Expose,
    /// Of no keyspace: sealing and collecting values, groups, the log's length, and what is done
    /// about files.
    Values,
    Collect,
    Groups,
    Log,
    Files,
}

impl Work {
    /// Whether units of this kind write files, so that one which finds no room says something of
    /// all others.
    pub(super) fn writes_files(self) -> bool {
        match self {
            Self::Drain
            | Self::DrainSmall
            | Self::Compact
            | Self::CompactSmall
            | Self::Repack
            | Self::Expose
            | Self::Values
            | Self::Collect
            | Self::Groups
            | Self::Log => true,
            Self::Freeze | Self::Merge | Self::Reclaim | Self::Files => false,
        }
    }
}

impl Task {
    /// What kind of work it is, and of which keyspace; 0 where it is of none.
    pub(super) fn work(&self) -> (Work, u32) {
        match self {
            // It fails with the first of them alone.
            Self::Freeze { keyspaces } => (Work::Freeze, keyspaces.first().copied().unwrap_or_default()),
            Self::Merge { keyspace, .. } => (Work::Merge, *keyspace),
            Self::Drain { keyspace, .. } => (Work::Drain, *keyspace),
            Self::DrainSmall { .. } => (Work::DrainSmall, 0),
            Self::Compact { keyspace, .. } => (Work::Compact, *keyspace),
            Self::Reclaim { keyspace } => (Work::Reclaim, *keyspace),
            Self::Expose { keyspace, .. } => (Work::Expose, *keyspace),
            Self::CompactSmall { .. } => (Work::CompactSmall, 0),
            Self::Repack { .. } => (Work::Repack, 0),
            Self::SealValues => (Work::Values, 0),
            Self::Collect { .. } => (Work::Collect, 0),
            Self::Regroup => (Work::Groups, 0),
            Self::ShortenLog => (Work::Log, 0),
            Self::DrainPart { .. }
            | Self::WriteBackValues
            | Self::Bury
            | Self::Sweep
            | Self::Balance
            | Self::GiveUpSpares => (Work::Files, 0),
        }
    }
}

impl Busy {
    /// Whether units of this kind may be tried at `now`.
    pub(super) fn may_try(&self, work: (Work, u32), now: Duration) -> bool {
        self.resting.get(&work).is_none_or(|resting| now >= resting.until)
    }

    /// Whether the last unit of this kind failed, so that the next one is to be tried in another
    /// form.
    pub(super) fn has_failed(&self, work: (Work, u32)) -> bool {
        self.resting.contains_key(&work)
    }

    /// Lets none of this kind begin for a while; for longer if the one before failed too.
    pub(super) fn rest(&mut self, work: (Work, u32), why: Error, now: Duration) {
        let refused = Refused::new(why, self.resting.get(&work), now);
        self.resting.insert(work, refused);
    }

    /// One of this kind was done.
    pub(super) fn note_done(&mut self, work: (Work, u32)) {
        self.resting.remove(&work);
    }

    /// Why nothing is drained of the keyspace: room, or what rests.
    pub(super) fn drain_refusal(&self, keyspace: u32) -> Option<&Error> {
        let works = [Work::Drain, Work::Freeze].map(|work| self.resting.get(&(work, keyspace)));
        works.into_iter().flatten().chain(&self.refused).map(|refused| &refused.why).next()
    }

    /// What makes room in the buffer may be tried at once.
    pub(super) fn forget_drains(&mut self) {
        self.refused = None;
        self.resting.retain(|(work, _), _| {
            !matches!(work, Work::Drain | Work::DrainSmall | Work::Freeze | Work::Merge)
        });
    }
}

impl Schedule {
    /// Lets no unit of this kind begin for a while.
    pub(crate) fn rest(&self, work: (Work, u32), why: Error, now: Duration) {
        self.lock().rest(work, why, now);
    }

    /// Why a unit could not be done when it was tried last, and is to be tried again. A keyspace
    /// that is not `live` has nothing to be tried: a compaction may panic after its keyspace was
    /// dropped, too.
    pub(crate) fn refusal(&self, live: impl Fn(u32) -> bool) -> Option<Error> {
        let busy = self.lock();
        let is_live = |(work, keyspace): &(Work, u32)| match work {
            Work::DrainSmall
            | Work::CompactSmall
            | Work::Repack
            | Work::Values
            | Work::Collect
            | Work::Groups
            | Work::Log
            | Work::Files => true,
            Work::Freeze | Work::Merge | Work::Drain | Work::Compact | Work::Reclaim | Work::Expose => {
                live(*keyspace)
            }
        };
        let resting = busy.resting.iter().filter(|(work, _)| is_live(work)).map(|(_, why)| why);
        busy.refused.iter().chain(&busy.refused_job).chain(resting).map(|refused| refused.why.clone()).next()
    }
}

impl Database {
    /// Why nothing of the buffer is being written out, if all that it holds rests; `None` while any
    /// of it may go.
    pub(crate) fn stuck(&self) -> Option<Error> {
        let version = self.catalog.version.load();
        let (busy, now) = (self.schedule.lock(), self.clock.now());
        if !busy.draining.is_empty() || !busy.freezing.is_empty() {
            return None;
        }
        let mut why = None;
        let held =
            |keyspace: &&std::sync::Arc<Keyspace>| !keyspace.frozen.is_empty() || !keyspace.runs.is_empty();
        for keyspace in version.live().filter(held) {
            let rests = |work| busy.resting.get(&(work, keyspace.id())).filter(|resting| now < resting.until);
            why = Some(rests(Work::Drain).or_else(|| rests(Work::Freeze))?.why.clone());
        }
        why
    }
}
