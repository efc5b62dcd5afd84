//! Statistics of background jobs: where they ran, how long that took, and what waits.

/// Jobs of compactions and GCs since the database was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Jobs by what they do.
    pub kinds: Vec<JobKindStats>,
    /// Stages of jobs, those of each kind apart.
    pub stages: Vec<JobStage>,
    /// The last jobs that were completed, newest first; bounded.
    pub last: Vec<JobRow>,
    /// Deep jobs that wait now: for an executor elsewhere to come back, or for their turn here.
    pub held_count: u64,
    /// Bytes of their inputs.
    pub held_bytes: u64,
    /// Whether the executor elsewhere is asked only to find out whether it can be relied on again.
    /// [`jobs_passed_on_reason`](crate::Stats::jobs_passed_on_reason) says why.
    pub is_executor_away: bool,
    /// Jobs done here that were to be done elsewhere, by why; together
    /// [`jobs_passed_on_count`](crate::Stats::jobs_passed_on_count). `away`: no worker
    /// was there, took jobs, reached the files, or was relied on. `lacking`: no worker there had
    /// what they need; `unbegun`: none began them in time; `late`: they were not done in time.
    /// `failed` there, or their inputs are `damaged`, as the worker reported; `wrong`: their
    /// results; `unseen`: the results could not be looked at. Empty = all jobs are done here.
    pub passed_on: Vec<(&'static str, u64)>,
    /// Jobs done elsewhere that were done here too, before their results were accepted.
    pub reexecuted_count: u64,
    /// Re-executed jobs whose result here differed; the result of this process counts.
    pub differed_count: u64,
    /// Jobs that waited elsewhere and were done here, on idle processors.
    pub idle_count: u64,
    /// Idle jobs that took too long here and were given away again.
    pub late_count: u64,
}

/// Jobs of one kind that were completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobKindStats {
    /// `l0_compaction`: compactions out of level 0; `deep_compaction`: all others; `blob_gc`: of
    /// blob segments.
    pub kind: &'static str,
    /// Done by a worker elsewhere.
    pub elsewhere_count: u64,
    /// Bytes of their inputs.
    pub elsewhere_bytes: u64,
    /// Done in this process.
    pub here_count: u64,
    /// Bytes of their inputs.
    pub here_bytes: u64,
}

/// How long one stage took of jobs of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobStage {
    /// See [`JobKindStats::kind`].
    pub kind: &'static str,
    /// Of jobs done elsewhere, one after another or by turns, `queue`: until a worker was given the
    /// job; `open`: until it read the first byte. `read`: its waits for inputs from then on;
    /// `merge`: what it did beside waiting. `write`: its waits for outputs, until they were durable
    /// and read back; `check`: of its answer, files included. Workers that do not measure their
    /// waits have all but `queue` and `open` in `merge`. Of jobs done in this process `here`: until
    /// they were done. `commit`: of compactions and GCs, wherever their jobs ran.
    pub stage: &'static str,
    /// How often.
    pub count: u64,
    /// Microseconds in all.
    pub us_total: u64,
    /// How often it took no longer than so many microseconds: bounds and counts, both rising. The
    /// last bound is not the longest time.
    pub within_us: Vec<(u64, u64)>,
}

/// One job that was completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobRow {
    /// When it was checked, in milliseconds since the Unix epoch.
    pub ended_unix_ms: u64,
    /// See [`JobKindStats::kind`].
    pub kind: &'static str,
    /// The worker that did it; empty = this process.
    pub worker: String,
    /// Bytes of its inputs.
    pub read_bytes: u64,
    /// Bytes of its outputs.
    pub write_bytes: u64,
    /// Microseconds until a worker was given it.
    pub queued_us: u64,
    /// From then on until the first byte was read, where that is known.
    pub opened_us: u64,
    /// From the same moment until it was done.
    pub ran_us: u64,
    /// Of that, what it waited for inputs after their first byte, where that is known.
    pub read_us: u64,
    /// Of that, what it waited for outputs, until they were durable and read back, where that is
    /// known.
    pub write_us: u64,
    /// Of checking the answer.
    pub checked_us: u64,
}

impl JobRow {
    /// The worker that did it, for display: `here` for this process.
    pub fn place(&self) -> &str {
        if self.worker.is_empty() { "here" } else { &self.worker }
    }
}
