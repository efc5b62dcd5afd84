//! What a server counts and notes for people: one place that the layers report to.

use std::sync::Arc;
use std::time::Duration;

use firn::storage::Clock;

use crate::damaged_records::DamagedRecords;
use crate::key_counts::KeyCounts;
use crate::latency::Latency;
use crate::log::Log;
use crate::slow_log::SlowLog;
use crate::statistics::Statistics;

/// What a server counts and notes.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    pub(crate) log: Log,
    pub(crate) statistics: Statistics,
    pub(crate) slow_log: SlowLog,
    pub(crate) latency: Latency,
    pub(crate) key_counts: KeyCounts,
    pub(crate) damaged_records: DamagedRecords,
    /// Tells this run of the server from any other.
    run: u128,
}

impl Diagnostics {
    /// Of a server that starts now, by `clock`, with so many threads, on the port `port`.
    pub(crate) fn new(log: Log, clock: &Arc<dyn Clock>, threads: usize, port: u16) -> Self {
        let (unix_ms, now): (u64, Duration) = (clock.unix_ms(), clock.now());
        Self {
            log,
            statistics: Statistics::new(threads, unix_ms, now),
            slow_log: SlowLog::default(),
            latency: Latency::default(),
            key_counts: KeyCounts::default(),
            damaged_records: DamagedRecords::default(),
            run: u128::from(unix_ms) << 64 | u128::from(std::process::id()) << 32 | u128::from(port),
        }
    }

    /// Forty digits that no other run of a server has.
    pub(crate) fn run_id(&self) -> String {
        format!("{:040x}", self.run)
    }
}
