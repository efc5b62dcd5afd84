//! `firn jobs`: what a control plane knows.

use std::path::PathBuf;
use std::time::Duration;

use firn_job_service::control::pool::JobKey;
use firn_job_service::{AdminClient, proto};
use firn_storage::{Clock, SystemClock, ThreadSpawn};

use crate::ending::{Ending, Failure, Result};
use crate::output::{Output, report};
use crate::service::{read_token, warn_of_plain_token};
use crate::tls::ClientFiles;

/// Show the jobs and workers of a control plane, or end a job.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The control plane: http://HOST:PORT or https://HOST:PORT.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7380")]
    control_plane: String,
    /// The file with its token.
    #[arg(long, value_name = "FILE")]
    control_plane_token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: ClientFiles,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Workers, and jobs that wait, run or ended lately. This is what is done where nothing is
    /// said.
    List {
        #[command(flatten)]
        shows: Shows,
    },
    /// The same again and again, until it is ended. A control plane that does not answer any more
    /// is asked again.
    Watch {
        /// Seconds between two looks.
        #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
        #[command(flatten)]
        shows: Shows,
    },
    /// End a job; its database does it itself then.
    Cancel {
        /// As `firn jobs list` shows it.
        job: String,
    },
}

/// What is shown besides.
#[derive(Clone, Copy, Default, clap::Args)]
struct Shows {
    /// Show below each job that was done what its stages took, in ms. It waits for a worker
    /// (queue), its inputs are opened (open), read (read) and merged (merge), and its outputs
    /// written (write). Of a job that runs all but the first are told together (ran), of others how
    /// long they waited.
    #[arg(long)]
    stages: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let failed = |error: firn_jobs::Error| Failure::new(Ending::Failed, error.to_string());
    let token = read_token(arguments.control_plane_token_file.as_deref())?;
    if arguments.control_plane_token_file.is_some() {
        warn_of_plain_token(&arguments.control_plane);
    }
    let (url, tls) = (arguments.control_plane.trim_end_matches('/'), arguments.tls.read()?);
    let client = AdminClient::at(url, &token, &tls, &ThreadSpawn::new());
    let client = client.map_err(|error| Failure::new(Ending::Usage, error.to_string()))?;
    match arguments.action.as_ref().unwrap_or(&Action::List { shows: Shows::default() }) {
        Action::List { shows } => print(&shown(&client.list().map_err(failed)?, *shows)),
        Action::Watch { every, shows } => {
            // A wrong address is an error at once; later the control plane may just be away for a
            // while.
            let mut list = Ok(client.list().map_err(failed)?);
            loop {
                match list {
                    Ok(list) => {
                        print(&shown(&list, *shows))?;
                    }
                    Err(failure) => report(format_args!("firn: {failure}")),
                }
                SystemClock::new().sleep(Duration::from_secs(*every));
                list = client.list().map_err(failed);
            }
        }
        Action::Cancel { job } => {
            let key = parse_key(job).ok_or_else(|| {
                let what = format!("expected a job as `firn jobs list` shows it, found {job:?}");
                Failure::new(Ending::Usage, what)
            })?;
            match client.cancel(key).map_err(failed)? {
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

/// What the stages of a job took, where that is known.
fn stages_of(row: &proto::JobRow) -> String {
    let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
    let queue = format!("queue {}", ms(row.queued_us));
    match row.state() {
        proto::job_row::State::Done => {
            // Workers say what they like.
            let waits = [row.opened_us, row.read_us, row.write_us];
            let merge = waits.iter().fold(row.ran_us, |left, wait| left.saturating_sub(*wait));
            let [open, read, merge, write] = [row.opened_us, row.read_us, merge, row.write_us].map(ms);
            format!("{queue}, open {open}, read {read}, merge {merge}, write {write} ms")
        }
        proto::job_row::State::Running => format!("{queue}, ran {} ms", ms(row.ran_us)),
        _ => format!("{queue} ms"),
    }
}

fn shown(list: &proto::ListReply, shows: Shows) -> String {
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
        let lane = if row.lane() == proto::Lane::L0 { "l0" } else { "deep" };
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
        if shows.stages {
            out += &format!("         {}\n", stages_of(row));
        }
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
mod tests;
