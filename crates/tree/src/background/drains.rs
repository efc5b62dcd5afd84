//! Drains: which is due, and which threads work on its parts.

use std::sync::Arc;
use std::time::Duration;

use firn_format::Position;

use super::{InProgress, Task, TaskKind};
use crate::buffer::drain::Drain;
use crate::buffer::pick::{pick_drain, pick_small};
use crate::database::Database;
use crate::version::Version;

/// Bytes of records of memtables that become runs together, at most: other threads freeze the rest
/// meanwhile.
const FREEZE_BYTES: usize = 1 << 20;

impl Database {
    /// Memtables that are to become runs: one, or many that hold little.
    pub(super) fn choose_freeze(
        &self,
        busy: &InProgress,
        version: &Version,
        watermark: Position,
        now: Duration,
    ) -> Option<Task> {
        let (mut keyspaces, mut bytes) = (Vec::new(), 0);
        for keyspace in version.live() {
            let id = keyspace.id();
            let Some(frozen) = keyspace.frozen.last().filter(|frozen| frozen.span.end <= watermark) else {
                continue;
            };
            if busy.claims.freezing.contains(&id) || !busy.backoff.may_try((TaskKind::Freeze, id), now) {
                continue;
            }
            bytes += frozen.memtable.record_bytes();
            if !keyspaces.is_empty() && bytes > FREEZE_BYTES {
                break;
            }
            keyspaces.push(id);
        }
        (!keyspaces.is_empty()).then_some(Task::Freeze { keyspaces })
    }

    /// The runs that are to become tables first, of keyspaces of which none are being drained.
    pub(super) fn choose_drain(&self, busy: &InProgress, version: &Version, now: Duration) -> Option<Task> {
        let may_drain =
            |id| !busy.claims.draining.contains(&id) && busy.backoff.may_try((TaskKind::Drain, id), now);
        let idle = || version.live().filter(|keyspace| may_drain(keyspace.id()));
        let through = |keyspace| busy.claims.drained_through(keyspace);
        let pressure = self.is_under_pressure();
        if self.shares_files() && busy.backoff.may_try((TaskKind::DrainSmall, 0), now) {
            // A keyspace whose drain failed is drained alone: others are not to fail with it.
            let sound = idle().filter(|keyspace| !busy.backoff.has_failed((TaskKind::Drain, keyspace.id())));
            let drains = pick_small(sound, &busy.claims.runs, pressure, through, &self.settings);
            if !drains.is_empty() {
                return Some(Task::DrainSmall { drains });
            }
        }
        let (keyspace, mut runs) = pick_drain(idle(), &busy.claims.runs, pressure, through, &self.settings)?;
        if busy.backoff.has_failed((TaskKind::Drain, keyspace)) {
            // What fails together may come off one by one, the oldest first.
            runs.drain(..runs.len().saturating_sub(1));
        }
        Some(Task::Drain { keyspace, runs })
    }

    /// Works on the parts of `drain`, beside other threads that have time, until all are taken.
    pub(crate) fn share_parts(&self, drain: &Arc<Drain>) {
        self.maintenance.schedule.lock().claims.drains.push((Arc::clone(drain), 0));
        if drain.part_count() > 1 {
            self.wake_background();
        }
        loop {
            let part = self.maintenance.schedule.lock().claims.take_part(drain);
            let Some(part) = part else { break };
            drain.run_part(part, self);
        }
        self.maintenance.schedule.lock().claims.drains.retain(|(known, _)| !Arc::ptr_eq(known, drain));
    }
}
