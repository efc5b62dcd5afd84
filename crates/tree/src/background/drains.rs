//! Drains: which is due, and which threads work on its parts.

use std::sync::Arc;
use std::time::Duration;

use firn_format::Position;

use super::busy::Busy;
use super::{Task, Work};
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
        busy: &Busy,
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
            if busy.freezing.contains(&id) || !busy.may_try((Work::Freeze, id), now) {
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
    pub(super) fn choose_drain(&self, busy: &Busy, version: &Version, now: Duration) -> Option<Task> {
        let may_drain = |id| !busy.draining.contains(&id) && busy.may_try((Work::Drain, id), now);
        let idle = || version.live().filter(|keyspace| may_drain(keyspace.id()));
        let through = |keyspace| busy.drained_through(keyspace);
        let pressure = self.is_under_pressure();
        if self.shares_files() && busy.may_try((Work::DrainSmall, 0), now) {
            // A keyspace whose drain failed is drained alone: others are not to fail with it.
            let sound = idle().filter(|keyspace| !busy.has_failed((Work::Drain, keyspace.id())));
            let drains = pick_small(sound, &busy.runs, pressure, through, &self.settings);
            if !drains.is_empty() {
                return Some(Task::DrainSmall { drains });
            }
        }
        let (keyspace, mut runs) = pick_drain(idle(), &busy.runs, pressure, through, &self.settings)?;
        if busy.has_failed((Work::Drain, keyspace)) {
            // What fails together may come off one by one, the oldest first.
            runs.drain(..runs.len().saturating_sub(1));
        }
        Some(Task::Drain { keyspace, runs })
    }

    /// Works on the parts of `drain`, beside other threads that have time, until all are taken.
    pub(crate) fn share_parts(&self, drain: &Arc<Drain>) {
        self.schedule.lock().drains.push((Arc::clone(drain), 0));
        if drain.part_count() > 1 {
            self.wake_background();
        }
        loop {
            let part = self.schedule.lock().take_part(drain);
            let Some(part) = part else { break };
            drain.run_part(part, self);
        }
        self.schedule.lock().drains.retain(|(known, _)| !Arc::ptr_eq(known, drain));
    }
}
