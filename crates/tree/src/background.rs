//! Background work: what there is to do, which thread does it, and waiting for it.
//!
//! Every unit is chosen under one lock, from the current version and what is already being worked
//! on. It runs without the lock and commits by itself. The threads are those of crate
//! `firn-maintenance`; without (deterministic tests), the owner calls [`firn_maintenance::step`].

mod choose;
mod compactions;
mod flushes;
mod flush_for_gc;
mod forecast;
mod hiding;
mod reclaim;
mod repack;
mod rest;
mod set_aside;
mod obsolete;
mod orphans;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use choose::Choosing;
use firn_engine::{Error, Result};
use firn_maintenance::{Room, Schedule, Work, start_threads};
use firn_storage::{Priority, Spawn};
pub(crate) use obsolete::remove_obsolete;
pub(crate) use orphans::NamedOutputs;
pub(crate) use set_aside::Inputs;
pub(crate) use wait::flush_through;

use crate::blob_gc::{SEALED_AT_ONCE_MAX, seal_blobs};
use crate::database::Database;
use crate::error::from_storage;
use crate::flush::run::run_part;
use crate::maintenance::{Choice, Claims, InProgress, Task, Unit};

impl Work for Database {
    type Task = Task;
    type Claims = Claims;
    type Kind = Unit;

    fn schedule(&self) -> &Schedule<Claims, Unit> {
        &self.maintenance.schedule
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn before_choice(&self) {
        if !self.read_only {
            let (jobs, now) = (&self.maintenance.jobs, self.clock.now());
            forecast::report_urgency(&self.commit, &self.catalog, &self.settings, jobs, now);
        }
    }

    fn choose(&self, busy: &InProgress) -> Option<Task> {
        // A reader changes nothing on disk, and what it recovered it reads from memtables as well
        // as from runs.
        if self.read_only || self.maintenance.failure.get().is_some() {
            return None;
        }
        if self.reads.balance.is_due() {
            return Some(Task::Balance);
        }
        let (version, now) = (self.catalog.version.load(), self.clock.now());
        // After a roll the next writer may be far off. Until then nothing else moves the watermark
        // over the end of the sealed segment.
        let watermark = self.commit.log.advance().ok()?;
        Choosing { database: self, busy, version: &version, now }.choose(watermark)
    }

    /// Claims what `task` works on. A compaction also takes its price off the bytes that reads have
    /// lost, as `Seeks::pay` has it.
    fn claim(&self, claims: &mut Claims, task: &Task) {
        claims.claim(task);
        let version = self.catalog.version.load();
        let pay = |keyspace: u32, choice: &Choice| {
            if let Ok(state) = version.keyspace(keyspace)
                && !choice.moves
            {
                state.observed.seeks.pay(choice.input_bytes(), self.settings.engine.read_compaction_price);
            }
        };
        match task {
            Task::Compact { keyspace, choice } => pay(*keyspace, choice),
            Task::CompactSmall { choices } => {
                choices.iter().for_each(|(keyspace, choice)| pay(*keyspace, choice));
            }
            _ => {}
        }
    }

    fn release(&self, claims: &mut Claims, task: &Task) {
        claims.release(task);
    }

    fn perform(&self, task: &Task) -> Result<()> {
        match task {
            Task::Freeze { keyspaces } => self.flushing().freeze(keyspaces),
            Task::Merge { keyspace, runs } => self.flushing().merge_runs(*keyspace, runs),
            Task::Flush { keyspace, runs } => self.flushing().flush(*keyspace, runs),
            Task::FlushSmall { flushes } => self.flushing().flush_small(flushes),
            Task::FlushPart { flush, part } => {
                run_part(&self.flushing(), flush, *part);
                Ok(())
            }
            Task::Compact { keyspace, choice } => self.compacting().compact(*keyspace, choice),
            Task::CompactSmall { choices } => self.compacting().compact_small(choices),
            Task::Reclaim { keyspace } => reclaim::reclaim(self, *keyspace),
            Task::Repack { tables } => repack::repack(self, tables),
            Task::WriteBackBlobs => self.blobs.begin_write_back().map_err(from_storage),
            Task::SealBlobs => seal_blobs(&self.blobs, &self.catalog, &self.commit, SEALED_AT_ONCE_MAX),
            Task::FlushForGc { keyspace, through } => flush_for_gc::flush_for_gc(self, *keyspace, *through),
            Task::BlobGc { victims } => self.collecting().collect(victims),
            Task::RemoveObsolete => {
                remove_obsolete(self);
                Ok(())
            }
            Task::RemoveOrphans => orphans::remove_orphans(self),
            Task::MergeLogObjects => self.shared_log.merge(self).map_err(from_storage),
            Task::ShortenLog => rest::shorten_log(self),
            Task::Balance => {
                self.commit.balance_memory();
                Ok(())
            }
            Task::GiveUpRecycled => {
                self.give_up_recycled();
                Ok(())
            }
        }
    }

    fn kind(&self, task: &Task) -> Unit {
        task.unit()
    }

    fn room(&self, task: &Task) -> Room {
        task.unit().0.room()
    }

    /// A compaction that only moves tables does not show that others can rewrite theirs.
    fn is_proof(&self, task: &Task) -> bool {
        match task {
            Task::Compact { choice, .. } => !choice.moves,
            Task::CompactSmall { choices } => !choices.iter().all(|(_, choice)| choice.moves),
            _ => true,
        }
    }

    fn set_aside(&self, task: &Task, error: &Error) -> bool {
        Inputs::of(self).set_aside(task, error)
    }

    /// Removes recycled files, whose blocks may be the room that refused work needs. The work is
    /// tried again afterwards.
    fn make_room(&self) {
        self.give_up_recycled();
    }

    fn explain(&self, error: Error) -> Error {
        self.catalog.explained(error, self.files.is_shared())
    }

    fn poison(&self, error: &Error) {
        self.fail(error);
    }

    fn failure(&self) -> Option<Error> {
        self.maintenance.failure()
    }
}

/// Starts the background threads of `database`, which end after [`Schedule::stop`], and one that
/// only watches over the pace of sessions, which ends after
/// [`Admission::end`](firn_engine::queue::Admission::end).
///
/// # Errors
/// If a thread cannot be started; those that were have ended then, or are about to.
pub(crate) fn start(database: &Arc<Database>, spawn: &dyn Spawn) -> Result<()> {
    let limits = database.maintenance.remote_limits(database.settings.background_threads);
    let paced = Arc::clone(database);
    let watch = Box::new(move || paced.commit.admission.nudge());
    let started = start_threads(database, limits.thread_count(), spawn)
        .and_then(|()| spawn.spawn("firn-pace".to_owned(), Priority::Normal, watch).map_err(from_storage));
    if started.is_err() {
        database.maintenance.schedule.stop();
        database.commit.admission.end();
    }
    started
}
