//! The stall forecast of a database, for executors elsewhere.

use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_engine::pace::{Inflow, Sample};

use crate::commit::forecast::{Filling, stalls_in};
use crate::compact::pick::FAR_BEHIND;
use crate::compact::pick::deepest;
use crate::database::Database;
use crate::memory::flush_bytes;
use crate::version::{Keyspace, Version};

impl Database {
    /// Gives the executor the time until writers stop, four times a second at most. Where all jobs
    /// run here it does nothing.
    pub(crate) fn tell_urgency(&self) {
        if self.maintenance.jobs.chain.is_none() || self.read_only {
            return;
        }
        let now = self.clock.now();
        let sample = || Sample {
            at: now,
            log_bytes: self.commit.log.written_bytes.load(Ordering::Relaxed),
            held_up_us: self.commit.pace.slowdown_us() + self.commit.admission.stop_us(),
        };
        let Some(inflow) = self.commit.forecast.look(now, sample) else { return };
        self.maintenance.jobs.urge(self.stalls_in(inflow));
    }

    fn stalls_in(&self, inflow: Inflow) -> Option<Duration> {
        if self.commit.admission.is_writer_stopped() {
            return Some(Duration::ZERO);
        }
        let version = self.catalog.version.load();
        let keyspaces: Vec<Filling> = version.live().map(|keyspace| self.filling(keyspace)).collect();
        let depth_max = self.pick_rules().depth_max as f64 * FAR_BEHIND;
        stalls_in(&keyspaces, depth_max as u32, self.room(&version), inflow)
    }

    fn filling(&self, keyspace: &Keyspace) -> Filling {
        let level0 = &keyspace.levels.level0;
        let bytes: u64 = level0.iter().map(|run| run.bytes()).sum();
        let frozen: usize = keyspace.frozen.iter().map(|frozen| frozen.memtable.len()).sum();
        let runs: usize = keyspace.runs.iter().map(|run| run.len()).sum();
        Filling {
            depth: deepest(&keyspace.levels, &self.pick_rules()) as u32,
            run_bytes: bytes
                .checked_div(level0.len() as u64)
                .unwrap_or(flush_bytes(self.settings.engine.buffer_bytes)),
            records: (keyspace.memtable.len() + frozen + runs) as u64,
        }
    }

    /// Bytes that may be written before the buffer is full.
    fn room(&self, version: &Version) -> u64 {
        let active = self.commit.log.active();
        let unused = active.memory_bytes().saturating_sub(active.region().published() as u64);
        let held: u64 = version.segments.segments().iter().map(|segment| segment.memory_bytes()).sum();
        (self.settings.engine.buffer_bytes_max + unused).saturating_sub(held + self.commit.index_bytes())
    }
}
