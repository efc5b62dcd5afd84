//! What is printed at the end: every job with the process that did it, and the processor time of
//! each process.

use std::collections::BTreeMap;
use std::time::Duration;

use firn_bench::report::table_text;
use firn_job_service::proto::job_row::State;
use firn_job_service::proto::{JobRow, Lane};

use super::fleet::Used;
use super::load::{Counts, Load};

/// Everything that there is to report.
pub(super) struct Report<'l> {
    pub(super) rows: Vec<JobRow>,
    pub(super) counts: Counts,
    pub(super) used: Used,
    pub(super) load: &'l Load,
}

/// Jobs that the database had to do itself.
const HERE: &str = "the database";

impl Report<'_> {
    /// Jobs that workers did.
    pub(super) fn on_workers(&self) -> usize {
        self.rows.iter().filter(|row| is_done(row)).count()
    }

    /// Why no job ran on a worker.
    pub(super) fn why_none(&self) -> String {
        let failure = self.rows.iter().map(|row| row.failure.as_str()).find(|failure| !failure.is_empty());
        match (failure, self.counts.compactions) {
            (Some(failure), _) => format!("no job ran on a worker: {failure}"),
            (None, 0) => "there was nothing to compact: write more (--load-bytes)".to_owned(),
            (None, _) => "no job ran on a worker, and the control plane does not say why".to_owned(),
        }
    }

    pub(super) fn text(&self) -> String {
        format!("{}\n{}\n{}", self.jobs(), self.shares(), self.processor_time())
    }

    fn jobs(&self) -> String {
        let heading = [
            "job",
            "lane",
            "ran on",
            "tries",
            "input MB",
            "queued ms",
            "open ms",
            "read ms",
            "write ms",
            "ran ms",
        ];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(self.rows.iter().enumerate().map(|(at, row)| {
            let lane = if row.lane() == Lane::L0 { "l0" } else { "deep" };
            vec![
                (at + 1).to_string(),
                lane.to_owned(),
                executor_of(row).to_owned(),
                row.attempts.to_string(),
                format!("{:.1}", row.input_bytes as f64 / 1e6),
                format!("{:.1}", row.queued_us as f64 / 1e3),
                format!("{:.1}", row.opened_us as f64 / 1e3),
                format!("{:.1}", row.read_us as f64 / 1e3),
                format!("{:.1}", row.write_us as f64 / 1e3),
                format!("{:.1}", row.ran_us as f64 / 1e3),
            ]
        }));
        table_text(&rows, 3)
    }

    /// How many jobs of how many bytes each process did.
    fn shares(&self) -> String {
        let mut by: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for row in &self.rows {
            let (jobs, bytes) = by.entry(executor_of(row)).or_default();
            *jobs += 1;
            *bytes += row.input_bytes;
        }
        let all: u64 = by.values().map(|(_, bytes)| bytes).sum();
        let there: u64 = self.rows.iter().filter(|row| is_done(row)).map(|row| row.input_bytes).sum();
        let mut text = format!(
            "{} of {} jobs ran on workers, with {:.1} % of the {} MB that jobs read.\n",
            self.on_workers(),
            self.rows.len(),
            100.0 * there as f64 / all.max(1) as f64,
            all / 1_000_000
        );
        for (executor, (jobs, bytes)) in &by {
            text += &format!("  {executor}: {jobs} jobs, {} MB\n", bytes / 1_000_000);
        }
        let Counts { passed_on, compactions, blob_gcs, flushes, slowed_us, stopped_us } = self.counts;
        text += &format!(
            "The database counts {compactions} compactions (those that move tables unread are no jobs) and {blob_gcs} blob GCs. {passed_on} jobs it did \
             itself although they were to run elsewhere; {flushes} flushes of its buffer are always its own. It slowed writers for {:.2} s and stopped them for \
             {:.2} s.\n",
            slowed_us as f64 / 1e6,
            stopped_us as f64 / 1e6
        );
        text + &format!("All {} keys hold what was written last.\n", self.load.keys())
    }

    fn processor_time(&self) -> String {
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let workers: Duration = self.used.workers.iter().map(|(_, time)| *time).sum();
        let each: Vec<String> =
            self.used.workers.iter().map(|(name, time)| format!("{name} {}", seconds(*time))).collect();
        format!(
            "Processor time: database {} (clients' requests, log, flushes), workers {} ({}), control plane {}.\n",
            seconds(self.used.database),
            seconds(workers),
            each.join(", "),
            seconds(self.used.control_plane)
        )
    }
}

fn is_done(row: &JobRow) -> bool {
    row.state() == State::Done
}

/// What did the job: its worker, or, for a job that failed at the control plane, its database.
fn executor_of(row: &JobRow) -> &str {
    if is_done(row) { &row.worker } else { HERE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: State, worker: &str, failure: &str) -> JobRow {
        let (worker, failure) = (worker.to_owned(), failure.to_owned());
        let mut row = JobRow { worker, failure, input_bytes: 3_000_000, ran_us: 12_300, ..JobRow::default() };
        row.set_state(state);
        row.set_lane(Lane::L0);
        row
    }

    fn report(rows: Vec<JobRow>, load: &Load) -> Report<'_> {
        let counts = Counts { compactions: 5, passed_on: 2, ..Counts::default() };
        let workers = vec![
            ("one".to_owned(), Duration::from_millis(1500)),
            ("two".to_owned(), Duration::from_millis(500)),
        ];
        let used = Used { database: Duration::from_secs(3), control_plane: Duration::ZERO, workers };
        Report { rows, counts, used, load }
    }

    #[test]
    fn who_did_what_is_told_and_what_workers_did_not_do_is_the_databases() {
        let load = Load::new(0);
        let rows =
            vec![row(State::Done, "one", ""), row(State::Done, "two", ""), row(State::Failed, "two", "full")];
        let report = report(rows, &load);
        assert_eq!(report.on_workers(), 2);
        let text = report.text();
        for words in [
            "2 of 3 jobs ran on workers, with 66.7 % of the 9 MB",
            "the database: 1 jobs, 3 MB",
            "2 jobs it did itself",
            "workers 2.00 s (one 1.50 s, two 0.50 s)",
            "l0    one",
            "12.3",
        ] {
            assert!(text.contains(words), "no {words:?} in {text}");
        }
    }

    #[test]
    fn it_is_said_why_nothing_ran_on_a_worker() {
        let load = Load::new(0);
        let failed = report(vec![row(State::Failed, "", "no worker is there")], &load);
        assert!(failed.on_workers() == 0 && failed.why_none().contains("no worker is there"));
        let mut none = report(vec![], &load);
        none.counts.compactions = 0;
        assert!(none.why_none().contains("--load-bytes"));
    }
}
