//! `firn jobs`: what a control plane knows.

use std::path::PathBuf;
use std::time::Duration;

use firn_job_service::control::pool::JobKey;
use firn_job_service::{Look, proto};
use firn_storage::{Clock, SystemClock, ThreadSpawn};

use crate::ending::{Ending, Failure, Result};
use crate::output::Output;
use crate::service::read_token;
use crate::tls::{ClientFiles, warn_of_plain_token};

/// Show the jobs and workers of a control plane, or end a job.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The control plane: http://HOST:PORT or https://HOST:PORT.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7380")]
    control_plane: String,
    /// The file with its token.
    #[arg(long, visible_alias = "control-plane-token-file", value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: ClientFiles,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Workers, and jobs that wait, run or ended lately. This is what is done where nothing is said.
    List,
    /// The same again and again, until it is ended. A control plane that does not answer any more is asked again.
    Watch {
        /// Seconds between two looks.
        #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
    },
    /// End a job; its database does it itself then.
    Cancel {
        /// As `firn jobs list` shows it.
        job: String,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let failed = |error: firn_jobs::Error| Failure::new(Ending::Failed, error.to_string());
    let token = read_token(arguments.token_file.as_deref())?;
    if arguments.token_file.is_some() {
        warn_of_plain_token(&arguments.control_plane);
    }
    let (url, tls) = (arguments.control_plane.trim_end_matches('/'), arguments.tls.read()?);
    let look = Look::at(url, &token, &tls, &ThreadSpawn::new());
    let look = look.map_err(|error| Failure::new(Ending::Usage, error.to_string()))?;
    match arguments.action.as_ref().unwrap_or(&Action::List) {
        Action::List => print(&shown(&look.list().map_err(failed)?)),
        Action::Watch { every } => {
            // Whoever is wrong about where it is hears so at once; later it may just be away for a while.
            let mut list = Ok(look.list().map_err(failed)?);
            loop {
                match list {
                    Ok(list) => {
                        print(&shown(&list))?;
                    }
                    Err(failure) => eprintln!("firn: {failure}"),
                }
                SystemClock::new().sleep(Duration::from_secs(*every));
                list = look.list().map_err(failed);
            }
        }
        Action::Cancel { job } => {
            let key = parse_key(job).ok_or_else(|| {
                let what = format!("expected a job as `firn jobs list` shows it, found {job:?}");
                Failure::new(Ending::Usage, what)
            })?;
            match look.cancel(key).map_err(failed)? {
                true => print(&format!("{job} is cancelled")),
                false => Err(Failure::new(Ending::NotFound, format!("{job} is not there, or has ended"))),
            }
        }
    }
}

fn print(text: &str) -> Result<Ending> {
    let mut out = Output::new();
    out.line(text);
    out.finish()?;
    Ok(Ending::Done)
}

/// A job as people name it.
fn show_key(key: Option<&proto::JobKey>) -> String {
    let Some(key) = key else { return String::new() };
    let client: String = key.client.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{client}.{}", key.number)
}

fn parse_key(text: &str) -> Option<JobKey> {
    let (client, number) = text.split_once('.')?;
    Some(JobKey { client: u128::from_str_radix(client, 16).ok()?, number: number.parse().ok()? })
}

fn shown(list: &proto::ListReply) -> String {
    let mut out = format!(
        "{:<20} {:<10} {:>9} {:>9} {:>9} {:>9}  {}\n",
        "WORKER", "ZONE", "RUNNING", "DONE", "MB/S", "QUIET", "BUILD"
    );
    for row in &list.workers {
        let running = format!("{}/{}", row.running, row.slots);
        // Without any job it is what a control plane of before believes.
        let is_measured = row.jobs_done > 0 && row.near_bytes_per_second > 0.0;
        let speed =
            if is_measured { format!("{:.0}", row.near_bytes_per_second / 1e6) } else { "-".to_owned() };
        let quiet = format!("{:.1} s", row.quiet_ms as f64 / 1e3);
        let drains = if row.is_draining { "; takes no more jobs" } else { "" };
        out += &format!(
            "{:<20} {:<10} {running:>9} {:>9} {speed:>9} {quiet:>9}  {}{drains}\n",
            row.name, row.zone, row.jobs_done, row.build
        );
        if !row.failing.is_empty() {
            out += &format!("         {}\n", row.failing);
        }
    }
    out += &format!(
        "\n{:<8} {:<7} {:>9} {:>6} {:>9} {:>5} {:<20} {:<34} {:>6} {}\n",
        "STATE", "LANE", "MB", "READ", "AGE", "TRIES", "WORKER", "JOB", "WEIGHT", "TENANT"
    );
    for row in &list.jobs {
        let state = match row.state() {
            proto::job_row::State::Waiting => "waiting",
            proto::job_row::State::Running => "running",
            proto::job_row::State::Done => "done",
            proto::job_row::State::Failed => "failed",
            proto::job_row::State::Unspecified => "?",
        };
        let lane = if row.lane() == proto::Lane::Relief { "relief" } else { "bulk" };
        let share = 100.0 * row.done_bytes as f64 / (row.input_bytes.max(1)) as f64;
        let (read, age) = (format!("{:.0} %", share.min(100.0)), format!("{:.2} s", row.age_ms as f64 / 1e3));
        out += &format!(
            "{state:<8} {lane:<7} {:>9.2} {read:>6} {age:>9} {:>5} {:<20} {:<34} {:>6} {}\n",
            row.input_bytes as f64 / 1e6,
            row.attempts,
            row.worker,
            show_key(row.key.as_ref()),
            row.weight,
            row.tenant
        );
        if !row.failure.is_empty() {
            out += &format!("         {}\n", row.failure);
        }
    }
    let left = |all: u64, state| {
        all.saturating_sub(list.jobs.iter().filter(|row| row.state() == state).count() as u64)
    };
    let waiting = left(list.waiting, proto::job_row::State::Waiting);
    let running = left(list.running, proto::job_row::State::Running);
    if waiting + running > 0 {
        out += &format!("and {waiting} more that wait, {running} more that run\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use firn_job_service::proto::job_row::State;

    use super::*;

    /// What people see of so many jobs that wait, that run and that ended, where there are as many as the control plane says.
    fn shown_of([waiting, running, done]: [u64; 3], all_waiting: u64, all_running: u64) -> String {
        let states = [(State::Waiting, waiting), (State::Running, running), (State::Done, done)];
        let row = |state: State, number| proto::JobRow {
            key: Some(proto::JobKey { client: vec![7; 16].into(), number }),
            state: state.into(),
            ..Default::default()
        };
        let jobs = states.into_iter().flat_map(|(state, count)| (0..count).map(move |at| row(state, at)));
        let (jobs, workers) = (jobs.collect(), Vec::new());
        shown(&proto::ListReply { jobs, workers, waiting: all_waiting, running: all_running })
    }

    #[test]
    fn what_the_list_leaves_out_is_counted_in_its_last_line() {
        for (listed, waiting, running, line) in [
            ([1000, 2, 7], 100_000, 2, "and 99000 more that wait, 0 more that run"),
            ([3, 1000, 7], 3, 1001, "and 0 more that wait, 1 more that run"),
            ([1000, 1000, 0], 1004, 1005, "and 4 more that wait, 5 more that run"),
        ] {
            let shown = shown_of(listed, waiting, running);
            assert_eq!(shown.lines().last(), Some(line));
            let rows = |state: &str| shown.lines().filter(|line| line.starts_with(state)).count() as u64;
            assert_eq!(["waiting ", "running ", "done "].map(rows), listed);
        }
    }

    #[test]
    fn a_speed_is_shown_once_it_is_measured() {
        // The last two control planes are older, and say what they believe.
        for (jobs_done, near_bytes_per_second, speed) in
            [(0, 0.0, "-"), (3, 0.0, "-"), (3, 7.6e6, "8"), (0, 1e9, "-"), (3, 1e9, "1000")]
        {
            let row = proto::WorkerRow {
                name: "one".to_owned(),
                zone: "z".to_owned(),
                jobs_done,
                near_bytes_per_second,
                ..Default::default()
            };
            let shown = shown(&proto::ListReply { workers: vec![row], ..Default::default() });
            let words = shown.lines().nth(1).map(|line| line.split_whitespace().nth(4).unwrap_or_default());
            assert_eq!(words, Some(speed), "{shown}");
        }
    }

    #[test]
    fn a_list_of_everything_has_no_such_line() {
        // Those that ended are never counted so, and of fewer than are listed none is left out.
        for (listed, waiting, running) in [([0, 0, 0], 0, 0), ([3, 2, 1000], 3, 2), ([3, 2, 1], 2, 0)] {
            let shown = shown_of(listed, waiting, running);
            assert!(!shown.contains("more that"), "{shown}");
        }
    }
}
