//! What a worker counts, as metrics. docs/operate/monitoring.md names them.

use firn_job_service::{STAGE_BOUNDS_MS, Times, WorkerFigures};
use firn_server::http::Exposition;
use firn_server::http::Kind::{Counter, Gauge, Histogram};

use crate::service_http::begin;

pub(super) fn of(figures: &WorkerFigures) -> Exposition {
    let mut text = begin();
    let draining = u64::from(figures.is_draining);
    let gauges = [
        ("slots", u64::from(figures.slots), "Jobs at a time."),
        ("jobs", figures.held as u64, "Jobs that it has, until their ends are told."),
        (
            "hanging",
            figures.hanging as u64,
            "Attempts that were stopped and hang in their backend, whose slots others have.",
        ),
        ("draining", draining, "1 while it takes no more jobs and ends those that it has."),
    ];
    for (name, value, help) in gauges {
        text.single(&format!("firn_worker_{name}"), Gauge, help, value);
    }
    let name = "firn_worker_control_planes";
    text.family(
        name,
        Gauge,
        "Control planes that it can talk with (heard), and those that it cannot (silent).",
    );
    for (state, count) in [("heard", figures.control_planes_heard), ("silent", figures.control_planes_silent)]
    {
        text.sample(name, &[("state", &state)], count);
    }
    let name = "firn_worker_attempts_total";
    text.family(name, Counter, "Attempts at jobs that have ended, by kind of job and what came of them.");
    for (kind, attempts) in &figures.attempts {
        for (outcome, count) in [("done", attempts.done)].into_iter().chain(attempts.failed.named()) {
            text.sample(name, &[("kind", kind), ("outcome", &outcome)], count);
        }
    }
    let bytes = [
        ("read_bytes_total", figures.read_bytes, "Bytes that attempts have read."),
        ("write_bytes_total", figures.write_bytes, "Bytes that attempts have written."),
    ];
    for (name, value, help) in bytes {
        text.single(&format!("firn_worker_{name}"), Counter, help, value);
    }
    let name = "firn_worker_stage_seconds";
    let help = "Times of attempts: from the lease to the first byte read (open), waits for inputs (read) and for outputs (write), all else until the end of the work (merge), until that is reported (report).";
    text.family(name, Histogram, help);
    let WorkerFigures { open, read, merge, write, report, .. } = figures;
    for (stage, times) in
        [("open", open), ("read", read), ("merge", merge), ("write", write), ("report", report)]
    {
        histogram(&mut text, name, stage, times);
    }
    text
}

fn histogram(text: &mut Exposition, name: &str, stage: &str, times: &Times) {
    let bucket = format!("{name}_bucket");
    let mut below = 0;
    for (bound_ms, count) in STAGE_BOUNDS_MS.iter().zip(times.buckets) {
        below += count;
        let le = *bound_ms as f64 / 1e3;
        text.sample(&bucket, &[("stage", &stage), ("le", &le)], below);
    }
    text.sample(&bucket, &[("stage", &stage), ("le", &"+Inf")], times.count);
    text.sample(&format!("{name}_sum"), &[("stage", &stage)], times.sum.as_secs_f64());
    text.sample(&format!("{name}_count"), &[("stage", &stage)], times.count);
}
