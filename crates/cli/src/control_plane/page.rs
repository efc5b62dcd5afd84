//! The queue, the workers and their leases, for a look by HTTP.

use std::time::Duration;

use firn_job_service::ControlPlaneWatch;
use firn_job_service::control::Lane;
use firn_job_service::control::pool::{JobRow, JobState, Limits, Rows, WorkerRow};
use firn_server::http::Answer;
use serde_json::{Value, json};

const BODY: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");

/// What there is besides numbers and health.
pub(crate) const PATHS: &str = "/, /jobs, ";

/// Jobs of each state that are told, at most.
const JOBS_MAX: usize = 200;

/// The answer for `path`, if that is one of [`PATHS`].
pub(crate) fn answer(watch: &ControlPlaneWatch, limits: &Limits, path: &str) -> Option<Answer> {
    match path {
        "/" => Some(Answer::page("Firn control plane", BODY, SCRIPT)),
        "/jobs" => Some(Answer::json(shown(&watch.rows(JOBS_MAX), limits).to_string() + "\n")),
        _ => None,
    }
}

/// All of `rows`: jobs that run or wait in the order in which they came, then jobs that ended, the
/// newest first.
fn shown(rows: &Rows, limits: &Limits) -> Value {
    let of = |state: JobState| rows.jobs.iter().filter(move |row| row.state == state);
    let ended = rows.jobs.iter().rev().filter(|row| matches!(row.state, JobState::Done | JobState::Failed));
    let listed = of(JobState::Running).chain(of(JobState::Waiting)).chain(ended);
    json!({
        "build": concat!("firn ", env!("CARGO_PKG_VERSION")),
        "lease_ms": ms(limits.lease),
        "waiting_count": rows.waiting_count,
        "waiting_bytes": rows.waiting_bytes,
        "waiting_ms_max": ms(rows.waiting_max),
        "running_count": rows.running_count,
        "workers": rows.workers.iter().map(|row| worker(row, limits)).collect::<Vec<_>>(),
        "jobs": listed.map(job).collect::<Vec<_>>(),
    })
}

fn worker(row: &WorkerRow, limits: &Limits) -> Value {
    json!({
        "name": row.name,
        "zone": row.zone,
        "slots": row.slots,
        "running": row.running,
        "quiet_ms": ms(row.quiet),
        "is_silent": row.quiet > limits.lease,
        "bytes_per_second": row.near_bytes_per_second,
        "is_draining": row.is_draining,
        "jobs_done": row.jobs_done,
        "build": row.build,
        "failing": row.failing,
    })
}

fn job(row: &JobRow) -> Value {
    let state = match row.state {
        JobState::Waiting => "waiting",
        JobState::Running => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
    };
    json!({
        // As `firn jobs list` names it.
        "client": format!("{:032x}", row.key.client),
        "number": row.key.number,
        "tenant": row.tenant,
        "weight": row.weight,
        "lane": if row.lane == Lane::L0 { "l0" } else { "deep" },
        "state": state,
        "worker": row.worker,
        "bytes": row.bytes,
        "done_bytes": row.done_bytes,
        "attempts": row.attempts,
        "age_ms": ms(row.age),
        "queued_ms": ms(row.queued),
        "opened_ms": ms(row.timings.opened),
        "ran_ms": ms(row.timings.ran),
        "stalls_in_ms": row.stalls_in.map(ms),
        "failure": row.failure,
        "location": row.location,
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
