//! When writers will stop if nothing is compacted; executors elsewhere are given this forecast.
//!
//! ```text
//!   bytes of the log, held-up time ─► Window: bytes a second of late ─┐
//!   level 0 of each keyspace, room in the buffer ─────────────────────┤
//!      Executor::urge ◄─ the soonest stall ◄─ Pressure of each keyspace ◄┘
//! ```
//! Level 0 counts as full where flushes begin to wait for its compactions. The buffer's room is
//! added: it fills once flushes wait.

use std::time::Duration;

use firn_engine::pace::Inflow;
use firn_jobs::Pressure;

/// Writers that are held up for this part of the time count as stopped.
const HELD_UP_MAX: f64 = 0.5;

/// A keyspace, as far as it stops writers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// Sorted runs of level 0 over one key, at most.
    pub(crate) depth: u32,
    pub(crate) run_bytes: u64,
    /// Records of it in the buffer.
    pub(crate) records: u64,
}

/// When the first of `keyspaces` stops writers, where each may have `depth_max` runs and the buffer
/// takes `room` bytes more; `None` = nothing is written. Writes are assumed to be shared out as the
/// buffer's records are.
pub(crate) fn stalls_in(
    keyspaces: &[Filling],
    depth_max: u32,
    room: u64,
    inflow: Inflow,
) -> Option<Duration> {
    if inflow.held_up >= HELD_UP_MAX {
        return Some(Duration::ZERO);
    }
    let records: u64 = keyspaces.iter().map(|keyspace| keyspace.records).sum();
    let pressures = keyspaces.iter().map(|keyspace| {
        let share = keyspace.records as f64 / records.max(1) as f64;
        Pressure {
            level0_runs: keyspace.depth,
            level0_runs_max: depth_max,
            run_bytes: keyspace.run_bytes,
            // All of the room is for the writers of any keyspace, and fills by what all bring.
            buffer_headroom_bytes: (room as f64 * share) as u64,
            fill_bytes_per_second: inflow.bytes_per_second * share,
            is_stalled: false,
        }
    });
    pressures.filter_map(|pressure| pressure.stalls_in()).min()
}

#[cfg(test)]
mod tests;
