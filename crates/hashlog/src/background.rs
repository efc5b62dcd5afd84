//! Background work: writing pages out, checkpoints and compaction.

use std::time::Duration;

use firn_engine::{Error, Result};
use firn_maintenance::{InProgress, Room, Schedule, Work};

use crate::compact::Compaction;
use crate::database::Database;
use crate::tasks::{Claims, Kind, Task};

impl Work for Database {
    type Task = Task;
    type Claims = Claims;
    type Kind = Kind;

    fn schedule(&self) -> &Schedule<Claims, Kind> {
        &self.maintenance.schedule
    }

    fn now(&self) -> Duration {
        self.env.clock.now()
    }

    fn choose(&self, state: &InProgress<Claims, Kind>) -> Option<Task> {
        if self.failure().is_some() {
            return None;
        }
        let compaction = Compaction::of(self);
        compaction.note_pace();
        let now = self.now();
        let may = |kind| state.backoff.may_try(kind, now);
        if !state.claims.flush
            && may(Kind::Flush)
            && state.backoff.may_use_kept_room(now)
            && self.wants_flush()
        {
            return Some(Task::Flush);
        }
        let may_checkpoint =
            !state.claims.checkpoint && may(Kind::Checkpoint) && state.backoff.may_write(now);
        if may_checkpoint && (self.wants_checkpoint() || compaction.wants_truncation()) {
            return Some(Task::Checkpoint);
        }
        let may_compact = !state.claims.compact && may(Kind::Compact) && state.backoff.may_write(now);
        (may_compact && compaction.may_want()).then_some(Task::Compact)
    }

    fn claim(&self, claims: &mut Claims, task: &Task) {
        *claims.of(*task) = true;
    }

    fn release(&self, claims: &mut Claims, task: &Task) {
        *claims.of(*task) = false;
    }

    fn perform(&self, task: &Task) -> Result<()> {
        let done = match task {
            Task::Flush => self.flush_and_evict().map(|_| ()),
            Task::Checkpoint => self.checkpoint(),
            Task::Compact => Compaction::of(self).do_due(),
        };
        if self.failure().is_none() {
            self.store.log.markers.set_trouble(self.kind(task), done.as_ref().err().cloned());
        }
        done
    }

    fn kind(&self, task: &Task) -> Kind {
        match task {
            Task::Flush => Kind::Flush,
            Task::Checkpoint => Kind::Checkpoint,
            Task::Compact => Kind::Compact,
        }
    }

    fn room(&self, task: &Task) -> Room {
        match task {
            Task::Flush => Room::Kept,
            Task::Checkpoint | Task::Compact => Room::Left,
        }
    }

    fn set_aside(&self, _task: &Task, _error: &Error) -> bool {
        false
    }

    fn make_room(&self) {}

    fn poison(&self, error: &Error) {
        let _first = self.maintenance.failure.set(error.clone());
        self.store.log.markers.set_trouble(Kind::Flush, Some(error.clone()));
    }

    fn failure(&self) -> Option<Error> {
        self.maintenance.failure.get().cloned()
    }
}
