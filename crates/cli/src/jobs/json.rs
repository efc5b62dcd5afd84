//! Everything that a control plane tells, as JSON: `firn jobs list --json` and the control plane's
//! page.

use firn_job_service::proto;
use serde_json::{Value, json};

use super::words;

/// All of `list`: workers as they came, and jobs as people look at them.
pub(crate) fn listed(list: &proto::ListReply) -> Value {
    json!({
        "lease_ms": list.lease_ms,
        "waiting_count": list.waiting,
        "waiting_bytes": list.waiting_bytes,
        "waiting_ms_max": list.waiting_ms_max,
        "running_count": list.running,
        "workers": list.workers.iter().map(|row| worker(row, list)).collect::<Vec<_>>(),
        "jobs": words::in_order(list).into_iter().map(job).collect::<Vec<_>>(),
    })
}

fn worker(row: &proto::WorkerRow, list: &proto::ListReply) -> Value {
    let measured = |speed: f64| (speed > 0.0).then_some(speed);
    json!({
        "name": row.name,
        "zone": row.zone,
        "state": words::state_of_worker(row, list),
        "trouble": words::trouble_of_worker(row),
        "slots": row.slots,
        "running": row.running,
        "quiet_ms": row.quiet_ms,
        "bytes_per_second": measured(row.near_bytes_per_second),
        "is_draining": row.is_draining,
        "jobs_done": row.jobs_done,
        "build": row.build,
        "failing": row.failing,
        "lost_ms": row.lost_ms,
        "lost_jobs": row.lost_jobs,
    })
}

fn job(row: &proto::JobRow) -> Value {
    let ms = |us: u64| us as f64 / 1e3;
    let key = row.key.as_ref().and_then(words::key_of);
    json!({
        "job": key.map(words::long_name),
        "short": key.map(words::short_name),
        "tenant": row.tenant,
        "weight": row.weight,
        "lane": if row.lane() == proto::Lane::L0 { "l0" } else { "deep" },
        "kind": words::kind_of_job(row),
        "state": words::state_of_job(row),
        "worker": row.worker,
        "bytes": row.input_bytes,
        "done_bytes": row.done_bytes,
        "attempts": row.attempts,
        "age_ms": row.age_ms,
        "queued_ms": ms(row.queued_us),
        "opened_ms": ms(row.opened_us),
        "ran_ms": ms(row.ran_us),
        "read_ms": ms(row.read_us),
        "write_ms": ms(row.write_us),
        "stalls_in_ms": row.stalls_in_ms,
        "failure": row.failure,
        "location": row.location,
    })
}
