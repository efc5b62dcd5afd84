//! Background work as data: what there is to do, what is in progress, and what rests.
//!
//! [`Maintenance`] owns what that work needs beside files, log and buffer. What chooses tasks and
//! does them lies above the database, in `background`, `flush`, `compact` and `blob_gc`.

mod choice;
mod claims;
mod flush;
mod kinds; // of units, as far as they rest
mod rest;
mod task;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use firn_engine::Error;
use firn_format::Position;
use firn_jobs::Control;
use firn_jobs::submit::{OutputNames, Submitter};
use firn_maintenance::{Hold, OrphanGc, RemoteLimits, Schedule};

pub(crate) use self::choice::{Choice, OfKeyspace};
pub(crate) use self::claims::{Claims, Unavailable};
pub(crate) use self::flush::{Flush, Parts, Written};
pub(crate) use self::kinds::{TaskKind, Unit, flush_refusal, forget_flushes};
pub(crate) use self::rest::Rest;
pub(crate) use self::task::{Moving, Task};
use crate::counters::Counters;
use crate::version::{Keyspace, Version};

/// What tasks in progress have claimed, and what was refused.
pub(crate) type InProgress = firn_maintenance::InProgress<Claims, Unit>;

/// What a database does in the background: which work is in progress, where jobs run, what their
/// outputs are called, and what failed.
///
/// A database has one, from its opening to its close. It is thread-safe.
///
/// 1. Nothing is worked on twice: what tasks claim lies in `schedule`.
/// 2. Work that fails for good is remembered in `failure`, which never changes once it is set, and
///    none begins from then on: `Work::choose` in `background.rs`.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// What is in progress, and what rests.
    pub(crate) schedule: Schedule<Claims, Unit>,
    /// How long nothing has been written.
    pub(crate) rest: Rest,
    /// Where compactions run.
    pub(crate) jobs: Submitter,
    /// Names of the outputs of flushes, compactions and GCs.
    pub(crate) output_names: OutputNames,
    /// When outputs that nothing waits for are looked for.
    pub(crate) orphan_gc: OrphanGc,
    /// Cancels flushes in progress at close.
    pub(crate) control: Control,
    /// Held while a range is compacted: nothing else keeps another call from choosing the same
    /// tables.
    pub(crate) compacting_range: Mutex<()>,
    /// The first failure that will not go away by itself.
    pub(crate) failure: OnceLock<Error>,
    pub(crate) counters: Counters,
}

impl Maintenance {
    pub(crate) fn is_compacting(&self) -> bool {
        self.schedule.lock().claims.tables.compacting > 0
    }

    /// Has everything below `through` flushed.
    pub(crate) fn flush_through(&self, through: Position) {
        let claims = &mut self.schedule.lock().claims.buffer;
        claims.flush_through = claims.flush_through.max(through);
    }

    /// Whether something that writes files found no room, and has not been tried since.
    pub(crate) fn is_refused(&self) -> bool {
        self.schedule.lock().backoff.is_refused()
    }

    /// Why the last flush could not be done, if that keeps other flushes from being tried.
    pub(crate) fn refused(&self) -> Option<Error> {
        self.schedule.lock().backoff.kept_refusal().cloned()
    }

    /// Lets flushes be tried again.
    pub(crate) fn forget_refused(&self) {
        self.schedule.lock().backoff.forget_kept_room();
    }

    /// Whether a task in progress should give up.
    pub(crate) fn is_stopping(&self) -> bool {
        self.schedule.is_stopping()
    }

    /// The jobs of `choice` were given to the executor.
    pub(crate) fn note_begun(&self, choice: &Choice) {
        self.schedule.lock().claims.tables.note_begun(choice);
    }

    /// Lets no unit of this kind begin for a while.
    pub(crate) fn let_rest(&self, unit: Unit, why: Error, now: Duration) {
        self.schedule.lock().backoff.rest(unit, why, now);
    }

    /// Why a unit could not be done when it was tried last, and is to be tried again. A keyspace
    /// that is not `live` has nothing to be tried: a compaction may panic after its keyspace was
    /// dropped, too.
    pub(crate) fn refusal(&self, live: impl Fn(u32) -> bool) -> Option<Error> {
        let busy = self.schedule.lock();
        let is_live = |(kind, keyspace): &Unit| !kind.is_of_one_keyspace() || live(*keyspace);
        busy.backoff.refusals(is_live).next().cloned()
    }

    /// Forgets what was refused to `keyspace`, which is dropped, and to several keyspaces together:
    /// it may have been the cause. What fails without it is told again.
    pub(crate) fn forget_keyspace(&self, keyspace: u32) {
        let mut busy = self.schedule.lock();
        busy.backoff.forget_gone(|(kind, of)| match kind {
            TaskKind::FlushSmall | TaskKind::CompactSmall | TaskKind::Repack => true,
            kind => kind.is_of_one_keyspace() && *of == keyspace,
        });
    }

    /// Blob segments that are being collected, and those that no GC can read.
    pub(crate) fn unavailable_segments(&self) -> Unavailable<'static> {
        self.schedule.lock().claims.blobs.unavailable().into_owned()
    }

    /// What may be done elsewhere where the owner asked for `threads` background threads.
    pub(crate) fn remote_limits(&self, threads: usize) -> RemoteLimits<'_> {
        RemoteLimits::new(&self.jobs, threads)
    }

    /// The first failure that keeps background work from going on.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// There may be something to do.
    pub(crate) fn wake(&self) {
        self.schedule.wake();
    }

    /// Lets no compaction begin until the answer is dropped, after those in progress have ended.
    pub(crate) fn hold(&self) -> Hold<'_, Claims, Unit> {
        self.schedule.hold(|claims| claims.tables.taken.is_empty())
    }

    /// Lets no compaction begin until the answer is dropped; those in progress go on.
    pub(crate) fn hold_others(&self) -> Hold<'_, Claims, Unit> {
        self.schedule.hold(|_| true)
    }

    /// Has everything of the keyspace flushed through there.
    pub(crate) fn wish_flushed(&self, keyspace: u32, through: Position) {
        let mut busy = self.schedule.lock();
        let wish = busy.claims.buffer.flush_wishes.entry(keyspace).or_default();
        if through > *wish {
            *wish = through;
            // A flush that had no room may have some together with what hides its records.
            busy.backoff.note_done((TaskKind::Flush, keyspace));
        }
        drop(busy);
        self.wake();
    }

    /// Why nothing of the buffer of `version` is being written out at `now`, if all that it holds
    /// rests; `None` while any of it may go.
    pub(crate) fn stuck(&self, version: &Version, now: Duration) -> Option<Error> {
        let busy = self.schedule.lock();
        if !busy.claims.buffer.flushing.is_empty() || !busy.claims.buffer.freezing.is_empty() {
            return None;
        }
        let mut why = None;
        let held = |keyspace: &&Arc<Keyspace>| !keyspace.frozen.is_empty() || !keyspace.runs.is_empty();
        for keyspace in version.live().filter(held) {
            let rests = |kind| busy.backoff.resting_at((kind, keyspace.id()), now);
            why = Some(rests(TaskKind::Flush).or_else(|| rests(TaskKind::Freeze))?.clone());
        }
        why
    }
}
