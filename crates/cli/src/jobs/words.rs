//! How people call jobs, workers and what they are at.

use std::time::Duration;

use firn_job_service::control::pool::JobKey;
use firn_job_service::proto;

/// Digits of a database's part of a job's name that people see.
const SHOWN_DIGITS: usize = 8;

pub(super) fn key_of(key: &proto::JobKey) -> Option<JobKey> {
    let client = u128::from_be_bytes(key.client.as_ref().try_into().ok()?);
    Some(JobKey { client, number: key.number })
}

/// A job's name, the same everywhere and for ever.
pub(super) fn long_name(key: JobKey) -> String {
    format!("{:032x}.{}", key.client, key.number)
}

/// The same with the first digits only.
pub(super) fn short_name(key: JobKey) -> String {
    format!("{}.{}", &format!("{:032x}", key.client)[..SHOWN_DIGITS], key.number)
}

/// Reads a long name.
pub(super) fn parse_key(text: &str) -> Option<JobKey> {
    let (client, number) = text.split_once('.')?;
    Some(JobKey { client: u128::from_str_radix(client, 16).ok()?, number: number.parse().ok()? })
}

/// Whether `name` has the first digits of the job's name, and its number.
pub(super) fn is_called(key: JobKey, name: &str) -> bool {
    let (client, number) = (format!("{:032x}", key.client), key.number.to_string());
    name.split_once('.')
        .is_some_and(|(digits, of)| client.starts_with(&digits.to_lowercase()) && of == number)
}

/// Where a job is.
pub(super) fn state_of_job(row: &proto::JobRow) -> &'static str {
    match row.state() {
        proto::job_row::State::Waiting => "waiting",
        proto::job_row::State::Running => "running",
        proto::job_row::State::Done => "done",
        proto::job_row::State::Failed => "failed",
        proto::job_row::State::Unspecified => "?",
    }
}

/// Whether writers wait for what a job does: a lane, in the words of people.
pub(super) fn kind_of_job(row: &proto::JobRow) -> &'static str {
    match row.lane() {
        proto::Lane::L0 => "urgent",
        proto::Lane::Deep | proto::Lane::Unspecified => "background",
    }
}

/// The jobs as people look at them: those that run, then those that wait, the oldest first, then
/// those that ended, the newest first.
pub(super) fn in_order(list: &proto::ListReply) -> Vec<&proto::JobRow> {
    use proto::job_row::State;
    let of = |state: State| list.jobs.iter().filter(move |row| row.state() == state);
    let ended = list.jobs.iter().rev().filter(|row| matches!(row.state(), State::Done | State::Failed));
    of(State::Running).chain(of(State::Waiting)).chain(ended).collect()
}

/// How a worker is. What is worst comes first: a lost worker was failing perhaps, and so on.
pub(super) fn state_of_worker(row: &proto::WorkerRow, list: &proto::ListReply) -> &'static str {
    match () {
        () if row.lost_ms.is_some() => "lost",
        () if list.lease_ms > 0 && row.quiet_ms > list.lease_ms => "silent",
        () if !row.failing.is_empty() => "failing",
        () if row.is_draining => "ending",
        () => "ready",
    }
}

/// What is wrong with a worker, in words; empty = nothing.
pub(super) fn trouble_of_worker(row: &proto::WorkerRow) -> String {
    match row.lost_ms {
        Some(ms) => {
            let since = time(Duration::from_millis(ms));
            let jobs = if row.lost_jobs.is_empty() { "it may come back" } else { &row.lost_jobs };
            format!("lost {}, {since} ago; {jobs}", row.name)
        }
        None => row.failing.clone(),
    }
}

/// Bytes with the unit that suits them.
pub(super) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 100.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A time with the unit that suits it.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_secs() {
        0 => format!("{:.0} ms", seconds * 1e3),
        1..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
        all => format!("{} h {} min", all / 3600, all / 60 % 60),
    }
}
