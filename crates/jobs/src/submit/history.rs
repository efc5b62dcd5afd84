//! What statistics report of jobs that ended well.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::executor::Ran;
use crate::spec::{JobResult, JobSpec};
use firn_engine::{JobKindStats, JobRow, JobStage, JobStats};

/// Counts of jobs and of their stages, and the last of them.
#[derive(Debug)]
pub struct JobHistory {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By [`JobKind`].
    kinds: [JobKindStats; KINDS.len()],
    stages: [[Times; STAGES.len()]; KINDS.len()],
    /// Oldest first.
    last: VecDeque<JobRow>,
}

/// The sort of a job, by which it is counted.
#[derive(Clone, Copy, Debug)]
pub enum JobKind {
    /// A compaction out of level 0.
    L0Compaction,
    /// Any other compaction: into deeper levels.
    DeepCompaction,
    /// Values that live are copied out of their segments.
    BlobGc,
}

/// What [`JobStage`] reports.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    count: u64,
    us_total: u64,
    /// Of [`BOUNDS_MS`].
    within: [u64; BOUNDS_MS.len()],
}

/// Jobs that are remembered.
const LAST_MAX: usize = 64;

/// Bounds of the buckets of stages, in milliseconds: a worker that is near opens its inputs in one,
/// a large job takes minutes.
const BOUNDS_MS: [u64; 10] = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144];

const KINDS: [&str; 3] = ["l0_compaction", "deep_compaction", "blob_gc"];
const STAGES: [&str; 8] = ["queue", "open", "read", "merge", "write", "check", "commit", "here"];
const COMMIT: usize = 6;
const HERE: usize = 7;

impl Default for JobHistory {
    fn default() -> Self {
        let kinds = KINDS.map(|kind| JobKindStats { kind, ..JobKindStats::default() });
        let state = State { kinds, stages: Default::default(), last: VecDeque::new() };
        Self { state: Mutex::new(state) }
    }
}

impl JobKind {
    pub(crate) fn of(spec: &JobSpec) -> Self {
        match spec {
            JobSpec::Compact(_) if spec.is_l0() => Self::L0Compaction,
            JobSpec::Compact(_) => Self::DeepCompaction,
            JobSpec::BlobGc(_) => Self::BlobGc,
        }
    }
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.us_total = self.us_total.saturating_add(micros(time));
        for (within, bound) in self.within.iter_mut().zip(BOUNDS_MS) {
            *within += u64::from(time <= Duration::from_millis(bound));
        }
    }

    fn stats(&self, kind: &'static str, stage: &'static str) -> JobStage {
        let within_us = BOUNDS_MS.iter().map(|ms| ms * 1000).zip(self.within).collect();
        JobStage { kind, stage, count: self.count, us_total: self.us_total, within_us }
    }
}

impl JobHistory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `spec` ended with `result` at the moment `ended_unix_ms`, as `ran` reports.
    pub fn finished(&self, spec: &JobSpec, result: &JobResult, ran: &Ran, ended_unix_ms: u64) {
        let kind = JobKind::of(spec) as usize;
        let write_bytes = match result {
            JobResult::Compact(result) => result.written_bytes(),
            JobResult::BlobGc(result) => result.segment.as_ref().map_or(0, |segment| segment.bytes),
        };
        let read_bytes = spec.input_bytes();
        let mut state = self.lock();
        let State { kinds, stages, last } = &mut *state;
        let (counts, stages) = (&mut kinds[kind], &mut stages[kind]);
        let is_elsewhere = !ran.worker.is_empty();
        let (count, bytes) = match is_elsewhere {
            true => (&mut counts.elsewhere_count, &mut counts.elsewhere_bytes),
            false => (&mut counts.here_count, &mut counts.here_bytes),
        };
        *count += 1;
        *bytes += read_bytes;
        // An executor may report anything: each stage gets at most what those before it leave.
        let opened = ran.opened.min(ran.ran);
        let reading = ran.reading.min(ran.ran - opened);
        let writing = ran.writing.min(ran.ran - opened - reading);
        match is_elsewhere {
            true => {
                let merging = ran.ran - opened - reading - writing;
                let times = [ran.queued, opened, reading, merging, writing, ran.checked];
                stages.iter_mut().zip(times).for_each(|(stage, time)| stage.add(time));
            }
            false => stages[HERE].add(ran.ran),
        }
        if last.len() >= LAST_MAX {
            last.pop_front();
        }
        last.push_back(JobRow {
            ended_unix_ms,
            kind: KINDS[kind],
            worker: ran.worker.clone(),
            read_bytes,
            write_bytes,
            queued_us: micros(ran.queued),
            opened_us: micros(opened),
            ran_us: micros(ran.ran),
            read_us: micros(reading),
            write_us: micros(writing),
            checked_us: micros(ran.checked),
        });
    }

    /// What jobs of `kind` made became part of the database, which took `time`.
    pub fn committed(&self, kind: JobKind, time: Duration) {
        self.lock().stages[kind as usize][COMMIT].add(time);
    }

    /// All of it; what waits is not known here.
    pub fn stats(&self) -> JobStats {
        let state = self.lock();
        let of = |(kind, times): (&'static str, &[Times; STAGES.len()])| {
            STAGES.into_iter().zip(*times).map(move |(stage, times)| times.stats(kind, stage))
        };
        JobStats {
            kinds: state.kinds.to_vec(),
            stages: KINDS.into_iter().zip(&state.stages).flat_map(of).collect(),
            last: state.last.iter().rev().cloned().collect(),
            ..JobStats::default()
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::blob_gc::{BlobGcResult, BlobGcSpec};
    use crate::spec::{CompactResult, CompactSpec};

    use super::*;

    #[test]
    fn jobs_and_their_stages_are_counted_and_the_last_are_reported() {
        let (history, ms) = (JobHistory::default(), Duration::from_millis);
        let compact = (CompactSpec::default().into(), JobResult::Compact(CompactResult::default()));
        let collect = (BlobGcSpec::default().into(), JobResult::BlobGc(BlobGcResult::default()));
        let (queued, opened, checked) = (ms(3), ms(1), ms(400_000));
        let ran =
            Ran { queued, opened, ran: ms(20), reading: ms(5), writing: ms(2), checked, ..Ran::by("w") };
        history.finished(&collect.0, &collect.1, &ran, 5);
        for at in 0..LAST_MAX as u64 {
            history.finished(&compact.0, &compact.1, &Ran { ran: ms(2), ..Ran::default() }, 6 + at);
        }
        // It says that it waited for longer than it took.
        let writing = ms(1000);
        history.finished(&collect.0, &collect.1, &Ran { queued: ms(5), reading: ms(7), writing, ..ran }, 99);
        history.committed(JobKind::BlobGc, ms(4));
        history.committed(JobKind::DeepCompaction, ms(20));
        let stats = history.stats();
        let counts = |kind: &JobKindStats| (kind.kind, kind.elsewhere_count, kind.here_count);
        let found: Vec<_> = stats.kinds.iter().map(counts).collect();
        assert_eq!(found, [("l0_compaction", 0, 0), ("deep_compaction", 0, 64), ("blob_gc", 2, 0)]);
        let stage = |stage: &JobStage| {
            let within: Vec<u64> = stage.within_us.iter().map(|(_, count)| *count).collect();
            (stage.stage, stage.count, stage.us_total, within)
        };
        let by_kind =
            |kind: &'static str| stats.stages.iter().filter(move |stage| stage.kind == kind).map(stage);
        let found: Vec<_> = by_kind("blob_gc").collect();
        let from = |first: usize, counts: &[u64]| {
            let mut within = vec![0; first];
            within.extend(counts);
            within.resize(BOUNDS_MS.len(), counts.last().copied().unwrap());
            within
        };
        assert_eq!(found[0], ("queue", 2, 8000, from(1, &[1, 2])));
        assert_eq!(found[1], ("open", 2, 2000, from(0, &[2])));
        assert_eq!(found[2], ("read", 2, 12_000, from(2, &[2])));
        assert_eq!(found[3], ("merge", 2, 12_000, from(0, &[1, 1, 2])));
        assert_eq!(found[4], ("write", 2, 14_000, from(1, &[1, 2])));
        assert_eq!(found[5], ("check", 2, 800_000_000, vec![0; BOUNDS_MS.len()]));
        assert_eq!(found[6], ("commit", 1, 4000, from(1, &[1])));
        assert_eq!(found[7], ("here", 0, 0, vec![0; BOUNDS_MS.len()]), "those are compactions");
        let times = |row: &JobRow| [row.opened_us, row.read_us, row.write_us, row.ran_us];
        assert_eq!(times(&stats.last[0]), [1000, 7000, 12_000, 20_000]);
        let found: Vec<_> = by_kind("deep_compaction").filter(|stage| stage.1 > 0).collect();
        assert_eq!(found, [("commit", 1, 20_000, from(3, &[1])), ("here", 64, 128_000, from(1, &[64]))]);
        assert!(by_kind("l0_compaction").all(|stage| stage.1 == 0) && stats.stages.len() == 24, "{stats:?}");
        assert_eq!(
            (stats.last.len(), stats.last[0].ended_unix_ms, stats.last[63].ended_unix_ms),
            (64, 99, 7)
        );
        assert_eq!((stats.last[0].place(), stats.last[1].place()), ("w", "here"));
    }
}
