//! What a control plane counts, as metrics. docs/operate/monitoring.md names them.

use std::fmt::Display;

use firn_job_service::Connections;
use firn_job_service::control::pool::{ByLane, Counts, Figures};
use firn_server::http::Exposition;
use firn_server::http::Kind::{Counter, Gauge};

use crate::service_http::begin;

/// Tenants that are not counted by name.
const OTHERS: &str = "(others)";

pub(super) fn of(figures: &Figures, connections: Connections) -> Exposition {
    let mut text = begin();
    now(figures, &mut text);
    network(connections, &mut text);
    since_the_start(&figures.counts, &mut text);
    tenants(figures, &mut text);
    text
}

fn now(figures: &Figures, text: &mut Exposition) {
    let name = "firn_control_plane_jobs";
    text.family(
        name,
        Gauge,
        "Jobs that are here; done and failed: their databases have not heard of the end yet.",
    );
    let states = [
        ("waiting", figures.waiting),
        ("running", figures.running),
        ("done", figures.done),
        ("failed", figures.failed),
    ];
    for (state, jobs) in states {
        by_lane(text, name, ("state", &state), jobs);
    }
    let singles: [(&str, &dyn Display, &str); 4] = [
        ("waiting_bytes", &figures.waiting_bytes, "Bytes of inputs of jobs that wait."),
        ("waiting_seconds_max", &figures.waiting_max.as_secs_f64(), "How long the oldest of them waits."),
        ("clients", &figures.clients, "Databases that were heard of lately."),
        ("slots", &figures.workers.slots, "Jobs at a time that all workers that are ready do."),
    ];
    for (name, value, help) in singles {
        text.single(&format!("firn_control_plane_{name}"), Gauge, help, value);
    }
    let name = "firn_control_plane_workers";
    text.family(
        name,
        Gauge,
        "Workers: ready, draining, silent for longer than a lease, or lost with their connections.",
    );
    let workers = figures.workers;
    let states = [
        ("ready", workers.ready),
        ("draining", workers.draining),
        ("silent", workers.silent),
        ("lost", workers.lost),
    ];
    for (state, count) in states {
        text.sample(name, &[("state", &state)], count);
    }
}

fn network(connections: Connections, text: &mut Exposition) {
    let Connections { open, max, refused } = connections;
    let help = "Connections of databases, workers and viewers.";
    text.single("firn_control_plane_connections", Gauge, help, open);
    text.single("firn_control_plane_connections_max", Gauge, "So many may be there.", max);
    let help = "Connections that were closed as they came because so many were there.";
    text.single("firn_control_plane_refused_connections_total", Counter, help, refused);
}

fn since_the_start(counts: &Counts, text: &mut Exposition) {
    let name = "firn_control_plane_submitted_jobs_total";
    text.family(name, Counter, "Jobs that databases have handed in.");
    for (lane, count) in lanes(counts.submitted) {
        text.sample(name, &[("lane", &lane)], count);
    }
    let name = "firn_control_plane_ended_jobs_total";
    text.family(
        name,
        Counter,
        "Jobs that have ended: with a result, without one, or because their database gave them up or was gone.",
    );
    for (outcome, jobs) in [("done", counts.done), ("failed", counts.failed), ("abandoned", counts.abandoned)]
    {
        by_lane(text, name, ("outcome", &outcome), jobs);
    }
    let singles = [
        (
            "refused_jobs_total",
            counts.refused,
            "Jobs that were refused because too many were here, or too much of them.",
        ),
        ("leases_total", counts.leased, "Attempts that were given to workers."),
        ("preempted_leases_total", counts.preempted, "Attempts that were stopped for more urgent work."),
    ];
    for (name, value, help) in singles {
        text.single(&format!("firn_control_plane_{name}"), Counter, help, value);
    }
    let name = "firn_control_plane_expired_leases_total";
    text.family(
        name,
        Counter,
        "Attempts taken from workers: their connections broke (lost), not heard of (silent), no further (stuck), not begun (unbegun).",
    );
    let whys = [
        ("lost", counts.expired_lost),
        ("silent", counts.expired_silent),
        ("stuck", counts.expired_stuck),
        ("unbegun", counts.expired_unbegun),
    ];
    for (why, count) in whys {
        text.sample(name, &[("why", &why)], count);
    }
    let name = "firn_control_plane_failed_attempts_total";
    text.family(name, Counter, "Attempts that workers have given up.");
    for (why, count) in counts.given_up.named() {
        text.sample(name, &[("why", &why)], count);
    }
}

fn tenants(figures: &Figures, text: &mut Exposition) {
    let name = "firn_control_plane_tenant_leased_bytes_total";
    text.family(name, Counter, "Bytes of inputs of the attempts that were given to workers.");
    let others = [(OTHERS, figures.counts.other_tenants())];
    for (tenant, bytes) in figures.counts.tenants().chain(others) {
        text.sample(name, &[("tenant", &tenant)], bytes);
    }
    let name = "firn_control_plane_tenant_waiting_bytes";
    text.family(name, Gauge, "Bytes of inputs of jobs that wait.");
    for (tenant, bytes) in &figures.waiting_bytes_by_tenant {
        text.sample(name, &[("tenant", &tenant.as_deref().unwrap_or(OTHERS))], bytes);
    }
}

fn by_lane(text: &mut Exposition, name: &str, label: (&str, &dyn Display), jobs: ByLane) {
    for (lane, count) in lanes(jobs) {
        text.sample(name, &[label, ("lane", &lane)], count);
    }
}

fn lanes(jobs: ByLane) -> [(&'static str, u64); 2] {
    [("l0", jobs.l0), ("deep", jobs.deep)]
}
