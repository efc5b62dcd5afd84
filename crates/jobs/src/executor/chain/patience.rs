//! How long jobs are waited for.

use std::time::Duration;

/// How long jobs may take elsewhere before they are done here. And how much is done here while no
/// executor there is relied on, and how much of their work is done again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// For a job of any size. Default 30 s.
    pub least: Duration,
    /// So many bytes of inputs get a second more: of the job, and of jobs that were given away
    /// before it. Default 4 MiB.
    pub bytes_per_second: u64,
    /// The longest wait for syncs there beside that, where it is reported. L0 work gets none of it
    /// where writers will stop within [`stall_near`](Self::stall_near). Default 300 s.
    pub sync_max: Duration,
    /// The longest look at an answer, plus the time that
    /// [`bytes_per_second`](Self::bytes_per_second) allows; then the job is done here. A backend
    /// without limits may never answer. Default 300 s.
    pub check_max: Duration,
    /// Bytes of inputs of deep jobs that are begun here in a second while others are away. Default
    /// 16 MiB.
    pub deep_bytes_per_second: u64,
    /// The longest that a deep job waits for that, or for others to come back. Default 60 s.
    pub wait_max: Duration,
    /// Where writers will stop within so long, no deep job waits. Default 10 s.
    pub stall_near: Duration,
    /// Where writers will stop so soon, L0 work that has not begun elsewhere for so long is done
    /// here, if that is reported. Default 1 s.
    pub begin_max: Duration,
    /// Share of the jobs done elsewhere that are done here too before they are believed, drawn for
    /// each. None while writers will stop within [`stall_near`](Self::stall_near). Default 0.01.
    pub reexecuted_share: f64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            least: Duration::from_secs(30),
            bytes_per_second: 4 << 20,
            sync_max: Duration::from_secs(300),
            check_max: Duration::from_secs(300),
            deep_bytes_per_second: 16 << 20,
            wait_max: Duration::from_secs(60),
            stall_near: Duration::from_secs(10),
            begin_max: Duration::from_secs(1),
            reexecuted_share: 0.01,
        }
    }
}

impl Patience {
    /// For a job that reads `bytes`, with those before it.
    pub(super) fn with(&self, bytes: u64) -> Duration {
        self.least.saturating_add(time_of(bytes, self.bytes_per_second))
    }

    /// To look at what came of jobs that read `bytes`, all that are looked at together: each may
    /// wait for the others.
    pub(super) fn check_limit(&self, bytes: u64) -> Duration {
        self.check_max.saturating_add(time_of(bytes, self.bytes_per_second))
    }
}

/// How long `bytes` take at so many a second.
pub(super) fn time_of(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / bytes_per_second.max(1))
}
